//! The picture of a job over several hosts, made of those that the hosts send.

use std::time::{Duration, Instant};

use super::list::Host;
use crate::watch::View;
use crate::watch::picture::{Picture, Row, State};
use crate::watch::told;

/// The pictures of all hosts.
pub(super) struct Shown {
    parts: Vec<Part>,
    every: Duration,
    /// The time at which the job is shown even if not every host has sent a new picture.
    due: Instant,
}

/// The ranks of one host.
struct Part {
    first_rank: u32,
    n_ranks: u32,
    picture: Option<Picture>,
    /// Whether its picture was not shown yet.
    is_new: bool,
    /// The state of its ranks, once they have ended.
    ended: Option<State>,
}

impl Shown {
    pub(super) fn new(hosts: &[Host], every: Duration) -> Self {
        let mut first_rank = 0;
        let part = |host: &Host| {
            let part = Part {
                first_rank,
                n_ranks: host.n_ranks,
                picture: None,
                is_new: false,
                ended: None,
            };
            first_rank += host.n_ranks;
            part
        };
        Self {
            parts: hosts.iter().map(part).collect(),
            every,
            due: Instant::now() + 2 * every,
        }
    }

    /// Takes the picture of a host.
    pub(super) fn take(&mut self, host: usize, fields: &[Vec<u8>]) {
        let Some(picture) = told::of_fields(fields) else {
            return;
        };
        let part = &mut self.parts[host];
        part.picture = Some(picture);
        part.is_new = true;
    }

    /// Records that the ranks of a host have ended.
    pub(super) fn end(&mut self, host: usize, is_well: bool) {
        let state = if is_well { State::Left } else { State::Dead };
        self.parts[host].ended = Some(state);
    }

    /// The time at which the job is shown next, unless all hosts send a picture before.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Shows the job if it is time to.
    pub(super) fn advance(&mut self, view: &View) {
        let now = Instant::now();
        let is_whole = self
            .parts
            .iter()
            .all(|part| part.is_new || part.ended.is_some());
        let has_new = self.parts.iter().any(|part| part.is_new);
        if now < self.due && !(is_whole && has_new) {
            return;
        }
        self.due = now + 2 * self.every;
        view.show(&self.picture());
        for part in &mut self.parts {
            part.is_new = false;
        }
    }

    /// The whole job.
    fn picture(&self) -> Picture {
        let pictures = || self.parts.iter().filter_map(|part| part.picture.as_ref());
        let program = pictures().map(|picture| &picture.program);
        let program = program.clone().find(|name| !name.is_empty()).cloned();
        let rows: Vec<Row> = self.parts.iter().flat_map(Part::rows).collect();
        let mut picture = Picture {
            program: program.unwrap_or_default(),
            age: pictures().map(|p| p.age).max().unwrap_or_default(),
            n_ranks: u32::try_from(rows.len()).unwrap_or(u32::MAX),
            n_hosts: self.parts.len(),
            rows,
            failure: pictures().find_map(|picture| picture.failure.clone()),
        };
        picture.blame();
        picture
    }
}

impl Part {
    /// All ranks of the host; some may have no picture yet.
    fn rows(&self) -> Vec<Row> {
        let known = self.picture.iter().flat_map(|picture| &picture.rows);
        let row = |rank: u32| known.clone().find(|row| row.rank == rank).cloned();
        let ranks = self.first_rank..self.first_rank.saturating_add(self.n_ranks);
        ranks
            .map(|rank| {
                let row = row(rank).unwrap_or_else(|| Row::unknown(rank));
                match self.ended {
                    Some(state) => Row {
                        state,
                        ..Row::unknown(rank)
                    },
                    None => row,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::lines;
    use crate::watch::picture::tests::{row, waiting};

    fn host(name: &str, n_ranks: u32) -> Host {
        Host {
            name: name.to_owned(),
            n_ranks,
        }
    }

    fn told(rows: Vec<Row>) -> Vec<Vec<u8>> {
        told::to_fields(&Picture {
            program: "solver".to_owned(),
            age: Duration::from_secs(75),
            n_ranks: 3,
            n_hosts: 1,
            rows,
            failure: None,
        })
    }

    #[test]
    fn ranks_of_all_hosts_are_shown_together_and_who_waits_for_whom_across_them() {
        let hosts = [host("one", 2), host("two", 1)];
        let mut shown = Shown::new(&hosts, Duration::from_secs(5));
        let waits = Duration::from_secs(11);
        shown.take(0, &told(vec![waiting(0, 2, waits), waiting(1, 2, waits)]));
        let text = lines::summary(&shown.picture());
        let starts = "  rank 2 starts; 2 ranks have waited for it, for up to 11.0 s\n";
        assert!(text.ends_with(starts), "nothing was heard of it: {text}");
        shown.take(1, &told(vec![row(2)]));
        let text = lines::summary(&shown.picture());
        let heading = "1 min 15 s: 3 ranks of solver on 2 hosts: 1 runs, 2 wait; memory ";
        assert!(text.starts_with(heading), "{text}");
        let last = "\n  rank 2 runs; 2 ranks have waited for it, for up to 11.0 s; 98 % of";
        assert!(text.contains(last), "{text}");
        shown.take(1, &[b"nonsense".to_vec()]);
        assert_eq!(shown.picture().rows.len(), 3, "it changes nothing");
        shown.end(1, true);
        assert!(shown.picture().states().contains("1 left"));
    }

    #[test]
    fn a_job_is_shown_when_all_hosts_have_sent_something_new_or_after_a_while() {
        let hosts = [host("one", 1), host("two", 1)];
        let mut shown = Shown::new(&hosts, Duration::from_secs(500));
        let view = View::none();
        let first = shown.due();
        shown.take(0, &told(vec![row(0)]));
        shown.advance(&view);
        assert_eq!(shown.due(), first, "the other host has sent nothing");
        shown.take(1, &told(vec![row(1)]));
        shown.advance(&view);
        assert!(shown.due() > first);
        let second = shown.due();
        shown.advance(&view);
        assert_eq!(shown.due(), second, "nothing is new");
    }
}
