//! Slots behind a network that no rank writes, or only this rank. One read fetches a whole block
//! (R). A write goes to the copy and to the block (W).

use std::cell::{RefCell, RefMut};

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::{GlobalPtr, Pod, Result, World};
use pgas_lockfree::slots::state::{SlotState, StateAt, StateWord};
use zerocopy::IntoBytes as _;

use super::super::hash::Position;
use super::remote::{NoBlock, Remote, RemoteArray};
use super::{Access, PartAt, Swapped, give_up};

/// A copy of the block that a search has reached, once it is read.
#[derive(Debug, Default)]
pub(in super::super) struct BlockCopy(RefCell<Option<(GlobalPtr<u8>, Vec<u8>)>>);

/// All slots of a map or shard, and a copy of one block.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct CopiedArray<'a> {
    pub(in super::super) remote: RemoteArray<'a>,
    pub(in super::super) copy: &'a BlockCopy,
}

/// A slot of a map, or of a shard if `IS_SHARD`.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Copied<'a, const IS_SHARD: bool> {
    slot: Remote<'a, IS_SHARD>,
    copy: &'a BlockCopy,
    /// Bytes of a block.
    len: usize,
}

impl<'a, const IS_SHARD: bool> Copied<'a, IS_SHARD> {
    /// The copy of the slot's block, which is read if necessary.
    fn block(&self) -> Result<RefMut<'a, Vec<u8>>> {
        let mut copy = self.copy.0.borrow_mut();
        if copy.as_ref().is_none_or(|(at, _)| *at != self.slot.at) {
            let at = self.slot.at;
            *copy = Some((at, at.get_vec(self.slot.world, self.len)?));
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
        let (to, world) = (self.slot.part::<u8>(start), self.slot.world);
        let put = to.put_slice(world, &block[start..last + bytes.len()]);
        if put.is_err() {
            drop(block);
            self.copy.0.take();
            return put;
        }
        // After a failed flush nobody knows whether the write is complete, and a retry might apply
        // it twice.
        let flushed = world.flush(self.slot.at.rank());
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

impl<'a, const IS_SHARD: bool> Access<'a> for Copied<'a, IS_SHARD> {
    type All = CopiedArray<'a>;
    type Block = NoBlock;

    const IS_SHARD: bool = IS_SHARD;

    fn new(all: CopiedArray<'a>, position: Position) -> Self {
        Self {
            slot: Remote::new(all.remote, position),
            copy: all.copy,
            len: all.remote.stride,
        }
    }

    fn world(&self) -> &'a World {
        self.slot.world
    }

    fn position(&self) -> Position {
        self.slot.position()
    }

    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        let part = &self.block()?[offset..offset + size_of::<T>()];
        Ok(T::read_from_bytes(part).expect("as many bytes"))
    }

    fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W> {
        let former = self.get(offset)?;
        if op == AtomicOp::Swap {
            self.store(offset, operand)?;
        } else {
            debug_assert!(op == AtomicOp::Load, "all that the local phase asks for");
        }
        Ok(former)
    }

    fn compare_exchange<W: Atomic>(&self, offset: usize, current: W, new: W) -> Swapped<W, W> {
        let former = self.get(offset)?;
        if former != current {
            return Ok(Err(former));
        }
        self.store(offset, new)?;
        Ok(Ok(former))
    }

    fn publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        with_state(at.state, state, |state| {
            self.write(
                &[(at.state.offset, state), (at.offset, value.as_bytes())],
                true,
            )
        })
    }

    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Swapped<(), StateWord> {
        let seen = self.load_state(at)?;
        if seen != current {
            return Ok(Err(seen));
        }
        // A reserved or locked state stays in the copy: the next step publishes the slot.
        let is_seen = !matches!(new.state(), SlotState::Reserved | SlotState::Locked);
        with_state(at, new, |state| self.write(&[(at.offset, state)], is_seen))?;
        Ok(Ok(()))
    }
}
