//! Local slots, accessed by loads and stores: every step is an instruction or two. In counted
//! blocks each is noted as what it is on other slots. Where no other rank writes, a block is read
//! at once (R).

use std::panic::Location;

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::rma::{Block, Near, NearArray};
use pgas_core::{Pod, Result, World, part_of_at};
use pgas_lockfree::memory;
use pgas_lockfree::slots::local;
use pgas_lockfree::slots::state::{SlotState, StateAt, StateWord};

use super::super::hash::Position;
use super::{Access, PartAt, Swapped, wait};

/// Local slots, and the line of the program that works on them, for reports of its waits.
pub(in super::super) struct LocalArray<'a, L> {
    pub(in super::super) array: &'a NearArray<L>,
    line: &'static Location<'static>,
}

impl<L> Clone for LocalArray<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for LocalArray<'_, L> {}

impl<'a, L> LocalArray<'a, L> {
    #[inline]
    #[track_caller]
    pub(in super::super) fn new(array: &'a NearArray<L>) -> Self {
        let line = Location::caller();
        Self { array, line }
    }
}

/// A slot in a block of type `L`, in one rank's shard or among those of all ranks. If `IS_STILL`,
/// no other rank writes to it, and no step is an atomic instruction.
pub(in super::super) struct Local<'a, L, const IS_SHARD: bool = false, const IS_STILL: bool = false>
{
    all: LocalArray<'a, L>,
    position: Position,
    block: Near<'a, L>,
}

impl<L, const IS_SHARD: bool, const IS_STILL: bool> Clone for Local<'_, L, IS_SHARD, IS_STILL> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, const IS_SHARD: bool, const IS_STILL: bool> Copy for Local<'_, L, IS_SHARD, IS_STILL> {}

impl<L: Block, const IS_SHARD: bool, const IS_STILL: bool> Local<'_, L, IS_SHARD, IS_STILL> {
    #[inline]
    fn note_state(&self, at: StateAt) {
        if !IS_STILL {
            self.block.note_atomic(state_bytes(at));
        }
    }

    #[inline]
    fn note_publish<T>(&self, at: StateAt) {
        self.block.note_write(size_of::<T>());
        self.note_state(at);
    }
}

const fn state_bytes(at: StateAt) -> usize {
    if at.is_narrow { 4 } else { 8 }
}

impl<'a, L: Block + 'a, const IS_SHARD: bool, const IS_STILL: bool> Access<'a>
    for Local<'a, L, IS_SHARD, IS_STILL>
{
    type All = LocalArray<'a, L>;
    type Block = L;

    const IS_LOCAL: bool = true;
    const IS_STILL: bool = IS_STILL;

    #[inline]
    fn new(all: LocalArray<'a, L>, position: Position) -> Self {
        let block = all.array.block(position.rank_index(), position.block);
        Self::in_block(all, position, block)
    }

    #[inline]
    fn note_block(&self) {
        if IS_STILL {
            self.block.note_read(L::BYTES);
        }
    }

    #[inline]
    fn local_array(all: LocalArray<'a, L>) -> Option<&'a NearArray<L>> {
        Some(all.array)
    }

    #[inline]
    fn in_block(all: LocalArray<'a, L>, position: Position, block: Near<'a, L>) -> Self {
        Self {
            all,
            position,
            block,
        }
    }

    #[inline]
    fn is_shard(_: LocalArray<'a, L>) -> bool {
        IS_SHARD
    }

    #[inline]
    fn world(&self) -> &'a World {
        self.all.array.world()
    }

    #[inline]
    fn position(&self) -> Position {
        self.position
    }

    #[inline]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        if !IS_STILL {
            self.block.note_read(size_of::<T>());
        }
        Ok(memory::load(&self.block, offset))
    }

    #[inline]
    fn fetch_op<T: Atomic>(&self, offset: usize, op: AtomicOp, operand: T) -> Result<T> {
        if !IS_STILL {
            self.block.note_atomic(size_of::<T>());
            return Ok(self.block.fetch_op(offset, op, operand));
        }
        let former = self.block.load(offset);
        if op == AtomicOp::Swap {
            self.block.note_write(size_of::<T>());
            self.block.store(offset, operand);
        } else {
            debug_assert!(op == AtomicOp::Load, "all that the local phase asks for");
        }
        Ok(former)
    }

    #[inline]
    fn compare_exchange<T: Atomic>(&self, offset: usize, current: T, new: T) -> Swapped<T, T> {
        if !IS_STILL {
            self.block.note_atomic(size_of::<T>());
            return Ok(self.block.compare_exchange(offset, current, new));
        }
        let former = self.block.load(offset);
        if former != current {
            return Ok(Err(former));
        }
        self.block.note_write(size_of::<T>());
        self.block.store(offset, new);
        Ok(Ok(former))
    }

    #[inline]
    fn publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        self.note_publish::<T>(at.state);
        if IS_STILL {
            local::publish_claimed(&self.block, at.offset, value, at.state, state);
        } else {
            local::publish(&self.block, at.offset, value, at.state, state);
        }
        Ok(())
    }

    #[inline]
    fn publish_claimed<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        self.note_publish::<T>(at.state);
        local::publish_claimed(&self.block, at.offset, value, at.state, state);
        Ok(())
    }

    #[inline]
    fn load_state(&self, at: StateAt) -> Result<StateWord> {
        self.note_state(at);
        Ok(local::load_state(&self.block, at))
    }

    #[inline]
    fn reserve(&self, at: StateAt, new: StateWord) -> Swapped<(), StateWord> {
        if IS_STILL {
            return self.swap_state(at, StateWord::FREE, new);
        }
        self.note_state(at);
        Ok(local::reserve(&self.block, at, new))
    }

    #[inline]
    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Swapped<(), StateWord> {
        self.note_state(at);
        if !IS_STILL {
            return Ok(local::swap_state(&self.block, at, current, new));
        }
        let seen = local::load_state(&self.block, at);
        if seen != current {
            return Ok(Err(seen));
        }
        // The step after a reserved or locked state publishes the slot, with its state.
        if !matches!(new.state(), SlotState::Reserved | SlotState::Locked) {
            self.block.note_write(state_bytes(at));
        }
        local::write_state(&self.block, at, new);
        Ok(Ok(()))
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        let _waits = part_of_at("an operation on a hash map", self.all.line);
        wait::until(self.world(), ready)
    }
}
