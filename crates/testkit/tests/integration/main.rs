//! What core promises, over a faulty and over a weak network.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

mod outcomes;
mod signals;
