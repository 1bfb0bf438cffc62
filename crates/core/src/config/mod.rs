//! How a job is set up: the settings, and what started this process.

pub mod launch;
