//! The two levels of a core's data caches. The second holds all that the first does, so that the directory asks one place.

use serde::Serialize;

use super::cache::{Cache, CacheStats, Line, State};
use super::config::TimedConfig;

/// Where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the first level.
    First,
    /// In the second level.
    Second,
    /// Nowhere, or in a state that does not serve a store: the directory has to be asked.
    Nowhere,
}

/// What the two levels counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HierarchyStats {
    /// The first level.
    pub l1: CacheStats,
    /// The second level.
    pub l2: CacheStats,
}

/// The caches of one core.
#[derive(Debug)]
pub struct Hierarchy {
    first: Cache,
    second: Cache,
}

impl Hierarchy {
    /// Empty caches.
    #[must_use]
    pub fn new(config: &TimedConfig) -> Self {
        Self {
            first: Cache::new(&config.l1, config.line_bytes),
            second: Cache::new(&config.l2, config.line_bytes),
        }
    }

    /// Reads or writes one line. After [`Found::Nowhere`], [`Hierarchy::fill`] brings it.
    #[inline]
    pub fn access(&mut self, line: Line, write: bool) -> Found {
        match self.first.touch(line) {
            Some(state) if !write || state == State::Modified => {
                self.first.stats.hits += 1;
                Found::First
            }
            Some(State::Exclusive) => {
                self.first.stats.hits += 1;
                self.first.set_state(line, State::Modified);
                Found::First
            }
            _ => self.access_second(line, write),
        }
    }

    fn access_second(&mut self, line: Line, write: bool) -> Found {
        self.first.stats.misses += 1;
        match self.second.touch(line) {
            Some(state) if !write || state != State::Shared => {
                self.second.stats.hits += 1;
                self.fill_first(line, if write { State::Modified } else { state });
                Found::Second
            }
            _ => {
                self.second.stats.misses += 1;
                Found::Nowhere
            }
        }
    }

    fn fill_first(&mut self, line: Line, state: State) {
        if let Some((victim, State::Modified)) = self.first.insert(line, state) {
            self.second.set_state(victim, State::Modified);
        }
    }

    /// Brings a line into both levels; gives the line that left both to make room, and whether memory has to be written.
    pub fn fill(&mut self, line: Line, state: State) -> Option<(Line, bool)> {
        // The victim leaves the first level before the new line enters it, lest it be evicted from there unnoticed.
        let victim = self.second.insert(line, state).map(|(victim, state)| {
            let inner = self.first.remove(victim);
            let dirty = state == State::Modified || inner == Some(State::Modified);
            (victim, dirty)
        });
        self.fill_first(line, state);
        victim
    }

    /// In what state the core holds `line`.
    #[must_use]
    pub fn state(&self, line: Line) -> Option<State> {
        let outer = self.second.peek(line)?;
        Some(
            self.first
                .peek(line)
                .map_or(outer, |inner| inner.max(outer)),
        )
    }

    /// Takes a line away from both levels; gives its state.
    pub fn invalidate(&mut self, line: Line) -> Option<State> {
        let inner = self.first.remove(line);
        let outer = self.second.remove(line)?;
        Some(inner.map_or(outer, |inner| inner.max(outer)))
    }

    /// Makes a line one that others may read too; gives its state before.
    pub fn downgrade(&mut self, line: Line) -> Option<State> {
        let before = self.state(line)?;
        self.first.set_state(line, State::Shared);
        self.second.set_state(line, State::Shared);
        Some(before)
    }

    /// What both levels counted.
    #[must_use]
    pub fn stats(&self) -> HierarchyStats {
        HierarchyStats {
            l1: self.first.stats,
            l2: self.second.stats,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::timed::config::CacheConfig;

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
        Hierarchy::new(&config)
    }

    #[test]
    fn a_store_to_a_shared_line_asks_the_directory_and_to_an_exclusive_one_does_not() {
        let mut caches = tiny();
        assert_eq!(caches.access(1, false), Found::Nowhere);
        caches.fill(1, State::Shared);
        assert_eq!(caches.access(1, false), Found::First);
        assert_eq!(caches.access(1, true), Found::Nowhere);
        caches.fill(1, State::Exclusive);
        assert_eq!(caches.access(1, true), Found::First);
        assert_eq!(caches.state(1), Some(State::Modified));
    }

    #[test]
    fn a_line_pushed_out_of_the_first_level_is_found_dirty_in_the_second() {
        let mut caches = tiny();
        for line in [0, 2, 4] {
            caches.fill(line, State::Exclusive);
            assert_eq!(caches.access(line, true), Found::First);
        }
        assert_eq!(caches.access(0, false), Found::Second);
        assert_eq!(caches.invalidate(0), Some(State::Modified));
        assert_eq!(caches.invalidate(0), None);
    }

    proptest! {
        /// The reference knows only what was written since it was last given back: no written line may get lost.
        #[test]
        fn no_written_line_leaves_without_being_written_back(
            steps in proptest::collection::vec((0_u8..10, 0_u64..24), 1..400),
        ) {
            let mut caches = tiny();
            let mut dirty = HashMap::new();
            for (kind, line) in steps {
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
                        if caches.access(line, write) == Found::Nowhere {
                            let state = if write { State::Modified } else { State::Exclusive };
                            if let Some((victim, written)) = caches.fill(line, state) {
                                prop_assert_ne!(victim, line);
                                prop_assert_eq!(written, dirty.remove(&victim).unwrap_or(false));
                            }
                        }
                        if write {
                            dirty.insert(line, true);
                        }
                        prop_assert!(caches.first.peek(line).is_some());
                    }
                }
                for line in 0..24 {
                    let inner = caches.first.peek(line);
                    prop_assert!(inner.is_none() || caches.second.peek(line).is_some());
                }
            }
        }
    }
}
