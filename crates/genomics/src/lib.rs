//! Sequence files and k-mers for the examples of `pgas`.
//!
//! A *read* is one record of a FASTA or FASTQ file. A *k-mer* is any run of `k` bases in it. A
//! program that counts k-mers on many ranks uses this crate's modules in order:
//!
//! 1. [`reads`]: [`Input`] opens the files. Each rank reads its [`Share`] of their bytes. Over all
//!    ranks each k-mer occurs exactly once, wherever the shares divide the files.
//! 2. [`kmer`]: [`Kmers`] turns a run of bases into k-mers of two bits a base, canonical if asked.
//! 3. [`packed`]: [`PackedReads`] keeps reads in a quarter of their size, for a second pass without
//!    the files.
//! 4. [`distinct`]: estimates the number of distinct k-mers, for the size of the table.
//! 5. [`spectrum`]: the number of distinct k-mers by count, as `jellyfish histo` writes it, and as
//!    a terminal chart.
//! 6. [`output`]: files that many ranks write together, and that appear as a whole or not at all.
//! 7. [`report`]: the final report.
//!
//! [`simulate`] makes reads of a genome from a seed, for tests and measurements.
//!
//! ```
//! use std::collections::HashMap;
//! use pgas_genomics::{Input, KmerLength, Kmers, Share};
//!
//! let path = std::env::temp_dir().join(format!("pgas-genomics-doc-{}.fa", std::process::id()));
//! std::fs::write(&path, ">one\nACGTACG\nTACN\n>two\nGTAC\n")?;
//!
//! let k = KmerLength::new(4)?;
//! let input = Input::open([&path])?;
//! let mut counts = HashMap::new();
//! let mut bases = 0;
//! for rank in 0..3 {
//!     let summary = input.for_each_segment(Share::new(rank, 3), k, |segment| {
//!         for kmer in Kmers::new(segment, k) {
//!             *counts.entry(kmer.to_text(k)).or_insert(0) += 1;
//!         }
//!     })?;
//!     bases += summary.bases;
//! }
//! assert_eq!(counts["GTAC"], 3);
//! assert_eq!(bases, 15);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate does not depend on `pgas`, contains no unsafe code, and is not published.

#![forbid(unsafe_code)]

pub mod distinct;
mod error;
mod interrupt;
pub mod kmer;
pub mod output;
pub mod packed;
pub mod reads;
pub mod report;
pub mod simulate;
pub mod spectrum;

pub use distinct::DistinctSketch;
pub use error::{Error, Fault, Malformed, Result};
pub use kmer::{Kmer, KmerLength, Kmers};
pub use packed::PackedReads;
pub use reads::{Input, Segment, Share, Summary};

pub use spectrum::Spectrum;
