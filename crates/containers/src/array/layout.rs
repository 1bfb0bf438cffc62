//! Which rank holds which elements of a distributed array.

use std::ops::Range;

/// How the elements of an array are dealt out to the `n_ranks` ranks that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// One run of consecutive elements for each rank: `len.div_ceil(n_ranks)` of them. The last
    /// ranks may have fewer, or none.
    Block,
    /// Single elements, to the ranks in turn: element `i` is on rank `i % n_ranks`.
    Cyclic,
    /// Blocks of this many consecutive elements, to the ranks in turn. The number is not 0.
    BlockCyclic(usize),
}

/// Blocks of `block` elements, dealt out in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deal {
    pub(super) len: usize,
    pub(super) block: usize,
    pub(super) n_ranks: usize,
}

impl Deal {
    /// `None` for blocks of no elements.
    pub(super) fn new(distribution: Distribution, len: usize, n_ranks: usize) -> Option<Self> {
        let block = match distribution {
            Distribution::Block => len.div_ceil(n_ranks).max(1),
            Distribution::Cyclic => 1,
            Distribution::BlockCyclic(0) => return None,
            Distribution::BlockCyclic(block) => block,
        };
        Some(Self {
            len,
            block,
            n_ranks,
        })
    }

    /// The rank of an element, and its place among the elements of that rank.
    #[inline]
    pub(super) fn place(&self, i: usize) -> (usize, usize) {
        let (block, within) = (i / self.block, i % self.block);
        (
            block % self.n_ranks,
            block / self.n_ranks * self.block + within,
        )
    }

    /// The element at a place of a rank.
    pub(super) fn element(&self, rank: usize, local: usize) -> usize {
        let (block, within) = (local / self.block, local % self.block);
        (block * self.n_ranks + rank) * self.block + within
    }

    /// The number of a rank's elements among the first `n`.
    pub(super) fn local_len(&self, rank: usize, n: usize) -> usize {
        let (blocks, rest) = (n / self.block, n % self.block);
        let (rounds, last) = (blocks / self.n_ranks, blocks % self.n_ranks);
        let partial = match rank.cmp(&last) {
            std::cmp::Ordering::Less => self.block,
            std::cmp::Ordering::Equal => rest,
            std::cmp::Ordering::Greater => 0,
        };
        rounds * self.block + partial
    }

    /// The places of those of `elements` that a rank holds. They are consecutive on the rank, too.
    pub(super) fn places(&self, rank: usize, elements: &Range<usize>) -> Range<usize> {
        self.local_len(rank, elements.start)..self.local_len(rank, elements.end)
    }

    /// Places for the largest share.
    pub(super) fn most(&self) -> usize {
        (0..self.n_ranks.min(2))
            .map(|rank| self.local_len(rank, self.len))
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_element_has_one_place_and_every_place_one_element(
            len in 0_usize..200,
            n_ranks in 1_usize..8,
            kind in 0_usize..20,
            start in 0_usize..200,
            n in 0_usize..200,
        ) {
            let distribution = match kind {
                0 => Distribution::Block,
                1 => Distribution::Cyclic,
                block => Distribution::BlockCyclic(block - 1),
            };
            let deal = Deal::new(distribution, len, n_ranks).unwrap();
            let mut held = vec![Vec::new(); n_ranks];
            for i in 0..len {
                let (rank, local) = deal.place(i);
                prop_assert_eq!(local, held[rank].len(), "no gap");
                prop_assert_eq!(deal.element(rank, local), i);
                held[rank].push(i);
            }
            let start = start.min(len);
            let elements = start..(start + n).min(len);
            for (rank, held) in held.iter().enumerate() {
                prop_assert_eq!(deal.local_len(rank, len), held.len());
                let places = deal.places(rank, &elements);
                let expected: Vec<_> = held.iter().copied().filter(|i| elements.contains(i)).collect();
                prop_assert_eq!(&held[places], &expected[..]);
            }
            let most = held.iter().map(Vec::len).max().unwrap();
            prop_assert_eq!(deal.most(), most);
        }
    }
}
