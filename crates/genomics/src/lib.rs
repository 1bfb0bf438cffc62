//! Sequence files and k-mers for the examples of `pgas`.
//!
//! A *read* is one record of a FASTA or FASTQ file, a *k-mer* each run of `k` bases in it. A program that counts k-mers on
//! many ranks goes through this crate's modules in order:
//!
//! 1. [`reads`]: [`Input`] opens the files, and each rank takes its [`Share`] of their bytes, so that over all ranks each
//!    k-mer is seen exactly once, wherever the shares cut the files.
//! 2. [`kmer`]: [`Kmers`] turns a run of bases into k-mers of two bits a base, canonical if asked.
//! 3. [`packed`]: [`PackedReads`] keeps what was read in a quarter of its size, for a second pass without the files.
//! 4. [`distinct`]: how many distinct k-mers there are, about, to make a table of the right size.
//! 5. [`spectrum`]: how many distinct k-mers occur how often, as `jellyfish histo` writes it and as a terminal chart.
//! 6. [`output`]: files that many ranks write together and that are there as a whole or not at all.
//! 7. [`report`]: what is told at the end.
//!
//! [`simulate`] makes reads of a genome with a stated seed, for tests and measurements.
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
//! The crate knows nothing of `pgas`, contains no unsafe code, and is not published.

#![forbid(unsafe_code)]

pub mod distinct;
mod error;
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
pub use reads::{Input, Share, Summary};

pub use spectrum::Spectrum;
