//! Pages in a browser.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;
mod colours;
mod picture;
mod thousand;
