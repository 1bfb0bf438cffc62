//! Slots behind a network that no rank writes, or only this rank. One read fetches a whole block
//! (R). A write goes to the copy and to the block (W).

use std::cell::{RefCell, RefMut};

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::{GlobalPtr, Pod, Result};
use pgas_lockfree::slots::state::{SlotState, StateAt, StateWord};
use zerocopy::IntoBytes as _;

use super::place::Place;
use super::{PartAt, Swapped, give_up};

/// A copy of the block that a search has reached, once it is read.
#[derive(Debug, Default)]
pub(in super::super) struct BlockCopy(RefCell<Option<(GlobalPtr<u8>, Vec<u8>)>>);

/// A slot, and a copy of one block.
pub(super) struct Copied<'a> {
    pub(super) place: Place<'a>,
    pub(super) copy: &'a BlockCopy,
}

impl<'a> Copied<'a> {
    /// The copy of the slot's block, which is read if necessary.
    fn block(&self) -> Result<RefMut<'a, Vec<u8>>> {
        let mut copy = self.copy.0.borrow_mut();
        if copy.as_ref().is_none_or(|(at, _)| *at != self.place.at) {
            let at = self.place.at;
            *copy = Some((at, at.get_vec(self.place.world, self.place.len)?));
        }
        Ok(RefMut::map(copy, |copy| {
            &mut copy.as_mut().expect("it was read").1
        }))
    }

    /// Writes the parts to the copy. If `is_seen`, also writes all bytes from the first part to the
    /// last one to the block: nobody else writes between them.
    fn write(&self, parts: &[(usize, &[u8])], is_seen: bool) -> Result<()> {
        let mut block = self.block()?;
        for &(offset, bytes) in parts {
            block[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        let (start, (last, bytes)) = (parts[0].0, parts[parts.len() - 1]);
        if !is_seen {
            return Ok(());
        }
        let (to, world) = (self.place.part::<u8>(start), self.place.world);
        let put = to.put_slice(world, &block[start..last + bytes.len()]);
        if put.is_err() {
            drop(block);
            self.copy.0.take();
            return put;
        }
        // After a failed flush nobody knows whether the write is complete, and a retry might apply
        // it twice.
        let flushed = world.flush(self.place.at.rank());
        flushed.map_err(|error| give_up(world, error))
    }

    fn store<T: Pod>(&self, offset: usize, value: T) -> Result<()> {
        self.write(&[(offset, value.as_bytes())], true)
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

/// Steps, as those of [`Access`](super::Access).
impl Copied<'_> {
    pub(super) fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        let part = &self.block()?[offset..offset + size_of::<T>()];
        Ok(T::read_from_bytes(part).expect("as many bytes"))
    }

    pub(super) fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W> {
        let former = self.get(offset)?;
        if op == AtomicOp::Swap {
            self.store(offset, operand)?;
        } else {
            debug_assert!(op == AtomicOp::Load, "all that the local phase asks for");
        }
        Ok(former)
    }

    pub(super) fn compare_exchange<W: Atomic>(
        &self,
        offset: usize,
        current: W,
        new: W,
    ) -> Swapped<W, W> {
        let former = self.get(offset)?;
        if former != current {
            return Ok(Err(former));
        }
        self.store(offset, new)?;
        Ok(Ok(former))
    }

    pub(super) fn publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        with_state(at.state, state, |state| {
            self.write(
                &[(at.state.offset, state), (at.offset, value.as_bytes())],
                true,
            )
        })
    }

    pub(super) fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Swapped<(), StateWord> {
        let seen = if at.is_narrow {
            StateWord::from_narrow(self.get(at.offset)?)
        } else {
            StateWord::from_bits(self.get(at.offset)?)
        };
        if seen != current {
            return Ok(Err(seen));
        }
        // A reserved or locked state stays in the copy: the next step publishes the slot.
        let is_seen = !matches!(new.state(), SlotState::Reserved | SlotState::Locked);
        with_state(at, new, |state| self.write(&[(at.offset, state)], is_seen))?;
        Ok(Ok(()))
    }
}
