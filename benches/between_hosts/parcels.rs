//! Data that is packed by rank, and exchanged all-to-all.

use crate::floor::Comm;

/// Words for each rank, contiguous by rank.
pub(crate) struct Parcels {
    words: Vec<u64>,
    counts: Vec<usize>,
}

impl Parcels {
    /// Packs the words of `each` item for the rank that `to` returns. It passes over the items more
    /// than once, to find the start of each rank's words.
    pub(crate) fn pack<const N: usize>(
        n_ranks: usize,
        each: &[[u64; N]],
        to: impl Fn(&[u64; N]) -> usize,
    ) -> Self {
        let mut counts = vec![0; n_ranks];
        for item in each {
            counts[to(item)] += N;
        }
        let mut ends = begins(&counts);
        let mut words = vec![0; each.len() * N];
        for item in each {
            let end = &mut ends[to(item)];
            words[*end..*end + N].copy_from_slice(item);
            *end += N;
        }
        Self { words, counts }
    }

    /// The answers: from each rank `words_for(n)` words for `n` words that were sent to it.
    pub(crate) fn answers(&self, words_for: fn(usize) -> usize) -> Self {
        let counts: Vec<usize> = self.counts.iter().map(|n| words_for(*n)).collect();
        Self {
            words: vec![1; counts.iter().sum()],
            counts,
        }
    }

    /// Exchanges the data of all ranks.
    pub(crate) fn exchange(&self, comm: &Comm) -> Self {
        let (words, counts) = comm.exchange(&self.words, &self.counts);
        Self { words, counts }
    }
}

/// The start of each rank's words.
pub(crate) fn begins(counts: &[usize]) -> Vec<usize> {
    let mut begin = 0;
    let place = |n: &usize| {
        let here = begin;
        begin += n;
        here
    };
    counts.iter().map(place).collect()
}
