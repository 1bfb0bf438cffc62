//! The core of `pgas`.

pub mod config;
