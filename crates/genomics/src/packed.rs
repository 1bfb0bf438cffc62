//! Reads in memory at two bits a base.

use crate::kmer::{Window, base_code};
use crate::{Kmer, KmerLength};

const BASES_A_WORD: usize = 32;

/// Words of a block of memory: 1 MiB, so that growing copies nothing and wastes little.
const BLOCK_WORDS: usize = 1 << 17;

/// Packed segments, whose k-mers can be read again without the files.
///
/// Letters that are no base end a run of bases, and so do segments. The runs are kept. A base takes
/// a quarter byte. A run of up to 127 bases takes one byte more, and one of up to 16,383 two.
///
/// # Examples
/// ```
/// use pgas_genomics::{KmerLength, PackedReads};
///
/// let k = KmerLength::new(3)?;
/// let mut reads = PackedReads::new();
/// reads.push(b"ACGTNNGG");
/// reads.push(b"TTT");
/// let texts: Vec<_> = reads.kmers(k).map(|kmer| kmer.to_text(k)).collect();
/// assert_eq!(texts, ["ACG", "CGT", "TTT"]);
/// assert_eq!(reads.n_bases(), 9);
/// assert_eq!(reads.n_kmers(k), 3);
/// # Ok::<(), pgas_genomics::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PackedReads {
    /// Full words of bases, the first base in the lowest bits, in blocks of [`BLOCK_WORDS`].
    blocks: Vec<Vec<u64>>,
    /// The bases after the last full word.
    partial: u64,
    n_partial: usize,
    n_bases: u64,
    /// Lengths of the runs, seven bits in each byte, the lowest first. The highest bit says that
    /// more bytes follow.
    runs: Vec<u8>,
}

impl PackedReads {
    /// No reads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a segment.
    ///
    /// # Cost
    /// About three instructions for each base, more for letters that are no bases.
    pub fn push(&mut self, segment: &[u8]) {
        let mut n_run = 0;
        let (octets, tail) = segment.as_chunks::<8>();
        for octet in octets {
            if let Some(codes) = octet_codes(*octet) {
                self.push_octet(codes);
                n_run += 8;
            } else {
                self.push_letters(octet, &mut n_run);
            }
        }
        self.push_letters(tail, &mut n_run);
        self.end_run(n_run);
    }

    /// The number of kept bases. Overlaps of segments count repeatedly.
    #[must_use]
    pub fn n_bases(&self) -> u64 {
        self.n_bases
    }

    /// Bytes of allocated memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let words: usize = self.blocks.iter().map(Vec::capacity).sum();
        words * size_of::<u64>()
            + self.blocks.capacity() * size_of::<Vec<u64>>()
            + self.runs.capacity()
    }

    /// The number of k-mers that [`kmers`](Self::kmers) returns.
    ///
    /// # Cost
    /// A few instructions for each run.
    #[must_use]
    pub fn n_kmers(&self, k: KmerLength) -> u64 {
        Runs(&self.runs)
            .map(|n_run| (n_run + 1).saturating_sub(k.get()) as u64)
            .sum()
    }

    /// The k-mers of all segments, in the order in which they were appended.
    ///
    /// If the segments overlap by `k - 1` bases, their k-mers are those of the whole sequence, for
    /// this `k` only.
    ///
    /// # Cost
    /// Like [`Kmers`](crate::Kmers), without its branch on the letter.
    #[must_use]
    pub fn kmers(&self, k: KmerLength) -> PackedKmers<'_> {
        PackedKmers {
            bases: Bases {
                reads: self,
                word: 0,
                n_left: 0,
                next_word: 0,
            },
            runs: Runs(&self.runs),
            n_run: 0,
            window: Window::new(k),
            k,
        }
    }

    /// Appends letters, of which some may be no bases. `n_run` is the length of the current run.
    fn push_letters(&mut self, letters: &[u8], n_run: &mut usize) {
        for letter in letters {
            if let Some(code) = base_code(*letter) {
                self.partial |= code << (2 * self.n_partial);
                self.n_partial += 1;
                if self.n_partial == BASES_A_WORD {
                    self.push_word();
                }
                *n_run += 1;
            } else {
                self.end_run(std::mem::take(n_run));
            }
        }
    }

    /// Appends the eight bases of `codes`, the first in the lowest bits.
    #[inline]
    fn push_octet(&mut self, codes: u64) {
        let n_room = BASES_A_WORD - self.n_partial;
        self.partial |= codes << (2 * self.n_partial);
        if n_room > 8 {
            self.n_partial += 8;
        } else {
            self.push_word();
            self.partial = codes >> (2 * n_room);
            self.n_partial = 8 - n_room;
        }
    }

    fn push_word(&mut self) {
        match self.blocks.last_mut() {
            Some(block) if block.len() < BLOCK_WORDS => block.push(self.partial),
            _ => {
                let mut block = Vec::with_capacity(BLOCK_WORDS);
                block.push(self.partial);
                self.blocks.push(block);
            }
        }
        self.partial = 0;
        self.n_partial = 0;
    }

    fn end_run(&mut self, n_run: usize) {
        if n_run == 0 {
            return;
        }
        self.n_bases += n_run as u64;
        let mut rest = n_run;
        while rest > 0x7f {
            self.runs.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        self.runs.push(rest.to_le_bytes()[0]);
    }

    fn word(&self, index: usize) -> u64 {
        match self
            .blocks
            .get(index / BLOCK_WORDS)
            .and_then(|block| block.get(index % BLOCK_WORDS))
        {
            Some(word) => *word,
            None => self.partial,
        }
    }
}

/// The codes of eight letters at once, the first in the lowest two of sixteen bits; `None` if one
/// of them is no base.
#[inline]
fn octet_codes(letters: [u8; 8]) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let upper = u64::from_le_bytes(letters) & (0xdf * EACH);
    // Bits 1 and 2 of a letter distinguish the bases: A 00, C 01, G 11, T 10.
    let low = upper >> 1 & EACH;
    let high = upper >> 2 & EACH;
    let is_g = low & high;
    let is_t = high & !low;
    // The distances of the letters from A: C is 2, G is 2 + 4, and T is 0x13. No byte of the sum
    // overflows.
    let letters_of_these_bits = 0x41 * EACH + 2 * low + 4 * is_g + 0x13 * is_t;
    if upper != letters_of_these_bits {
        return None;
    }
    let codes = (low ^ high) | high << 1;
    let codes = (codes | codes >> 6) & 0x000f_000f_000f_000f;
    let codes = (codes | codes >> 12) & 0x0000_00ff_0000_00ff;
    Some((codes | codes >> 24) & 0xffff)
}

/// The lengths of the runs.
#[derive(Clone, Debug)]
struct Runs<'a>(&'a [u8]);

impl Iterator for Runs<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let mut n_run = 0;
        let mut shift = 0;
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            n_run |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(n_run);
            }
        }
    }
}

/// A position among the bases.
#[derive(Clone, Debug)]
struct Bases<'a> {
    reads: &'a PackedReads,
    /// The remaining bases of the current word, the next one in the lowest bits.
    word: u64,
    n_left: usize,
    next_word: usize,
}

impl Bases<'_> {
    #[inline]
    fn next(&mut self) -> u64 {
        if self.n_left == 0 {
            self.load();
        }
        let code = self.word & 3;
        self.word >>= 2;
        self.n_left -= 1;
        code
    }

    fn load(&mut self) {
        self.word = self.reads.word(self.next_word);
        self.next_word += 1;
        self.n_left = BASES_A_WORD;
    }

    fn skip(&mut self, n: usize) {
        for _ in 0..n {
            self.next();
        }
    }
}

/// The k-mers of [`PackedReads`], one run after the other.
#[derive(Clone, Debug)]
pub struct PackedKmers<'a> {
    bases: Bases<'a>,
    runs: Runs<'a>,
    /// Bases of the current run that are in no k-mer yet.
    n_run: usize,
    window: Window,
    k: KmerLength,
}

impl PackedKmers<'_> {
    /// The same, each in its canonical form.
    #[must_use]
    pub fn canonical(mut self) -> Self {
        self.window = self.window.canonical();
        self
    }

    /// Moves k-mers from the front into `batch`, and returns their number. Fewer than fit are the
    /// last ones.
    ///
    /// # Cost
    /// Like `for_each`, for loops that must be able to stop.
    #[inline]
    pub fn fill(&mut self, batch: &mut [Kmer]) -> usize {
        let mut n_filled = 0;
        while n_filled < batch.len() && (self.n_run > 0 || self.enter_run().is_some()) {
            if self.bases.n_left == 0 {
                self.bases.load();
            }
            let n_room = batch.len() - n_filled;
            let n_now = self.n_run.min(self.bases.n_left).min(n_room);
            let mut window = self.window;
            let mut word = self.bases.word;
            for place in &mut batch[n_filled..n_filled + n_now] {
                window.push(word & 3);
                word >>= 2;
                *place = window.kmer();
            }
            self.window = window;
            self.bases.word = word;
            self.bases.n_left -= n_now;
            self.n_run -= n_now;
            n_filled += n_now;
        }
        n_filled
    }

    /// Goes to the next run with a k-mer, and reads its first `k - 1` bases.
    fn enter_run(&mut self) -> Option<()> {
        loop {
            let n_run = self.runs.next()?;
            if n_run < self.k.get() {
                self.bases.skip(n_run);
                continue;
            }
            for _ in 1..self.k.get() {
                self.window.push(self.bases.next());
            }
            self.n_run = n_run - (self.k.get() - 1);
            return Some(());
        }
    }
}

impl Iterator for PackedKmers<'_> {
    type Item = Kmer;

    #[inline]
    fn next(&mut self) -> Option<Kmer> {
        if self.n_run == 0 {
            self.enter_run()?;
        }
        self.n_run -= 1;
        self.window.push(self.bases.next());
        Some(self.window.kmer())
    }

    #[inline]
    fn fold<B, F: FnMut(B, Kmer) -> B>(mut self, init: B, mut f: F) -> B {
        let mut folded = init;
        while self.n_run > 0 || self.enter_run().is_some() {
            if self.bases.n_left == 0 {
                self.bases.load();
            }
            let n_now = self.n_run.min(self.bases.n_left);
            let mut window = self.window;
            let mut word = self.bases.word;
            for _ in 0..n_now {
                window.push(word & 3);
                word >>= 2;
                folded = f(folded, window.kmer());
            }
            self.window = window;
            self.bases.word = word;
            self.bases.n_left -= n_now;
            self.n_run -= n_now;
        }
        folded
    }
}

impl std::iter::FusedIterator for PackedKmers<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_any_size_hold_the_kmers_in_order() {
        let mut reads = PackedReads::new();
        for (n_bases, letter) in [(7, b'A'), (100, b'G'), (2, b'T'), (65, b'C'), (3, b'T')] {
            reads.push(&vec![letter; n_bases]);
            reads.push(b"ACGTTGCAAGTCCATGNACGGT");
        }
        for k in [1, 3, 21, 32] {
            let k = KmerLength::new(k).unwrap();
            let expected: Vec<_> = reads.kmers(k).canonical().collect();
            for size in [1, 2, 31, 64, 1000] {
                let mut kmers = reads.kmers(k).canonical();
                let mut batch = vec![Kmer::default(); size];
                let mut all = Vec::new();
                loop {
                    let n = kmers.fill(&mut batch);
                    all.extend_from_slice(&batch[..n]);
                    if n < size {
                        break;
                    }
                }
                assert_eq!(all, expected, "{size}");
                assert_eq!(kmers.fill(&mut batch), 0);
            }
        }
    }

    #[test]
    fn eight_letters_at_once_have_the_codes_of_each() {
        for byte in 0..=u8::MAX {
            for place in 0..8 {
                let mut letters = *b"acgtTGCA";
                letters[place] = byte;
                let fold = |codes, letter: &u8| Some(codes << 2 | base_code(*letter)?);
                assert_eq!(octet_codes(letters), letters.iter().rev().try_fold(0, fold));
            }
        }
    }
}
