//! The first meeting of the ranks: the time that is left for it, and the ranks that are missing.

use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use super::members::Member;

/// Ranks that are named singly.
const MAX_NAMED: usize = 8;

/// The first barrier of all ranks of a job.
///
/// Programs that never meet, and programs that compute before they do, are not limited. The time
/// counts from the first rank that waits for the others, or from the last host that has connected.
#[derive(Debug)]
pub(super) struct Meeting {
    last_host: Instant,
    first_rank: Option<Instant>,
    is_over: bool,
}

impl Meeting {
    pub(super) fn new() -> Self {
        Self {
            last_host: Instant::now(),
            first_rank: None,
            is_over: false,
        }
    }

    pub(super) fn host_came(&mut self) {
        self.last_host = Instant::now();
    }

    pub(super) fn rank_came(&mut self) {
        self.first_rank.get_or_insert_with(Instant::now);
    }

    /// All ranks have come.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// When the missing ranks are too late, if some rank waits for them.
    pub(super) fn due(&self, patience: Duration) -> Option<Instant> {
        let first_rank = self.first_rank.filter(|_| !self.is_over)?;
        first_rank.max(self.last_host).checked_add(patience)
    }
}

/// The missing ranks with their hosts, as in "rank 3 of host a has" or "ranks 3 and 4 of host a,
/// rank 5 of host b, and 90 more have"; nothing if there are none.
pub(super) fn who_is_missing(members: &[Member]) -> Option<String> {
    let hosts = members.iter().filter(|member| member.said.is_none());
    let hosts = hosts.map(|member| {
        let ranks = member.first_rank..member.first_rank + member.host.n_ranks;
        let missing = ranks.filter(|rank| !member.came.contains(rank)).collect();
        (member.host.name.as_str(), missing)
    });
    text_of(&hosts.collect::<Vec<(&str, Vec<u32>)>>())
}

fn text_of(missing: &[(&str, Vec<u32>)]) -> Option<String> {
    let n_missing: usize = missing.iter().map(|(_, ranks)| ranks.len()).sum();
    let (mut text, mut n_named) = (String::new(), 0);
    for (host, ranks) in missing {
        let named = &ranks[..ranks.len().min(MAX_NAMED - n_named)];
        let Some((last, others)) = named.split_last() else {
            continue;
        };
        n_named += named.len();
        let before = if text.is_empty() { "" } else { ", " };
        let many = if others.is_empty() { "" } else { "s" };
        let _: fmt::Result = write!(text, "{before}rank{many} ");
        for (i, rank) in others.iter().enumerate() {
            let before = if i == 0 { "" } else { ", " };
            let _: fmt::Result = write!(text, "{before}{rank}");
        }
        let and = if others.is_empty() { "" } else { " and " };
        let _: fmt::Result = write!(text, "{and}{last} of host {host}");
    }
    if n_missing > n_named {
        let _: fmt::Result = write!(text, ", and {} more", n_missing - n_named);
    }
    let has = if n_missing == 1 { "has" } else { "have" };
    (n_missing > 0).then(|| format!("{text} {has}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ranks_are_named_with_their_hosts() {
        let text = |missing: &[(&str, Vec<u32>)]| text_of(missing).unwrap_or_default();
        assert_eq!(text(&[("a", vec![])]), "");
        assert_eq!(
            text(&[("a", vec![]), ("b", vec![3])]),
            "rank 3 of host b has"
        );
        assert_eq!(
            text(&[("a", vec![0, 1]), ("b", vec![]), ("c", vec![4])]),
            "ranks 0 and 1 of host a, rank 4 of host c have"
        );
        assert_eq!(
            text(&[
                ("a", (0..7).collect()),
                ("b", (10..20).collect()),
                ("c", vec![30])
            ]),
            "ranks 0, 1, 2, 3, 4, 5 and 6 of host a, rank 10 of host b, and 10 more have"
        );
    }

    #[test]
    fn the_time_counts_from_the_first_rank_or_the_last_host() {
        let patience = Duration::from_secs(7);
        let mut meeting = Meeting::new();
        meeting.host_came();
        assert_eq!(meeting.due(patience), None, "nobody waits");
        meeting.rank_came();
        let first = meeting.due(patience).unwrap();
        assert!(first > Instant::now());
        meeting.rank_came();
        assert_eq!(meeting.due(patience), Some(first));
        while Instant::now() + patience == first {}
        meeting.host_came();
        assert!(meeting.due(patience) > Some(first));
        assert_eq!(meeting.due(Duration::MAX), None, "no limit");
        meeting.end();
        assert_eq!(meeting.due(patience), None);
    }
}
