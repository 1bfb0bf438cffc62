//! The steps of the [protocol](super) on a slot in local memory: an instruction or two each.

use super::state::{StateAt, StateWord};
use crate::memory::{self, Memory, Part};
use crate::sync::Ordering::Relaxed;
use crate::word;

/// Loads the state.
#[inline]
pub fn load_state<M: Memory>(memory: &M, at: StateAt) -> StateWord {
    if at.is_narrow {
        StateWord::from_narrow(word::load(memory.word32(at.offset)))
    } else {
        StateWord::from_bits(word::load(memory.word64(at.offset)))
    }
}

/// Replaces the state if it is `current`.
///
/// # Errors
/// The state, if it is not `current`.
#[inline]
pub fn swap_state<M: Memory>(
    memory: &M,
    at: StateAt,
    current: StateWord,
    new: StateWord,
) -> Result<(), StateWord> {
    if at.is_narrow {
        let (current, new) = (current.narrow(), new.narrow());
        let swapped = word::compare_exchange(memory.word32(at.offset), current, new);
        return swapped.map(|_| ()).map_err(StateWord::from_narrow);
    }
    let (current, new) = (current.to_bits(), new.to_bits());
    let swapped = word::compare_exchange(memory.word64(at.offset), current, new);
    swapped.map(|_| ()).map_err(StateWord::from_bits)
}

/// Replaces the state of a free slot by `new`. A taken slot is only read, so it stays in the caches
/// of its other readers.
///
/// # Errors
/// The state, if the slot is taken.
#[inline]
pub fn reserve<M: Memory>(memory: &M, at: StateAt, new: StateWord) -> Result<(), StateWord> {
    match load_state(memory, at) {
        StateWord::FREE => swap_state(memory, at, StateWord::FREE, new),
        seen => Err(seen),
    }
}

/// Writes the part at `offset` of a slot that this thread has locked, then the state. A rank that
/// sees the state sees the part. A rank that sees some of the part sees what this thread wrote to
/// the state before.
#[inline]
pub fn publish<T, M: Part<T>>(memory: &M, offset: usize, value: T, at: StateAt, state: StateWord) {
    // A rank that sees some of the part sees that the slot was locked before. Pairs with the fence
    // behind every read.
    memory::release();
    memory.write(offset, value);
    // A rank that sees the new state sees all of the part: the swap releases it. The swap is an
    // atomic instruction since the write takes effect with it: later reads of this thread come
    // after it.
    if at.is_narrow {
        word::swap(memory.word32(at.offset), state.narrow());
    } else {
        word::swap(memory.word64(at.offset), state.to_bits());
    }
}

/// As [`publish`], of a slot that this thread has reserved. After the return, this thread may read
/// elsewhere before other ranks see the state.
#[inline]
pub fn publish_claimed<T, M: Part<T>>(
    memory: &M,
    offset: usize,
    value: T,
    at: StateAt,
    state: StateWord,
) {
    // A rank that sees some of the part, in a slot that held another key before, sees that the slot
    // was vacated.
    memory::release();
    memory.write(offset, value);
    // A rank that sees the state sees all of the part. Pairs with the acquire of every load of the
    // state.
    memory::release();
    write_state(memory, at, state);
}

/// Writes the state, for a slot that no other rank reads, or behind a fence.
#[inline]
pub fn write_state<M: Memory>(memory: &M, at: StateAt, state: StateWord) {
    // Relaxed: `publish_claimed` has fenced. For a slot that no other rank reads, the end of the
    // phase orders the write.
    if at.is_narrow {
        memory.word32(at.offset).store(state.narrow(), Relaxed);
    } else {
        memory.word64(at.offset).store(state.to_bits(), Relaxed);
    }
}
