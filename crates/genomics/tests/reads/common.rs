//! A naive sequential counter of k-mers, and the sum of all shares of an input.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use pgas_genomics::{Input, KmerLength, Kmers, Segment, Share};

/// The counts: reads, bases, and each k-mer's text with its count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) reads: u64,
    pub(crate) bases: u64,
    pub(crate) kmers: BTreeMap<String, u64>,
}

impl Counted {
    /// Adds a read letter by letter, without any of the crate's code.
    pub(crate) fn add_naively(&mut self, sequence: &str, k: usize) {
        self.reads += 1;
        self.bases += sequence.len() as u64;
        let sequence = sequence.to_ascii_uppercase();
        for start in 0..(sequence.len() + 1).saturating_sub(k) {
            let text = &sequence[start..start + k];
            if text.chars().all(|letter| "ACGT".contains(letter)) {
                *self.kmers.entry(text.into()).or_default() += 1;
            }
        }
    }
}

/// The sum over all shares. Also checks each share's byte counts and progress.
pub(crate) fn count_shares(paths: &[PathBuf], k: KmerLength, n_ranks: usize) -> Counted {
    let input = Input::open(paths).unwrap();
    let mut counted = Counted::default();
    for rank in 0..n_ranks {
        let share = Share::new(rank, n_ranks);
        let mut progress = Vec::new();
        let summary = input
            .try_for_each_segment(
                share,
                k,
                |segment| {
                    for kmer in Kmers::new(segment.letters, k) {
                        *counted.kmers.entry(kmer.to_text(k)).or_default() += 1;
                    }
                    Ok::<(), pgas_genomics::Error>(())
                },
                |done| progress.push(done),
            )
            .unwrap();
        counted.reads += summary.reads;
        counted.bases += summary.bases;
        assert_eq!(summary.bytes, input.share_bytes(share));
        assert_eq!(progress.last(), Some(&summary.bytes));
        assert!(progress.is_sorted());
    }
    counted
}

pub(crate) fn write(dir: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// `text` as gzip members of at most `n_bytes` each.
pub(crate) fn gzip(text: &[u8], n_bytes: usize) -> Vec<u8> {
    let mut members = Vec::new();
    for part in text.chunks(n_bytes) {
        let mut encoder = GzEncoder::new(&mut members, Compression::fast());
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap();
    }
    members
}

/// The sequences of a plain file, put together again of the segments of all shares.
pub(crate) fn joined(path: &Path, k: KmerLength, n_ranks: usize) -> Vec<String> {
    let input = Input::open([path]).unwrap();
    let mut sequences: Vec<String> = Vec::new();
    for rank in 0..n_ranks {
        let keep = |segment: Segment<'_>| {
            let letters = std::str::from_utf8(segment.letters).unwrap();
            match sequences.last_mut() {
                Some(before) if segment.continues => {
                    // It begins with what was read before, as far as there is so much.
                    let (again, fresh) = letters.split_at(letters.len().min(k.get() - 1));
                    let overlap = again.len().min(before.len());
                    assert!(before.ends_with(&again[..overlap]), "{before} {again}");
                    before.push_str(&again[overlap..]);
                    before.push_str(fresh);
                }
                _ => {
                    assert!(!segment.continues, "{letters}");
                    sequences.push(letters.to_owned());
                }
            }
            Ok::<(), pgas_genomics::Error>(())
        };
        let share = Share::new(rank, n_ranks);
        input.try_for_each_segment(share, k, keep, |_| {}).unwrap();
    }
    sequences
}
