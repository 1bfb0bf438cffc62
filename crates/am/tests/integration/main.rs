//! Calls, futures and tasks of several ranks, from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod delivery;
#[cfg(feature = "tokio")]
mod driver;
mod ending_threads;
mod futures;
mod graphs;
mod left;
mod limits;
mod survival;
