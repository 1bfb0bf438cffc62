//! A slot in global memory: the steps of the [protocol](super::slot) on its parts.

use std::marker::PhantomData;

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::{Error, Event, Pod, Result};
use zerocopy::FromZeros as _;

use super::layout::{Layout, Pair, ValueKind};
use super::reach::{self, Far, Reach};
use super::slot::SlotMemory;
use super::state::{StateAt, StateWord};
use crate::Result as ContainerResult;
use crate::object::{self, Heap, KeyOf, Object, Repr, SlotOf};

/// The layout of the slots of a map.
pub(super) type LayoutOf<K, V> = Layout<SlotOf<K>, SlotOf<V>>;

/// What a slot holds of a key and its value.
pub(super) type Entry<K, V> = (SlotOf<K>, SlotOf<V>);

/// One slot of a map of `K` to `V`, reached as `R` says.
pub(super) struct GlobalSlot<K, V, R> {
    pub(super) reach: R,
    entry: PhantomData<fn() -> (K, V)>,
}

impl<K, V, R: Copy> Clone for GlobalSlot<K, V, R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, R: Copy> Copy for GlobalSlot<K, V, R> {}

impl<'a, K: Object, V: Object, R: Reach<'a>> GlobalSlot<K, V, R> {
    #[inline(always)]
    pub(super) fn new(reach: R) -> Self {
        let entry = PhantomData;
        Self { reach, entry }
    }

    /// Where the slot's state is.
    #[inline(always)]
    pub(super) fn state_at(&self) -> StateAt {
        LayoutOf::<K, V>::state(self.reach.place().index())
    }

    /// Where the slot's part is that is at `offset` in the first one.
    #[inline(always)]
    fn at(&self, offset: usize) -> usize {
        LayoutOf::<K, V>::of_slot(offset, self.reach.place().index())
    }

    #[inline(always)]
    fn pair_at(&self) -> usize {
        self.at(LayoutOf::<K, V>::PAIR)
    }

    #[inline(always)]
    pub(super) fn key_at(&self) -> usize {
        self.at(LayoutOf::<K, V>::KEY)
    }

    #[inline(always)]
    pub(super) fn value_at(&self) -> usize {
        self.at(LayoutOf::<K, V>::VALUE)
    }

    /// Another slot of the same block.
    #[inline(always)]
    pub(super) fn with_index(self, index: usize) -> Self {
        Self::new(self.reach.with_index(index))
    }

    /// What the slot holds of the key (R).
    #[inline(always)]
    pub(super) fn key(&self) -> Result<SlotOf<K>> {
        self.reach.get(self.key_at())
    }

    /// What it holds of key and value, the latter maybe torn (R).
    #[inline]
    pub(super) fn entry(&self) -> Result<(SlotOf<K>, SlotOf<V>)> {
        if LayoutOf::<K, V>::KEY_FIRST {
            let pair: Pair<SlotOf<K>, SlotOf<V>> = self.reach.get(self.pair_at())?;
            return Ok((pair.first, pair.second));
        }
        let pair: Pair<SlotOf<V>, SlotOf<K>> = self.reach.get(self.pair_at())?;
        Ok((pair.second, pair.first))
    }

    /// Reads the slot's block, in which nobody writes (R).
    #[inline(always)]
    pub(super) fn see(&self) -> Result<R::Seen> {
        self.reach.see(LayoutOf::<K, V>::USED)
    }

    /// The state, and what the slot holds of key and value if it is not free, in its block that was read.
    #[inline(always)]
    pub(super) fn pick(&self, seen: &R::Seen) -> (StateWord, Entry<K, V>) {
        let (at, pair_at) = (self.state_at(), self.pair_at());
        if LayoutOf::<K, V>::KEY_FIRST {
            let (state, pair) = self.reach.pick(seen, at, pair_at);
            let pair: Pair<SlotOf<K>, SlotOf<V>> = pair;
            return (state, (pair.first, pair.second));
        }
        let (state, pair) = self.reach.pick(seen, at, pair_at);
        let pair: Pair<SlotOf<V>, SlotOf<K>> = pair;
        (state, (pair.second, pair.first))
    }

    /// Writes key, value and state, when nobody looks, and nothing was written to the block since `seen` was read there (W).
    #[inline(always)]
    pub(super) fn write_quietly(
        &self,
        key: SlotOf<K>,
        value: SlotOf<V>,
        state: StateWord,
        seen: &R::Seen,
    ) -> Result<()> {
        let (at, pair_at) = (self.state_at(), self.pair_at());
        if LayoutOf::<K, V>::KEY_FIRST {
            let (first, second) = (key, value);
            let pair = Pair { first, second };
            return self.reach.put_with_state(pair_at, pair, at, state, seen);
        }
        let (first, second) = (value, key);
        let pair = Pair { first, second };
        self.reach.put_with_state(pair_at, pair, at, state, seen)
    }

    /// Performs `op` on the value as a word (A).
    #[inline(always)]
    pub(super) fn fetch_op<W: Atomic>(&self, op: AtomicOp, operand: W) -> Result<W> {
        self.reach.fetch_op(self.value_at(), op, operand)
    }

    #[inline(always)]
    fn compare_swap_as<W: Atomic>(
        &self,
        current: SlotOf<V>,
        new: SlotOf<V>,
    ) -> Result<Result<(), SlotOf<V>>> {
        let (current, new) = (to_word::<W, _>(&current), to_word(&new));
        let swapped = self.reach.compare_exchange(self.value_at(), current, new)?;
        Ok(swapped.map(|_| ()).map_err(of_word))
    }
}

impl<K: Object, V: Object> GlobalSlot<K, V, Far<'_>> {
    /// Begins to [see](GlobalSlot::see) the slot's block (R).
    pub(super) fn see_nb(&self) -> Result<Event<Vec<u8>>> {
        self.reach.see_nb(LayoutOf::<K, V>::USED)
    }
}

impl<'a, K: Object, V: Object, R: Reach<'a>> SlotMemory for GlobalSlot<K, V, R> {
    type Error = Error;
    type Failure = crate::Error;
    type Key = KeyOf<K>;
    type KeySlot = SlotOf<K>;
    type Value = SlotOf<V>;
    type Loaded = <V::Repr as Repr<V>>::Loaded;
    type Heap = Heap;

    const HAS_HEAP: bool = object::has_heap::<V>();

    const IS_WORD: bool = !matches!(LayoutOf::<K, V>::KIND, ValueKind::Wide);

    #[inline(always)]
    fn is_same(&self, other: &Self) -> bool {
        self.reach.is_same(&other.reach)
    }

    #[inline(always)]
    fn load_state(&self) -> Result<StateWord> {
        self.reach.load_state(self.state_at())
    }

    #[inline(always)]
    fn reserve(&self, new: StateWord) -> Result<Result<(), StateWord>> {
        self.reach.reserve(self.state_at(), new)
    }

    #[inline(always)]
    fn swap_state(&self, current: StateWord, new: StateWord) -> Result<Result<(), StateWord>> {
        self.reach.swap_state(self.state_at(), current, new)
    }

    #[inline(always)]
    fn publish_entry(&self, key: SlotOf<K>, value: SlotOf<V>, state: StateWord) -> Result<()> {
        let (at, pair_at) = (self.state_at(), self.pair_at());
        if LayoutOf::<K, V>::KEY_FIRST {
            let (first, second) = (key, value);
            let pair = Pair { first, second };
            return self.reach.publish_claimed(pair_at, pair, at, state);
        }
        let (first, second) = (value, key);
        let pair = Pair { first, second };
        self.reach.publish_claimed(pair_at, pair, at, state)
    }

    #[inline]
    fn publish_value(&self, value: SlotOf<V>, state: StateWord) -> Result<()> {
        self.reach
            .publish(self.value_at(), value, self.state_at(), state)
    }

    #[inline(always)]
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
        self.reach.get(self.value_at())
    }

    #[inline(always)]
    fn is_outside(value: &SlotOf<V>) -> bool {
        <V::Repr as Repr<V>>::is_outside(value)
    }

    #[inline(always)]
    fn fetch(value: SlotOf<V>, heap: &Heap) -> Result<Self::Loaded> {
        <V::Repr as Repr<V>>::load(value, heap)
    }

    #[inline(always)]
    fn release(value: &SlotOf<V>, heap: &Heap) -> ContainerResult<()> {
        object::release::<V>(value, heap)
    }

    #[inline(always)]
    fn load_word(&self) -> Result<SlotOf<V>> {
        match LayoutOf::<K, V>::KIND {
            ValueKind::Word4 => self.fetch_op(AtomicOp::Load, 0_u32).map(of_word),
            ValueKind::Word8 => self.fetch_op(AtomicOp::Load, 0_u64).map(of_word),
            ValueKind::Nothing | ValueKind::Wide => Ok(SlotOf::<V>::new_zeroed()),
        }
    }

    #[inline(always)]
    fn swap_word(&self, value: SlotOf<V>) -> Result<()> {
        match LayoutOf::<K, V>::KIND {
            ValueKind::Word4 => self
                .fetch_op(AtomicOp::Swap, to_word::<u32, _>(&value))
                .map(|_| ()),
            ValueKind::Word8 => self
                .fetch_op(AtomicOp::Swap, to_word::<u64, _>(&value))
                .map(|_| ()),
            ValueKind::Nothing | ValueKind::Wide => Ok(()),
        }
    }

    #[inline(always)]
    fn compare_swap_word(
        &self,
        current: SlotOf<V>,
        new: SlotOf<V>,
    ) -> Result<Result<(), SlotOf<V>>> {
        match LayoutOf::<K, V>::KIND {
            ValueKind::Word4 => self.compare_swap_as::<u32>(current, new),
            ValueKind::Word8 => self.compare_swap_as::<u64>(current, new),
            ValueKind::Nothing | ValueKind::Wide => Ok(Ok(())),
        }
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        let what = "another rank to finish writing an entry of a hash map";
        self.reach.world().wait_for(what, ready)
    }

    #[cold]
    fn give_up(&self, error: Error) -> Error {
        reach::give_up(self.reach.world(), error)
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
