//! What is refused changes nothing, and what fails loses nothing but what its error names.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

mod arrays;
mod common;
mod maps;
mod models;
mod queues;
