//! A refused operation changes nothing. A failed one loses only what its error names.

mod arrays;
mod common;
mod maps;
mod models;
mod queues;
