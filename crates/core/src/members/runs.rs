//! The members of a team, in little memory if they are evenly spaced.

use crate::rank::Rank;

/// The members of a team in their order, as runs of evenly spaced ranks.
///
/// The team of all ranks, every second rank, a block of ranks and their reversals are one run each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    runs: Box<[Run]>,
    len: u32,
}

/// The ranks `first`, `first + stride`, ..., which are members from number `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: u32,
    len: u32,
    first: u32,
    stride: i32,
}

impl Run {
    #[inline]
    fn rank(self, i: u32) -> u32 {
        // The sum is a rank again: it was one when the run was made.
        self.first
            .wrapping_add_signed(self.stride.wrapping_mul(i.cast_signed()))
    }

    fn position(self, rank: u32) -> Option<u32> {
        let distance = i64::from(rank) - i64::from(self.first);
        let i = if self.stride == 0 {
            (distance == 0).then_some(0)?
        } else {
            (distance % i64::from(self.stride) == 0).then_some(distance / i64::from(self.stride))?
        };
        u32::try_from(i).ok().filter(|i| *i < self.len)
    }
}

impl Members {
    /// Ranks 0 to `n_ranks` - 1.
    pub(crate) fn all(n_ranks: u32) -> Self {
        let run = Run {
            start: 0,
            len: n_ranks,
            first: 0,
            stride: 1,
        };
        Self {
            runs: Box::new([run]),
            len: n_ranks,
        }
    }

    /// These ranks in this order.
    pub(crate) fn collect(ranks: impl IntoIterator<Item = Rank>) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        let mut len = 0;
        for rank in ranks.into_iter().map(Rank::number) {
            match runs.last_mut() {
                Some(run) if run.len == 1 => {
                    run.stride = rank.cast_signed() - run.first.cast_signed();
                    run.len = 2;
                }
                Some(run) if run.rank(run.len) == rank => run.len += 1,
                _ => runs.push(Run {
                    start: len,
                    len: 1,
                    first: rank,
                    stride: 0,
                }),
            }
            len += 1;
        }
        let runs = runs.into_boxed_slice();
        Self { runs, len }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The rank of member `i`, if there is such a member.
    #[inline]
    pub(crate) fn rank(&self, i: u32) -> Option<Rank> {
        if i >= self.len {
            return None;
        }
        let run = match &*self.runs {
            [run] => run,
            runs => &runs[runs.partition_point(|run| run.start <= i) - 1],
        };
        Some(Rank::new(run.rank(i - run.start)))
    }

    /// The first member's rank, and the distance from one member to the next, if it is the same for
    /// all.
    pub(crate) fn spacing(&self) -> Option<(u32, i32)> {
        match &*self.runs {
            [run] => Some((run.first, run.stride)),
            _ => None,
        }
    }

    /// The number of `rank` among the members, if it is one.
    pub(crate) fn position(&self, rank: Rank) -> Option<u32> {
        self.runs
            .iter()
            .find_map(|run| Some(run.start + run.position(rank.number())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(ranks: &[u32]) -> Members {
        Members::collect(ranks.iter().copied().map(Rank::new))
    }

    #[test]
    fn regular_teams_are_one_run() {
        for ranks in [
            &[0, 1, 2, 3, 4][..],
            &[5, 4, 3, 2, 1, 0],
            &[1, 4, 7, 10],
            &[9],
            &[3, 8],
        ] {
            assert_eq!(members(ranks).runs.len(), 1, "{ranks:?}");
        }
        assert_eq!(members(&[0, 1, 2]), Members::all(3));
    }

    #[test]
    fn members_and_positions_are_inverse_in_any_order_of_ranks() {
        for ranks in [
            &[0, 1, 2, 3, 4][..],
            &[6, 4, 2, 0],
            &[1, 4, 7, 10, 11, 12, 2, 30, 29],
            &[5, 0, 3, 9, 8, 1],
            &[16_777_215, 0, 16_777_214, 1],
            &[2],
            &[],
        ] {
            let members = members(ranks);
            assert_eq!(members.len() as usize, ranks.len());
            for (i, rank) in (0..).zip(ranks) {
                assert_eq!(members.rank(i), Some(Rank::new(*rank)), "{ranks:?}");
                assert_eq!(members.position(Rank::new(*rank)), Some(i), "{ranks:?}");
            }
            assert_eq!(members.rank(members.len()), None);
            let strangers = (0..64).filter(|rank| !ranks.contains(rank));
            for rank in strangers.map(Rank::new) {
                assert_eq!(members.position(rank), None, "{rank} in {ranks:?}");
            }
        }
    }
}
