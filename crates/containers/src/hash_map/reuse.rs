//! The slots of removed keys are used again ([why](pgas_lockfree::slots::reclaim)), in maps that
//! were made so and whose slots are all local.

use std::mem::{self, ManuallyDrop};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use pgas_core::rma::{Block, Near, NearArray};
use pgas_core::{Error as CoreError, GlobalPtr, OwnWait, Rank, Symmetric, World, in_handler};
use pgas_lockfree::memory::Memory as _;
use pgas_lockfree::slots::reclaim::{self, Blocks};
use pgas_lockfree::slots::sections::{self, Wait};
use pgas_lockfree::word;
use thread_local::ThreadLocal;

use super::hash::Position;
use super::slot::{Access, GlobalSlot};
use super::view::View;
use crate::Result;
use crate::object::{self, KeyHasher, Object, Repr, SlotOf};

/// The threads of a process that have a word of their own.
const N_OWN: usize = 64;

/// Each word has a cache line.
const LINE: usize = 64;

/// The words of one rank's threads, one that the other threads share, and a line for all ranks that
/// is the first one's.
struct Words;

impl Block for Words {
    const BYTES: usize = COMMON + LINE;
    const ALIGN: usize = LINE;
}

/// All words of one rank.
const N_WORDS: usize = N_OWN + 1;

const COMMON: usize = N_WORDS * LINE;

/// Whether a thread empties slots.
const LOCK: usize = COMMON;

/// How often that was begun and ended.
const N_EMPTIED: usize = COMMON + 8;

/// The number of the slot that is looked at next.
const NEXT: usize = COMMON + 16;

/// After how many removals a thread looks for slots to empty.
pub(super) const REMOVALS_PER_RECLAIM: u64 = 128;

/// At how many slots it looks then for each removal: at half load an eighth of the slots may be
/// those of keys that were removed since they were looked at.
const SLOTS_PER_REMOVAL: u64 = 8;

/// At how many slots a thread looks at once that finds no room.
const RECLAIM_CHUNK: u64 = 4096;

/// How long it waits then for other threads' sections, of which one may wait for this thread.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a thread that has removed keys looks whether the sections have ended that were open.
/// One that is open still is most likely that of a thread that does not run.
const MAX_CHECKS: u32 = 100;

/// The sections of the threads of all ranks.
pub(super) struct Sections {
    all: NearArray<Words>,
    /// Those of this rank.
    own: NearArray<Words>,
    /// The numbers of this rank's threads that have words of their own. A thread that has ended
    /// leaves its one to another thread.
    numbers: ThreadLocal<usize>,
    /// How many threads have come.
    n_threads: AtomicUsize,
    /// How many keys have lost their slots, by this rank.
    n_emptied: AtomicU64,
    _memory: Symmetric<u8>,
}

/// A section of this thread.
pub(super) struct Section<'a> {
    words: Near<'a, Words>,
    number: usize,
}

impl Section<'_> {
    #[inline(always)]
    fn begin(&self) {
        let word = self.words.word64(self.number * LINE);
        if self.number < N_OWN {
            sections::open(word);
        } else {
            sections::open_shared(word);
        }
    }

    #[inline(always)]
    fn end(&self) {
        let word = self.words.word64(self.number * LINE);
        if self.number < N_OWN {
            sections::close(word);
        } else {
            sections::close_shared(word);
        }
    }

    /// How many are open within each other, if that is known.
    fn n_open(&self) -> u64 {
        let word = self.words.word64(self.number * LINE);
        if self.number < N_OWN {
            sections::n_open(word.load(Relaxed))
        } else {
            0
        }
    }
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

impl Sections {
    /// Nothing if not all words are near. Collective.
    #[track_caller]
    pub(super) fn new(world: &World) -> Result<Option<Self>> {
        let memory = world.alloc_symmetric::<u8>(Words::BYTES + LINE - 1)?;
        let start = memory.here().offset_bytes().next_multiple_of(LINE as u64);
        let own = world.near_run(GlobalPtr::new(world.rank(), start), 1);
        let both = world.near_array(start, 1).zip(own);
        Ok(both.map(|(all, own)| Self {
            all,
            own,
            numbers: ThreadLocal::new(),
            n_threads: AtomicUsize::new(0),
            n_emptied: AtomicU64::new(0),
            _memory: memory,
        }))
    }

    #[inline(always)]
    pub(super) fn open(&self) -> Section<'_> {
        let section = self.own();
        section.begin();
        section
    }

    /// That of this thread, as if it were open.
    #[inline(always)]
    fn own(&self) -> Section<'_> {
        let words = self.own.block(0, 0);
        let number = *self
            .numbers
            .get_or(|| self.n_threads.fetch_add(1, Relaxed).min(N_OWN));
        Section { words, number }
    }

    /// What `look` finds, which changes nothing, unless slots were emptied meanwhile.
    #[inline]
    pub(super) fn read_optimistically<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let common = self.all.block(0, 0);
        sections::read_optimistically(common.word64(N_EMPTIED), read)
    }

    /// For slots that nobody has used.
    pub(super) fn begin(&self) {
        self.n_emptied.store(0, Relaxed);
    }

    /// How many keys have lost their slots, by this rank.
    pub(super) fn n_emptied(&self) -> u64 {
        self.n_emptied.load(Relaxed)
    }

    /// How often slots were emptied, by all ranks.
    fn n_emptyings(&self) -> u64 {
        word::load(self.all.block(0, 0).word64(N_EMPTIED))
    }

    /// The right to empty slots, unless another thread has it.
    fn lock(&self) -> Option<ReclaimLock<'_>> {
        let common = self.all.block(0, 0);
        let taken = word::compare_exchange(common.word64(LOCK), 0, 1);
        // Made only by who has it: its end gives it back.
        taken.is_ok().then(|| ReclaimLock { common })
    }

    /// Whether all sections have ended that are open now; asks as long as `go_on` says so.
    fn have_ended(&self, go_on: &mut dyn FnMut() -> bool) -> bool {
        let load = |i: usize| {
            let words = self.all.block(i / N_WORDS, 0);
            word::load(words.word64(i % N_WORDS * LINE))
        };
        let n = self.all.world().ranks().len() * N_WORDS;
        let mut wait = Wait::new((0..n).map(load));
        while !wait.is_over(load) {
            if !go_on() {
                return false;
            }
        }
        true
    }
}

/// How an operation asks for room.
pub(super) struct Room<'w> {
    /// How long it does.
    end: Instant,
    /// How often slots had been emptied when it asked last.
    n_emptied: u64,
    /// How it waits for others' sections: it serves their messages, for which one may wait, and
    /// notices the end of a rank that had one open.
    wait: OwnWait<'w>,
    /// Why it waits in vain.
    failure: Option<CoreError>,
    /// What is left of the looks of an operation that must not wait so, inside of a handler.
    checks: Range<u32>,
}

impl<'w> Room<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        Self {
            end: Instant::now() + PATIENCE,
            n_emptied: u64::MAX,
            wait: world
                .own_wait("operations on a hash map to end, whose slots are to be used again"),
            failure: None,
            checks: 0..MAX_CHECKS,
        }
    }

    /// Waits a little; whether there is a reason to go on.
    fn may_continue(&mut self) -> bool {
        if in_handler() && self.checks.next().is_some() {
            thread::yield_now();
            return true;
        }
        self.failure = self.wait.pause(&Vec::new).err();
        self.failure.is_none() && Instant::now() < self.end
    }
}

/// The right to empty slots.
struct ReclaimLock<'a> {
    common: Near<'a, Words>,
}

impl Drop for ReclaimLock<'_> {
    fn drop(&mut self) {
        word::swap(self.common.word64(LOCK), 0);
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> Blocks for View<'a, K, V, S, R> {
    fn n_slots(&self, slot: &GlobalSlot<K, V, R>) -> usize {
        self.shape.ring.slots_of(slot.position().block)
    }

    fn block_slot(&self, slot: &GlobalSlot<K, V, R>, index: usize) -> GlobalSlot<K, V, R> {
        self.slot(slot.position().with_index(index))
    }

    fn next_block(&self, slot: &GlobalSlot<K, V, R>) -> GlobalSlot<K, V, R> {
        self.slot(self.shape.ring.next_block(slot.position()))
    }

    fn is_same_block(&self, a: &GlobalSlot<K, V, R>, b: &GlobalSlot<K, V, R>) -> bool {
        a.position().is_same_block(b.position())
    }

    fn n_blocks_passed(&self, taken: &GlobalSlot<K, V, R>) -> Result<usize> {
        let home = self.home_in(taken)?;
        let n_blocks = |home| self.shape.ring.n_blocks_to(home, taken.position());
        Ok(home.map_or(usize::MAX, n_blocks))
    }

    fn passes(&self, taken: &GlobalSlot<K, V, R>, slot: &GlobalSlot<K, V, R>) -> Result<bool> {
        let is_before = |home| {
            self.shape
                .ring
                .is_before(home, slot.position(), taken.position())
        };
        Ok(self.home_in(taken)?.is_none_or(is_before))
    }

    fn key_slot(&self, slot: &GlobalSlot<K, V, R>) -> Result<SlotOf<K>> {
        slot.key()
    }

    fn release_key(&self, key: SlotOf<K>) {
        if object::has_heap::<K>() {
            // What cannot be given back is lost until the map is.
            drop(object::release::<K>(&key, self.heap()));
        }
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Where the search for the key in a slot begins, if the key can be read.
    fn home_in(&self, slot: &GlobalSlot<K, V, R>) -> Result<Option<Position>> {
        let key = <K::Repr as Repr<K>>::key_in(slot.key()?, self.heap());
        Ok(key.ok().map(|key| self.shape.ring.home(self.hash(&key))))
    }

    /// Empties slots of keys that were removed, of the next ones in the ring; whether it could. The
    /// more often it could not before, the longer it waits.
    #[cold]
    #[inline(never)]
    pub(super) fn reclaim_some(&self, sections: &Sections, n_failed: u64) -> bool {
        let mut checks = 0..MAX_CHECKS << n_failed.min(10);
        let go_on = &mut || {
            thread::yield_now();
            checks.next().is_some()
        };
        // Who removes a key within another operation leaves it to others.
        ManuallyDrop::new(sections.own()).n_open() == 0
            && self.reclaim_next(sections, REMOVALS_PER_RECLAIM * SLOTS_PER_REMOVAL, go_on)
    }

    /// Empties the slots of all keys that were removed, for an operation that has found no room;
    /// whether it may find some when it begins again.
    pub(super) fn make_room(&self, sections: &Sections, room: &mut Room<'_>) -> Result<bool> {
        // Who is within another operation is in the way of it himself.
        let is_within = ManuallyDrop::new(sections.own()).n_open() > 0;
        let mut n_left = if is_within {
            0
        } else {
            self.shape.ring.capacity()
        };
        while n_left > 0 && Instant::now() < room.end {
            let n = n_left.min(RECLAIM_CHUNK);
            if self.reclaim_next(sections, n, &mut || room.may_continue()) {
                n_left -= n;
            } else if let Some(failure) = room.failure.take() {
                return Err(failure);
            }
        }
        // By others too, since the operation asked last.
        let before = mem::replace(&mut room.n_emptied, sections.n_emptyings());
        Ok(before != room.n_emptied && Instant::now() < room.end)
    }

    /// Empties those of the next `n` slots whose keys were removed; whether it could.
    fn reclaim_next(&self, sections: &Sections, n: u64, go_on: &mut dyn FnMut() -> bool) -> bool {
        let lock = loop {
            match sections.lock() {
                Some(lock) => break lock,
                None if go_on() => {}
                None => return false,
            }
        };
        let next = lock.common.word64(NEXT);
        let (capacity, first) = (self.shape.ring.capacity(), next.load(Relaxed));
        let n = n.min(capacity);
        let slots: Vec<_> = (first..first + n)
            .map(|i| self.slot_number(i % capacity))
            .collect();
        let count = lock.common.word64(N_EMPTIED);
        // Memory of this process does not fail.
        let emptied = reclaim::empty(self, &slots, count, || sections.have_ended(go_on));
        let Ok(Some(n_emptied)) = emptied else {
            return false;
        };
        next.store((first + n) % capacity, Relaxed);
        sections.n_emptied.fetch_add(n_emptied, Relaxed);
        true
    }

    /// The slot with this number in the ring.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "of a rank, and in its memory"
    )]
    fn slot_number(&self, number: u64) -> GlobalSlot<K, V, R> {
        let n = self.shape.ring.local_capacity() as u64;
        let rank = Rank::new((number / n) as u32);
        self.slot(self.shape.ring.at(rank, (number % n) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_in_vain_for_the_right_to_empty_slots_leaves_it_where_it_is() {
        let ends = pgas_smp::threads(1, |world| {
            let sections = Sections::new(&world).unwrap().unwrap();
            let lock = sections.lock();
            assert!(lock.is_some());
            for _ in 0..3 {
                assert!(sections.lock().is_none());
            }
            drop(lock);
            assert!(sections.lock().is_some());
        });
        ends.unwrap();
    }
}
