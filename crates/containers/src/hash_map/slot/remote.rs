//! Slots anywhere: every step is an operation on a global pointer, and is counted. They are calls,
//! so that the code for local slots, beside which they stand in every method, has the registers.

use std::convert::Infallible;

use pgas_core::atomics::Atomic;
use pgas_core::backend::{AtomicOp, SignalUpdate};
use pgas_core::rma::FourWords;
use pgas_core::{Event, GlobalPtr, Pod, Rank, Result, World};
use pgas_lockfree::slots::probe::States;
use pgas_lockfree::slots::state::{StateAt, StateWord};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::super::hash::{Hash, Place};
use super::layout::Pair;
use super::{Access, GlobalSlot, LayoutOf, PartAt, Swapped, give_up};
use crate::object::{Object, SlotOf};

/// All slots of a map, or those of one rank: the first block of each rank is at `start`, and the next
/// one `stride` bytes behind it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RemoteArray<'a> {
    pub(in super::super) world: &'a World,
    /// The rank that has number 0 in places.
    pub(in super::super) first: Rank,
    pub(in super::super) start: u64,
    pub(in super::super) stride: usize,
}

/// A slot, of one rank alone if it `IS_PART`.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Remote<'a, const IS_PART: bool = false> {
    world: &'a World,
    place: Place,
    /// The block.
    at: GlobalPtr<u8>,
}

impl<const IS_PART: bool> Remote<'_, IS_PART> {
    /// Writes the part, then the state.
    fn try_publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        let (part, at) = (self.part(at.offset), at.state);
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

    fn part<T>(&self, offset: usize) -> GlobalPtr<T> {
        self.at.byte_offset(offset as u64).cast()
    }
}

impl<K: Object, V: Object> GlobalSlot<K, V, Remote<'_>> {
    /// Its state word, of four bytes or of eight as `W` says.
    pub(in super::super) fn state_word<W>(&self) -> GlobalPtr<W> {
        self.access.part(self.state_at().offset)
    }

    /// The value as a word.
    pub(in super::super) fn value_pointer<W>(&self) -> GlobalPtr<W> {
        self.access.part(self.value_at().offset)
    }

    /// Begins to read what the slot holds of key and value, the latter maybe torn (R).
    pub(in super::super) fn entry_nb(&self) -> Result<Event<Pair<SlotOf<K>, SlotOf<V>>>> {
        let entry = self
            .access
            .part::<Pair<SlotOf<K>, SlotOf<V>>>(self.entry_at().offset);
        entry.get_nb(self.access.world)
    }

    /// Begins to [see](GlobalSlot::see) the slot's block (R).
    pub(in super::super) fn see_nb(&self) -> Result<Event<Vec<u8>>> {
        let (at, world) = (self.access.at, self.access.world);
        at.get_vec_nb(world, LayoutOf::<K, V>::USED)
    }
}

impl<'a, const IS_PART: bool> Access<'a> for Remote<'a, IS_PART> {
    type All = RemoteArray<'a>;
    /// Its bytes.
    type Seen = Vec<u8>;
    type Line = Infallible;

    const IS_LOCAL: bool = false;
    const IS_PART: bool = IS_PART;

    fn new(all: RemoteArray<'a>, place: Place) -> Self {
        let rank = Rank::new(all.first.number() + place.rank().number());
        let first = GlobalPtr::new(rank, all.start);
        Self {
            world: all.world,
            place,
            at: first.byte_offset((place.block * all.stride) as u64),
        }
    }

    fn world(&self) -> &'a World {
        self.world
    }

    fn place(&self) -> Place {
        self.place
    }

    fn home_line(_: RemoteArray<'a>, _: Hash, _: usize) -> Option<Infallible> {
        None
    }

    fn next_line(_: RemoteArray<'a>, line: Infallible, _: usize) -> Option<Infallible> {
        match line {}
    }

    fn rest(line: &Infallible) -> u64 {
        match *line {}
    }

    fn states(line: &Infallible, _: usize) -> States<FourWords> {
        match *line {}
    }

    fn of_line(_: RemoteArray<'a>, line: &Infallible, _: usize) -> Self {
        match *line {}
    }

    fn prefetch(_: RemoteArray<'a>, _: Hash) {}

    #[inline(never)]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        self.part(offset).get(self.world)
    }

    #[inline(never)]
    fn see(&self, len: usize) -> Result<Vec<u8>> {
        self.at.get_vec(self.world, len)
    }

    fn pick<T: Pod>(&self, seen: &Vec<u8>, at: PartAt) -> (StateWord, T) {
        let part = &seen[at.offset..at.offset + size_of::<T>()];
        let part = T::read_from_bytes(part).expect("as many bytes");
        (parse_state(&seen[at.state.offset..], at.state), part)
    }

    #[inline(never)]
    fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W> {
        self.part::<W>(offset).fetch_op(self.world, op, operand)
    }

    #[inline(never)]
    fn compare_exchange<W: Atomic>(&self, offset: usize, current: W, new: W) -> Swapped<W, W> {
        self.part(offset).compare_exchange(self.world, current, new)
    }

    #[inline(never)]
    fn publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        let published = self.try_publish(at, value, state);
        published.map_err(|error| give_up(self.world, error))
    }

    fn publish_claimed<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        self.publish(at, value, state)
    }

    #[inline(never)]
    fn write<T: Pod>(&self, at: PartAt, value: T, state: StateWord, seen: &Vec<u8>) -> Result<()> {
        let PartAt { offset, state: at } = at;
        let mut bytes = seen[at.offset..offset + size_of::<T>()].to_vec();
        if at.is_narrow {
            bytes[..4].copy_from_slice(state.narrow().as_bytes());
        } else {
            bytes[..8].copy_from_slice(state.to_bits().as_bytes());
        }
        bytes[offset - at.offset..].copy_from_slice(value.as_bytes());
        self.part::<u8>(at.offset).put_slice(self.world, &bytes)?;
        // Whether it is done nobody knows then, and who tries again may do it twice.
        let flushed = self.world.flush(self.at.rank());
        flushed.map_err(|error| give_up(self.world, error))
    }

    fn load_state(&self, at: StateAt) -> Result<StateWord> {
        let load = AtomicOp::Load;
        Ok(if at.is_narrow {
            StateWord::from_narrow(self.fetch_op(at.offset, load, 0_u32)?)
        } else {
            StateWord::from_bits(self.fetch_op(at.offset, load, 0_u64)?)
        })
    }

    fn reserve(&self, at: StateAt, new: StateWord) -> Swapped<(), StateWord> {
        self.swap_state(at, StateWord::FREE, new)
    }

    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Swapped<(), StateWord> {
        if at.is_narrow {
            let (current, new) = (current.narrow(), new.narrow());
            let swapped = self.compare_exchange(at.offset, current, new)?;
            return Ok(swapped.map(drop).map_err(StateWord::from_narrow));
        }
        let (current, new) = (current.to_bits(), new.to_bits());
        let swapped = self.compare_exchange(at.offset, current, new)?;
        Ok(swapped.map(drop).map_err(StateWord::from_bits))
    }
}

/// The state that these bytes begin with.
pub(in super::super) fn parse_state(bytes: &[u8], at: StateAt) -> StateWord {
    if at.is_narrow {
        let bits = u32::read_from_prefix(bytes).expect("four bytes").0;
        return StateWord::from_narrow(bits);
    }
    StateWord::from_bits(u64::read_from_prefix(bytes).expect("eight bytes").0)
}
