//! The example `kmer_count`.

mod bad_input;
mod exact;
mod kills;
mod oracle;
mod output;
mod run;
