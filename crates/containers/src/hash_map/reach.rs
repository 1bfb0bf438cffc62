//! How this process reaches the slots of a map: by its own instructions, or by operations on global
//! pointers.

use pgas_core::atomics::Atomic;
use pgas_core::backend::{AtomicOp, SignalUpdate};
use pgas_core::rma::{self, Block, FourWords, NearArray};
use pgas_core::{Error, Event, GlobalPtr, Pod, Result, World};
use pgas_lockfree::memory;
use pgas_lockfree::slots::{near, scan};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::hash::Place;
use super::layout::LINE;
use super::state::{StateAt, StateWord};

/// The narrow states of a block.
pub(super) type States = scan::States<FourWords>;

/// A block of slots, and which one of them. Offsets are in bytes from the block's start.
pub(super) trait Reach<'a>: Copy {
    /// All slots of the map.
    type All: Copy;

    /// A block that was read when nobody wrote to it.
    type Seen;

    /// Whether a load of the state costs as good as nothing.
    const IS_NEAR: bool;

    fn new(all: Self::All, place: Place) -> Self;

    fn world_of(all: Self::All) -> &'a World;

    fn world(&self) -> &'a World;

    fn place(&self) -> Place;

    /// Another slot of the same block.
    fn with_index(self, index: usize) -> Self;

    fn is_same(&self, other: &Self) -> bool;

    /// Whether the two are in one block.
    fn is_same_block(&self, other: &Self) -> bool;

    /// The part at `offset` (R).
    fn get<T: Pod>(&self, offset: usize) -> Result<T>;

    /// The narrow states of all slots of the block, of which there are `n` (A each, in any order).
    fn states(&self, n: usize) -> Result<States>;

    /// Reads the first `len` bytes of the block, in which nobody writes (R).
    fn see(&self, len: usize) -> Result<Self::Seen>;

    /// The state and the part at `offset` in a block that was read.
    fn pick<T: Pod>(&self, seen: &Self::Seen, at: StateAt, offset: usize) -> (StateWord, T);

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
    fn publish<T: Pod>(&self, offset: usize, value: T, at: StateAt, state: StateWord)
    -> Result<()>;

    /// As `publish` to a slot that this thread has claimed: who has returned from it may look elsewhere before others see the state (W + A).
    fn publish_claimed<T: Pod>(
        &self,
        offset: usize,
        value: T,
        at: StateAt,
        state: StateWord,
    ) -> Result<()>;

    /// Writes the state and the part at `offset`, when nobody looks, and nobody has written to the block since `seen` was read there.
    /// All is done on return (W).
    fn put_with_state<T: Pod>(
        &self,
        offset: usize,
        value: T,
        at: StateAt,
        state: StateWord,
        seen: &Self::Seen,
    ) -> Result<()>;

    /// Asks for the cache lines of the slot.
    fn prefetch(&self);

    /// Asks for the cache lines of the slot, and for no other.
    fn prefetch_slot(&self);

    /// The state (A).
    fn load_state(&self, at: StateAt) -> Result<StateWord>;

    /// Replaces the state by `new` if the slot is free, else returns what it is (A).
    fn reserve(&self, at: StateAt, new: StateWord) -> Result<Result<(), StateWord>>;

    /// Replaces the state if it is `current`, else returns what it is (A).
    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Result<Result<(), StateWord>>;
}

/// A slot in blocks like `L` that this process loads from and stores to; every step is an instruction or
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

impl<'a, L: Block> Near<'a, L> {
    /// A slot whose block is known.
    #[inline(always)]
    pub(super) fn of_block(all: &'a NearArray<L>, block: rma::Near<'a, L>, place: Place) -> Self {
        Self { all, place, block }
    }
}

impl<'a, L: Block> Reach<'a> for Near<'a, L> {
    type All = &'a NearArray<L>;

    type Seen = ();

    const IS_NEAR: bool = true;

    #[inline(always)]
    fn new(all: &'a NearArray<L>, place: Place) -> Self {
        let block = all.block(place.rank_index(), place.block);
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
    fn with_index(self, index: usize) -> Self {
        let place = self.place.with_index(index);
        Self { place, ..self }
    }

    #[inline(always)]
    fn is_same(&self, other: &Self) -> bool {
        self.block == other.block && self.place.index() == other.place.index()
    }

    #[inline(always)]
    fn is_same_block(&self, other: &Self) -> bool {
        self.block == other.block
    }

    #[inline(always)]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        Ok(memory::load(&self.block, offset))
    }

    #[inline(always)]
    fn states(&self, n: usize) -> Result<States> {
        Ok(scan::states(&self.block, n))
    }

    #[inline(always)]
    fn load_state(&self, at: StateAt) -> Result<StateWord> {
        Ok(near::load_state(&self.block, at))
    }

    #[inline(always)]
    fn reserve(&self, at: StateAt, new: StateWord) -> Result<Result<(), StateWord>> {
        Ok(near::reserve(&self.block, at, new))
    }

    #[inline(always)]
    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Result<Result<(), StateWord>> {
        Ok(near::swap_state(&self.block, at, current, new))
    }

    #[inline(always)]
    fn see(&self, _: usize) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn pick<T: Pod>(&self, (): &(), at: StateAt, offset: usize) -> (StateWord, T) {
        (
            near::load_state(&self.block, at),
            memory::load(&self.block, offset),
        )
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
    fn publish<T: Pod>(
        &self,
        offset: usize,
        value: T,
        at: StateAt,
        state: StateWord,
    ) -> Result<()> {
        near::publish(&self.block, offset, value, at, state);
        Ok(())
    }

    #[inline(always)]
    fn publish_claimed<T: Pod>(
        &self,
        offset: usize,
        value: T,
        at: StateAt,
        state: StateWord,
    ) -> Result<()> {
        near::publish_claimed(&self.block, offset, value, at, state);
        Ok(())
    }

    #[inline(always)]
    fn put_with_state<T: Pod>(
        &self,
        offset: usize,
        value: T,
        at: StateAt,
        state: StateWord,
        (): &(),
    ) -> Result<()> {
        self.block.store(offset, value);
        near::write_state(&self.block, at, state);
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

/// All slots of a map: the first block of each rank is at `start`, and the next one `stride` bytes behind it.
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
    /// The block.
    at: GlobalPtr<u8>,
}

/// Others wait for who has reserved or locked a slot.
#[cold]
pub(super) fn give_up(world: &World, error: Error) -> Error {
    world.give_up("work on an entry of a hash map", error)
}

impl Far<'_> {
    /// Writes the part at `offset`, then the state.
    fn try_publish<T: Pod>(
        &self,
        offset: usize,
        value: T,
        at: StateAt,
        state: StateWord,
    ) -> Result<()> {
        let part = self.part(offset);
        if at.is_narrow {
            // A signal is a word of eight bytes.
            part.put(self.world, value)?;
            self.world.flush(self.at.rank())?;
            let word = self.part::<u32>(at.offset);
            word.fetch_op(self.world, AtomicOp::Swap, state.narrow())?;
            return Ok(());
        }
        let update = SignalUpdate::Set(state.to_bits());
        part.put_signal(self.world, &[value], self.part(at.offset), update)?;
        self.world.flush(self.at.rank())
    }

    pub(super) fn part<T>(&self, offset: usize) -> GlobalPtr<T> {
        self.at.byte_offset(offset as u64).cast()
    }

    /// Begins to [see](Reach::see) the block (R).
    pub(super) fn see_nb(&self, len: usize) -> Result<Event<Vec<u8>>> {
        self.at.get_vec_nb(self.world, len)
    }
}

impl<'a> Reach<'a> for Far<'a> {
    type All = FarArray<'a>;

    /// Its bytes.
    type Seen = Vec<u8>;

    const IS_NEAR: bool = false;

    fn new(all: FarArray<'a>, place: Place) -> Self {
        let first = GlobalPtr::new(place.rank(), all.start);
        Self {
            world: all.world,
            place,
            at: first.byte_offset((place.block * all.stride) as u64),
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

    fn with_index(self, index: usize) -> Self {
        let place = self.place.with_index(index);
        Self { place, ..self }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.at == other.at && self.place.index() == other.place.index()
    }

    fn is_same_block(&self, other: &Self) -> bool {
        self.at == other.at
    }

    #[inline(never)]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        self.part(offset).get(self.world)
    }

    fn states(&self, n: usize) -> Result<States> {
        let four = |offset| self.get::<[u64; 2]>(offset).map(FourWords::from);
        let others = if n > 4 { Some(four(16)?) } else { None };
        Ok(States::new(n, four(0)?, others))
    }

    #[inline(always)]
    fn load_state(&self, at: StateAt) -> Result<StateWord> {
        let load = AtomicOp::Load;
        Ok(if at.is_narrow {
            StateWord::from_narrow(self.fetch_op(at.offset, load, 0_u32)?)
        } else {
            StateWord::from_bits(self.fetch_op(at.offset, load, 0_u64)?)
        })
    }

    #[inline(always)]
    fn reserve(&self, at: StateAt, new: StateWord) -> Result<Result<(), StateWord>> {
        self.swap_state(at, StateWord::FREE, new)
    }

    #[inline(always)]
    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Result<Result<(), StateWord>> {
        if at.is_narrow {
            let (current, new) = (current.narrow(), new.narrow());
            let swapped = self.compare_exchange(at.offset, current, new)?;
            return Ok(swapped.map(|_| ()).map_err(StateWord::from_narrow));
        }
        let (current, new) = (current.to_bits(), new.to_bits());
        let swapped = self.compare_exchange(at.offset, current, new)?;
        Ok(swapped.map(|_| ()).map_err(StateWord::from_bits))
    }

    #[inline(never)]
    fn see(&self, len: usize) -> Result<Vec<u8>> {
        self.at.get_vec(self.world, len)
    }

    fn pick<T: Pod>(&self, seen: &Vec<u8>, at: StateAt, offset: usize) -> (StateWord, T) {
        let part = &seen[offset..offset + size_of::<T>()];
        let part = T::read_from_bytes(part).expect("as many bytes");
        (parse_state(&seen[at.offset..], at), part)
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
    fn publish<T: Pod>(
        &self,
        offset: usize,
        value: T,
        at: StateAt,
        state: StateWord,
    ) -> Result<()> {
        let published = self.try_publish(offset, value, at, state);
        published.map_err(|error| give_up(self.world, error))
    }

    #[inline(always)]
    fn publish_claimed<T: Pod>(
        &self,
        offset: usize,
        value: T,
        at: StateAt,
        state: StateWord,
    ) -> Result<()> {
        self.publish(offset, value, at, state)
    }

    #[inline(never)]
    fn put_with_state<T: Pod>(
        &self,
        offset: usize,
        value: T,
        at: StateAt,
        state: StateWord,
        seen: &Vec<u8>,
    ) -> Result<()> {
        let mut bytes = seen[at.offset..offset + size_of::<T>()].to_vec();
        if at.is_narrow {
            bytes[..4].copy_from_slice(state.narrow().as_bytes());
        } else {
            bytes[..8].copy_from_slice(state.to_bits().as_bytes());
        }
        bytes[offset - at.offset..].copy_from_slice(value.as_bytes());
        self.part::<u8>(at.offset).put_slice(self.world, &bytes)?;
        self.world.flush(self.at.rank())
    }

    fn prefetch(&self) {}

    fn prefetch_slot(&self) {}
}

/// The state that these bytes begin with.
pub(super) fn parse_state(bytes: &[u8], at: StateAt) -> StateWord {
    if at.is_narrow {
        let bits = u32::read_from_prefix(bytes).expect("four bytes").0;
        return StateWord::from_narrow(bits);
    }
    StateWord::from_bits(u64::read_from_prefix(bytes).expect("eight bytes").0)
}
