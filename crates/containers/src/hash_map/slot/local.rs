//! Slots that this process loads from and stores to: every step is an instruction or two.

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::rma::{Block, FourWords, Near, NearArray, Share};
use pgas_core::{Pod, Result, World};
use pgas_lockfree::memory;
use pgas_lockfree::slots::local;
use pgas_lockfree::slots::probe::States;
use pgas_lockfree::slots::state::{StateAt, StateWord};

use super::super::hash::{Hash, Place};
use super::layout::LINE;
use super::{Access, PartAt, Swapped};

/// A slot in blocks like `L`, of one rank alone if it `IS_PART`.
pub(in super::super) struct Local<'a, L, const IS_PART: bool = false> {
    all: &'a NearArray<L>,
    place: Place,
    block: Near<'a, L>,
}

impl<L, const IS_PART: bool> Clone for Local<'_, L, IS_PART> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, const IS_PART: bool> Copy for Local<'_, L, IS_PART> {}

impl<'a, L: Block> Local<'a, L> {
    /// A slot of a block that is known, wherever that is.
    pub(in super::super) fn of_block(
        all: &'a NearArray<L>,
        block: Near<'a, L>,
        index: usize,
    ) -> Self {
        let place = Place::begin(0, 0).with_index(index);
        Self { all, place, block }
    }
}

impl<'a, L: Block, const IS_PART: bool> Local<'a, L, IS_PART> {
    /// The block to whose share of all hashes this one belongs.
    #[inline]
    fn share(all: &'a NearArray<L>, hash: Hash) -> Share<'a, L> {
        let n_ranks = || all.world().ranks().len();
        let hash = if IS_PART {
            hash.of_rank(n_ranks())
        } else {
            hash
        };
        all.share(hash.bits())
    }
}

impl<'a, L: Block, const IS_PART: bool> Access<'a> for Local<'a, L, IS_PART> {
    type All = &'a NearArray<L>;
    type Seen = ();
    type Line = Share<'a, L>;

    const IS_LOCAL: bool = true;
    const IS_PART: bool = IS_PART;

    #[inline]
    fn new(all: &'a NearArray<L>, place: Place) -> Self {
        let block = all.block(place.rank_index(), place.block);
        Self { all, place, block }
    }

    #[inline]
    fn world(&self) -> &'a World {
        self.all.world()
    }

    #[inline]
    fn place(&self) -> Place {
        self.place
    }

    #[inline]
    fn home_line(all: &'a NearArray<L>, hash: Hash, n_whole: usize) -> Option<Share<'a, L>> {
        let line = Self::share(all, hash);
        (line.index < n_whole).then_some(line)
    }

    #[inline]
    fn next_line(
        all: &'a NearArray<L>,
        line: Share<'a, L>,
        n_whole: usize,
    ) -> Option<Share<'a, L>> {
        let index = line.index + 1;
        if index >= n_whole {
            return None;
        }
        let block = all.block(line.rank, index);
        Some(Share {
            index,
            block,
            ..line
        })
    }

    #[inline]
    fn rest(line: &Share<'a, L>) -> u64 {
        line.rest
    }

    #[inline]
    fn states(line: &Share<'a, L>, n: usize) -> States<FourWords> {
        States::load(&line.block, n)
    }

    #[inline]
    fn of_line(all: &'a NearArray<L>, line: &Share<'a, L>, index: usize) -> Self {
        let place = Place::begin(line.rank, line.index).with_index(index);
        let block = line.block;
        Self { all, place, block }
    }

    #[inline]
    fn prefetch(all: &'a NearArray<L>, hash: Hash) {
        let block = Self::share(all, hash).block;
        block.prefetch(0);
        // Slots that do not divide a cache line may lie in two, and the next line also has the
        // slots to which the search goes on: a tenth to a quarter off the time of a batch at half
        // load.
        if !LINE.is_multiple_of(L::BYTES) {
            block.prefetch(LINE.max(L::BYTES - 1));
        }
    }

    #[inline]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        Ok(memory::load(&self.block, offset))
    }

    #[inline]
    fn see(&self, _: usize) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn pick<T: Pod>(&self, (): &(), at: PartAt) -> (StateWord, T) {
        let state = local::load_state(&self.block, at.state);
        (state, memory::load(&self.block, at.offset))
    }

    #[inline]
    fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W> {
        Ok(self.block.fetch_op(offset, op, operand))
    }

    #[inline]
    fn compare_exchange<W: Atomic>(&self, offset: usize, current: W, new: W) -> Swapped<W, W> {
        Ok(self.block.compare_exchange(offset, current, new))
    }

    #[inline]
    fn publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        local::publish(&self.block, at.offset, value, at.state, state);
        Ok(())
    }

    #[inline]
    fn publish_claimed<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        local::publish_claimed(&self.block, at.offset, value, at.state, state);
        Ok(())
    }

    #[inline]
    fn write<T: Pod>(&self, at: PartAt, value: T, state: StateWord, (): &()) -> Result<()> {
        self.block.store(at.offset, value);
        local::write_state(&self.block, at.state, state);
        Ok(())
    }

    #[inline]
    fn load_state(&self, at: StateAt) -> Result<StateWord> {
        Ok(local::load_state(&self.block, at))
    }

    #[inline]
    fn reserve(&self, at: StateAt, new: StateWord) -> Swapped<(), StateWord> {
        Ok(local::reserve(&self.block, at, new))
    }

    #[inline]
    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Swapped<(), StateWord> {
        Ok(local::swap_state(&self.block, at, current, new))
    }
}
