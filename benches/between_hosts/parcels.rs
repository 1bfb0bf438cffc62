//! What is packed for each rank, and exchanged by all with all.

use crate::floor::Comm;

/// Words for each rank, one rank's behind another's.
pub(crate) struct Parcels {
    words: Vec<u64>,
    counts: Vec<usize>,
}

impl Parcels {
    /// Packs `each` of the items, some words, for the rank that `to` names: as many passes as it
    /// takes to know where each rank's words begin.
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

    /// So many words come back for each that went there, as far as the ranks agree.
    pub(crate) fn answers(&self, words_for: fn(usize) -> usize) -> Self {
        let counts: Vec<usize> = self.counts.iter().map(|n| words_for(*n)).collect();
        Self {
            words: vec![1; counts.iter().sum()],
            counts,
        }
    }

    /// Gives all ranks theirs.
    pub(crate) fn exchange(&self, comm: &Comm) -> Self {
        let (words, counts) = comm.exchange(&self.words, &self.counts);
        Self { words, counts }
    }
}

/// Where the words of each rank begin.
pub(crate) fn begins(counts: &[usize]) -> Vec<usize> {
    let mut begin = 0;
    let place = |n: &usize| {
        let here = begin;
        begin += n;
        here
    };
    counts.iter().map(place).collect()
}
