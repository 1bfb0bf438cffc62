//! The tags of a set-associative write-back cache with least-recently-used replacement. Only tags
//! and states are kept: data stands in the node's memory, once.

use serde::Serialize;

use super::config::CacheConfig;

/// A line's number: its address divided by the bytes of a line.
pub type Line = u64;

/// In what state a cache holds a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Others may have it too; may be read.
    Shared,
    /// Nobody else has it; may be written without asking.
    Exclusive,
    /// Nobody else has it, and memory is out of date.
    Modified,
}

impl State {
    const fn bits(self) -> u64 {
        match self {
            Self::Shared => 1,
            Self::Exclusive => 2,
            Self::Modified => 3,
        }
    }

    const fn of(entry: u64) -> Self {
        match entry & STATE_BITS {
            1 => Self::Shared,
            2 => Self::Exclusive,
            _ => Self::Modified,
        }
    }
}

const STATE_BITS: u64 = 3;

/// What a cache counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheStats {
    /// Lookups that found their line in a state that served them.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Lines that made room for others.
    pub evictions: u64,
    /// Evicted or recalled lines that were modified.
    pub write_backs: u64,
    /// Lines taken away by the directory or by an outer level.
    pub invalidations: u64,
}

impl CacheStats {
    /// What two caches counted together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            evictions: self.evictions + other.evictions,
            write_backs: self.write_backs + other.write_backs,
            invalidations: self.invalidations + other.invalidations,
        }
    }
}

/// The tags of one cache.
#[derive(Debug)]
pub struct Cache {
    /// Set after set; in a set the most recently used line first. An entry is a line's number,
    /// shifted, and its state; 0 is empty, and the empty ones of a set come last.
    entries: Vec<u64>,
    ways: usize,
    set_mask: u64,
    /// What it counted.
    pub stats: CacheStats,
}

impl Cache {
    /// An empty cache of that size and associativity.
    ///
    /// # Panics
    /// If the number of sets is not a power of two, which [`super::config::TimedConfig::validate`]
    /// refuses.
    #[must_use]
    pub fn new(config: &CacheConfig, line_bytes: u64) -> Self {
        let ways = super::index(u64::from(config.ways));
        let n_sets = config.bytes / line_bytes / u64::from(config.ways);
        assert!(
            n_sets.is_power_of_two(),
            "the number of sets is a power of two"
        );
        Self {
            entries: vec![0; super::index(n_sets) * ways],
            ways,
            set_mask: n_sets - 1,
            stats: CacheStats::default(),
        }
    }

    fn set(&mut self, line: Line) -> &mut [u64] {
        let start = super::index(line & self.set_mask) * self.ways;
        &mut self.entries[start..start + self.ways]
    }

    fn find(&self, line: Line) -> Option<usize> {
        let start = super::index(line & self.set_mask) * self.ways;
        let entries = &self.entries[start..start + self.ways];
        let way = entries.iter().position(|&entry| holds(entry, line))?;
        Some(start + way)
    }

    /// The state of `line`, which becomes the most recently used of its set; counts nothing.
    pub fn touch(&mut self, line: Line) -> Option<State> {
        let set = self.set(line);
        if holds(set[0], line) {
            return Some(State::of(set[0]));
        }
        let way = set.iter().position(|&entry| holds(entry, line))?;
        set[..=way].rotate_right(1);
        Some(State::of(set[0]))
    }

    /// The state of `line`, without using it.
    #[must_use]
    pub fn peek(&self, line: Line) -> Option<State> {
        self.find(line).map(|at| State::of(self.entries[at]))
    }

    /// Puts a line that is present into another state.
    pub fn set_state(&mut self, line: Line, state: State) {
        if let Some(at) = self.find(line) {
            self.entries[at] = pack(line, state);
        }
    }

    /// Brings a line in, or puts it into `state` if it is present, as the most recently used; gives
    /// the line that had to go.
    pub fn insert(&mut self, line: Line, state: State) -> Option<(Line, State)> {
        if self.touch(line).is_some() {
            self.set(line)[0] = pack(line, state);
            return None;
        }
        let set = self.set(line);
        set.rotate_right(1);
        let victim = std::mem::replace(&mut set[0], pack(line, state));
        if victim == 0 {
            return None;
        }
        self.stats.evictions += 1;
        let state = State::of(victim);
        self.stats.write_backs += u64::from(state == State::Modified);
        Some((victim >> 2, state))
    }

    /// Takes a line away; gives its state if it was present.
    pub fn remove(&mut self, line: Line) -> Option<State> {
        let set = self.set(line);
        let way = set.iter().position(|&entry| holds(entry, line))?;
        let state = State::of(set[way]);
        set[way] = 0;
        set[way..].rotate_left(1);
        self.stats.invalidations += 1;
        self.stats.write_backs += u64::from(state == State::Modified);
        Some(state)
    }
}

const fn pack(line: Line, state: State) -> u64 {
    line << 2 | state.bits()
}

const fn holds(entry: u64, line: Line) -> bool {
    entry >> 2 == line && entry != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> Cache {
        let config = CacheConfig {
            bytes: 1024,
            ways: 4,
            hit_cycles: 1,
        };
        Cache::new(&config, 64)
    }

    #[test]
    fn line_zero_is_not_found_in_an_empty_cache() {
        let mut cache = small();
        assert_eq!(cache.peek(0), None);
        assert_eq!(cache.touch(0), None);
        assert_eq!(cache.insert(0, State::Shared), None);
        assert_eq!(cache.peek(0), Some(State::Shared));
    }

    #[test]
    fn the_least_recently_used_line_makes_room() {
        let mut cache = small();
        for line in [0, 4, 8, 12] {
            assert_eq!(cache.insert(line, State::Exclusive), None);
        }
        assert_eq!(cache.touch(0), Some(State::Exclusive));
        cache.set_state(4, State::Modified);
        assert_eq!(cache.insert(16, State::Shared), Some((4, State::Modified)));
        assert_eq!(cache.stats.write_backs, 1);
    }

    /// Every set as a list, the most recently used first.
    type Model = Vec<Vec<(Line, State)>>;

    fn take(model: &mut Model, line: Line) -> Option<State> {
        let set = &mut model[super::super::index(line % 4)];
        let at = set.iter().position(|&(held, _)| held == line)?;
        Some(set.remove(at).1)
    }

    fn put(model: &mut Model, line: Line, state: State) -> Option<(Line, State)> {
        let set = &mut model[super::super::index(line % 4)];
        set.insert(0, (line, state));
        (set.len() > 4).then(|| set.pop()).flatten()
    }

    proptest! {
        #[test]
        fn a_cache_behaves_as_lists_of_lines(
            steps in proptest::collection::vec((0_u8..4, 0_u64..40, 0_usize..3), 1..300),
        ) {
            let states = [State::Shared, State::Exclusive, State::Modified];
            let mut cache = small();
            let mut model: Model = vec![Vec::new(); 4];
            for (kind, line, state) in steps {
                let state = states[state];
                match kind {
                    0 => {
                        let held = take(&mut model, line);
                        if let Some(held) = held {
                            put(&mut model, line, held);
                        }
                        prop_assert_eq!(cache.touch(line), held);
                    }
                    1 => {
                        take(&mut model, line);
                        prop_assert_eq!(cache.insert(line, state), put(&mut model, line, state));
                    }
                    2 => prop_assert_eq!(cache.remove(line), take(&mut model, line)),
                    _ => {
                        for held in &mut model[super::super::index(line % 4)] {
                            if held.0 == line {
                                held.1 = state;
                            }
                        }
                        cache.set_state(line, state);
                    }
                }
                for set in &model {
                    for &(line, state) in set {
                        prop_assert_eq!(cache.peek(line), Some(state));
                    }
                }
                let held = cache.entries.iter().filter(|&&entry| entry != 0).count();
                prop_assert_eq!(held, model.iter().map(Vec::len).sum::<usize>());
            }
        }
    }
}
