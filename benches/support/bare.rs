//! Floors of containers: an open-addressing table and a ring over the memory of all ranks, with
//! only the loads, stores and atomics that any such table or queue needs.
#![expect(unsafe_code, reason = "the floor is a loop on raw pointers")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas::{Rank, Symmetric, World};

/// Words of shared memory on each rank: the same number on each, a power of two.
pub(crate) struct Words {
    /// Owns the memory.
    _memory: Symmetric<u64>,
    bases: Vec<NonNull<u64>>,
    per_rank: usize,
}

impl Words {
    /// Makes zeroed words. Collective.
    pub(crate) fn new(world: &World, per_rank: usize) -> Self {
        assert!(per_rank.is_power_of_two(), "{per_rank} words");
        let memory = world.alloc_symmetric::<u64>(per_rank).expect("memory");
        let base = |rank| {
            let first = memory.on(rank);
            first.local(world).expect("ranks of one host are direct")
        };
        Self {
            bases: world.ranks().map(base).collect(),
            per_rank,
            _memory: memory,
        }
    }

    /// The word at `index` of `rank`, modulo the number of words.
    #[inline(always)]
    fn at(&self, rank: usize, index: usize) -> &AtomicU64 {
        // SAFETY: the rank's words begin here, and there are more than the masked index.
        let at = unsafe { self.bases[rank].add(index & (self.per_rank - 1)) };
        // SAFETY: the word is mapped and aligned as long as the memory is kept, and accessed
        // atomically only.
        unsafe { AtomicU64::from_ptr(at.as_ptr()) }
    }
}

/// A hash table from nonzero words to words. A slot is a key and a value. A key is in the first
/// slot of its probe sequence that was free.
pub(crate) struct Table {
    words: Words,
    /// Slots of all ranks.
    n_slots: usize,
    log_slots_of_rank: u32,
}

impl Table {
    /// Makes a table with this number of slots on each rank, a power of two. Collective.
    pub(crate) fn new(world: &World, slots_of_rank: usize) -> Self {
        Self {
            words: Words::new(world, 2 * slots_of_rank),
            n_slots: slots_of_rank * world.ranks().len(),
            log_slots_of_rank: slots_of_rank.trailing_zeros(),
        }
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "an index")]
    fn home(&self, key: u64) -> usize {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(hash) * self.n_slots as u128) >> 64) as usize
    }

    #[inline(always)]
    fn slot(&self, slot: usize) -> (&AtomicU64, &AtomicU64) {
        let rank = slot >> self.log_slots_of_rank;
        (
            self.words.at(rank, 2 * slot),
            self.words.at(rank, 2 * slot + 1),
        )
    }

    #[inline(always)]
    fn next(&self, slot: usize) -> usize {
        let next = slot + 1;
        if next == self.n_slots { 0 } else { next }
    }

    /// Inserts an entry. There must be room.
    #[inline(always)]
    pub(crate) fn insert(&self, key: u64, value: u64) {
        let mut slot = self.home(key);
        loop {
            let (there, at) = self.slot(slot);
            let mut found = there.load(Ordering::Relaxed);
            if found == 0 {
                let taken = there.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
                found = taken.map_or_else(|other| other, |_| key);
            }
            if found == key {
                return at.store(value, Ordering::Release);
            }
            slot = self.next(slot);
        }
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Option<u64> {
        let mut slot = self.home(key);
        loop {
            let (there, at) = self.slot(slot);
            match there.load(Ordering::Acquire) {
                0 => return None,
                found if found == key => return Some(at.load(Ordering::Acquire)),
                _ => slot = self.next(slot),
            }
        }
    }
}

/// A ring of words on each rank, with a ticket counter at either end.
pub(crate) struct Rings {
    elements: Words,
    ends: Words,
}

/// The distance of the two ends in words, which puts them on different cache lines.
const APART: usize = 16;

impl Rings {
    /// Makes a ring with room for this many elements on each rank, a power of two. Collective.
    pub(crate) fn new(world: &World, capacity: usize) -> Self {
        Self {
            elements: Words::new(world, capacity),
            ends: Words::new(world, 2 * APART),
        }
    }

    #[inline(always)]
    pub(crate) fn push(&self, rank: usize, value: u64) {
        let ticket = self.ends.at(rank, 0).fetch_add(1, Ordering::AcqRel);
        self.element(rank, ticket).store(value, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn pop(&self, rank: usize) -> u64 {
        let ticket = self.ends.at(rank, APART).fetch_add(1, Ordering::AcqRel);
        self.element(rank, ticket).load(Ordering::Acquire)
    }

    /// The same without atomics on the ends.
    #[inline(always)]
    pub(crate) fn local_push(&self, rank: usize, value: u64) {
        let ticket = step(self.ends.at(rank, 0));
        self.element(rank, ticket).store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn local_pop(&self, rank: usize) -> u64 {
        let ticket = step(self.ends.at(rank, APART));
        self.element(rank, ticket).load(Ordering::Relaxed)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "an index")]
    fn element(&self, rank: usize, ticket: u64) -> &AtomicU64 {
        self.elements.at(rank, ticket as usize)
    }
}

#[inline(always)]
fn step(end: &AtomicU64) -> u64 {
    let ticket = end.load(Ordering::Relaxed);
    end.store(ticket + 1, Ordering::Relaxed);
    ticket
}

/// The neighbour of this rank, whose queue it uses if each rank has one.
pub(crate) fn neighbour(world: &World) -> Rank {
    Rank::new((world.rank().number() + 1) % world.n_ranks())
}
