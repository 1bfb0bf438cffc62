//! The NIC of a node: a small core that executes remote operations on a direct-mapped cache of its
//! own, with MSHRs that gather the requests for a line while it is fetched.
//!
//! A line's place in the cache belongs to one entry of the MSHRs from the first request that misses
//! until nothing is pending for it, so looking there finds the entry too; only an entry whose place
//! is taken by another line is searched for.

pub mod mapping;
pub mod mshr;

use serde::Serialize;

use super::cache::Line;
use super::config::{LinePolicy, TimedConfig};
use super::directory::Right;
use super::time::{Clock, Time};
use mshr::{Entry, Mshrs, Phase, Subentry};

/// What the NIC counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NicStats {
    /// Requests that it took.
    pub requests: u64,
    /// Requests whose line was there.
    pub hits: u64,
    /// Requests that had a line fetched.
    pub misses: u64,
    /// Requests that joined others that wait for their line.
    pub merged: u64,
    /// Times that a request found no entry or subentry, and the input had to wait.
    pub stalls: u64,
    /// Entries that waited for another line to leave their place in the cache.
    pub displaced: u64,
    /// Lines given up: invalidated when idle, evicted, or recalled.
    pub releases: u64,
    /// Lines written back among these.
    pub write_backs: u64,
    /// The most entries in use.
    pub most_entries: u64,
    /// The most requests that waited for one line.
    pub most_subentries: u64,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is executed; the result can leave at that time.
    Run(Time),
    /// It waits with others.
    Waits,
    /// It waits, and the entry has to ask the directory; the line given up for it, if any, has to
    /// be written back.
    Fetch(u8, Option<Released>),
    /// There is no room: it stays where it is until something has been executed or released.
    Full,
}

/// A line that the NIC no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The line.
    pub line: Line,
    /// Whether memory is out of date.
    pub dirty: bool,
}

/// What looking at an entry that may be idle shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// The entry waits for the directory, which comes back to it.
    NotYet,
    /// Something is being executed until then.
    BusyUntil(Time),
    /// The line stays in the cache, without an entry.
    Kept,
    /// The line is given up.
    Released {
        /// The line.
        released: Released,
        /// Whether the core recalled it.
        recalled: bool,
        /// Whether requests have come since the core recalled it, so that the entry has to ask the
        /// directory again.
        again: bool,
    },
}

const NO_ENTRY: u8 = u8::MAX;

/// A place in the cache.
#[derive(Clone, Copy, Debug)]
struct Slot {
    line: Option<Line>,
    right: Right,
    /// The entry that works on or waits for a line in this place.
    entry: u8,
    /// Entries that want this place next.
    n_displaced: u8,
}

/// The NIC of one node.
#[derive(Debug)]
pub struct Nic {
    slots: Vec<Slot>,
    mshrs: Mshrs,
    policy: LinePolicy,
    operation: Time,
    hit: Time,
    /// When its core can begin the next operation.
    free: Time,
    /// What it counted.
    pub stats: NicStats,
}

impl Nic {
    /// A NIC with an empty cache.
    #[must_use]
    pub fn new(config: &TimedConfig) -> Self {
        let clock = Clock::from_mhz(config.core.clock_mhz);
        let slot = Slot {
            line: None,
            right: Right::Shared,
            entry: NO_ENTRY,
            n_displaced: 0,
        };
        let n_slots = super::index(config.nic.cache_bytes / config.line_bytes);
        let n_entries = u8::try_from(config.nic.mshr_entries).unwrap_or(NO_ENTRY - 1);
        Self {
            slots: vec![slot; n_slots],
            mshrs: Mshrs::new(n_entries, config.nic.mshr_subentries),
            policy: config.nic.policy,
            operation: clock.cycles(config.nic.operation_cycles),
            hit: clock.cycles(config.nic.hit_cycles),
            free: Time::ZERO,
            stats: NicStats::default(),
        }
    }

    /// The registers.
    #[must_use]
    pub fn mshrs(&self) -> &Mshrs {
        &self.mshrs
    }

    /// How the NIC holds `line`.
    #[must_use]
    pub fn right(&self, line: Line) -> Option<Right> {
        let slot = &self.slots[self.slot_of(line)];
        (slot.line == Some(line)).then_some(slot.right)
    }

    /// Takes a request for `line`.
    pub fn accept(&mut self, now: Time, line: Line, request: Subentry, writes: bool) -> Accepted {
        let slot = self.slot_of(line);
        let accepted = self.place(now, line, slot, request, writes);
        match accepted {
            Accepted::Full => self.stats.stalls += 1,
            Accepted::Run(_) => self.stats.hits += 1,
            Accepted::Waits | Accepted::Fetch(..) => {}
        }
        self.stats.requests += u64::from(accepted != Accepted::Full);
        accepted
    }

    fn place(
        &mut self,
        now: Time,
        line: Line,
        slot: usize,
        request: Subentry,
        writes: bool,
    ) -> Accepted {
        let Slot {
            line: held,
            right,
            entry,
            n_displaced,
        } = self.slots[slot];
        let serves = held == Some(line) && (right == Right::Exclusive || !writes);
        if entry == NO_ENTRY {
            if serves {
                return Accepted::Run(self.run(now));
            }
            return self.miss(now, line, slot, request, writes);
        }
        let state = *self.mshrs.entry(entry);
        if state.line == line {
            if state.phase == Phase::Present && !state.recalled {
                if serves {
                    let done = self.run(now);
                    self.mshrs.entry_mut(entry).busy_until = done;
                    return Accepted::Run(done);
                }
                return self.upgrade(entry, request);
            }
            return self.merge(entry, request, writes);
        }
        if n_displaced > 0
            && let Some(entry) = self.displaced_for(line)
        {
            return self.merge(entry, request, writes);
        }
        self.displace(now, line, slot, request, writes)
    }

    fn displaced_for(&self, line: Line) -> Option<u8> {
        let mut displaced = self.mshrs.in_phase(Phase::Displaced);
        displaced.find_map(|(at, entry)| (entry.line == line).then_some(at))
    }

    /// The NIC's core executes one operation, as soon as it can after `now`; gives when the result
    /// is there.
    fn run(&mut self, now: Time) -> Time {
        let start = now.max(self.free);
        self.free = start + self.operation;
        start + self.hit
    }

    fn merge(&mut self, entry: u8, request: Subentry, writes: bool) -> Accepted {
        if !self.push(entry, request, writes) {
            return Accepted::Full;
        }
        self.stats.merged += 1;
        Accepted::Waits
    }

    fn push(&mut self, entry: u8, request: Subentry, writes: bool) -> bool {
        let room = self.mshrs.push(entry, request, writes);
        let n_waiting = u64::from(self.mshrs.n_waiting(entry));
        self.stats.most_subentries = self.stats.most_subentries.max(n_waiting);
        room
    }

    fn allocate(&mut self, now: Time, line: Line, phase: Phase) -> Option<u8> {
        let entry = self.mshrs.allocate(now, line, phase)?;
        let n_used = self.mshrs.n_used() as u64;
        self.stats.most_entries = self.stats.most_entries.max(n_used);
        Some(entry)
    }

    /// The place is free, or holds an idle line, which goes, or this line without the right to
    /// write.
    fn miss(
        &mut self,
        now: Time,
        line: Line,
        slot: usize,
        request: Subentry,
        writes: bool,
    ) -> Accepted {
        let Some(entry) = self.allocate(now, line, Phase::Fetching) else {
            return Accepted::Full;
        };
        let has_room = self.push(entry, request, writes);
        debug_assert!(has_room, "a new entry has a subentry");
        self.stats.misses += 1;
        self.slots[slot].entry = entry;
        Accepted::Fetch(entry, self.evict(slot, line))
    }

    /// The line is there to be read, and a request wants to write.
    fn upgrade(&mut self, entry: u8, request: Subentry) -> Accepted {
        if !self.push(entry, request, true) {
            return Accepted::Full;
        }
        self.stats.misses += 1;
        self.mshrs.entry_mut(entry).phase = Phase::Fetching;
        Accepted::Fetch(entry, None)
    }

    /// Another line is being worked on in this place.
    fn displace(
        &mut self,
        now: Time,
        line: Line,
        slot: usize,
        request: Subentry,
        writes: bool,
    ) -> Accepted {
        let Some(entry) = self.allocate(now, line, Phase::Displaced) else {
            return Accepted::Full;
        };
        let has_room = self.push(entry, request, writes);
        debug_assert!(has_room, "a new entry has a subentry");
        self.stats.misses += 1;
        self.stats.displaced += 1;
        self.slots[slot].n_displaced += 1;
        Accepted::Waits
    }

    /// Has the idle line in `slot` leave unless it is `line`.
    fn evict(&mut self, slot: usize, line: Line) -> Option<Released> {
        let held = self.slots[slot].line?;
        (held != line).then(|| self.release(slot, held))
    }

    fn release(&mut self, slot: usize, line: Line) -> Released {
        let slot = &mut self.slots[slot];
        slot.line = None;
        let dirty = slot.right == Right::Exclusive;
        self.stats.releases += 1;
        self.stats.write_backs += u64::from(dirty);
        Released { line, dirty }
    }

    /// The entry whose turn it is at the place of `line`.
    #[must_use]
    pub fn entry_for(&self, line: Line) -> Option<u8> {
        let entry = self.slots[self.slot_of(line)].entry;
        (entry != NO_ENTRY && self.mshrs.entry(entry).line == line).then_some(entry)
    }

    /// The right that an entry needs to its line.
    #[must_use]
    pub fn want(&self, entry: u8) -> Right {
        if self.mshrs.entry(entry).writes {
            Right::Exclusive
        } else {
            Right::Shared
        }
    }

    /// The directory has granted an entry its line. Says whether its requests can be executed now
    /// ([`Nic::next_pending`]); otherwise one that writes has come in the meantime, and the entry
    /// has to ask again.
    pub fn filled(&mut self, entry: u8, right: Right) -> bool {
        let line = self.mshrs.entry(entry).line;
        let at = self.slot_of(line);
        let slot = &mut self.slots[at];
        debug_assert_eq!(slot.entry, entry, "a place is filled for its entry");
        slot.line = Some(line);
        slot.right = right;
        let enough = right >= self.want(entry);
        if enough {
            self.mshrs.entry_mut(entry).phase = Phase::Present;
        }
        enough
    }

    /// Begins the next waiting request of a filled entry; gives it, and when its result is there.
    pub fn next_pending(&mut self, now: Time, entry: u8) -> Option<(Subentry, Time)> {
        let request = self.mshrs.pop(entry)?;
        let done = self.run(now);
        self.mshrs.entry_mut(entry).busy_until = done;
        Some((request, done))
    }

    /// Whether somebody has to look for the entry's idleness, and when.
    pub fn close_at(&mut self, entry: u8) -> Option<Time> {
        let state = self.mshrs.entry_mut(entry);
        let first = !std::mem::replace(&mut state.closing, true);
        first.then_some(state.busy_until)
    }

    /// Ends the work on an entry's line if it is idle.
    pub fn close(&mut self, now: Time, entry: u8) -> Idle {
        let Entry {
            line,
            phase,
            recalled,
            busy_until,
            ..
        } = *self.mshrs.entry(entry);
        if phase != Phase::Present {
            self.mshrs.entry_mut(entry).closing = false;
            return Idle::NotYet;
        }
        if busy_until > now {
            return Idle::BusyUntil(busy_until);
        }
        let slot = self.slot_of(line);
        let again = self.mshrs.n_waiting(entry) > 0;
        if again {
            let state = self.mshrs.entry_mut(entry);
            state.phase = Phase::Fetching;
            state.recalled = false;
            state.closing = false;
        } else {
            self.slots[slot].entry = NO_ENTRY;
            self.mshrs.release(entry);
        }
        if self.policy == LinePolicy::Retain && !recalled {
            return Idle::Kept;
        }
        let released = self.release(slot, line);
        Idle::Released {
            released,
            recalled,
            again,
        }
    }

    /// The core wants a line that the NIC holds. Gives it at once if it is idle; otherwise
    /// [`Nic::close`] will.
    pub fn recall(&mut self, line: Line) -> Option<Released> {
        let at = self.slot_of(line);
        let Slot {
            line: held, entry, ..
        } = self.slots[at];
        if held != Some(line) {
            return Some(Released { line, dirty: false });
        }
        if entry != NO_ENTRY {
            let state = self.mshrs.entry_mut(entry);
            if state.phase == Phase::Present {
                state.recalled = true;
                return None;
            }
        }
        Some(self.release(at, line))
    }

    /// An entry that was displaced from the place of `line`, which is free now; it has to ask the
    /// directory, and an idle line leaves that place.
    pub fn next_displaced(&mut self, line: Line) -> Option<(u8, Option<Released>)> {
        let slot = self.slot_of(line);
        if self.slots[slot].n_displaced == 0 || self.slots[slot].entry != NO_ENTRY {
            return None;
        }
        let displaced = self.mshrs.in_phase(Phase::Displaced);
        let (entry, _) = displaced
            .filter(|(_, entry)| self.slot_of(entry.line) == slot)
            .min_by_key(|(_, entry)| entry.order)?;
        let state = self.mshrs.entry_mut(entry);
        state.phase = Phase::Fetching;
        let line = state.line;
        self.slots[slot].n_displaced -= 1;
        self.slots[slot].entry = entry;
        Some((entry, self.evict(slot, line)))
    }

    fn slot_of(&self, line: Line) -> usize {
        super::index(line) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests;
