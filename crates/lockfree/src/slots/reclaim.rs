//! Reclaims the slots of removed keys, while all ranks continue.
//!
//! ```text
//!              leave          vacate, when the sections that were open have ended
//!   Removed ---------> Leaving ---------------------------------------> Vacant
//!      ^                  |                                    claim |     | free, if no key
//!      +------------------+                                          v     v has passed it
//!        keep: an insert passes                                 Reserved  Free
//! ```
//!
//! Each operation that changes a slot is a [section](super::sections). One thread at a time takes
//! the steps above.
//!
//! **A slot that a section has seen taken is not emptied before the section ends**, unless it was
//! already leaving when it was seen. It would have to start leaving after that, and the reclaiming
//! thread waits for the section. So all that the [protocol](super) says of one operation at one
//! slot holds: the key that it has compared stays, and a word that it reaches late belongs to that
//! key.
//!
//! **A key is in one slot.** An insert takes the first empty slot of its probe: a free slot, or a
//! vacant one after it has seen that the key does not lie behind it. Suppose that two inserts of a
//! key take A and, behind it, B. The insert that took B has passed A and found it taken. A was not
//! leaving, or the insert would have told it to stay. So this insert had ended when A was emptied.
//! If A was vacant, the insert that took A has found the key at B. If A was free, no key had passed
//! it.
//!
//! **No free slot is on the way to a key.** No insert passes a vacant or leaving slot, and the
//! inserts that passed it before have ended. So if no key has passed a vacant slot, none will while
//! it is vacant, and it may become free. To learn whether a key has passed it, the blocks behind
//! are examined, up to one with a free slot, which no key has passed either.
//!
//! **Searches without a section.** A lookup is valid if no slot was reclaimed between its first
//! read and its last ([`read_optimistically`](super::sections::read_optimistically)): then all
//! slots that it saw taken stayed so until the end. Otherwise it begins again, in a section.
//!
//! **Searches for absent keys stay short.** A slot that no key has passed is free again, as if it
//! had never been used, when a free slot is known to be near behind it. Another one stays vacant until the first insert reaches it, or until the
//! keys that passed it are gone and it is examined again.
//!
//! The rules are those of Purcell and Harris (Non-blocking hashtables with open addressing, 2005).
//! They count how far keys lie from their homes; here a reclaim examines whether a key has passed.
//! They compare two inserts of a key in a second step of each insert; here a reclaim waits for
//! sections.

use super::SlotMemory;
use super::probe::Slots;
use super::state::{SlotState, StateWord};
use crate::sync::AtomicU64;
use crate::word;

/// The ring of slots, as a reclaim needs it.
pub trait Blocks: Slots {
    /// The number of slots in the block of `slot`.
    fn n_slots(&self, slot: &Self::Slot) -> usize;

    /// Slot `index` of the block of `slot`.
    fn block_slot(&self, slot: &Self::Slot, index: usize) -> Self::Slot;

    /// A slot of the next block. After as many steps as there are blocks it is in the first one
    /// again.
    fn next_block(&self, slot: &Self::Slot) -> Self::Slot;

    /// Whether both are in the same block.
    fn is_same_block(&self, a: &Self::Slot, b: &Self::Slot) -> bool;

    /// The number of blocks that the probe for the key in `taken` passes before its block.
    fn n_blocks_passed(&self, taken: &Self::Slot) -> Result<usize, ErrorOf<Self>>;

    /// Whether the probe for the key in `taken` reaches `slot` first, which is in the same block.
    fn passes(&self, taken: &Self::Slot, slot: &Self::Slot) -> Result<bool, ErrorOf<Self>>;

    /// The encoded key of the slot.
    fn key_slot(&self, slot: &Self::Slot) -> Result<KeySlotOf<Self>, ErrorOf<Self>>;

    /// Releases the heap memory of a key that no slot holds any more.
    fn release_key(&self, key: KeySlotOf<Self>);
}

type ErrorOf<S> = <<S as Slots>::Slot as SlotMemory>::Error;
type KeySlotOf<S> = <<S as Slots>::Slot as SlotMemory>::KeySlot;

/// Reclaims the slots of removed keys among `some`, which are consecutive in the ring. They are
/// vacant then. Returns the number of keys that have lost their slots. Returns `None` if other
/// threads are in the way: their sections stay open, or their inserts have told all slots to stay.
/// The caller holds the reclaim lock. `have_ended` waits, for a limited time, until all sections
/// open at its call have ended. `count` is the [count of
/// reclaims](super::sections::read_optimistically).
pub fn empty<S: Blocks>(
    slots: &S,
    some: &[S::Slot],
    count: &AtomicU64,
    have_ended: impl FnOnce() -> bool,
) -> Result<Option<u64>, ErrorOf<S>> {
    let mut leaving = Vec::new();
    for &slot in some {
        if let Some(state) = mark_leaving(&slot)? {
            leaving.push((slot, state));
        }
    }
    let mut n = 0;
    if !leaving.is_empty() {
        if !have_ended() {
            for (slot, state) in leaving {
                slot.swap_state(state, state.kept())?.ok();
            }
            return Ok(None);
        }
        word::add(count, 1);
        for (slot, state) in leaving {
            let key = slots.key_slot(&slot)?;
            // This fails if the slot was told to stay.
            if slot.swap_state(state, StateWord::VACANT)?.is_ok() {
                slots.release_key(key);
                n += 1;
            }
        }
        word::add(count, 1);
        if n == 0 {
            return Ok(None);
        }
    }
    Ok(Some(n))
}

/// Marks the slot of a removed key as leaving and returns the new state; `None` if the key is not
/// removed.
fn mark_leaving<M: SlotMemory>(slot: &M) -> Result<Option<StateWord>, M::Error> {
    let state = slot.load_state()?;
    if state.state() != SlotState::Removed {
        return Ok(None);
    }
    let leaving = state.leaving();
    Ok(slot.swap_state(state, leaving)?.is_ok().then_some(leaving))
}

/// Frees the vacant slots among `some` that no key has passed, if a free slot is at most `n_behind`
/// blocks behind them: what has passed them is known only up to one. The caller holds the reclaim
/// lock.
///
/// Where no slot is free, none ever will be unless some call has no bound. Such a call reads all of
/// the ring.
pub fn free_unpassed<S: Blocks>(
    slots: &S,
    some: &[S::Slot],
    n_behind: usize,
) -> Result<(), ErrorOf<S>> {
    let mut vacant = Vec::new();
    for slot in some {
        // Later inserts take a vacant slot rather than pass it.
        if slot.load_state()? == StateWord::VACANT {
            vacant.push(*slot);
        }
    }
    let Some(&first) = vacant.first() else {
        return Ok(());
    };
    // Collect its block and those behind, up to one with a free slot, which no key behind that has
    // passed.
    let mut blocks = Vec::new();
    let (mut block, mut n_placed, mut n_left) = (first, 0, n_behind);
    let is_wrapped = loop {
        let is_other = |slot: &S::Slot| !slots.is_same_block(slot, &block);
        let here = vacant[n_placed..].iter();
        let n = here.clone().position(is_other).unwrap_or(here.len());
        blocks.push((block, n_placed..n_placed + n));
        n_placed += n;
        if n_placed == vacant.len() {
            if has_free(slots, &block)? {
                break false;
            }
            let Some(n) = n_left.checked_sub(1) else {
                return Ok(());
            };
            n_left = n;
        }
        block = slots.next_block(&block);
        if slots.is_same_block(&block, &first) {
            break true;
        }
    };
    // The number of blocks, backwards from the next one, that keys behind it have passed.
    let mut reach = 0_usize;
    for (block, _) in blocks.iter().rev().filter(|_| is_wrapped) {
        reach = max_blocks_passed(slots, block)?.max(reach.saturating_sub(1));
    }
    for (block, here) in blocks.into_iter().rev() {
        for slot in &vacant[here] {
            if reach == 0 && !is_passed_within(slots, slot)? {
                // This fails if the slot was claimed.
                slot.swap_state(StateWord::VACANT, StateWord::FREE)?.ok();
            }
        }
        reach = max_blocks_passed(slots, &block)?.max(reach.saturating_sub(1));
    }
    Ok(())
}

/// All slots of a block.
fn slots_of<S: Blocks>(slots: &S, block: &S::Slot) -> impl Iterator<Item = S::Slot> {
    (0..slots.n_slots(block)).map(|index| slots.block_slot(block, index))
}

fn has_free<S: Blocks>(slots: &S, block: &S::Slot) -> Result<bool, ErrorOf<S>> {
    for slot in slots_of(slots, block) {
        if slot.load_state()? == StateWord::FREE {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The maximum number of blocks that a key in this block has passed. A key that is not published
/// yet may have passed all.
fn max_blocks_passed<S: Blocks>(slots: &S, block: &S::Slot) -> Result<usize, ErrorOf<S>> {
    let mut most = 0;
    for slot in slots_of(slots, block) {
        most = most.max(match slot.load_state()?.state() {
            SlotState::Free | SlotState::Vacant => 0,
            SlotState::Reserved => usize::MAX,
            SlotState::Ready | SlotState::Locked | SlotState::Removed | SlotState::Leaving => {
                slots.n_blocks_passed(&slot)?
            }
        });
    }
    Ok(most)
}

/// Whether a key in the same block may have passed the slot.
fn is_passed_within<S: Blocks>(slots: &S, slot: &S::Slot) -> Result<bool, ErrorOf<S>> {
    for other in slots_of(slots, slot) {
        let is_passed = match other.load_state()?.state() {
            SlotState::Free | SlotState::Vacant => false,
            SlotState::Reserved => true,
            SlotState::Ready | SlotState::Locked | SlotState::Removed | SlotState::Leaving => {
                slots.passes(&other, slot)?
            }
        };
        if is_passed {
            return Ok(true);
        }
    }
    Ok(false)
}
