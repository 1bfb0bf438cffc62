//! The extended miss-status holding registers: which lines the NIC waits for or works on, and which
//! requests wait for each.

use crate::timed::cache::Line;
use crate::timed::time::Time;

/// A request that waits for its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subentry {
    /// The operation's code (see [`super::mapping`]).
    pub code: u8,
    /// The packet that brought it.
    pub packet: u32,
}

/// What an entry is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing: it is unused.
    Free,
    /// Waits for its place in the cache, where another line is being worked on.
    Displaced,
    /// Waits for the directory.
    Fetching,
    /// Its line is in the cache.
    Present,
}

/// The registers of one line.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The line.
    pub line: Line,
    /// What it is doing.
    pub phase: Phase,
    /// The W bit: some request will modify the line.
    pub writes: bool,
    /// The core wants the line: no further request is to be executed before it had it.
    pub recalled: bool,
    /// Whether somebody will look whether the line is idle.
    pub closing: bool,
    /// When the last execution that has begun will be over.
    pub busy_until: Time,
    /// When it was allocated.
    pub since: Time,
    /// Counts allocations.
    pub order: u64,
    head: u32,
    len: u32,
}

/// All entries with their subentries.
#[derive(Debug)]
pub struct Mshrs {
    entries: Vec<Entry>,
    /// A ring of subentries for each entry.
    subentries: Vec<Subentry>,
    per_entry: u32,
    free: Vec<u8>,
    n_allocated: u64,
}

impl Mshrs {
    /// Unused registers.
    #[must_use]
    pub fn new(n_entries: u8, per_entry: u32) -> Self {
        let entry = Entry {
            line: 0,
            phase: Phase::Free,
            writes: false,
            recalled: false,
            closing: false,
            busy_until: Time::ZERO,
            since: Time::ZERO,
            order: 0,
            head: 0,
            len: 0,
        };
        let n_subentries = usize::from(n_entries) * per_entry as usize;
        Self {
            entries: vec![entry; usize::from(n_entries)],
            subentries: vec![Subentry::default(); n_subentries],
            per_entry,
            free: (0..n_entries).rev().collect(),
            n_allocated: 0,
        }
    }

    /// Takes an entry for `line`; nothing if all are in use.
    pub fn allocate(&mut self, now: Time, line: Line, phase: Phase) -> Option<u8> {
        let entry = self.free.pop()?;
        self.n_allocated += 1;
        self.entries[usize::from(entry)] = Entry {
            line,
            phase,
            writes: false,
            recalled: false,
            closing: false,
            busy_until: now,
            since: now,
            order: self.n_allocated,
            head: 0,
            len: 0,
        };
        Some(entry)
    }

    /// Gives an entry back.
    pub fn release(&mut self, entry: u8) {
        self.entries[usize::from(entry)].phase = Phase::Free;
        self.free.push(entry);
    }

    /// An entry.
    #[must_use]
    pub fn entry(&self, entry: u8) -> &Entry {
        &self.entries[usize::from(entry)]
    }

    /// An entry, to change it.
    pub fn entry_mut(&mut self, entry: u8) -> &mut Entry {
        &mut self.entries[usize::from(entry)]
    }

    /// How many entries are in use.
    #[must_use]
    pub fn n_used(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// How many requests wait in an entry.
    #[must_use]
    pub fn n_waiting(&self, entry: u8) -> u32 {
        self.entry(entry).len
    }

    /// Adds a request behind the others of an entry; says whether there was room.
    #[must_use]
    pub fn push(&mut self, entry: u8, subentry: Subentry, writes: bool) -> bool {
        let per_entry = self.per_entry;
        let state = self.entry_mut(entry);
        if state.len == per_entry {
            return false;
        }
        let place = (state.head + state.len) % per_entry;
        state.len += 1;
        state.writes |= writes;
        let start = u32::from(entry) * per_entry;
        self.subentries[(start + place) as usize] = subentry;
        true
    }

    /// Takes the first request of an entry out.
    pub fn pop(&mut self, entry: u8) -> Option<Subentry> {
        let per_entry = self.per_entry;
        let state = self.entry_mut(entry);
        if state.len == 0 {
            return None;
        }
        let place = state.head;
        state.head = (state.head + 1) % per_entry;
        state.len -= 1;
        Some(self.subentries[(u32::from(entry) * per_entry + place) as usize])
    }

    /// The entries in `phase` with their numbers.
    pub fn in_phase(&self, phase: Phase) -> impl Iterator<Item = (u8, &Entry)> {
        (0_u8..)
            .zip(&self.entries)
            .filter(move |(_, entry)| entry.phase == phase)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn subentries_of_25_bits_are_the_buffer_that_the_paper_reports() {
        // 64 entries of 64 subentries with 4 bits of operation and 21 others.
        assert_eq!(64 * 64 * (4 + 21) / 8, 12_800);
        assert_eq!(Mshrs::new(64, 64).subentries.len(), 64 * 64);
    }

    proptest! {
        #[test]
        fn entries_behave_as_queues_of_bounded_length(
            steps in proptest::collection::vec((0_u8..5, 0_u8..4, any::<bool>()), 1..300),
        ) {
            let mut mshrs = Mshrs::new(3, 4);
            let mut model: Vec<Option<(VecDeque<u32>, bool)>> = vec![None; 3];
            for (packet, (kind, which, writes)) in (0_u32..).zip(steps) {
                let used: Vec<u8> = (0_u8..3).filter(|&at| model[usize::from(at)].is_some()).collect();
                prop_assert_eq!(mshrs.n_used(), used.len());
                if kind == 0 || used.is_empty() {
                    let entry = mshrs.allocate(Time::ZERO, u64::from(packet), Phase::Fetching);
                    prop_assert_eq!(entry.is_none(), used.len() == 3);
                    if let Some(entry) = entry {
                        prop_assert!(!used.contains(&entry));
                        model[usize::from(entry)] = Some((VecDeque::new(), false));
                    }
                    continue;
                }
                let entry = used[usize::from(which) % used.len()];
                let (queue, modified) = model[usize::from(entry)].as_mut().unwrap();
                match kind {
                    1 if queue.is_empty() => {
                        mshrs.release(entry);
                        model[usize::from(entry)] = None;
                    }
                    2 | 3 => {
                        let subentry = Subentry { code: 1, packet };
                        let room = mshrs.push(entry, subentry, writes);
                        prop_assert_eq!(room, queue.len() < 4);
                        if room {
                            queue.push_back(packet);
                            *modified |= writes;
                        }
                        prop_assert_eq!(mshrs.entry(entry).writes, *modified);
                    }
                    _ => prop_assert_eq!(mshrs.pop(entry).map(|sub| sub.packet), queue.pop_front()),
                }
            }
        }
    }
}
