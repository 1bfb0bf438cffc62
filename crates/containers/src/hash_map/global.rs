//! A slot in global memory: the steps of the [protocol](super::slot) on its parts.

use std::marker::PhantomData;

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::{Pod, Result};

use super::layout::{Layout, Pair, ValueKind};
use super::reach::{Reach, STATE};
use super::slot::SlotMemory;
use super::state::StateWord;

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

impl<'a, K: Pod, V: Pod, R: Reach<'a>> GlobalSlot<K, V, R> {
    #[inline(always)]
    pub(super) fn new(reach: R) -> Self {
        let entry = PhantomData;
        Self { reach, entry }
    }

    /// The key (R).
    #[inline(always)]
    pub(super) fn key(&self) -> Result<K> {
        self.reach.get(Layout::<K, V>::KEY)
    }

    /// Key and value, the latter maybe torn (R).
    #[inline]
    pub(super) fn entry(&self) -> Result<(K, V)> {
        if Layout::<K, V>::KEY_FIRST {
            let pair: Pair<K, V> = self.reach.get(Layout::<K, V>::PAIR)?;
            return Ok((pair.first, pair.second));
        }
        let pair: Pair<V, K> = self.reach.get(Layout::<K, V>::PAIR)?;
        Ok((pair.second, pair.first))
    }

    /// Performs `op` on the value as a word (A).
    #[inline(always)]
    pub(super) fn fetch_op<W: Atomic>(&self, op: AtomicOp, operand: W) -> Result<W> {
        self.reach.fetch_op(Layout::<K, V>::VALUE, op, operand)
    }

    #[inline(always)]
    fn compare_swap_as<W: Atomic>(&self, current: V, new: V) -> Result<Result<(), V>> {
        let (current, new) = (to_word::<W, V>(&current), to_word(&new));
        let swapped = self
            .reach
            .compare_exchange(Layout::<K, V>::VALUE, current, new)?;
        Ok(swapped.map(|_| ()).map_err(of_word))
    }
}

impl<'a, K: Pod, V: Pod, R: Reach<'a>> SlotMemory for GlobalSlot<K, V, R> {
    type Key = K;
    type Value = V;

    const IS_WORD: bool = !matches!(Layout::<K, V>::KIND, ValueKind::Wide);

    #[inline(always)]
    fn is_same(&self, other: &Self) -> bool {
        self.reach.is_same(&other.reach)
    }

    #[inline(always)]
    fn load_state(&self) -> Result<StateWord> {
        let bits = self.reach.fetch_op(STATE, AtomicOp::Load, 0_u64)?;
        Ok(StateWord::from_bits(bits))
    }

    #[inline(always)]
    fn reserve(&self, new: StateWord) -> Result<Result<(), StateWord>> {
        // Where looking costs nothing, a slot that is taken is left in the caches of its other readers.
        if R::IS_NEAR {
            let seen = self.load_state()?;
            if seen != StateWord::FREE {
                return Ok(Err(seen));
            }
        }
        self.swap_state(StateWord::FREE, new)
    }

    #[inline(always)]
    fn swap_state(&self, current: StateWord, new: StateWord) -> Result<Result<(), StateWord>> {
        let (current, new) = (current.to_bits(), new.to_bits());
        let swapped = self.reach.compare_exchange(STATE, current, new)?;
        Ok(swapped.map(|_| ()).map_err(StateWord::from_bits))
    }

    #[inline(always)]
    fn publish_entry(&self, key: &K, value: V, state: StateWord) -> Result<()> {
        let (offset, state) = (Layout::<K, V>::PAIR, state.to_bits());
        if Layout::<K, V>::KEY_FIRST {
            let (first, second) = (*key, value);
            return self.reach.publish(offset, Pair { first, second }, state);
        }
        let (first, second) = (value, *key);
        self.reach.publish(offset, Pair { first, second }, state)
    }

    #[inline]
    fn publish_value(&self, value: V, state: StateWord) -> Result<()> {
        let offset = Layout::<K, V>::VALUE;
        self.reach.publish(offset, value, state.to_bits())
    }

    #[inline(always)]
    fn has_key(&self, key: &K) -> Result<bool> {
        Ok(self.key()?.as_bytes() == key.as_bytes())
    }

    #[inline]
    fn entry_of(&self, key: &K) -> Result<Option<V>> {
        let (there, value) = self.entry()?;
        Ok((there.as_bytes() == key.as_bytes()).then_some(value))
    }

    #[inline]
    fn value(&self) -> Result<V> {
        self.reach.get(Layout::<K, V>::VALUE)
    }

    #[inline(always)]
    fn load_word(&self) -> Result<V> {
        match Layout::<K, V>::KIND {
            ValueKind::Word4 => self.fetch_op(AtomicOp::Load, 0_u32).map(of_word),
            ValueKind::Word8 => self.fetch_op(AtomicOp::Load, 0_u64).map(of_word),
            ValueKind::Nothing | ValueKind::Wide => Ok(V::new_zeroed()),
        }
    }

    #[inline(always)]
    fn swap_word(&self, value: V) -> Result<()> {
        match Layout::<K, V>::KIND {
            ValueKind::Word4 => self
                .fetch_op(AtomicOp::Swap, to_word::<u32, V>(&value))
                .map(|_| ()),
            ValueKind::Word8 => self
                .fetch_op(AtomicOp::Swap, to_word::<u64, V>(&value))
                .map(|_| ()),
            ValueKind::Nothing | ValueKind::Wide => Ok(()),
        }
    }

    #[inline(always)]
    fn compare_swap_word(&self, current: V, new: V) -> Result<Result<(), V>> {
        match Layout::<K, V>::KIND {
            ValueKind::Word4 => self.compare_swap_as::<u32>(current, new),
            ValueKind::Word8 => self.compare_swap_as::<u64>(current, new),
            ValueKind::Nothing | ValueKind::Wide => Ok(Ok(())),
        }
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        let what = "another rank to finish writing an entry of a hash map";
        self.reach.world().wait_for(what, ready)
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
