//! The example `kmer_count` as its users run it: a process that starts its own ranks.
//!
//! An unoptimized build counts a whole genome slowly, so a release build tests far more combinations:
//! `cargo test --release --test kmer_count`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod exact;
mod oracle;
mod output;
mod run;
