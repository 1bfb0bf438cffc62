//! FASTA and FASTQ files, plain or gzip, read by many ranks so that each base belongs to exactly
//! one of them.
//!
//! | file | how ranks share it | price |
//! |---|---|---|
//! | plain FASTA | by bytes; a k-mer belongs to the share in which its first base lies | each rank reads its bytes, up to `k - 1` bases beyond them, and back to the start of the line its share begins in |
//! | plain FASTQ | by bytes; a record belongs to the share in which its `@` lies | each rank reads its bytes and the lines around their two ends |
//! | gzip | every rank decompresses the whole file and keeps every `n`-th record (FASTQ) or piece of a record (FASTA) | decompression does not get faster with more ranks: unpack large files first |
//!
//! Records of FASTQ have four lines. Line ends may be `\n` or `\r\n`, and the last one may be
//! missing. Sequences keep their letters as they are; what is no base is up to the reader of the
//! segments ([`Kmers`](crate::Kmers) breaks there).

mod fasta;
mod fastq;
mod source;

use std::ops::Range;
use std::path::Path;

pub use source::Format;
use source::SourceFile;

use crate::{Error, KmerLength, Result};

/// One rank's share of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    rank: u64,
    n_ranks: u64,
}

impl Share {
    /// The share of rank `rank` of `n_ranks`.
    ///
    /// # Panics
    /// If `rank` is not below `n_ranks`.
    #[must_use]
    #[track_caller]
    pub fn new(rank: usize, n_ranks: usize) -> Self {
        assert!(rank < n_ranks, "rank {rank} is not one of {n_ranks} ranks");
        Self {
            rank: rank as u64,
            n_ranks: n_ranks as u64,
        }
    }

    /// The whole input.
    #[must_use]
    pub const fn whole() -> Self {
        Self {
            rank: 0,
            n_ranks: 1,
        }
    }

    /// This rank's part of `n_bytes`. The parts of all ranks are contiguous.
    fn range(self, n_bytes: u64) -> Range<u64> {
        self.bound(self.rank, n_bytes)..self.bound(self.rank + 1, n_bytes)
    }

    fn bound(self, rank: u64, n_bytes: u64) -> u64 {
        let bound = u128::from(n_bytes) * u128::from(rank) / u128::from(self.n_ranks);
        u64::try_from(bound).expect("at most n_bytes, since rank is at most n_ranks")
    }

    /// Whether the item with this index belongs to this rank, in cyclic distribution.
    const fn owns(self, index: u64) -> bool {
        index % self.n_ranks == self.rank
    }
}

/// A rank's totals. The reads and bases of all ranks add up to those of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records that belong to this share.
    pub reads: u64,
    /// Sequence letters that belong to this share, of whatever kind.
    pub bases: u64,
    /// Processed file bytes: the share of the plain files, and the whole of each gzip file.
    pub bytes: u64,
}

impl Summary {
    fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.bases += other.bases;
        self.bytes += other.bytes;
    }
}

/// The input files, which are inspected once and not kept open.
#[derive(Clone, Debug)]
pub struct Input {
    files: Vec<SourceFile>,
    min_quality: u8,
}

/// A run of sequence letters of one record.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The letters.
    pub letters: &'a [u8],
    /// Whether the record has letters before these. Then the first `k - 1` of these are the last
    /// ones of the segment before, perhaps one of another share.
    pub continues: bool,
}

impl<'a> Segment<'a> {
    /// All letters of a record.
    fn whole(letters: &'a [u8]) -> Self {
        Self {
            letters,
            continues: false,
        }
    }
}

impl Input {
    /// Inspects the start and the size of each file.
    ///
    /// # Errors
    /// If no file is given, or one cannot be opened, is no regular file, is empty, or begins like
    /// neither FASTA nor FASTQ.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let files: Vec<_> = paths
            .into_iter()
            .map(|path| SourceFile::open(path.as_ref()))
            .collect::<Result<_>>()?;
        if files.is_empty() {
            return Err(Error::NoInput);
        }
        Ok(Self {
            files,
            min_quality: 0,
        })
    }

    /// The same input, with each base of a FASTQ read below quality `min_quality` replaced by `N`,
    /// so that no k-mer contains it.
    #[must_use]
    pub fn with_min_quality(mut self, min_quality: u8) -> Self {
        self.min_quality = min_quality;
        self
    }

    /// The number of bytes that `share` processes, as [`Summary::bytes`] and the final progress.
    #[must_use]
    pub fn share_bytes(&self, share: Share) -> u64 {
        let plain = share.range(self.plain_bytes());
        let gzip: u64 = self
            .files
            .iter()
            .filter(|file| file.is_gzip())
            .map(SourceFile::len)
            .sum();
        plain.end - plain.start + gzip
    }

    /// Calls `on_segment` with each run of sequence letters in `share`, line ends removed.
    ///
    /// A segment lies within one record. A FASTQ read is one segment. A FASTA sequence has segments
    /// of at most 64 Ki letters, each with the first `k - 1` letters of the next one. So each k-mer
    /// lies in exactly one segment of one share.
    ///
    /// # Errors
    /// If a file cannot be read, is damaged or malformed, or has changed since
    /// [`open`](Self::open). In a plain file each rank finds the errors of its share; together the
    /// ranks find all.
    pub fn for_each_segment(
        &self,
        share: Share,
        k: KmerLength,
        mut on_segment: impl FnMut(&[u8]),
    ) -> Result<Summary> {
        let on_segment = |segment: Segment<'_>| {
            on_segment(segment.letters);
            Ok(())
        };
        self.try_for_each_segment(share, k, on_segment, |_| {})
    }

    /// Like [`for_each_segment`](Self::for_each_segment), with a callback that may fail, and a
    /// second one for progress. That is called about every MiB with the processed part of
    /// [`share_bytes`](Self::share_bytes).
    ///
    /// # Errors
    /// As [`for_each_segment`](Self::for_each_segment), and the first error of `on_segment`, which
    /// ends the reading.
    pub fn try_for_each_segment<E: From<Error>>(
        &self,
        share: Share,
        k: KmerLength,
        mut on_segment: impl FnMut(Segment<'_>) -> Result<(), E>,
        mut on_progress: impl FnMut(u64),
    ) -> Result<Summary, E> {
        let mut total = Summary::default();
        let mut file_start = 0;
        let plain = share.range(self.plain_bytes());
        for file in &self.files {
            let mut progress = Progress::new(total.bytes, &mut on_progress);
            let summary = if file.is_gzip() {
                match file.format() {
                    Format::Fasta => {
                        fasta::read_all(file, share, k, &mut on_segment, &mut progress)?
                    }
                    Format::Fastq => fastq::read_all(
                        file,
                        share,
                        self.min_quality,
                        &mut on_segment,
                        &mut progress,
                    )?,
                }
            } else {
                let file_end = file_start + file.len();
                let range = plain.start.clamp(file_start, file_end) - file_start
                    ..plain.end.clamp(file_start, file_end) - file_start;
                file_start = file_end;
                match file.format() {
                    Format::Fasta => {
                        fasta::read_range(file, range, k, &mut on_segment, &mut progress)?
                    }
                    Format::Fastq => fastq::read_range(
                        file,
                        range,
                        self.min_quality,
                        &mut on_segment,
                        &mut progress,
                    )?,
                }
            };
            total.add(summary);
        }
        on_progress(total.bytes);
        Ok(total)
    }

    fn plain_bytes(&self) -> u64 {
        self.files
            .iter()
            .filter(|file| !file.is_gzip())
            .map(SourceFile::len)
            .sum()
    }
}

/// The records of a FASTA file, for a reader that needs whole ones; `None` if it is FASTQ.
pub(crate) fn fasta_records(path: &Path) -> Result<Option<Vec<fasta::Record>>> {
    let file = SourceFile::open(path)?;
    match file.format() {
        Format::Fasta => fasta::records(&file).map(Some),
        Format::Fastq => Ok(None),
    }
}

/// Reports the progress of reading to the caller.
struct Progress<'a> {
    before: u64,
    next: u64,
    hook: &'a mut dyn FnMut(u64),
}

impl<'a> Progress<'a> {
    const STEP: u64 = 1 << 20;

    fn new(before: u64, hook: &'a mut dyn FnMut(u64)) -> Self {
        Self {
            before,
            next: Self::STEP,
            hook,
        }
    }

    /// `done` bytes of the present file are read.
    fn at(&mut self, done: u64) {
        if done >= self.next {
            self.next = done + Self::STEP;
            (self.hook)(self.before + done);
        }
    }
}

/// The first invalid byte of a sequence: control characters, blanks, and bytes that are not ASCII.
fn find_bad_byte(sequence: &[u8]) -> Option<usize> {
    let all_good = sequence
        .iter()
        .fold(true, |good, byte| good & byte.is_ascii_graphic());
    if all_good {
        None
    } else {
        sequence.iter().position(|byte| !byte.is_ascii_graphic())
    }
}
