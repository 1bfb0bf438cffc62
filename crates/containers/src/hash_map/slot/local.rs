//! Local slots, accessed by loads and stores: every step is an instruction or two. In counted blocks
//! each is noted as what it is on other slots; where this rank is alone, states cost nothing.

use std::panic::Location;

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::rma::{Block, Near, NearArray};
use pgas_core::{Pod, Result, World, part_of_at};
use pgas_lockfree::memory;
use pgas_lockfree::slots::local;
use pgas_lockfree::slots::state::{StateAt, StateWord};

use super::super::hash::Position;
use super::{AWAITED, Access, PartAt, Swapped};

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

/// A slot in a block of type `L`, in one rank's shard or among those of all ranks. If `IS_ALONE`,
/// only this rank accesses it, and no step is an atomic instruction.
pub(in super::super) struct Local<'a, L, const IS_SHARD: bool = false, const IS_ALONE: bool = false>
{
    all: LocalArray<'a, L>,
    position: Position,
    block: Near<'a, L>,
}

impl<L, const IS_SHARD: bool, const IS_ALONE: bool> Clone for Local<'_, L, IS_SHARD, IS_ALONE> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, const IS_SHARD: bool, const IS_ALONE: bool> Copy for Local<'_, L, IS_SHARD, IS_ALONE> {}

impl<L: Block, const IS_SHARD: bool, const IS_ALONE: bool> Local<'_, L, IS_SHARD, IS_ALONE> {
    #[inline]
    fn note_state(&self, at: StateAt) {
        if !IS_ALONE {
            self.block.note_atomic(if at.is_narrow { 4 } else { 8 });
        }
    }

    #[inline]
    fn note_publish<T>(&self, at: StateAt) {
        self.block.note_write(size_of::<T>());
        self.note_state(at);
    }
}

impl<'a, L: Block + 'a, const IS_SHARD: bool, const IS_ALONE: bool> Access<'a>
    for Local<'a, L, IS_SHARD, IS_ALONE>
{
    type All = LocalArray<'a, L>;
    type Block = L;

    const IS_LOCAL: bool = true;
    const IS_SHARD: bool = IS_SHARD;

    #[inline]
    fn new(all: LocalArray<'a, L>, position: Position) -> Self {
        let block = all.array.block(position.rank_index(), position.block);
        Self::in_block(all, position, block)
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
    fn world(&self) -> &'a World {
        self.all.array.world()
    }

    #[inline]
    fn position(&self) -> Position {
        self.position
    }

    #[inline]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        self.block.note_read(size_of::<T>());
        Ok(memory::load(&self.block, offset))
    }

    #[inline]
    fn fetch_op<T: Atomic>(&self, offset: usize, op: AtomicOp, operand: T) -> Result<T> {
        if !IS_ALONE {
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
        if !IS_ALONE {
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
        if IS_ALONE {
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
        if IS_ALONE {
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
        if !IS_ALONE {
            return Ok(local::swap_state(&self.block, at, current, new));
        }
        let seen = local::load_state(&self.block, at);
        if seen != current {
            return Ok(Err(seen));
        }
        local::write_state(&self.block, at, new);
        Ok(Ok(()))
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        let _waits = part_of_at("an operation on a hash map", self.all.line);
        self.world().wait_for(AWAITED, ready)
    }
}
