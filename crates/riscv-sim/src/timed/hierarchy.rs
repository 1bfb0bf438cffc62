//! The two levels of a node's data caches: a first one for each core and one second level for all.
//! The second holds all that the first ones do, so that the directory asks one place, and is where
//! they are kept coherent: a core that reads a line makes another's copy that could be written one
//! that is only read, and a core that writes takes the others' copies away. The caches of
//! instructions, if there are any, are first levels too, behind those of data.

use serde::Serialize;

use super::cache::{Cache, CacheStats, Line, State};
use super::config::{CacheConfig, TimedConfig};

/// Where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the first level.
    First,
    /// In the second level.
    Second,
    /// In the second level, and another core's copy had to be taken away or made one that is only
    /// read.
    Neighbour,
    /// Nowhere, or in a state that does not serve a store: the directory has to be asked.
    Nowhere,
}

/// What the two levels counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HierarchyStats {
    /// The first level of data, of all cores.
    pub l1: CacheStats,
    /// The first level of instructions, of all cores; nothing if there is none.
    pub l1i: CacheStats,
    /// The second level.
    pub l2: CacheStats,
}

/// The caches of one node.
#[derive(Debug)]
pub struct Hierarchy {
    /// Core by core those of data, then those of instructions.
    firsts: Vec<Cache>,
    n_cores: usize,
    second: Cache,
}

impl Hierarchy {
    /// Empty caches.
    #[must_use]
    pub fn new(config: &TimedConfig, n_cores: usize) -> Self {
        let data = |_| Cache::new(&config.l1, config.line_bytes);
        let l1i = config.l1i.as_ref().map(|l1i| CacheConfig {
            bytes: l1i.bytes,
            ways: l1i.ways,
            hit_cycles: 0,
        });
        let instructions = l1i.iter().flat_map(|l1i| {
            let instructions = |_| Cache::new(l1i, config.line_bytes);
            (0..n_cores).map(instructions)
        });
        Self {
            firsts: (0..n_cores).map(data).chain(instructions).collect(),
            n_cores,
            second: Cache::new(&config.l2, config.line_bytes),
        }
    }

    /// Which of the first levels has the instructions of a core, if any does. That of its data has
    /// the core's own number.
    #[must_use]
    pub fn instructions_of(&self, core: usize) -> Option<usize> {
        (self.firsts.len() > self.n_cores).then_some(self.n_cores + core)
    }

    /// One line is read or written through a first level. After [`Found::Nowhere`],
    /// [`Hierarchy::fill`] brings it.
    #[inline]
    pub fn access(&mut self, first: usize, line: Line, write: bool) -> Found {
        let found = self.serve(first, line, write);
        if found == Found::First {
            self.firsts[first].stats.hits += 1;
        } else {
            self.count_miss(first, found);
        }
        found
    }

    /// As [`access`](Self::access), for an access that has been counted before: it waited for the
    /// line, or has just read it.
    #[inline]
    pub fn serve(&mut self, first: usize, line: Line, write: bool) -> Found {
        let cache = &mut self.firsts[first];
        match cache.touch(line) {
            Some(state) if !write || state == State::Modified => Found::First,
            Some(State::Exclusive) => {
                cache.set_state(line, State::Modified);
                Found::First
            }
            _ => self.serve_by_second(first, line, write),
        }
    }

    /// The first level did not serve an access.
    pub fn count_miss(&mut self, first: usize, found: Found) {
        self.firsts[first].stats.misses += 1;
        match found {
            Found::Nowhere => self.second.stats.misses += 1,
            _ => self.second.stats.hits += 1,
        }
    }

    fn serve_by_second(&mut self, core: usize, line: Line, write: bool) -> Found {
        match self.second.touch(line) {
            Some(state) if !write || state != State::Shared => {
                let others = self.settle(core, line, write);
                let state = match others {
                    _ if write => State::Modified,
                    Others::Nobody => state,
                    Others::Read | Others::Told => State::Shared,
                };
                self.fill_first(core, line, state);
                if others == Others::Told {
                    Found::Neighbour
                } else {
                    Found::Second
                }
            }
            _ => Found::Nowhere,
        }
    }

    /// Makes the other cores' copies agree with what `core` does to `line`.
    fn settle(&mut self, core: usize, line: Line, write: bool) -> Others {
        let mut others = Others::Nobody;
        for (number, first) in self.firsts.iter_mut().enumerate() {
            if number == core {
                continue;
            }
            let Some(state) = first.peek(line) else {
                continue;
            };
            if state == State::Modified {
                self.second.set_state(line, State::Modified);
            }
            if write {
                first.remove(line);
                others = Others::Told;
            } else if state == State::Shared {
                others = others.max(Others::Read);
            } else {
                first.set_state(line, State::Shared);
                others = Others::Told;
            }
        }
        others
    }

    fn fill_first(&mut self, core: usize, line: Line, state: State) {
        if let Some((victim, State::Modified)) = self.firsts[core].insert(line, state) {
            self.second.set_state(victim, State::Modified);
        }
    }

    /// Brings a line into the second level and a core's first; gives the line that left all to make
    /// room, and whether memory has to be written.
    pub fn fill(&mut self, core: usize, line: Line, state: State) -> Option<(Line, bool)> {
        // The victim leaves the first levels before the new line enters one, lest it be evicted
        // from there unnoticed.
        let victim = self.second.insert(line, state).map(|(victim, state)| {
            let inner = self.firsts.iter_mut().map(|first| first.remove(victim));
            let dirty = inner.fold(state, |state, inner| {
                inner.map_or(state, |it| it.max(state))
            });
            self.second.stats.write_backs += is_late(state, dirty);
            (victim, dirty == State::Modified)
        });
        let others = self.settle(core, line, state == State::Modified);
        let alone = others == Others::Nobody || state == State::Modified;
        self.fill_first(core, line, if alone { state } else { State::Shared });
        victim
    }

    /// In what state the node's cores hold `line`.
    #[must_use]
    pub fn state(&self, line: Line) -> Option<State> {
        let outer = self.second.peek(line)?;
        let inner = self.firsts.iter().filter_map(|first| first.peek(line));
        Some(inner.fold(outer, State::max))
    }

    /// Takes a line away from all cores; gives its state.
    pub fn invalidate(&mut self, line: Line) -> Option<State> {
        let inner = self.firsts.iter_mut();
        let inner = inner.filter_map(|first| first.remove(line)).max();
        let outer = self.second.remove(line)?;
        let state = inner.map_or(outer, |inner| inner.max(outer));
        self.second.stats.write_backs += is_late(outer, state);
        Some(state)
    }

    /// Makes a line one that others may read too; gives its state before.
    pub fn downgrade(&mut self, line: Line) -> Option<State> {
        let before = self.state(line)?;
        for first in &mut self.firsts {
            first.set_state(line, State::Shared);
        }
        self.second.set_state(line, State::Shared);
        self.second.stats.write_backs += u64::from(before == State::Modified);
        Some(before)
    }

    /// What both levels counted.
    #[must_use]
    pub fn stats(&self) -> HierarchyStats {
        let sum = |firsts: &[Cache]| {
            let firsts = firsts.iter().map(|first| first.stats);
            firsts.fold(CacheStats::default(), CacheStats::plus)
        };
        let (data, instructions) = self.firsts.split_at(self.n_cores);
        HierarchyStats {
            l1: sum(data),
            l1i: sum(instructions),
            l2: self.second.stats,
        }
    }
}

/// One if only a first level knew that the line of a second level's entry had been written: what
/// the entry itself knew has been counted.
fn is_late(outer: State, state: State) -> u64 {
    u64::from(state == State::Modified && outer != State::Modified)
}

/// What the other cores of the node had of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Others {
    /// Nothing.
    Nobody,
    /// Copies that they only read, and keep.
    Read,
    /// A copy that they had to give up, or the right to write it.
    Told,
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn tiny() -> Hierarchy {
        let config = TimedConfig {
            l1: CacheConfig {
                bytes: 256,
                ways: 2,
                hit_cycles: 1,
            },
            l2: CacheConfig {
                bytes: 1024,
                ways: 4,
                hit_cycles: 1,
            },
            ..TimedConfig::default()
        };
        Hierarchy::new(&config, 3)
    }

    #[test]
    fn a_store_to_a_shared_line_asks_the_directory_and_to_an_exclusive_one_does_not() {
        let mut caches = tiny();
        assert_eq!(caches.access(0, 1, false), Found::Nowhere);
        caches.fill(0, 1, State::Shared);
        assert_eq!(caches.access(0, 1, false), Found::First);
        assert_eq!(caches.access(0, 1, true), Found::Nowhere);
        caches.fill(0, 1, State::Exclusive);
        assert_eq!(caches.access(0, 1, true), Found::First);
        assert_eq!(caches.state(1), Some(State::Modified));
    }

    #[test]
    fn a_line_pushed_out_of_the_first_level_is_found_dirty_in_the_second() {
        let mut caches = tiny();
        for line in [0, 2, 4] {
            caches.fill(0, line, State::Exclusive);
            assert_eq!(caches.access(0, line, true), Found::First);
        }
        assert_eq!(caches.access(0, 0, false), Found::Second);
        assert_eq!(caches.invalidate(0), Some(State::Modified));
        assert_eq!(caches.invalidate(0), None);
    }

    #[test]
    fn the_second_level_counts_what_it_writes_back_whichever_level_wrote_it() {
        let mut caches = tiny();
        let mut n_written = 0;
        for (line, take) in [
            (0, Hierarchy::invalidate as fn(&mut _, _) -> _),
            (1, Hierarchy::downgrade),
        ] {
            for write in [false, true] {
                caches.fill(0, line, State::Exclusive);
                caches.access(0, line, write);
                let state = take(&mut caches, line);
                n_written += u64::from(state == Some(State::Modified));
            }
        }
        // All of one set of the second level.
        for line in (0..8).map(|k| 4 * k) {
            let written = caches.fill(0, line, State::Exclusive);
            n_written += u64::from(written.is_some_and(|(_, dirty)| dirty));
            caches.access(0, line, true);
        }
        assert_eq!(n_written, 6);
        assert_eq!(caches.stats().l2.write_backs, n_written);
    }

    #[test]
    fn cores_of_a_node_read_a_line_together_and_write_it_alone() {
        let mut caches = tiny();
        caches.fill(0, 1, State::Modified);
        assert_eq!(caches.access(1, 1, false), Found::Neighbour);
        assert_eq!(caches.access(2, 1, false), Found::Second);
        assert_eq!(caches.access(0, 1, false), Found::First);
        assert_eq!(caches.access(2, 1, true), Found::Neighbour);
        assert_eq!(caches.access(2, 1, true), Found::First);
        assert_eq!(caches.firsts[0].peek(1), None);
        assert_eq!(caches.access(0, 1, true), Found::Neighbour);
        assert_eq!(caches.stats().l1.invalidations, 3);
    }

    proptest! {
        /// The reference knows only what was written since it was last given back: no written line
        /// may get lost; and no core may write a line of which another one has a copy.
        #[test]
        fn no_written_line_leaves_without_being_written_back(
            steps in proptest::collection::vec((0_u8..10, 0_u64..24, 0_usize..3), 1..400),
        ) {
            let mut caches = tiny();
            let mut dirty = HashMap::new();
            for (kind, line, core) in steps {
                match kind {
                    0 => {
                        let state = caches.invalidate(line);
                        prop_assert_eq!(
                            state == Some(State::Modified),
                            dirty.remove(&line).unwrap_or(false)
                        );
                    }
                    1 => {
                        let state = caches.downgrade(line);
                        prop_assert_eq!(
                            state == Some(State::Modified),
                            dirty.remove(&line).unwrap_or(false)
                        );
                    }
                    _ => {
                        let write = kind % 2 == 0;
                        if caches.access(core, line, write) == Found::Nowhere {
                            let state = if write { State::Modified } else { State::Exclusive };
                            if let Some((victim, written)) = caches.fill(core, line, state) {
                                prop_assert_ne!(victim, line);
                                prop_assert_eq!(written, dirty.remove(&victim).unwrap_or(false));
                            }
                        }
                        if write {
                            dirty.insert(line, true);
                        }
                        prop_assert!(caches.firsts[core].peek(line).is_some());
                    }
                }
                for line in 0..24 {
                    let copies = caches.firsts.iter().filter_map(|first| first.peek(line));
                    let copies: Vec<_> = copies.collect();
                    prop_assert!(copies.is_empty() || caches.second.peek(line).is_some());
                    let alone = copies.len() < 2;
                    prop_assert!(alone || copies.iter().all(|&state| state == State::Shared));
                }
            }
        }
    }
}
