//! The symmetric allocations of a rank's teams, until they are free again.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::team_id::TeamId;

/// The ledgers of a rank's teams: for each team its symmetric allocations, and the teams that it
/// was split into, in the order in which they were made, which is the same on every member.
///
/// Each entry has a bit: this rank is done with it. For an allocation that means that its handle
/// was dropped; for a split, that all handles on this rank's new team and on its memory were
/// dropped. An entry with the bit on all members is free. A team without handles can make no
/// collective call any more, so its memory goes back to the team that was split.
#[derive(Debug, Default)]
pub(crate) struct Ledgers {
    of_teams: HashMap<TeamId, Ledger>,
    /// By the team that the split made on this rank.
    parts: HashMap<TeamId, Part>,
}

/// The ledger of a team with handles.
#[derive(Debug, Default)]
struct Ledger {
    entries: Vec<Entry>,
    /// The splits since memory was last reclaimed.
    n_splits: usize,
    /// The part that the team belongs to. The team of all ranks belongs to none.
    part: Option<TeamId>,
}

#[derive(Debug)]
enum Entry {
    Memory(Memory),
    /// A split, with the part that this rank got, if it joined a team.
    Split(Option<TeamId>),
}

#[derive(Debug)]
struct Memory {
    range: Range<u64>,
    is_dropped: bool,
    /// Memory of the local heap that is free with this one.
    heirlooms: Vec<Range<u64>>,
}

/// What this rank has of a split: its new team and those that were split from that one in turn. It
/// has no levels, so a program may split each team from the last one without end.
#[derive(Debug, Default)]
struct Part {
    /// The teams with handles.
    teams: HashSet<TeamId>,
    /// The memory of the teams without.
    local: Vec<Range<u64>>,
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

impl Ledgers {
    fn of(&mut self, team: TeamId) -> &mut Ledger {
        self.of_teams.entry(team).or_default()
    }

    pub(crate) fn add(&mut self, team: TeamId, range: Range<u64>) {
        self.of(team).entries.push(Entry::Memory(Memory {
            range,
            is_dropped: false,
            heirlooms: Vec::new(),
        }));
    }

    /// Records a split of `team`; `new` is this rank's new team, if it joins one.
    pub(crate) fn add_split(&mut self, team: TeamId, new: Option<TeamId>) {
        let ledger = self.of(team);
        ledger.entries.push(Entry::Split(new));
        ledger.n_splits += 1;
        if let Some(new) = new {
            self.of(new).part = Some(new);
            self.parts.entry(new).or_default().teams.insert(new);
        }
    }

    /// The number of splits of `team` since memory was last reclaimed.
    pub(crate) fn n_splits(&mut self, team: TeamId) -> usize {
        self.of(team).n_splits
    }

    pub(crate) fn drop_handle(&mut self, team: TeamId, offset: u64) {
        if let Some(memory) = self.memory_at(team, offset) {
            memory.is_dropped = true;
        }
    }

    pub(crate) fn bequeath(&mut self, team: TeamId, offset: u64, blocks: Vec<Range<u64>>) {
        if let Some(memory) = self.memory_at(team, offset) {
            memory.heirlooms.extend(blocks);
        }
    }

    fn memory_at(&mut self, team: TeamId, offset: u64) -> Option<&mut Memory> {
        let entries = self.of(team).entries.iter_mut();
        entries.into_iter().find_map(|entry| match entry {
            Entry::Memory(memory) if memory.range.start == offset => Some(memory),
            Entry::Memory(_) | Entry::Split(_) => None,
        })
    }

    /// The bits of all entries.
    pub(crate) fn dropped(&self, team: TeamId) -> Vec<u64> {
        let entries = self.of_teams.get(&team).map_or(&[][..], |it| &it.entries);
        let mut words = vec![0; entries.len().div_ceil(64)];
        for (i, entry) in entries.iter().enumerate() {
            words[i / 64] |= u64::from(self.is_done_with(entry)) << (i % 64);
        }
        words
    }

    fn is_done_with(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Memory(memory) => memory.is_dropped,
            Entry::Split(None) => true,
            Entry::Split(Some(part)) => self.parts[part].teams.is_empty(),
        }
    }

    /// Whether a reclaim frees memory of teams that were split from `team`, if the other members have
    /// dropped them, too.
    pub(crate) fn frees(&self, team: TeamId) -> bool {
        let entries = self.of_teams.get(&team).map_or(&[][..], |it| &it.entries);
        entries.iter().any(|entry| match entry {
            Entry::Split(Some(part)) => {
                let part = &self.parts[part];
                part.teams.is_empty() && !part.local.is_empty()
            }
            Entry::Split(None) | Entry::Memory(_) => false,
        })
    }

    /// Removes the entries whose bit is set; the bits must be the same on every member.
    pub(crate) fn reclaim(&mut self, team: TeamId, words: &[u64]) -> Freed {
        let mut freed = Freed::default();
        let ledger = self.of(team);
        ledger.n_splits = 0;
        let kept = std::mem::take(&mut ledger.entries);
        for (i, entry) in kept.into_iter().enumerate() {
            match entry {
                entry if words[i / 64] >> (i % 64) & 1 == 0 => self.of(team).entries.push(entry),
                Entry::Memory(memory) => {
                    freed.ranges.push(memory.range);
                    freed.local.extend(memory.heirlooms);
                }
                Entry::Split(part) => {
                    let part = part.and_then(|part| self.parts.remove(&part));
                    freed.local.extend(part.unwrap_or_default().local);
                }
            }
        }
        freed
    }

    /// Ends the ledger of a team that has lost its last handle, and so also all its allocations.
    /// What it has, and the teams that were split from it, fall to the part that it belongs to.
    pub(crate) fn end(&mut self, team: TeamId) {
        let Some(ledger) = self.of_teams.remove(&team) else {
            return;
        };
        let Some(heir) = ledger.part else {
            return;
        };
        let mut part = self.parts.remove(&heir).unwrap_or_default();
        part.teams.remove(&team);
        for entry in ledger.entries {
            match entry {
                Entry::Memory(memory) => {
                    part.local.push(memory.range);
                    part.local.extend(memory.heirlooms);
                }
                Entry::Split(inner) => {
                    let inner = inner.and_then(|inner| self.parts.remove(&inner));
                    let Part { teams, local } = inner.unwrap_or_default();
                    teams
                        .iter()
                        .for_each(|team| self.of(*team).part = Some(heir));
                    part.teams.extend(teams);
                    part.local.extend(local);
                }
            }
        }
        self.parts.insert(heir, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rank;

    fn team(counter: u64) -> TeamId {
        TeamId::new(Rank::ZERO, counter)
    }

    #[test]
    fn the_memory_of_a_team_falls_to_its_parent_when_all_that_was_made_of_it_is_dropped() {
        let mut ledgers = Ledgers::default();
        let (all, child, inner) = (TeamId::WORLD, team(1), team(2));
        ledgers.add_split(all, Some(child));
        ledgers.add(child, 0..64);
        ledgers.bequeath(child, 0, vec![512..576, 640..704]);
        ledgers.add_split(child, Some(inner));
        ledgers.add(inner, 128..192);
        ledgers.drop_handle(child, 0);
        ledgers.add_split(all, None);
        ledgers.add(all, 256..320);
        assert_eq!(ledgers.dropped(all), [0b010]);
        ledgers.end(child);
        assert_eq!(ledgers.dropped(all), [0b010]);
        ledgers.drop_handle(inner, 128);
        assert!(!ledgers.frees(all));
        ledgers.end(inner);
        assert!(ledgers.frees(all) && !ledgers.frees(child));
        assert_eq!(
            (ledgers.dropped(all), ledgers.n_splits(all)),
            (vec![0b011], 2)
        );
        let freed = ledgers.reclaim(all, &[0b011]);
        assert_eq!(freed.ranges, []);
        assert_eq!(freed.local, [0..64, 512..576, 640..704, 128..192]);
        assert_eq!((ledgers.dropped(all), ledgers.n_splits(all)), (vec![0], 0));
        ledgers.drop_handle(all, 256);
        let freed = ledgers.reclaim(all, &[1]);
        assert_eq!(freed.ranges.first(), Some(&(256..320)));
        assert!(ledgers.parts.is_empty() && ledgers.of_teams.len() == 1);
    }

    /// In both orders: each team is dropped before the next one is split, or all at the end.
    #[test]
    fn teams_that_are_each_split_from_the_last_one_leave_one_entry_and_their_memory() {
        const N: u64 = 1000;
        for is_at_once in [true, false] {
            let mut ledgers = Ledgers::default();
            let mut last = TeamId::WORLD;
            for i in 1..N {
                ledgers.add_split(last, Some(team(i)));
                if is_at_once && i > 1 {
                    ledgers.end(last);
                    assert_eq!((ledgers.of_teams.len(), ledgers.parts.len()), (2, 1));
                }
                last = team(i);
                ledgers.add(last, 64 * i..64 * (i + 1));
                ledgers.drop_handle(last, 64 * i);
            }
            (1..N).rev().for_each(|i| ledgers.end(team(i)));
            assert_eq!(ledgers.dropped(TeamId::WORLD), [1]);
            let freed = ledgers.reclaim(TeamId::WORLD, &[1]);
            assert_eq!(freed.local.len() as u64, N - 1);
            assert!(ledgers.parts.is_empty() && ledgers.of_teams.len() == 1);
        }
    }
}
