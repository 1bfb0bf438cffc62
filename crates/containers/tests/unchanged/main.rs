//! A refused operation changes nothing. A failed one loses only what its error names.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

mod arrays;
mod common;
mod maps;
mod models;
mod queues;
