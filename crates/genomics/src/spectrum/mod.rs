//! The number of distinct k-mers for each count.

use std::collections::BTreeMap;
use std::io::{self, Write};

mod chart;

/// Counts below this are kept in an array.
const N_SMALL: usize = 1 << 12;

/// The largest count with a line of its own in [`Spectrum::write_histo`].
const HISTO_HIGH: u64 = 10_000;

/// For each count, the number of distinct k-mers that occur that often.
///
/// # Examples
/// ```
/// use pgas_genomics::Spectrum;
///
/// let mut spectrum = Spectrum::new();
/// for count in [1, 1, 3] {
///     spectrum.add(count);
/// }
/// let other_rank = Spectrum::from_iter([(1, 5), (20_000, 1)]);
/// spectrum.merge(&other_rank);
/// assert_eq!(spectrum.n_distinct(), 9);
/// assert_eq!(spectrum.n_total(), 7 + 3 + 20_000);
///
/// let mut histo = Vec::new();
/// spectrum.write_histo(&mut histo)?;
/// assert_eq!(String::from_utf8_lossy(&histo), "1 7\n3 1\n10001 1\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spectrum {
    /// The number of k-mers by count, up to the largest small count.
    small: Vec<u64>,
    large: BTreeMap<u64, u64>,
}

impl Spectrum {
    /// A spectrum of no k-mers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a k-mer that occurs `count` times. A count of 0 adds nothing.
    #[inline]
    pub fn add(&mut self, count: u64) {
        self.add_many(count, 1);
    }

    /// Adds `n_kmers` k-mers that occur `count` times each.
    #[inline]
    pub fn add_many(&mut self, count: u64, n_kmers: u64) {
        if count == 0 || n_kmers == 0 {
            return;
        }
        match usize::try_from(count) {
            Ok(index) if index < N_SMALL => {
                if index >= self.small.len() {
                    self.small.resize(index + 1, 0);
                }
                self.small[index] += n_kmers;
            }
            _ => *self.large.entry(count).or_default() += n_kmers,
        }
    }

    /// Adds all k-mers of another part of the data, which must not have k-mers in common with this
    /// one.
    pub fn merge(&mut self, other: &Self) {
        self.extend(other.iter());
    }

    /// Each count that occurs, with its number of k-mers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let small = (0..)
            .zip(self.small.iter().copied())
            .filter(|(_, n_kmers)| *n_kmers > 0);
        small.chain(self.large.iter().map(|(count, n_kmers)| (*count, *n_kmers)))
    }

    /// The number of distinct k-mers.
    #[must_use]
    pub fn n_distinct(&self) -> u64 {
        self.iter().map(|(_, n_kmers)| n_kmers).sum()
    }

    /// The number of k-mers with their repetitions.
    #[must_use]
    pub fn n_total(&self) -> u64 {
        self.iter().map(|(count, n_kmers)| count * n_kmers).sum()
    }

    /// Writes the lines of `jellyfish histo`: `COUNT NUMBER` for each count up to 10,000 that
    /// occurs, and one line for `10001` with all k-mers that occur more often.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_histo(&self, mut out: impl Write) -> io::Result<()> {
        let mut n_beyond = 0;
        for (count, n_kmers) in self.iter() {
            if count <= HISTO_HIGH {
                writeln!(out, "{count} {n_kmers}")?;
            } else {
                n_beyond += n_kmers;
            }
        }
        if n_beyond > 0 {
            writeln!(out, "{} {n_beyond}", HISTO_HIGH + 1)?;
        }
        out.flush()
    }

    /// A chart of at most 16 lines of 72 characters, in block characters without colours: the
    /// number of distinct k-mers, on a logarithmic scale, by count. Empty if there are none.
    #[must_use]
    pub fn chart(&self) -> String {
        chart::draw(self)
    }
}

impl Extend<(u64, u64)> for Spectrum {
    fn extend<I: IntoIterator<Item = (u64, u64)>>(&mut self, pairs: I) {
        for (count, n_kmers) in pairs {
            self.add_many(count, n_kmers);
        }
    }
}

impl FromIterator<(u64, u64)> for Spectrum {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(pairs: I) -> Self {
        let mut spectrum = Self::new();
        spectrum.extend(pairs);
        spectrum
    }
}
