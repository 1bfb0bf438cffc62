//! The ranks of a job that share this process's host: their numbers in the job, and there.

use std::ops::Range;

/// The ranks of one host, in ascending order. Their numbers need not be consecutive.
#[derive(Clone, Debug)]
pub struct Host {
    ranks: Box<[u32]>,
    index: u32,
}

impl Host {
    /// The host of `ranks`; `index` is this process's place among them.
    #[must_use]
    pub fn new(ranks: Box<[u32]>, index: u32) -> Self {
        Self { ranks, index }
    }

    /// This process's place among them.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The number of ranks on this host.
    ///
    /// # Panics
    ///
    /// Never: a job has no more than `u32` counts.
    #[must_use]
    pub fn n_ranks(&self) -> u32 {
        u32::try_from(self.ranks.len()).expect("not more than the job's")
    }

    /// The place of the job's `rank` on this host, if it is here.
    #[inline]
    pub fn index_of(&self, rank: u32) -> Option<u32> {
        let distance = rank.wrapping_sub(self.ranks[0]) as usize;
        let index = if self.ranks.get(distance) == Some(&rank) {
            distance
        } else {
            self.ranks.binary_search(&rank).ok()?
        };
        u32::try_from(index).ok()
    }

    /// The job's number of the rank at `index`.
    pub fn rank_of(&self, index: u32) -> u32 {
        self.ranks[index as usize]
    }

    /// The number under which this host's memory records `rank` as failed: its index here, or for a
    /// rank of another host a number beyond these.
    pub fn number_of_failed(&self, rank: u32) -> u32 {
        self.index_of(rank)
            .unwrap_or(self.n_ranks().saturating_add(rank))
    }

    /// The job's number of the rank that this host's memory records as failed by this number.
    pub fn failed_rank(&self, number: u32) -> u32 {
        match number.checked_sub(self.n_ranks()) {
            Some(rank) => rank,
            None => self.rank_of(number),
        }
    }

    /// A description for reports: the host's name and its ranks.
    pub fn describe(&self) -> String {
        /// Ranks that are named singly.
        const MAX_NAMED: usize = 8;
        let name = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let named = self.ranks.iter().take(MAX_NAMED);
        let named: Vec<String> = named.map(|rank| format!("rank {rank}")).collect();
        let more = match self.ranks.len().checked_sub(MAX_NAMED) {
            Some(n @ 1..) => format!(" and {n} more"),
            _ => String::new(),
        };
        format!("host {name} ({}{more})", named.join(", "))
    }

    /// The smallest range of numbers that contains all ranks of the host.
    pub fn span(&self) -> Range<u32> {
        self.ranks[0]..self.ranks[self.ranks.len() - 1] + 1
    }

    /// Whether the numbers of the host's ranks are consecutive.
    pub fn is_contiguous(&self) -> bool {
        self.span().len() == self.ranks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_are_neighbours_and_ranks_that_are_not_are_found() {
        for ranks in [&[4, 5, 6, 7][..], &[0, 2, 4], &[3], &[0, 1, 5, 9]] {
            let host = Host::new(ranks.into(), 0);
            for rank in 0..12 {
                let index = ranks.iter().position(|other| *other == rank);
                assert_eq!(
                    host.index_of(rank).map(|index| index as usize),
                    index,
                    "{rank} in {ranks:?}"
                );
                assert_eq!(host.failed_rank(host.number_of_failed(rank)), rank);
                if let Some(index) = host.index_of(rank) {
                    assert_eq!(host.rank_of(index), rank);
                }
            }
        }
        assert!(Host::new([4, 5].into(), 1).is_contiguous());
        assert!(!Host::new([4, 6].into(), 1).is_contiguous());
        assert_eq!(Host::new([4, 6].into(), 1).span(), 4..7);
    }
}
