//! A slot in global memory: the steps of the protocol of [`pgas_lockfree::slots`] on its parts.

pub(super) mod copied;
pub(super) mod layout;
pub(super) mod local;
mod place;
pub(super) mod remote;
pub(super) mod replayed;

use std::marker::PhantomData;

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::rma::{Block, MaybeCounted, Near, NearArray};
use pgas_core::{Error, Pod, Result, World};
use pgas_lockfree::slots::SlotMemory;
use pgas_lockfree::slots::state::{StateAt, StateWord};
use zerocopy::FromZeros as _;

use self::layout::{Layout, Pair, ValueKind};
use super::hash::Position;
use crate::object::{self, Heap, KeyOf, Object, Repr, SlotOf};
use crate::wait::until;

/// What an operation waits for.
const AWAITED: &str = "another rank to finish writing an entry of a hash map";

/// The layout of the slots of a map.
pub(super) type LayoutOf<K, V> = Layout<SlotOf<K>, SlotOf<V>>;

/// The same in [rare](local::Kind) ways of access.
pub(super) type RareOf<K, V> = MaybeCounted<LayoutOf<K, V>>;

/// Access to one slot and its block: by loads and stores of this process, or by operations on
/// global pointers. Offsets are in bytes from the block's start.
pub(super) trait Access<'a>: Copy + 'a {
    /// All slots of the map or shard.
    type All: Copy;

    /// A block, as this process loads and stores it.
    type Block: Block + 'a;

    /// Whether this process can load the state word directly.
    const IS_LOCAL: bool = false;

    fn new(all: Self::All, position: Position) -> Self;

    /// Whether the slots are one rank's shard.
    fn is_shard(all: Self::All) -> bool;

    /// Whether no other rank writes to the slots, and this process can load them directly.
    fn is_still(_: Self::All) -> bool {
        false
    }

    /// The memory of long keys and values, if it is not used as the map has it.
    fn heap(_: Self::All) -> Option<&'a Heap> {
        None
    }

    fn world(&self) -> &'a World;

    fn position(&self) -> Position;

    /// Notes that a search has reached the slot's block, where that is the step that costs (R).
    fn note_block(&self) {}

    /// Notes a look at the states of a line, which is one step. If a claim follows in the line, that
    /// is the same step: its atomic is noted. Where no other rank writes, the line is read at once.
    fn note_line(_: Self::All, _: &Near<'a, Self::Block>) {}

    /// Begins a probe. Returns the number of blocks that the same probe has passed before, if it is
    /// run again.
    fn n_passed(_: Self::All) -> usize {
        0
    }

    /// Notes the number of blocks that the probe has passed, for when it is run again.
    fn pass(_: Self::All, _n_blocks: impl FnOnce() -> usize) {}

    /// All slots, if this process loads and stores them directly.
    fn local_array(_: Self::All) -> Option<&'a NearArray<Self::Block>> {
        None
    }

    /// The slot at `position` in a known block.
    fn in_block(all: Self::All, position: Position, _: Near<'a, Self::Block>) -> Self {
        Self::new(all, position)
    }

    /// Reads the part at `offset` (R).
    fn get<T: Pod>(&self, offset: usize) -> Result<T>;

    /// Performs `op` on the word at `offset` (A).
    fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W>;

    /// Replaces the word at `offset` if it is `current` (A).
    fn compare_exchange<W: Atomic>(&self, offset: usize, current: W, new: W) -> Swapped<W, W>;

    /// Writes the part, then the state. A rank that sees the state sees the part. A rank that sees
    /// some of the part sees what this thread wrote to the state before. All is complete on return
    /// (W + A).
    fn publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()>;

    /// As `publish`, to a slot that this thread has reserved. After the return, this thread may
    /// read elsewhere before other ranks see the state (W + A).
    fn publish_claimed<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        self.publish(at, value, state)
    }

    /// Reads the state (A).
    fn load_state(&self, at: StateAt) -> Result<StateWord> {
        let load = AtomicOp::Load;
        Ok(if at.is_narrow {
            StateWord::from_narrow(self.fetch_op(at.offset, load, 0_u32)?)
        } else {
            StateWord::from_bits(self.fetch_op(at.offset, load, 0_u64)?)
        })
    }

    /// Replaces the state by `new` if the slot is free, else returns what it is (A).
    fn reserve(&self, at: StateAt, new: StateWord) -> Swapped<(), StateWord> {
        self.swap_state(at, StateWord::FREE, new)
    }

    /// Replaces the state if it is `current`, else returns what it is (A).
    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Swapped<(), StateWord> {
        swap_state(self, at, current, new)
    }

    /// Waits for another rank until `ready`. That is no wait, and allowed inside a handler, if it is
    /// ready at once.
    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        until(self.world(), AWAITED, ready)
    }

    /// Reports an error that leaves a slot reserved or locked, for which other ranks wait.
    #[cold]
    fn give_up(&self, error: Error) -> Error {
        give_up(self.world(), error)
    }
}

/// As [`Access::swap_state`], by a compare-and-swap.
fn swap_state<'a, R: Access<'a>>(
    access: &R,
    at: StateAt,
    current: StateWord,
    new: StateWord,
) -> Swapped<(), StateWord> {
    if at.is_narrow {
        let (current, new) = (current.narrow(), new.narrow());
        let swapped = access.compare_exchange(at.offset, current, new)?;
        return Ok(swapped.map(drop).map_err(StateWord::from_narrow));
    }
    let (current, new) = (current.to_bits(), new.to_bits());
    let swapped = access.compare_exchange(at.offset, current, new)?;
    Ok(swapped.map(drop).map_err(StateWord::from_bits))
}

/// The result of a compare-and-swap: success, or the current word.
pub(super) type Swapped<T, W> = Result<Result<T, W>>;

/// The offsets of a part of a slot and of the slot's state.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartAt {
    offset: usize,
    state: StateAt,
}

/// Reports an error that leaves a slot reserved or locked, for which other ranks wait.
#[cold]
pub(super) fn give_up(world: &World, error: Error) -> Error {
    world.give_up("work on an entry of a hash map", error)
}

/// One slot of a map of `K` to `V`, with access `R`.
pub(super) struct GlobalSlot<K, V, R> {
    pub(super) access: R,
    entry: PhantomData<fn() -> (K, V)>,
}

impl<K, V, R: Copy> Clone for GlobalSlot<K, V, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, R: Copy> Copy for GlobalSlot<K, V, R> {}

impl<'a, K: Object, V: Object, R: Access<'a>> GlobalSlot<K, V, R> {
    #[inline]
    pub(super) fn new(access: R) -> Self {
        let entry = PhantomData;
        Self { access, entry }
    }

    #[inline]
    pub(super) fn position(&self) -> Position {
        self.access.position()
    }

    /// The offset of the slot's state.
    #[inline]
    fn state_at(&self) -> StateAt {
        LayoutOf::<K, V>::state(self.position().index())
    }

    /// The offset of the key, with the value behind it.
    #[inline]
    fn entry_at(&self) -> PartAt {
        PartAt {
            offset: LayoutOf::<K, V>::of_slot(LayoutOf::<K, V>::KEY, self.position().index()),
            state: self.state_at(),
        }
    }

    #[inline]
    fn value_at(&self) -> PartAt {
        PartAt {
            offset: LayoutOf::<K, V>::of_slot(LayoutOf::<K, V>::VALUE, self.position().index()),
            state: self.state_at(),
        }
    }

    /// Reads the encoded key (R).
    #[inline]
    pub(super) fn key(&self) -> Result<SlotOf<K>> {
        self.access.get(self.entry_at().offset)
    }

    /// Reads the encoded key and value. The value may be torn (R).
    #[inline]
    pub(super) fn entry(&self) -> Result<(SlotOf<K>, SlotOf<V>)> {
        let pair: Pair<SlotOf<K>, SlotOf<V>> = self.access.get(self.entry_at().offset)?;
        Ok((pair.key, pair.value))
    }

    /// Performs `op` on the value as a word (A).
    #[inline]
    pub(super) fn fetch_op<W: Atomic>(&self, op: AtomicOp, operand: W) -> Result<W> {
        self.access.fetch_op(self.value_at().offset, op, operand)
    }

    #[inline]
    fn compare_swap_as<W: Atomic>(
        &self,
        current: SlotOf<V>,
        new: SlotOf<V>,
    ) -> Swapped<(), SlotOf<V>> {
        let (current, new) = (to_word::<W, _>(&current), to_word(&new));
        let offset = self.value_at().offset;
        let swapped = self.access.compare_exchange(offset, current, new)?;
        Ok(swapped.map(|_| ()).map_err(of_word))
    }
}

impl<'a, K: Object, V: Object, R: Access<'a>> SlotMemory for GlobalSlot<K, V, R> {
    type Error = Error;
    type Failure = Error;
    type Key = KeyOf<K>;
    type KeySlot = SlotOf<K>;
    type Value = SlotOf<V>;
    type Loaded = KeyOf<V>;
    type Heap = Heap;

    const HAS_HEAP: bool = object::has_heap::<V>();

    const IS_WORD: bool = !matches!(LayoutOf::<K, V>::KIND, ValueKind::Wide);

    const IS_LOCAL: bool = R::IS_LOCAL;

    fn is_same(&self, other: &Self) -> bool {
        self.position().is_same(other.position())
    }

    #[inline]
    fn load_state(&self) -> Result<StateWord> {
        self.access.load_state(self.state_at())
    }

    #[inline]
    fn reserve(&self, new: StateWord) -> Swapped<(), StateWord> {
        self.access.reserve(self.state_at(), new)
    }

    #[inline]
    fn swap_state(&self, current: StateWord, new: StateWord) -> Swapped<(), StateWord> {
        self.access.swap_state(self.state_at(), current, new)
    }

    #[inline]
    fn publish_entry(&self, key: SlotOf<K>, value: SlotOf<V>, state: StateWord) -> Result<()> {
        let pair = Pair { key, value };
        self.access.publish_claimed(self.entry_at(), pair, state)
    }

    #[inline]
    fn publish_value(&self, value: SlotOf<V>, state: StateWord) -> Result<()> {
        self.access.publish(self.value_at(), value, state)
    }

    #[inline]
    fn has_key(&self, key: &KeyOf<K>, heap: &Heap) -> Result<bool> {
        <K::Repr as Repr<K>>::has_key(&self.key()?, key, heap)
    }

    #[inline]
    fn entry_of(&self, key: &KeyOf<K>, heap: &Heap) -> Result<Option<SlotOf<V>>> {
        let (there, value) = self.entry()?;
        Ok(<K::Repr as Repr<K>>::has_key(&there, key, heap)?.then_some(value))
    }

    #[inline]
    fn value(&self) -> Result<SlotOf<V>> {
        self.access.get(self.value_at().offset)
    }

    fn is_outside(value: &SlotOf<V>) -> bool {
        <V::Repr as Repr<V>>::is_outside(value)
    }

    #[inline]
    fn fetch(value: SlotOf<V>, heap: &Heap) -> Result<Self::Loaded> {
        <V::Repr as Repr<V>>::load(value, heap)
    }

    #[inline]
    fn release(value: &SlotOf<V>, heap: &Heap) {
        object::release_taken::<V>(value, heap);
    }

    #[inline]
    fn load_word(&self) -> Result<SlotOf<V>> {
        match LayoutOf::<K, V>::KIND {
            ValueKind::Word4 => self.fetch_op(AtomicOp::Load, 0_u32).map(of_word),
            ValueKind::Word8 => self.fetch_op(AtomicOp::Load, 0_u64).map(of_word),
            ValueKind::Nothing | ValueKind::Wide => Ok(SlotOf::<V>::new_zeroed()),
        }
    }

    #[inline]
    fn swap_word(&self, value: SlotOf<V>) -> Result<()> {
        let swap = AtomicOp::Swap;
        match LayoutOf::<K, V>::KIND {
            ValueKind::Word4 => self.fetch_op(swap, to_word::<u32, _>(&value)).map(drop),
            ValueKind::Word8 => self.fetch_op(swap, to_word::<u64, _>(&value)).map(drop),
            ValueKind::Nothing | ValueKind::Wide => Ok(()),
        }
    }

    #[inline]
    fn compare_swap_word(&self, current: SlotOf<V>, new: SlotOf<V>) -> Swapped<(), SlotOf<V>> {
        match LayoutOf::<K, V>::KIND {
            ValueKind::Word4 => self.compare_swap_as::<u32>(current, new),
            ValueKind::Word8 => self.compare_swap_as::<u64>(current, new),
            ValueKind::Nothing | ValueKind::Wide => Ok(Ok(())),
        }
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        self.access.wait_until(ready)
    }

    #[cold]
    fn give_up(&self, error: Error) -> Error {
        self.access.give_up(error)
    }
}

/// The value's bytes as a word of the same size.
#[inline]
pub(super) fn to_word<W: Pod, V: Pod>(value: &V) -> W {
    W::read_from_bytes(value.as_bytes()).expect("the layout chose a word of the value's size")
}

/// The value with the bytes of a word of the same size.
#[inline]
pub(super) fn of_word<W: Pod, V: Pod>(word: W) -> V {
    V::read_from_bytes(word.as_bytes()).expect("the layout chose a word of the value's size")
}
