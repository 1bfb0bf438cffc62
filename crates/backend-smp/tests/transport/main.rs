//! What the backend does for core, by ranks as threads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod credits;
mod in_place;
mod near;
