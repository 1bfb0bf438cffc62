//! The example `kmer_count`.

mod bad_input;
mod exact;
mod oracle;
mod output;
mod run;
