//! How this process reaches the slots of a map: by its own instructions, or by operations on global
//! pointers.

use std::sync::atomic::{Ordering, fence};

use pgas_core::atomics::Atomic;
use pgas_core::backend::{AtomicOp, SignalUpdate};
use pgas_core::rma::{self, Block, NearArray};
use pgas_core::{Event, GlobalPtr, Pod, Rank, Result, World};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::hash::Place;

/// The offset of the state word in a slot.
pub(super) const STATE: usize = 0;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A slot, and the way to its parts. Offsets are in bytes from the slot's start.
pub(super) trait Reach<'a>: Copy {
    /// All slots of the map.
    type All: Copy;

    /// Whether a load of the state costs as good as nothing.
    const IS_NEAR: bool;

    fn new(all: Self::All, place: Place) -> Self;

    fn world_of(all: Self::All) -> &'a World;

    fn world(&self) -> &'a World;

    fn place(&self) -> Place;

    fn is_same(&self, other: &Self) -> bool;

    /// The part at `offset` (R).
    fn get<T: Pod>(&self, offset: usize) -> Result<T>;

    /// The state and the part at `offset`, when nobody writes them (R).
    fn get_with_state<T: Pod>(&self, offset: usize) -> Result<(u64, T)>;

    /// Performs `op` on the word at `offset` (A).
    fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W>;

    /// Replaces the word at `offset` if it is `current` (A).
    fn compare_exchange<W: Atomic>(
        &self,
        offset: usize,
        current: W,
        new: W,
    ) -> Result<Result<W, W>>;

    /// Writes the part at `offset`, then the state: who sees the state sees the part, and who sees some
    /// of the part sees what this thread wrote to the state before. All is done on return (W + A).
    fn publish<T: Pod>(&self, offset: usize, value: T, state: u64) -> Result<()>;

    /// As `publish`, but who has returned from it may look elsewhere before others see the state (W + A).
    fn publish_unread<T: Pod>(&self, offset: usize, value: T, state: u64) -> Result<()>;

    /// Writes the state and the part at `offset`, when nobody looks. All is done on return (W).
    fn put_with_state<T: Pod>(&self, offset: usize, value: T, state: u64) -> Result<()>;

    /// Asks for the cache lines of the slot.
    fn prefetch(&self);

    /// Asks for the cache lines of the slot, and for no other.
    fn prefetch_slot(&self);
}

/// A slot with the layout `L` that this process loads from and stores to; every step is an instruction or
/// two.
pub(super) struct Near<'a, L> {
    all: &'a NearArray<L>,
    place: Place,
    block: rma::Near<'a, L>,
}

impl<L> Clone for Near<'_, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Near<'_, L> {}

impl<'a, L: Block> Reach<'a> for Near<'a, L> {
    type All = &'a NearArray<L>;

    const IS_NEAR: bool = true;

    #[inline(always)]
    fn new(all: &'a NearArray<L>, place: Place) -> Self {
        let block = all.block(place.rank, place.local);
        Self { all, place, block }
    }

    #[inline(always)]
    fn world_of(all: &'a NearArray<L>) -> &'a World {
        all.world()
    }

    #[inline(always)]
    fn world(&self) -> &'a World {
        self.all.world()
    }

    #[inline(always)]
    fn place(&self) -> Place {
        self.place
    }

    #[inline(always)]
    fn is_same(&self, other: &Self) -> bool {
        self.block == other.block
    }

    #[inline(always)]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        Ok(self.block.load(offset))
    }

    #[inline(always)]
    fn get_with_state<T: Pod>(&self, offset: usize) -> Result<(u64, T)> {
        Ok((self.block.load(STATE), self.block.load(offset)))
    }

    #[inline(always)]
    fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W> {
        Ok(self.block.fetch_op(offset, op, operand))
    }

    #[inline(always)]
    fn compare_exchange<W: Atomic>(
        &self,
        offset: usize,
        current: W,
        new: W,
    ) -> Result<Result<W, W>> {
        Ok(self.block.compare_exchange(offset, current, new))
    }

    #[inline(always)]
    fn publish<T: Pod>(&self, offset: usize, value: T, state: u64) -> Result<()> {
        // Who sees some of the part sees the state that was written before (pairs with the acquire
        // behind every load) ...
        fence(Ordering::Release);
        self.block.store(offset, value);
        // ... and who sees the new state sees all of the part (pairs with the acquire of every atomic).
        fence(Ordering::Release);
        self.block.fetch_op(STATE, AtomicOp::Swap, state);
        Ok(())
    }

    #[inline(always)]
    fn publish_unread<T: Pod>(&self, offset: usize, value: T, state: u64) -> Result<()> {
        self.block.store(offset, value);
        // Who sees the state sees all of the part. That the state may wait in a store buffer while this thread
        // looks at other words is what makes this cheaper than `publish`: there two threads could each insert a
        // key, look for the other's, and both find nothing.
        fence(Ordering::Release);
        self.block.store(STATE, state);
        Ok(())
    }

    #[inline(always)]
    fn put_with_state<T: Pod>(&self, offset: usize, value: T, state: u64) -> Result<()> {
        self.block.store(offset, value);
        self.block.store(STATE, state);
        Ok(())
    }

    #[inline(always)]
    fn prefetch(&self) {
        self.block.prefetch(0);
        // Slots that do not divide a cache line may lie in two, and the next line also has the slots
        // to which the search goes on: a tenth to a quarter off the time of a batch at half load.
        if !LINE.is_multiple_of(L::BYTES) {
            self.block.prefetch(LINE.max(L::BYTES - 1));
        }
    }

    #[inline(always)]
    fn prefetch_slot(&self) {
        self.block.prefetch(0);
        if !LINE.is_multiple_of(L::BYTES) {
            self.block.prefetch(L::BYTES - 1);
        }
    }
}

/// All slots of a map: the first one of each rank is at `start`, and the next one `stride` bytes behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FarArray<'a> {
    pub(super) world: &'a World,
    pub(super) start: u64,
    pub(super) stride: usize,
}

/// A slot anywhere. Every step is an operation on a global pointer, and is counted. They are calls, so
/// that the code for near slots, beside which they stand in every method, has the registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Far<'a> {
    world: &'a World,
    place: Place,
    at: GlobalPtr<u8>,
}

impl Far<'_> {
    pub(super) fn part<T>(&self, offset: usize) -> GlobalPtr<T> {
        self.at.byte_offset(offset as u64).cast()
    }

    /// Begins to read the state and the part at `offset`, for [`parse`], when nobody writes them (R).
    pub(super) fn get_with_state_nb<T: Pod>(&self, offset: usize) -> Result<Event<Vec<u8>>> {
        self.part::<u8>(STATE)
            .get_vec_nb(self.world, offset + size_of::<T>())
    }
}

impl<'a> Reach<'a> for Far<'a> {
    type All = FarArray<'a>;

    const IS_NEAR: bool = false;

    fn new(all: FarArray<'a>, place: Place) -> Self {
        let rank = u32::try_from(place.rank).expect("a rank's number");
        let first = GlobalPtr::new(Rank::new(rank), all.start);
        Self {
            world: all.world,
            place,
            at: first.byte_offset((place.local * all.stride) as u64),
        }
    }

    fn world_of(all: FarArray<'a>) -> &'a World {
        all.world
    }

    fn world(&self) -> &'a World {
        self.world
    }

    fn place(&self) -> Place {
        self.place
    }

    fn is_same(&self, other: &Self) -> bool {
        self.place == other.place
    }

    #[inline(never)]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        self.part(offset).get(self.world)
    }

    #[inline(never)]
    fn get_with_state<T: Pod>(&self, offset: usize) -> Result<(u64, T)> {
        let bytes = self
            .part::<u8>(STATE)
            .get_vec(self.world, offset + size_of::<T>())?;
        Ok(parse(&bytes, offset))
    }

    #[inline(never)]
    fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W> {
        self.part::<W>(offset).fetch_op(self.world, op, operand)
    }

    #[inline(never)]
    fn compare_exchange<W: Atomic>(
        &self,
        offset: usize,
        current: W,
        new: W,
    ) -> Result<Result<W, W>> {
        self.part(offset).compare_exchange(self.world, current, new)
    }

    #[inline(never)]
    fn publish<T: Pod>(&self, offset: usize, value: T, state: u64) -> Result<()> {
        let update = SignalUpdate::Set(state);
        self.part(offset)
            .put_signal(self.world, &[value], self.part(STATE), update)?;
        self.world.flush(self.at.rank())
    }

    #[inline(always)]
    fn publish_unread<T: Pod>(&self, offset: usize, value: T, state: u64) -> Result<()> {
        self.publish(offset, value, state)
    }

    #[inline(never)]
    fn put_with_state<T: Pod>(&self, offset: usize, value: T, state: u64) -> Result<()> {
        let mut bytes = vec![0; offset + size_of::<T>()];
        bytes[STATE..STATE + 8].copy_from_slice(state.as_bytes());
        bytes[offset..].copy_from_slice(value.as_bytes());
        self.part::<u8>(STATE).put_slice(self.world, &bytes)?;
        self.world.flush(self.at.rank())
    }

    fn prefetch(&self) {}

    fn prefetch_slot(&self) {}
}

/// The state and the part at `offset` of a slot's bytes.
pub(super) fn parse<T: Pod>(bytes: &[u8], offset: usize) -> (u64, T) {
    let at = |offset: usize, len: usize| &bytes[offset..offset + len];
    let state = u64::read_from_bytes(at(STATE, 8)).expect("eight bytes");
    let part = T::read_from_bytes(at(offset, size_of::<T>())).expect("as many bytes");
    (state, part)
}
