//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;
use pgas_genomics::KmerLength;

use crate::arguments;

/// Counts the k-mers of FASTA and FASTQ files, plain or gzip.
#[derive(Debug, Parser)]
#[command(name = "kmer_count")]
pub(super) struct Options {
    /// The files to read [default: a genome that comes with the project]
    pub(super) files: Vec<PathBuf>,
    /// Bases in a k-mer, 1 to 32
    #[arg(short, default_value = "21", value_parser = kmer_length)]
    pub(super) k: KmerLength,
    /// Count a k-mer and its reverse complement as one
    #[arg(short = 'C', long)]
    pub(super) canonical: bool,
    /// Dump only k-mers that occur N times or more
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) min_count: u64,
    /// Start N ranks, if nothing else has started several
    #[arg(long, value_name = "N", value_parser = arguments::ranks())]
    pub(super) ranks: Option<u32>,
    /// Write each k-mer with its count, in the order of the k-mers
    #[arg(long, value_name = "FILE")]
    pub(super) dump: Option<PathBuf>,
    /// Write the spectrum: how many k-mers occur how often
    #[arg(long, value_name = "FILE")]
    pub(super) histo: Option<PathBuf>,
    /// Print one line of JSON instead of the chart
    #[arg(long)]
    pub(super) json: bool,
    /// Keep k-mers that occur once out of the table, with a Bloom filter
    #[arg(long, conflicts_with = "aggregate")]
    pub(super) bloom: bool,
    /// Add k-mers by a buffer, under which the table grows, even if all memory is local and the
    /// buffer sends nothing
    #[arg(long)]
    pub(super) aggregate: bool,
    /// Slots of the table over all ranks, to which a buffer adds what it needs [default: by an
    /// estimate of the distinct k-mers]
    #[arg(long, value_name = "N")]
    pub(super) slots: Option<NonZeroUsize>,
}

impl Options {
    /// Whether a count is exact. A count of one is a false positive of the filter.
    pub(super) fn is_exact(&self, count: u64) -> bool {
        !self.bloom || count >= 2
    }

    /// Whether the dump has k-mers with this count.
    pub(super) fn writes(&self, count: u64) -> bool {
        self.is_exact(count) && count >= self.min_count
    }
}

fn kmer_length(text: &str) -> Result<KmerLength, String> {
    let k = text.parse().map_err(|_| "a number is needed")?;
    KmerLength::new(k).map_err(|error| error.to_string())
}
