//! The symmetric allocations of a team, until they are free again.

use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

use crate::locks::lock;

/// The symmetric allocations of a team, and the teams that it was split into, in the order in which
/// they were made, which is the same on every member.
///
/// Each entry has a bit: this rank is done with it. For an allocation that means that its handle
/// was dropped; for a split, that all handles on this rank's new team and on its memory were
/// dropped. An entry with the bit on all members is free. A team without handles can make no
/// collective call any more, so its memory goes back to the team that was split.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    /// The splits since memory was last reclaimed.
    n_splits: usize,
}

#[derive(Debug)]
enum Entry {
    Memory(Memory),
    Split(Option<Part>),
}

#[derive(Debug)]
struct Memory {
    range: Range<u64>,
    is_dropped: bool,
    /// Memory of the local heap that is free with this one.
    heirlooms: Vec<Range<u64>>,
}

/// This rank's new team of a split.
#[derive(Debug)]
pub(crate) struct Part {
    /// Upgrades as long as there are handles on the team.
    pub(crate) handles: Weak<()>,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
}

/// The memory that is free after a reclaim.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    /// The memory of the team's own allocations.
    pub(crate) ranges: Vec<Range<u64>>,
    /// The memory of teams that were split from it, and what was given to any allocation: all in
    /// the local heap.
    pub(crate) local: Vec<Range<u64>>,
}

impl Ledger {
    pub(crate) fn add(&mut self, range: Range<u64>) {
        self.entries.push(Entry::Memory(Memory {
            range,
            is_dropped: false,
            heirlooms: Vec::new(),
        }));
    }

    /// Records a split; `part` is this rank's new team, if it joins one.
    pub(crate) fn add_split(&mut self, part: Option<Part>) {
        self.entries.push(Entry::Split(part));
        self.n_splits += 1;
    }

    /// The number of splits since memory was last reclaimed.
    pub(crate) fn n_splits(&self) -> usize {
        self.n_splits
    }

    pub(crate) fn drop_handle(&mut self, offset: u64) {
        if let Some(memory) = self.memory_at(offset) {
            memory.is_dropped = true;
        }
    }

    pub(crate) fn bequeath(&mut self, offset: u64, blocks: Vec<Range<u64>>) {
        if let Some(memory) = self.memory_at(offset) {
            memory.heirlooms.extend(blocks);
        }
    }

    fn memory_at(&mut self, offset: u64) -> Option<&mut Memory> {
        self.entries.iter_mut().find_map(|entry| match entry {
            Entry::Memory(memory) if memory.range.start == offset => Some(memory),
            Entry::Memory(_) | Entry::Split(_) => None,
        })
    }

    /// The bits of all entries.
    pub(crate) fn dropped(&self) -> Vec<u64> {
        let mut words = vec![0; self.entries.len().div_ceil(64)];
        for (i, entry) in self.entries.iter().enumerate() {
            words[i / 64] |= u64::from(entry.is_dropped()) << (i % 64);
        }
        words
    }

    /// Removes the entries whose bit is set; the bits must be the same on every member.
    pub(crate) fn reclaim(&mut self, words: &[u64]) -> Freed {
        let mut freed = Freed::default();
        let kept = std::mem::take(&mut self.entries);
        self.n_splits = 0;
        for (i, entry) in kept.into_iter().enumerate() {
            if words[i / 64] >> (i % 64) & 1 == 0 {
                self.entries.push(entry);
                continue;
            }
            match entry {
                Entry::Memory(memory) => {
                    freed.ranges.push(memory.range);
                    freed.local.extend(memory.heirlooms);
                }
                Entry::Split(part) => {
                    if let Some(part) = part {
                        lock(&part.ledger).empty(&mut freed);
                    }
                }
            }
        }
        freed
    }

    /// Removes all entries of a team without handles.
    fn empty(&mut self, freed: &mut Freed) {
        for entry in self.entries.drain(..) {
            match entry {
                Entry::Memory(memory) => {
                    freed.local.push(memory.range);
                    freed.local.extend(memory.heirlooms);
                }
                Entry::Split(Some(part)) => lock(&part.ledger).empty(freed),
                Entry::Split(None) => {}
            }
        }
    }
}

impl Entry {
    /// Whether this rank is done with it.
    fn is_dropped(&self) -> bool {
        match self {
            Self::Memory(memory) => memory.is_dropped,
            Self::Split(part) => part.as_ref().is_none_or(Part::is_dropped),
        }
    }
}

impl Part {
    fn is_dropped(&self) -> bool {
        // A handle on memory has a handle on its team.
        self.handles.strong_count() == 0 && lock(&self.ledger).entries.iter().all(Entry::is_dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> (Arc<()>, Part) {
        let handle = Arc::new(());
        let (handles, ledger) = (Arc::downgrade(&handle), Arc::default());
        (handle, Part { handles, ledger })
    }

    #[test]
    fn the_memory_of_a_team_falls_to_its_parent_when_all_that_was_made_of_it_is_dropped() {
        let mut ledger = Ledger::default();
        let ((handle, child), (inner_handle, inner)) = (part(), part());
        lock(&inner.ledger).add(128..192);
        let inner_ledger = Arc::clone(&inner.ledger);
        lock(&child.ledger).add(0..64);
        lock(&child.ledger).bequeath(0, vec![512..576, 640..704]);
        lock(&child.ledger).add_split(Some(inner));
        lock(&child.ledger).drop_handle(0);
        ledger.add_split(Some(child));
        ledger.add_split(None);
        ledger.add(256..320);
        assert_eq!(ledger.dropped(), [0b010]);
        drop(handle);
        assert_eq!(ledger.dropped(), [0b010]);
        drop(inner_handle);
        lock(&inner_ledger).drop_handle(128);
        assert_eq!((ledger.dropped(), ledger.n_splits()), (vec![0b011], 2));
        let freed = ledger.reclaim(&[0b011]);
        assert_eq!(freed.ranges, []);
        assert_eq!(freed.local, [0..64, 512..576, 640..704, 128..192]);
        assert_eq!((ledger.dropped(), ledger.n_splits()), (vec![0], 0));
        ledger.drop_handle(256);
        assert_eq!(ledger.reclaim(&[1]).ranges.first(), Some(&(256..320)));
    }
}
