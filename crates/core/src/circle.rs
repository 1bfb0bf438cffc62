//! Ranks that wait for each other in collectives of different teams.
//!
//! Members of several teams must call the teams' collectives in one order. Else a rank may wait in
//! a collective of one team for a rank that waits for it in a collective of another team. Calls of
//! one team are compared (`PGAS_CHECK=1`). Calls of different teams cannot be compared, since
//! another thread of a rank may still make the awaited call; so a circle is reported, and is no
//! error.

use std::fmt::Write as _;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::rank::Rank;
use crate::team_id::TeamId;

/// The maximum number of ranks of a circle that are named.
pub(crate) const MAX_NAMED: usize = 16;

/// The collective in which a rank waits, and the rank that it waits for, in an answer to a rank
/// that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Edge {
    awaited: u64,
    team: u64,
}

impl Edge {
    /// The edge of a rank that waits in no collective, or with several threads.
    pub(crate) const NONE: Self = Self {
        awaited: u64::MAX,
        team: 0,
    };

    /// The edge of a rank that waits for `awaited` in a collective of `team`.
    pub(crate) fn new(awaited: Rank, team: TeamId) -> Self {
        Self {
            awaited: awaited.number().into(),
            team: team.bits(),
        }
    }
}

/// The circle of ranks that `from` waits for, directly or through others, by the edges of all
/// ranks; `None` if their collectives are all of one team.
pub(crate) fn find(from: Rank, edges: &[Edge]) -> Option<Vec<Rank>> {
    let mut place = vec![None; edges.len()];
    let (mut path, mut at) = (Vec::new(), from.index());
    while place.get(at)?.is_none() {
        place[at] = Some(path.len());
        path.push(at);
        at = usize::try_from(edges[at].awaited).ok()?;
    }
    let circle = path.split_off(place[at]?);
    let has_other_team = |rank: &usize| edges[*rank].team != edges[at].team;
    let is_found = circle.iter().any(has_other_team);
    is_found.then(|| circle.into_iter().map(Rank::from_index).collect())
}

/// The sentence of a report about a circle.
pub(crate) fn text(circle: &[Rank]) -> String {
    let mut text = String::new();
    for (i, rank) in circle.iter().take(MAX_NAMED).enumerate() {
        let before = if i == 0 { "" } else { " waits for " };
        let _: std::fmt::Result = write!(text, "{before}rank {rank}");
        if i > 0 {
            text.push_str(", which");
        }
    }
    if circle.len() > MAX_NAMED {
        let n_more = circle.len() - MAX_NAMED;
        let _: std::fmt::Result = write!(text, " waits for {n_more} ranks more, the last of which");
    }
    let first = circle.first().copied().unwrap_or(Rank::ZERO);
    let _: std::fmt::Result = write!(
        text,
        " waits for rank {first}, in collectives of different teams: members of several teams have \
         to call the teams' collectives in one order"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: u64 = 7;

    fn edges(awaited: &[(u64, u64)]) -> Vec<Edge> {
        let edge = |&(awaited, team)| Edge { awaited, team };
        awaited.iter().map(edge).collect()
    }

    fn found(from: u32, edges: &[Edge]) -> Option<Vec<u32>> {
        let circle = find(Rank::new(from), edges)?;
        Some(circle.into_iter().map(Rank::number).collect())
    }

    #[test]
    fn a_circle_is_found_from_its_ranks_and_from_those_that_wait_for_them() {
        let all = edges(&[(1, 0), (2, 0), (3, OTHER), (1, 0), (0, 0)]);
        assert_eq!(found(4, &all), Some(vec![1, 2, 3]));
        assert_eq!(found(2, &all), Some(vec![2, 3, 1]));
        let text = text(&find(Rank::ZERO, &all).unwrap());
        let begin = "rank 1 waits for rank 2, which waits for rank 3, which waits for rank 1, in";
        assert!(text.starts_with(begin), "{text}");
    }

    #[test]
    fn ranks_of_one_team_and_ranks_that_come_to_an_end_are_no_circle() {
        assert_eq!(found(0, &edges(&[(1, OTHER), (0, OTHER)])), None);
        let mut all = edges(&[(1, 0), (2, OTHER), (0, 0)]);
        all[2] = Edge::NONE;
        assert_eq!(found(0, &all), None);
        assert_eq!(found(0, &edges(&[(5, OTHER)])), None);
    }

    #[test]
    fn few_ranks_of_a_long_circle_are_named() {
        let circle: Vec<_> = (0..40).map(Rank::new).collect();
        let text = text(&circle);
        let rest = "rank 15, which waits for 24 ranks more, the last of which waits for rank 0, in";
        assert!(text.contains(rest), "{text}");
    }
}
