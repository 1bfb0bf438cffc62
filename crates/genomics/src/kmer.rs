//! K-mers of two bits a base in a `u64`: `A` = 0, `C` = 1, `G` = 2, `T` = 3, the first base in the
//! highest bits.
//!
//! So the numerical order of k-mers of one length is the order of their texts. The *canonical* form
//! is the lesser of a k-mer and its reverse complement, as in `jellyfish count -C`.

use pgas_containers::object::{Object, Plain};
use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Error, Result};

/// The table's entry for a byte that is no base.
const NO_BASE: u8 = 4;

/// The code of each byte, upper and lower case.
const CODES: [u8; 256] = {
    let mut codes = [NO_BASE; 256];
    let letters = *b"ACGT";
    let mut code = 0;
    while code < 4 {
        codes[letters[code as usize] as usize] = code;
        codes[letters[code as usize].to_ascii_lowercase() as usize] = code;
        code += 1;
    }
    codes
};

/// The two bits of a base in upper or lower case, `None` for any other byte.
#[inline]
pub(crate) fn base_code(byte: u8) -> Option<u64> {
    let code = CODES[usize::from(byte)];
    if code == NO_BASE {
        None
    } else {
        Some(u64::from(code))
    }
}

/// The number of bases of a k-mer, 1 to 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmerLength(u32);

impl KmerLength {
    /// The longest k-mer, which takes all bits of a `u64`.
    pub const MAX: Self = Self(32);

    /// A length of `k` bases.
    ///
    /// # Errors
    /// If `k` is not 1 to 32.
    pub fn new(k: u64) -> Result<Self> {
        match u32::try_from(k) {
            Ok(k @ 1..=32) => Ok(Self(k)),
            _ => Err(Error::KmerLength { k }),
        }
    }

    /// The number of bases.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// The number of different k-mers of this length, limited to `u64::MAX`.
    ///
    /// # Examples
    /// ```
    /// use pgas_genomics::KmerLength;
    ///
    /// assert_eq!(KmerLength::new(5)?.n_possible(), 1024);
    /// assert_eq!(KmerLength::MAX.n_possible(), u64::MAX);
    /// # Ok::<(), pgas_genomics::Error>(())
    /// ```
    #[must_use]
    pub const fn n_possible(self) -> u64 {
        self.mask().saturating_add(1)
    }

    /// The bits that may be set in a k-mer of this length.
    const fn mask(self) -> u64 {
        u64::MAX >> (64 - 2 * self.0)
    }

    /// The shift of the first base's code.
    const fn top_shift(self) -> u32 {
        2 * self.0 - 2
    }
}

/// A k-mer. It does not store its length: a program uses one length at a time.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
#[repr(transparent)]
pub struct Kmer(u64);

impl Object for Kmer {
    type Repr = Plain;
}

impl Kmer {
    /// The k-mer of this word, whose bits above the `2 k` lowest must be 0 for its length.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Two bits a base, the first base in the highest.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The k-mer that `text` spells, in upper or lower case.
    ///
    /// # Errors
    /// If `text` is not `k` letters of `ACGTacgt`.
    ///
    /// # Examples
    /// ```
    /// use pgas_genomics::{Kmer, KmerLength};
    ///
    /// let k = KmerLength::new(4)?;
    /// let kmer = Kmer::from_text("GATT", k)?;
    /// assert_eq!(kmer.word(), 0b10_00_11_11);
    /// assert_eq!(kmer.reverse_complement(k).to_text(k), "AATC");
    /// assert_eq!(kmer.canonical(k).to_text(k), "AATC");
    /// # Ok::<(), pgas_genomics::Error>(())
    /// ```
    pub fn from_text(text: &str, k: KmerLength) -> Result<Self> {
        let word = text
            .bytes()
            .try_fold(0, |word, byte| Some(word << 2 | base_code(byte)?));
        match word {
            Some(word) if text.len() == k.get() => Ok(Self(word)),
            _ => Err(Error::KmerText {
                text: text.into(),
                k: k.0,
            }),
        }
    }

    /// The `k` letters of this k-mer.
    #[must_use]
    pub fn to_text(self, k: KmerLength) -> String {
        self.display(k).to_string()
    }

    /// Writes the `k` letters of this k-mer, without the `String` of [`to_text`](Self::to_text).
    #[must_use]
    pub const fn display(self, k: KmerLength) -> impl fmt::Display {
        KmerText { kmer: self, k }
    }

    /// The same part of the molecule, read from the other strand.
    #[must_use]
    pub const fn reverse_complement(self, k: KmerLength) -> Self {
        const PAIRS: u64 = 0x3333_3333_3333_3333;
        const NIBBLES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
        let word = !self.0;
        let word = (word >> 2 & PAIRS) | (word & PAIRS) << 2;
        let word = (word >> 4 & NIBBLES) | (word & NIBBLES) << 4;
        Self(word.swap_bytes() >> (64 - 2 * k.0))
    }

    /// The lesser of this k-mer and its reverse complement: the same for both strands.
    #[must_use]
    pub const fn canonical(self, k: KmerLength) -> Self {
        let reverse = self.reverse_complement(k);
        if reverse.0 < self.0 { reverse } else { self }
    }
}

struct KmerText {
    kmer: Kmer,
    k: KmerLength,
}

impl fmt::Display for KmerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 32];
        let text = &mut text[..self.k.get()];
        let mut word = self.kmer.0;
        for letter in text.iter_mut().rev() {
            *letter = b"ACGT"[(word & 3) as usize];
            word >>= 2;
        }
        f.write_str(std::str::from_utf8(text).expect("four ASCII letters"))
    }
}

/// The last `k` bases, on this strand and on the other one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    forward: u64,
    reverse: u64,
    mask: u64,
    top_shift: u32,
    /// All ones to return k-mers as they are, 0 to return canonical ones.
    forward_only: u64,
}

impl Window {
    pub(crate) fn new(k: KmerLength) -> Self {
        Self {
            forward: 0,
            reverse: 0,
            mask: k.mask(),
            top_shift: k.top_shift(),
            forward_only: u64::MAX,
        }
    }

    pub(crate) fn canonical(mut self) -> Self {
        self.forward_only = 0;
        self
    }

    /// Advances by a base.
    #[inline]
    pub(crate) fn push(&mut self, code: u64) {
        self.forward = (self.forward << 2 | code) & self.mask;
        self.reverse = self.reverse >> 2 | (code ^ 3) << self.top_shift;
    }

    /// The k-mer of the last `k` bases, in the requested form, without a branch.
    #[inline]
    pub(crate) fn kmer(&self) -> Kmer {
        Kmer(self.forward.min(self.reverse | self.forward_only))
    }
}

/// The k-mers of a segment in order, none across a letter that is no base.
///
/// # Cost
/// A table lookup, a dozen instructions and one branch for each base, without allocation.
/// `for_each` and other methods that consume the iterator are fastest.
///
/// # Examples
/// ```
/// use pgas_genomics::{KmerLength, Kmers};
///
/// let k = KmerLength::new(3)?;
/// let texts: Vec<_> = Kmers::new(b"ttgcNAAAC", k).canonical().map(|kmer| kmer.to_text(k)).collect();
/// assert_eq!(texts, ["CAA", "GCA", "AAA", "AAC"]);
/// # Ok::<(), pgas_genomics::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Kmers<'a> {
    /// The rest of the segment. Unless it is empty, the window holds the `k - 1` bases before it.
    rest: &'a [u8],
    window: Window,
    k: KmerLength,
}

impl<'a> Kmers<'a> {
    /// The k-mers of `segment` as they are.
    #[must_use]
    pub fn new(segment: &'a [u8], k: KmerLength) -> Self {
        let mut kmers = Self {
            rest: segment,
            window: Window::new(k),
            k,
        };
        kmers.fill();
        kmers
    }

    /// The same, each in its canonical form.
    #[must_use]
    pub fn canonical(mut self) -> Self {
        self.window = self.window.canonical();
        self
    }

    /// Goes to the next `k - 1` consecutive bases, and reads them.
    fn fill(&mut self) {
        let mut n_filled = 1;
        while n_filled < self.k.get() {
            let Some((byte, rest)) = self.rest.split_first() else {
                return;
            };
            self.rest = rest;
            match base_code(*byte) {
                Some(code) => {
                    self.window.push(code);
                    n_filled += 1;
                }
                None => n_filled = 1,
            }
        }
    }
}

impl Iterator for Kmers<'_> {
    type Item = Kmer;

    #[inline]
    fn next(&mut self) -> Option<Kmer> {
        loop {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            if let Some(code) = base_code(*byte) {
                self.window.push(code);
                return Some(self.window.kmer());
            }
            self.fill();
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, Kmer) -> B>(mut self, init: B, mut f: F) -> B {
        let mut folded = init;
        loop {
            let mut window = self.window;
            let mut bytes = self.rest.iter();
            for byte in bytes.by_ref() {
                let Some(code) = base_code(*byte) else { break };
                window.push(code);
                folded = f(folded, window.kmer());
            }
            self.rest = bytes.as_slice();
            if self.rest.is_empty() {
                return folded;
            }
            self.fill();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.rest.len()))
    }
}

impl std::iter::FusedIterator for Kmers<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(k: u64) -> KmerLength {
        KmerLength::new(k).unwrap()
    }

    #[test]
    fn lengths_outside_1_to_32_are_refused() {
        for k in [0, 33, 99, u64::MAX] {
            let error = KmerLength::new(k).unwrap_err();
            assert_eq!(error.to_string(), format!("k must be 1 to 32, not {k}"));
        }
        assert_eq!(length(32), KmerLength::MAX);
    }

    #[test]
    fn texts_that_are_no_kmer_are_refused() {
        for text in ["ACG", "ACGTA", "ACGN", "ACG\n", "", "ÄCG"] {
            let error = Kmer::from_text(text, length(4)).unwrap_err().to_string();
            let shown = text.escape_default();
            assert_eq!(
                error,
                format!("'{shown}' is not a 4-mer of the letters A, C, G and T")
            );
        }
    }

    #[test]
    fn all_bits_are_used_at_32_bases() {
        let k = length(32);
        let t = Kmer::from_text(&"T".repeat(32), k).unwrap();
        assert_eq!(t.word(), u64::MAX);
        assert_eq!(t.reverse_complement(k).word(), 0);
        assert_eq!(t.canonical(k).to_text(k), "A".repeat(32));
        let forward: Vec<_> = Kmers::new(&[b'T'; 33], k).collect();
        assert_eq!(forward, [t, t]);
    }

    #[test]
    fn order_of_words_is_order_of_texts() {
        let k = length(5);
        let texts: Vec<_> = (0..1 << 10)
            .map(|word| Kmer::from_word(word).to_text(k))
            .collect();
        assert!(texts.is_sorted());
    }
}
