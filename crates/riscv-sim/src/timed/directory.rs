//! The directory of a node: which lines its core and its NIC hold, and whose turn it is when both
//! want one.
//!
//! Requests of both go through it. A line has at most one transaction at a time; the other side's
//! request waits behind it. As the paper asks, an entry exists only while somebody holds or wants
//! its line.

use hashbrown::HashMap;
use serde::Serialize;

use super::cache::Line;

/// Who may hold a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// The core's caches.
    Core,
    /// The NIC's cache.
    Nic,
}

impl Agent {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Core => Self::Nic,
            Self::Nic => Self::Core,
        }
    }
}

/// How somebody holds a line, or wants to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// To read it; the other side may read it too.
    Shared,
    /// To write it; the other side has no copy.
    Exclusive,
}

/// What a request leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The other side's transaction on the line comes first; [`Directory::grant`] will name this
    /// request.
    Wait,
    /// The other side's copy has to be invalidated, or with [`Right::Shared`] made one that is only
    /// read; then [`Directory::recalled`].
    Recall(Right),
    /// The line comes from memory.
    Fetch,
    /// The requester has the data, and gets the right to write.
    Upgrade,
}

/// A grant, and who waits behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who gets the line.
    pub agent: Agent,
    /// To do what; the core gets a line that the NIC has no copy of exclusively, whatever it asked
    /// for.
    pub right: Right,
    /// The request that waited for the line, and has to be made again now.
    pub waiting: Option<(Agent, Right)>,
}

/// What the directory counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectoryStats {
    /// Requests of the core.
    pub core_requests: u64,
    /// Requests of the NIC.
    pub nic_requests: u64,
    /// Requests that waited for a transaction of the other side.
    pub waits: u64,
    /// Copies of the core that were invalidated for the NIC: at most one for all requests that an
    /// MSHR entry merges.
    pub core_invalidations: u64,
    /// Copies of the core that both may read since.
    pub core_downgrades: u64,
    /// Copies of the NIC that were recalled for the core.
    pub nic_recalls: u64,
    /// Requests served from memory.
    pub fetches: u64,
    /// Requests by somebody who had the data.
    pub upgrades: u64,
    /// Picoseconds that requests waited for the directory to take them, if it takes one at a time.
    pub busy_wait_ps: u64,
    /// The most entries there were.
    pub most_entries: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    core: Option<Right>,
    nic: Option<Right>,
    transaction: Option<(Agent, Right)>,
    waiting: Option<(Agent, Right)>,
}

impl Entry {
    fn copy(&mut self, agent: Agent) -> &mut Option<Right> {
        match agent {
            Agent::Core => &mut self.core,
            Agent::Nic => &mut self.nic,
        }
    }

    const fn is_unused(&self) -> bool {
        self.core.is_none() && self.nic.is_none() && self.transaction.is_none()
    }
}

/// The directory of one node.
#[derive(Debug, Default)]
pub struct Directory {
    entries: HashMap<Line, Entry>,
    /// What it counted.
    pub stats: DirectoryStats,
}

impl Directory {
    /// A directory of lines that nobody holds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many lines are held or wanted.
    #[must_use]
    pub fn n_entries(&self) -> usize {
        self.entries.len()
    }

    /// How `agent` holds `line`.
    #[must_use]
    pub fn copy(&self, agent: Agent, line: Line) -> Option<Right> {
        let entry = self.entries.get(&line)?;
        match agent {
            Agent::Core => entry.core,
            Agent::Nic => entry.nic,
        }
    }

    /// `agent` wants `line`. Each side has at most one request for a line under way.
    ///
    /// # Panics
    /// If `agent` has a request for the line under way.
    pub fn request(&mut self, agent: Agent, line: Line, want: Right) -> Answer {
        match agent {
            Agent::Core => self.stats.core_requests += 1,
            Agent::Nic => self.stats.nic_requests += 1,
        }
        let entry = self.entries.entry(line).or_default();
        if let Some((busy, _)) = entry.transaction {
            assert_ne!(busy, agent, "one request of each side for a line");
            entry.waiting = Some((agent, want));
            self.stats.waits += 1;
            return Answer::Wait;
        }
        entry.transaction = Some((agent, want));
        let theirs = *entry.copy(agent.other());
        let mine = *entry.copy(agent);
        self.stats.most_entries = self.stats.most_entries.max(self.entries.len() as u64);
        if theirs == Some(Right::Exclusive) || theirs.is_some() && want == Right::Exclusive {
            match (agent, want) {
                (Agent::Core, _) => self.stats.nic_recalls += 1,
                (Agent::Nic, Right::Exclusive) => self.stats.core_invalidations += 1,
                (Agent::Nic, Right::Shared) => self.stats.core_downgrades += 1,
            }
            return Answer::Recall(want);
        }
        self.source(mine.is_some())
    }

    fn source(&mut self, has_data: bool) -> Answer {
        if has_data {
            self.stats.upgrades += 1;
            Answer::Upgrade
        } else {
            self.stats.fetches += 1;
            Answer::Fetch
        }
    }

    /// The copy in the way of the transaction on `line` now has only that right left. Says where
    /// the requester's data would come from if the recalled copy did not bring it.
    pub fn recalled(&mut self, line: Line, left: Option<Right>) -> Answer {
        let Some(entry) = self.entries.get_mut(&line) else {
            return Answer::Fetch;
        };
        let Some((agent, _)) = entry.transaction else {
            return Answer::Fetch;
        };
        *entry.copy(agent.other()) = left;
        if entry.copy(agent).is_some() {
            Answer::Upgrade
        } else {
            Answer::Fetch
        }
    }

    /// Ends the transaction on `line`.
    ///
    /// # Panics
    /// If there is none.
    pub fn grant(&mut self, line: Line) -> Grant {
        let (entry, (agent, want)) = self
            .entries
            .get_mut(&line)
            .and_then(|entry| entry.transaction.take().map(|granted| (entry, granted)))
            .expect("a grant ends a transaction");
        let alone = agent == Agent::Core && entry.nic.is_none();
        let right = if alone { Right::Exclusive } else { want };
        *entry.copy(agent) = Some(right);
        Grant {
            agent,
            right,
            waiting: entry.waiting.take(),
        }
    }

    /// `agent` has given its copy of `line` up of its own accord; an entry that nobody needs is
    /// freed.
    pub fn release(&mut self, agent: Agent, line: Line) {
        if let Some(entry) = self.entries.get_mut(&line) {
            *entry.copy(agent) = None;
            if entry.is_unused() {
                self.entries.remove(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_core_alone_gets_a_line_for_writing_even_if_it_only_reads() {
        let mut directory = Directory::new();
        assert_eq!(
            directory.request(Agent::Core, 7, Right::Shared),
            Answer::Fetch
        );
        assert_eq!(directory.grant(7).right, Right::Exclusive);
    }

    #[test]
    fn a_merged_batch_of_remote_writes_invalidates_the_core_once() {
        let mut directory = Directory::new();
        directory.request(Agent::Core, 7, Right::Shared);
        directory.grant(7);
        assert_eq!(
            directory.request(Agent::Nic, 7, Right::Exclusive),
            Answer::Recall(Right::Exclusive)
        );
        assert_eq!(
            directory.request(Agent::Core, 7, Right::Shared),
            Answer::Wait
        );
        assert_eq!(directory.recalled(7, None), Answer::Fetch);
        let grant = directory.grant(7);
        assert_eq!((grant.agent, grant.right), (Agent::Nic, Right::Exclusive));
        assert_eq!(grant.waiting, Some((Agent::Core, Right::Shared)));
        assert_eq!(directory.stats.core_invalidations, 1);
        directory.release(Agent::Nic, 7);
        assert_eq!(directory.n_entries(), 0);
    }

    proptest! {
        /// Both sides ask, evict and are recalled in any order. The reference is a set of rights a
        /// side, kept by what each was told: never a writer beside anybody, no request forgotten,
        /// no entry without use.
        #[test]
        fn there_is_never_a_writer_beside_another_copy(
            steps in proptest::collection::vec((0_u8..6, any::<bool>(), 0_u64..3), 1..300),
        ) {
            let mut directory = Directory::new();
            let mut held = [[None::<Right>; 2]; 3];
            // The agent whose transaction runs, and whether a recall has still to be answered.
            let mut running = [None::<(Agent, Option<Right>)>; 3];
            let mut asked = [[false; 2]; 3];
            let mut n_asked = 0;
            let mut n_granted = 0;
            for (kind, exclusive, line) in steps {
                let at = super::super::index(line);
                let want = if exclusive { Right::Exclusive } else { Right::Shared };
                let agent = if kind % 2 == 0 { Agent::Core } else { Agent::Nic };
                let mut begin = |directory: &mut Directory, agent: Agent, want| {
                    match directory.request(agent, line, want) {
                        Answer::Wait => prop_assert!(running[at].is_some()),
                        Answer::Recall(right) => {
                            prop_assert!(held[at][agent.other() as usize].is_some());
                            running[at] = Some((agent, Some(right)));
                        }
                        Answer::Upgrade => {
                            prop_assert!(held[at][agent as usize].is_some());
                            running[at] = Some((agent, None));
                        }
                        Answer::Fetch => {
                            prop_assert!(held[at][agent as usize].is_none());
                            running[at] = Some((agent, None));
                        }
                    }
                    Ok(())
                };
                match kind {
                    0 | 1 if !asked[at][agent as usize] && held[at][agent as usize] < Some(want) => {
                        asked[at][agent as usize] = true;
                        n_asked += 1;
                        begin(&mut directory, agent, want)?;
                    }
                    2 | 3 if !asked[at][agent as usize]
                        && running[at].is_none_or(|(_, recall)| recall.is_none()) =>
                    {
                        held[at][agent as usize] = None;
                        directory.release(agent, line);
                    }
                    4 | 5 => match running[at] {
                        Some((agent, Some(right))) => {
                            let left = (right == Right::Shared).then_some(Right::Shared);
                            held[at][agent.other() as usize] = left;
                            directory.recalled(line, left);
                            running[at] = Some((agent, None));
                        }
                        Some((agent, None)) => {
                            running[at] = None;
                            let grant = directory.grant(line);
                            prop_assert_eq!(grant.agent, agent);
                            n_granted += 1;
                            asked[at][agent as usize] = false;
                            held[at][agent as usize] = Some(grant.right);
                            if let Some((agent, want)) = grant.waiting {
                                let mut begin = |directory: &mut Directory| {
                                    running[at] = match directory.request(agent, line, want) {
                                        Answer::Recall(right) => Some((agent, Some(right))),
                                        _ => Some((agent, None)),
                                    };
                                };
                                begin(&mut directory);
                            }
                        }
                        None => {}
                    },
                    _ => {}
                }
                let [core, nic] = held[at];
                prop_assert!(core.is_none() || nic.is_none() || core.max(nic) == Some(Right::Shared));
                prop_assert_eq!(directory.copy(Agent::Core, line), core);
                prop_assert_eq!(directory.copy(Agent::Nic, line), nic);
                let used = held.iter().zip(&running).filter(|(held, running)| {
                    held[0].is_some() || held[1].is_some() || running.is_some()
                });
                prop_assert_eq!(directory.n_entries(), used.count());
            }
            let waiting = asked.iter().flatten().filter(|&&asked| asked).count();
            prop_assert_eq!(n_asked, n_granted + waiting);
        }
    }
}
