//! Removed keys lose their slots, while all ranks go on.
//!
//! ```text
//!              leave          vacate, when the sections that were open have ended
//!   Removed ---------> Leaving ---------------------------------------> Vacant
//!      ^                  |                                    claim |     | free, if no key
//!      +------------------+                                          v     v has passed it
//!        keep: an insert passes                                 Reserved  Free
//! ```
//!
//! Each operation that changes something is a [section](super::sections). One thread at a time
//! takes the steps above.
//!
//! **A slot that a section has seen taken is not empty before it ends**, unless it was leaving
//! already when it was seen: it would have to leave after that, and who empties it waits for
//! the section. So nothing that is said of one operation at one slot ([protocol](super)) changes:
//! the key that it has compared stays, and a word that it comes to late belongs to that key.
//!
//! **A key is in one slot.** An insert takes the first empty slot on its way, free, or vacant after
//! it has seen that the key is not behind it. Say two inserts of a key take A and, behind it, B.
//! The one that took B has passed A, and found it taken: not leaving, or it would have told it to
//! stay. So it had ended when A was emptied, and the one that took A has found the key at B if A
//! was vacant; and if A was free, no key had passed it.
//!
//! **No free slot is on the way to a key.** No insert passes a vacant slot or a leaving one, and
//! those that passed it before have ended. So if no key has passed a vacant slot, none will have
//! while it is vacant, and it becomes free. To learn whether one has, the blocks behind are looked
//! at, up to one with a free slot, which no key has passed either.
//!
//! **Searches without a section.** Who only looks is [read_optimistically](super::sections::read_optimistically) if
//! no slot was emptied between the first look and the last: then all slots that it saw taken were
//! so until the end. Else it begins again, in a section.
//!
//! **Searches for absent keys stay short.** A slot that no key has passed is free again, as if it
//! had never been used. Another one stays vacant until the first insert comes by, or until the keys
//! that passed it are gone and it is looked at again.
//!
//! The rules are those of Purcell and Harris (Non-blocking hashtables with open addressing, 2005),
//! who count how far keys lie from their homes where this looks whether one does, and compare two
//! inserts of a key in a second step of each insert, where this waits for sections.

use super::SlotMemory;
use super::probe::Slots;
use super::state::{SlotState, StateWord};
use crate::sync::AtomicU64;
use crate::word;

/// The ring of slots, for who empties some.
pub trait Blocks: Slots {
    /// How many slots there are in the block that `slot` is in.
    fn n_slots(&self, slot: &Self::Slot) -> usize;

    /// Slot `index` of the block that `slot` is in.
    fn block_slot(&self, slot: &Self::Slot, index: usize) -> Self::Slot;

    /// A slot of the block behind that of `slot`. As many steps as there are blocks lead back to
    /// the first one.
    fn next_block(&self, slot: &Self::Slot) -> Self::Slot;

    /// Whether the two are in one block.
    fn is_same_block(&self, a: &Self::Slot, b: &Self::Slot) -> bool;

    /// How many blocks the search for the key in `taken` passes before that of `taken`.
    fn n_blocks_passed(&self, taken: &Self::Slot) -> Result<usize, ErrorOf<Self>>;

    /// Whether the search for the key in `taken` comes to `slot` first, which is in the same block.
    fn passes(&self, taken: &Self::Slot, slot: &Self::Slot) -> Result<bool, ErrorOf<Self>>;

    /// What the slot holds of its key.
    fn key_slot(&self, slot: &Self::Slot) -> Result<KeySlotOf<Self>, ErrorOf<Self>>;

    /// Gives back what a key points to that is no slot's any more.
    fn release_key(&self, key: KeySlotOf<Self>);
}

type ErrorOf<S> = <<S as Slots>::Slot as SlotMemory>::Error;
type KeySlotOf<S> = <<S as Slots>::Slot as SlotMemory>::KeySlot;

/// Empties those of the slots, which follow each other in the ring, whose keys were removed, and
/// ends searches at those of them that no key passes; how many keys have lost their slots, or
/// nothing if others are in the way: their sections go on, or their inserts have told all slots to
/// stay. The caller alone does so now. `have_ended` waits, but not forever, until all sections that
/// are open when it is called have ended; `count` is [that of
/// emptyings](super::sections::read_optimistically).
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
            // Unless it was told to stay.
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
    free_unpassed(slots, some)?;
    Ok(Some(n))
}

/// Has the slot of a removed key leave; its state then, or nothing if the key is not removed.
fn mark_leaving<M: SlotMemory>(slot: &M) -> Result<Option<StateWord>, M::Error> {
    let state = slot.load_state()?;
    if state.state() != SlotState::Removed {
        return Ok(None);
    }
    let leaving = state.leaving();
    Ok(slot.swap_state(state, leaving)?.is_ok().then_some(leaving))
}

/// Ends searches at those of the slots that are vacant, and no key has passed.
fn free_unpassed<S: Blocks>(slots: &S, some: &[S::Slot]) -> Result<(), ErrorOf<S>> {
    let mut vacant = Vec::new();
    for slot in some {
        // Who comes later takes it rather than pass it.
        if slot.load_state()? == StateWord::VACANT {
            vacant.push(*slot);
        }
    }
    let Some(&first) = vacant.first() else {
        return Ok(());
    };
    // Its block and those behind, up to one with a free slot, which no key behind that has passed;
    // however far that is: with a limit no slot would ever be free where none is.
    let mut blocks = Vec::new();
    let (mut block, mut n_placed) = (first, 0);
    let is_wrapped = loop {
        let is_other = |slot: &S::Slot| !slots.is_same_block(slot, &block);
        let here = vacant[n_placed..].iter();
        let n = here.clone().position(is_other).unwrap_or(here.len());
        blocks.push((block, n_placed..n_placed + n));
        n_placed += n;
        if n_placed == vacant.len() && has_free(slots, &block)? {
            break false;
        }
        block = slots.next_block(&block);
        if slots.is_same_block(&block, &first) {
            break true;
        }
    };
    // How many blocks from the one on that comes next, backwards, are passed by keys behind it.
    let mut reach = 0_usize;
    for (block, _) in blocks.iter().rev().filter(|_| is_wrapped) {
        reach = max_blocks_passed(slots, block)?.max(reach.saturating_sub(1));
    }
    for (block, here) in blocks.into_iter().rev() {
        for slot in &vacant[here] {
            if reach == 0 && !is_passed_within(slots, slot)? {
                // Unless it was claimed.
                slot.swap_state(StateWord::VACANT, StateWord::FREE)?.ok();
            }
        }
        reach = max_blocks_passed(slots, &block)?.max(reach.saturating_sub(1));
    }
    Ok(())
}

/// The slots of a block.
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

/// The most blocks that a key in this one has passed. One that is not known yet may have passed
/// all.
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
