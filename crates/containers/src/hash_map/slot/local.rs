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
use super::{AWAITED, Access, PartAt, Swapped};
use crate::wait::until;

/// What is known of local slots.
#[derive(Clone, Copy)]
pub(in super::super) struct Facts {
    /// Whether they are one rank's shard, or those of all ranks.
    pub(in super::super) is_shard: bool,
    /// Whether no other rank writes to them. Then no step is an atomic instruction.
    pub(in super::super) is_still: bool,
    /// Whether operations are counted.
    pub(in super::super) is_counted: bool,
}

/// Facts that are known when the program is built, or, as [`Facts`], when it runs. These are for
/// rare ways of access: each kind makes the code of every operation once more.
pub(in super::super) trait Kind: Copy + 'static {
    fn facts(self) -> Facts;
}

impl Kind for Facts {
    #[inline]
    fn facts(self) -> Facts {
        self
    }
}

/// Facts that are known when the program is built, while nothing is counted.
#[derive(Clone, Copy)]
pub(in super::super) struct Known<const IS_SHARD: bool, const IS_STILL: bool>;

/// Slots of all ranks, which any of them changes.
pub(in super::super) type Whole = Known<false, false>;
/// This rank's shard in other phases. Batches between hosts do most of their work there, and take
/// 5 to 15 % longer if the kind is asked for at each step.
pub(in super::super) type Shared = Known<true, false>;
/// This rank's shard in the local phase.
pub(in super::super) type Own = Known<true, true>;

impl<const IS_SHARD: bool, const IS_STILL: bool> Kind for Known<IS_SHARD, IS_STILL> {
    #[inline]
    fn facts(self) -> Facts {
        Facts {
            is_shard: IS_SHARD,
            is_still: IS_STILL,
            is_counted: false,
        }
    }
}

/// Local slots in blocks of type `L`, and the line of the program that works on them, for reports
/// of its waits.
pub(in super::super) struct LocalArray<'a, L, M> {
    pub(in super::super) array: &'a NearArray<L>,
    kind: M,
    line: &'static Location<'static>,
}

impl<L, M: Copy> Clone for LocalArray<'_, L, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, M: Copy> Copy for LocalArray<'_, L, M> {}

impl<'a, L, M> LocalArray<'a, L, M> {
    #[inline]
    #[track_caller]
    pub(in super::super) fn new(array: &'a NearArray<L>, kind: M) -> Self {
        let line = Location::caller();
        Self { array, kind, line }
    }
}

/// A slot in a block of type `L`.
pub(in super::super) struct Local<'a, L, M> {
    all: LocalArray<'a, L, M>,
    position: Position,
    block: Near<'a, L>,
}

impl<L, M: Copy> Clone for Local<'_, L, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, M: Copy> Copy for Local<'_, L, M> {}

impl<L: Block, M: Kind> Local<'_, L, M> {
    #[inline]
    fn is_still(&self) -> bool {
        self.all.kind.facts().is_still
    }

    #[inline]
    fn note_write(&self, bytes: usize) {
        if self.all.kind.facts().is_counted {
            self.block.note_write(bytes);
        }
    }

    #[inline]
    fn note_atomic(&self, bytes: usize) {
        if self.all.kind.facts().is_counted && !self.is_still() {
            self.block.note_atomic(bytes);
        }
    }

    #[inline]
    fn note_publish<T>(&self, at: StateAt) {
        self.note_write(size_of::<T>());
        self.note_atomic(state_bytes(at));
    }
}

const fn state_bytes(at: StateAt) -> usize {
    if at.is_narrow { 4 } else { 8 }
}

impl<'a, L: Block + 'a, M: Kind> Access<'a> for Local<'a, L, M> {
    type All = LocalArray<'a, L, M>;
    type Block = L;

    const IS_LOCAL: bool = true;

    #[inline]
    fn new(all: LocalArray<'a, L, M>, position: Position) -> Self {
        let block = all.array.block(position.rank_index(), position.block);
        Self::in_block(all, position, block)
    }

    #[inline]
    fn is_still(all: LocalArray<'a, L, M>) -> bool {
        all.kind.facts().is_still
    }

    #[inline]
    fn note_block(&self) {
        if self.all.kind.facts().is_counted && self.is_still() {
            self.block.note_read(L::BYTES);
        }
    }

    #[inline]
    fn note_line(all: LocalArray<'a, L, M>, line: &Near<'a, L>) {
        let facts = all.kind.facts();
        if !facts.is_counted {
            return;
        }
        if facts.is_still {
            line.note_read(L::BYTES);
        } else {
            line.note_atomic(size_of::<[u32; 4]>());
        }
    }

    #[inline]
    fn local_array(all: LocalArray<'a, L, M>) -> Option<&'a NearArray<L>> {
        Some(all.array)
    }

    #[inline]
    fn in_block(all: LocalArray<'a, L, M>, position: Position, block: Near<'a, L>) -> Self {
        Self {
            all,
            position,
            block,
        }
    }

    #[inline]
    fn is_shard(all: LocalArray<'a, L, M>) -> bool {
        all.kind.facts().is_shard
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
        if self.all.kind.facts().is_counted && !self.is_still() {
            self.block.note_read(size_of::<T>());
        }
        Ok(memory::load(&self.block, offset))
    }

    #[inline]
    fn fetch_op<T: Atomic>(&self, offset: usize, op: AtomicOp, operand: T) -> Result<T> {
        if !self.is_still() {
            self.note_atomic(size_of::<T>());
            return Ok(self.block.fetch_op(offset, op, operand));
        }
        let former = self.block.load(offset);
        if op == AtomicOp::Swap {
            self.note_write(size_of::<T>());
            self.block.store(offset, operand);
        } else {
            debug_assert!(op == AtomicOp::Load, "all that the local phase asks for");
        }
        Ok(former)
    }

    #[inline]
    fn compare_exchange<T: Atomic>(&self, offset: usize, current: T, new: T) -> Swapped<T, T> {
        if !self.is_still() {
            self.note_atomic(size_of::<T>());
            return Ok(self.block.compare_exchange(offset, current, new));
        }
        let former = self.block.load(offset);
        if former != current {
            return Ok(Err(former));
        }
        self.note_write(size_of::<T>());
        self.block.store(offset, new);
        Ok(Ok(former))
    }

    #[inline]
    fn publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        self.note_publish::<T>(at.state);
        if self.is_still() {
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
        self.note_atomic(state_bytes(at));
        Ok(local::load_state(&self.block, at))
    }

    #[inline]
    fn reserve(&self, at: StateAt, new: StateWord) -> Swapped<(), StateWord> {
        if self.is_still() {
            return self.swap_state(at, StateWord::FREE, new);
        }
        self.note_atomic(state_bytes(at));
        Ok(local::reserve(&self.block, at, new))
    }

    #[inline]
    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Swapped<(), StateWord> {
        self.note_atomic(state_bytes(at));
        if !self.is_still() {
            return Ok(local::swap_state(&self.block, at, current, new));
        }
        let seen = local::load_state(&self.block, at);
        if seen != current {
            return Ok(Err(seen));
        }
        // The step after a reserved or locked state publishes the slot, with its state.
        if !matches!(new.state(), SlotState::Reserved | SlotState::Locked) {
            self.note_write(state_bytes(at));
        }
        local::write_state(&self.block, at, new);
        Ok(Ok(()))
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        let _waits = part_of_at("an operation on a hash map", self.all.line);
        until(self.world(), AWAITED, ready)
    }
}
