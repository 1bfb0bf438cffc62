//! Slots behind a network that no rank writes, or only this rank. One read fetches a whole block
//! (R). A write goes to the copy and to the block (W).

use std::cell::{RefCell, RefMut};

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::{GlobalPtr, Pod, Result};
use pgas_lockfree::slots::state::{SlotState, StateAt, StateWord};
use zerocopy::IntoBytes as _;

use super::place::{Place, WordOp};
use super::{PartAt, Swapped, give_up};

/// A copy of the block that a search has reached, once it is read.
#[derive(Debug, Default)]
pub(in super::super) struct BlockCopy(RefCell<Option<(GlobalPtr<u8>, Vec<u8>)>>);

/// Steps on a slot at a place, as those of [`Access`](super::Access).
impl BlockCopy {
    /// The copy of the slot's block, which is read if necessary.
    fn block(&self, place: Place<'_>) -> Result<RefMut<'_, Vec<u8>>> {
        let mut copy = self.0.borrow_mut();
        if copy.as_ref().is_none_or(|(at, _)| *at != place.at) {
            *copy = Some((place.at, place.at.get_vec(place.world, place.len)?));
        }
        Ok(RefMut::map(copy, |copy| {
            &mut copy.as_mut().expect("it was read").1
        }))
    }

    /// Writes the parts to the copy. If `is_seen`, also writes all bytes from the first part to the
    /// last one to the block: nobody else writes between them.
    fn write(&self, place: Place<'_>, parts: &[(usize, &[u8])], is_seen: bool) -> Result<()> {
        let mut block = self.block(place)?;
        for &(offset, bytes) in parts {
            block[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        let (start, (last, bytes)) = (parts[0].0, parts[parts.len() - 1]);
        if !is_seen {
            return Ok(());
        }
        let (to, world) = (place.part::<u8>(start), place.world);
        let put = to.put_slice(world, &block[start..last + bytes.len()]);
        if put.is_err() {
            drop(block);
            self.0.take();
            return put;
        }
        // After a failed flush nobody knows whether the write is complete, and a retry might apply
        // it twice.
        let flushed = world.flush(place.at.rank());
        flushed.map_err(|error| give_up(world, error))
    }

    pub(super) fn get<T: Pod>(&self, place: Place<'_>, offset: usize) -> Result<T> {
        let part = &self.block(place)?[offset..offset + size_of::<T>()];
        Ok(T::read_from_bytes(part).expect("as many bytes"))
    }

    pub(super) fn on_word<W: Atomic>(
        &self,
        place: Place<'_>,
        offset: usize,
        op: WordOp<W>,
    ) -> Result<W> {
        let former = self.get(place, offset)?;
        let new = match op {
            WordOp::Fetch(AtomicOp::Swap, new) => Some(new),
            WordOp::Fetch(op, _) => {
                debug_assert!(op == AtomicOp::Load, "all that the local phase asks for");
                None
            }
            WordOp::CompareExchange(current, new) => (former == current).then_some(new),
        };
        if let Some(new) = new {
            self.write(place, &[(offset, new.as_bytes())], true)?;
        }
        Ok(former)
    }

    pub(super) fn publish<T: Pod>(
        &self,
        place: Place<'_>,
        at: PartAt,
        value: T,
        state: StateWord,
    ) -> Result<()> {
        with_state(at.state, state, |state| {
            let parts = [(at.state.offset, state), (at.offset, value.as_bytes())];
            self.write(place, &parts, true)
        })
    }

    pub(super) fn swap_state(
        &self,
        place: Place<'_>,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Swapped<(), StateWord> {
        let seen = if at.is_narrow {
            StateWord::from_narrow(self.get(place, at.offset)?)
        } else {
            StateWord::from_bits(self.get(place, at.offset)?)
        };
        if seen != current {
            return Ok(Err(seen));
        }
        // A reserved or locked state stays in the copy: the next step publishes the slot.
        let is_seen = !matches!(new.state(), SlotState::Reserved | SlotState::Locked);
        with_state(at, new, |state| {
            self.write(place, &[(at.offset, state)], is_seen)
        })?;
        Ok(Ok(()))
    }
}

/// Calls `f` with the bytes of a state word.
fn with_state<T>(at: StateAt, state: StateWord, f: impl FnOnce(&[u8]) -> T) -> T {
    if at.is_narrow {
        f(state.narrow().as_bytes())
    } else {
        f(state.to_bits().as_bytes())
    }
}
