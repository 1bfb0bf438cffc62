//! Reuse of the slots of removed keys ([why](pgas_lockfree::slots::reclaim)), in maps that enable
//! it and whose slots are all local.

use std::cell::Cell;
use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use pgas_core::process::discard_panic;
use pgas_core::rma::{Block, Near, NearArray};
use pgas_core::{Error as CoreError, GlobalPtr, OwnWait, Symmetric, Team, World, in_handler};
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

/// The threads of a process that have their own section word. Further ones share a word.
const N_OWN: usize = 64;

/// Bytes of a cache line. Each word has one of its own.
const LINE: usize = 64;

/// The section words of one rank: one for each of the first threads, and one that all further
/// threads share. Behind them a cache line for all ranks, of which only the first rank's is used.
struct Words;

impl Block for Words {
    const BYTES: usize = COMMON + LINE;
    const ALIGN: usize = LINE;
}

/// Section words of one rank.
const N_WORDS: usize = N_OWN + 1;

const COMMON: usize = N_WORDS * LINE;

/// The lock of the thread that reclaims slots.
const LOCK: usize = COMMON;

/// Counts the begins and ends of reclaims.
const N_EMPTIED: usize = COMMON + 8;

/// The number of the slot behind the ones that the next reclaim takes. Reclaims go around
/// backwards: the slots behind were examined just before, and have free ones among them.
const NEXT: usize = COMMON + 16;

/// Counts the keys that have lost their slots.
const N_VACATED: usize = COMMON + 24;

/// A thread reclaims slots after this number of removals.
pub(super) const REMOVALS_PER_RECLAIM: u64 = 128;

/// Slots examined for each removal. At half load an eighth of the slots may be those of keys
/// removed since the last examination.
const SLOTS_PER_REMOVAL: u64 = 8;

/// Slots examined at once by a thread that found no room.
const RECLAIM_CHUNK: u64 = 4096;

/// Blocks behind reclaimed slots that are searched for a free one. A reclaim that comes around to
/// the last slot searches all.
const N_BEHIND: usize = 64;

/// A thread that found no room waits this long for other threads' sections, one of which may wait
/// for this thread.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A thread that has removed keys checks this often whether the open sections have ended. A section
/// that stays open longer most likely belongs to a thread that is not running.
const MAX_CHECKS: u32 = 100;

/// The section words of the threads of all ranks.
pub(super) struct Sections {
    all: NearArray<Words>,
    /// The words of this rank.
    own: NearArray<Words>,
    n_ranks: usize,
    /// What this rank's threads know of their sections. A thread that ends leaves it to another
    /// thread.
    threads: ThreadLocal<OfThread>,
    /// Threads that have asked for a number.
    n_threads: AtomicUsize,
    /// Keys whose slots this rank has reclaimed.
    n_emptied: AtomicU64,
    _memory: Symmetric<u8>,
}

/// What a thread knows of its sections.
struct OfThread {
    /// The number of its word.
    number: usize,
    /// Its open sections on a shared word, which does not tell whose they are.
    n_open: Cell<u64>,
}

/// An open section of this thread.
pub(super) struct Section<'a> {
    words: Near<'a, Words>,
    thread: &'a OfThread,
}

impl Section<'_> {
    #[inline(always)]
    fn begin(&self) {
        let word = self.words.word64(self.thread.number * LINE);
        if self.thread.number < N_OWN {
            sections::open(word);
        } else {
            sections::open_shared(word);
            self.thread.n_open.update(|n| n + 1);
        }
    }
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        let word = self.words.word64(self.thread.number * LINE);
        if self.thread.number < N_OWN {
            sections::close(word);
        } else {
            self.thread.n_open.update(|n| n - 1);
            sections::close_shared(word);
        }
    }
}

impl Sections {
    /// Allocates the section words. `None` if this process does not reach all of them directly.
    /// Collective.
    #[track_caller]
    pub(super) fn new(team: &Team) -> Result<Option<Self>> {
        let memory = team.alloc_symmetric::<u8>(Words::BYTES + LINE - 1)?;
        let start = memory.here().offset_bytes().next_multiple_of(LINE as u64);
        let world = team.world();
        let own = world.near_run(GlobalPtr::new(world.rank(), start), 1);
        let both = team.near_array(start, 1).zip(own);
        Ok(both.map(|(all, own)| Self {
            all,
            own,
            n_ranks: team.n_ranks() as usize,
            threads: ThreadLocal::new(),
            n_threads: AtomicUsize::new(0),
            n_emptied: AtomicU64::new(0),
            _memory: memory,
        }))
    }

    #[inline(always)]
    pub(super) fn open(&self) -> Section<'_> {
        let (words, thread) = (self.own.block(0, 0), self.thread());
        let section = Section { words, thread };
        section.begin();
        section
    }

    /// Whether this thread has open sections.
    pub(super) fn are_open_here(&self) -> bool {
        let OfThread { number, n_open } = self.thread();
        let n_open = if *number < N_OWN {
            let word = self.own.block(0, 0).word64(number * LINE).load(Relaxed);
            sections::n_open(word)
        } else {
            n_open.get()
        };
        n_open > 0
    }

    #[inline(always)]
    fn thread(&self) -> &OfThread {
        self.threads.get_or(|| OfThread {
            number: self.n_threads.fetch_add(1, Relaxed).min(N_OWN),
            n_open: Cell::new(0),
        })
    }

    /// Runs the lookup `read`. `None` if slots were reclaimed meanwhile.
    #[inline]
    pub(super) fn read_optimistically<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let common = self.all.block(0, 0);
        sections::read_optimistically(common.word64(N_EMPTIED), read)
    }

    /// Resets the count, for unused slots.
    pub(super) fn begin(&self) {
        self.n_emptied.store(0, Relaxed);
    }

    /// The number of keys whose slots this rank has reclaimed.
    pub(super) fn n_emptied(&self) -> u64 {
        self.n_emptied.load(Relaxed)
    }

    /// The number of keys whose slots all ranks have reclaimed.
    fn n_vacated(&self) -> u64 {
        word::load(self.all.block(0, 0).word64(N_VACATED))
    }

    /// Takes the reclaim lock, unless another thread holds it.
    fn lock(&self) -> Option<ReclaimLock<'_>> {
        let common = self.all.block(0, 0);
        let taken = word::compare_exchange(common.word64(LOCK), 0, 1);
        // Only the holder makes the guard: its drop releases the lock.
        taken.is_ok().then(|| ReclaimLock { common })
    }

    /// Waits until all sections that are open now have ended. Returns false if `go_on` gives up
    /// first.
    fn have_ended(&self, go_on: &mut dyn FnMut() -> bool) -> bool {
        let load = |i: usize| {
            let words = self.all.block(i / N_WORDS, 0);
            word::load(words.word64(i % N_WORDS * LINE))
        };
        let n = self.n_ranks * N_WORDS;
        let mut wait = Wait::new((0..n).map(load));
        while !wait.is_over(load) {
            if !go_on() {
                return false;
            }
        }
        true
    }
}

/// A count that reclaims never reach.
const NO_ATTEMPT: u64 = u64::MAX;

/// The state of an operation that waits for room.
pub(super) struct Room<'w> {
    /// The deadline.
    end: Instant,
    /// The count of vacated slots at its last attempt, or [`NO_ATTEMPT`].
    n_vacated: u64,
    /// The wait for others' sections. It serves their messages, for which one of them may wait, and
    /// notices the death of a rank with an open section.
    wait: OwnWait<'w>,
    /// Why the wait failed.
    failure: Option<CoreError>,
    /// Checks that are left inside of a handler, where an operation must not wait.
    checks: Range<u32>,
}

impl<'w> Room<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        Self {
            end: Instant::now() + PATIENCE,
            n_vacated: NO_ATTEMPT,
            wait: world
                .own_wait("operations on a hash map whose slots are used again")
                .with_short_rounds(),
            failure: None,
            checks: 0..MAX_CHECKS,
        }
    }

    /// Waits a little. Returns whether to go on.
    fn may_continue(&mut self) -> bool {
        if in_handler() && self.checks.next().is_some() {
            thread::yield_now();
            return true;
        }
        self.failure = self.wait.pause(&Vec::new).err();
        self.failure.is_none() && Instant::now() < self.end
    }
}

/// A guard of the reclaim lock.
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
            // Memory that cannot be released is lost until the map is dropped.
            drop(object::release::<K>(&key, self.heap()));
        }
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// The home slot of the key in `slot`, if the key can be read and hashed. A panic of the hasher
    /// must not end the operation that reclaims: it is about another key, and may have changed the
    /// map.
    fn home_in(&self, slot: &GlobalSlot<K, V, R>) -> Result<Option<Position>> {
        let Ok(key) = <K::Repr as Repr<K>>::load(slot.key()?, self.heap()) else {
            return Ok(None);
        };
        let hash = catch_unwind(AssertUnwindSafe(|| self.hash(&key)));
        let hash = hash.map_err(discard_panic).ok();
        Ok(hash.map(|hash| self.shape.ring.home(hash)))
    }

    /// Reclaims the slots of removed keys among the next slots of the ring. Returns whether it
    /// could. The more often it failed before, the longer it waits.
    #[cold]
    #[inline(never)]
    pub(super) fn reclaim_some(&self, sections: &Sections, n_failed: u64) -> bool {
        let mut checks = 0..MAX_CHECKS << n_failed.min(10);
        let go_on = &mut || {
            thread::yield_now();
            checks.next().is_some()
        };
        // Inside of another operation, leave the reclaim to other threads.
        let n = REMOVALS_PER_RECLAIM * SLOTS_PER_REMOVAL;
        !sections.are_open_here() && self.reclaim_next(sections, n, true, go_on).is_some()
    }

    /// Reclaims slots of removed keys, for an operation that found no room: it visits all slots, so
    /// a few will do. Returns whether it may find room when it begins again.
    pub(super) fn make_room(&self, sections: &Sections, room: &mut Room<'_>) -> Result<bool> {
        // Inside of another operation this thread's own section would block the reclaim.
        let mut n_left = if sections.are_open_here() {
            0
        } else {
            self.shape.ring.capacity()
        };
        let seen = match room.n_vacated {
            NO_ATTEMPT => sections.n_vacated(),
            seen => seen,
        };
        // Other threads make room, too.
        let has_changed = || sections.n_vacated() != seen;
        let mut has_room = false;
        while n_left > 0 && !has_changed() && Instant::now() < room.end {
            let n = n_left.min(RECLAIM_CHUNK);
            let go_on = &mut || !has_changed() && room.may_continue();
            match self.reclaim_next(sections, n, false, go_on) {
                Some(n_emptied) => {
                    n_left -= n;
                    has_room |= n_emptied > 0;
                }
                None => {
                    if let Some(failure) = room.failure.take() {
                        return Err(failure);
                    }
                }
            }
        }
        let before = mem::replace(&mut room.n_vacated, sections.n_vacated());
        // What others have made is taken by others perhaps, over and over.
        Ok(has_room || before != room.n_vacated && Instant::now() < room.end)
    }

    /// Reclaims the slots of removed keys among the next `n` slots, and returns their number. If
    /// `frees`, or if it has come around, those that no key has passed are free again. Returns `None`
    /// if other threads are in the way.
    fn reclaim_next(
        &self,
        sections: &Sections,
        n: u64,
        frees: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<u64> {
        let lock = loop {
            match sections.lock() {
                Some(lock) => break lock,
                None if go_on() => {}
                None => return None,
            }
        };
        let next = lock.common.word64(NEXT);
        let (capacity, end) = (self.shape.ring.capacity(), next.load(Relaxed));
        let n = n.min(capacity);
        let comes_around = end < n;
        let first = (end + capacity - n) % capacity;
        let slots: Vec<_> = (first..first + n)
            .map(|i| self.slot_number(i % capacity))
            .collect();
        let count = lock.common.word64(N_EMPTIED);
        // Access to memory of this process does not fail.
        let emptied = reclaim::empty(self, &slots, count, || sections.have_ended(go_on));
        let n_emptied = emptied.ok()??;
        sections.n_emptied.fetch_add(n_emptied, Relaxed);
        word::add(lock.common.word64(N_VACATED), n_emptied);
        if frees || comes_around {
            let n_behind = if comes_around { usize::MAX } else { N_BEHIND };
            reclaim::free_unpassed(self, &slots, n_behind).ok()?;
        }
        next.store(first, Relaxed);
        Some(n_emptied)
    }

    /// The slot with this number in the ring, counted over all ranks.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "of a rank, and in its memory"
    )]
    fn slot_number(&self, number: u64) -> GlobalSlot<K, V, R> {
        let n = self.shape.ring.local_capacity() as u64;
        let rank = (number / n) as u32;
        self.slot(self.shape.ring.at(rank, (number % n) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_in_vain_for_the_right_to_empty_slots_leaves_it_where_it_is() {
        let ends = pgas_smp::threads(1, |world| {
            let sections = Sections::new(&world.team()).unwrap().unwrap();
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

    #[test]
    fn a_thread_without_an_own_word_knows_its_sections() {
        let ends = pgas_smp::threads(1, |world| {
            let sections = Sections::new(&world.team()).unwrap().unwrap();
            sections.n_threads.store(N_OWN, Relaxed);
            let outer = sections.open();
            drop(sections.open());
            assert!(sections.are_open_here());
            thread::scope(|threads| {
                let other = threads.spawn(|| assert!(!sections.are_open_here()));
                other.join().unwrap();
            });
            drop(outer);
            assert!(!sections.are_open_here());
        });
        ends.unwrap();
    }
}
