//! The examples as users start them: processes that start their own ranks.
//!
//! An unoptimized build counts a whole genome slowly, so a release build tests far more
//! combinations: `cargo test --release --test examples`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contig_gen;
mod dht_rpc;
mod extend_add;
mod extremes;
mod full_disk;
mod isx;
mod kernels;
mod kmer_count;
mod launched;
mod program;
mod report;
mod run;
mod simulate_reads;
#[cfg(feature = "tokio")]
mod tokio;
