//! A slot in global memory: the [protocol](super::slot)'s steps as operations on global pointers.

use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};

use pgas_core::atomics::Atomic;
use pgas_core::backend::SignalUpdate;
use pgas_core::{GlobalPtr, Pod, Result, World};

use super::layout::{Layout, Pair, ValueKind};
use super::slot::SlotMemory;
use super::state::StateWord;

/// One slot of a map of `K` to `V`.
#[derive(Debug)]
pub(super) struct GlobalSlot<'a, K, V> {
    world: &'a World,
    at: GlobalPtr<u8>,
    /// Whether this process's own loads, stores and atomics reach every slot.
    direct: bool,
    entry: PhantomData<fn() -> (K, V)>,
}

impl<'a, K: Pod, V: Pod> GlobalSlot<'a, K, V> {
    #[inline]
    pub(super) fn new(world: &'a World, at: GlobalPtr<u8>, direct: bool) -> Self {
        let entry = PhantomData;
        Self {
            world,
            at,
            direct,
            entry,
        }
    }

    #[inline]
    pub(super) fn state(&self) -> GlobalPtr<u64> {
        self.at.cast()
    }

    #[inline]
    pub(super) fn key(&self) -> GlobalPtr<K> {
        self.part(Layout::<K, V>::KEY)
    }

    /// The value, as what it is or as a word.
    #[inline]
    pub(super) fn value_as<T>(&self) -> GlobalPtr<T> {
        self.part(Layout::<K, V>::VALUE)
    }

    #[inline]
    fn part<T>(&self, offset: u64) -> GlobalPtr<T> {
        // A slot lies within a segment, so the sum carries nothing into the rank.
        GlobalPtr::from_bits(self.at.to_bits() + offset)
    }

    /// Writes `value` to `place`, then the state.
    #[inline]
    fn publish<T: Pod>(&self, place: GlobalPtr<T>, value: T, state: StateWord) -> Result<()> {
        if !self.direct {
            let update = SignalUpdate::Set(state.to_bits());
            place.put_signal(self.world, &[value], self.state(), update)?;
            return self.world.flush(self.at.rank());
        }
        // The put below is this CPU's stores. Who sees one of them sees the state that was written
        // before (pairs with the acquire behind every get) ...
        fence(Ordering::Release);
        place.put(self.world, value)?;
        // ... and who sees the new state sees all of them (pairs with the acquire of every atomic).
        fence(Ordering::Release);
        self.state().swap(self.world, state.to_bits()).map(|_| ())
    }
}

impl<K: Pod, V: Pod> SlotMemory for GlobalSlot<'_, K, V> {
    type Key = K;
    type Value = V;

    const IS_WORD: bool = !matches!(Layout::<K, V>::KIND, ValueKind::Wide);

    #[inline]
    fn load_state(&self) -> Result<StateWord> {
        self.state()
            .atomic_load(self.world)
            .map(StateWord::from_bits)
    }

    #[inline]
    fn swap_state(&self, current: StateWord, new: StateWord) -> Result<Result<(), StateWord>> {
        let (current, new) = (current.to_bits(), new.to_bits());
        let swapped = self.state().compare_exchange(self.world, current, new)?;
        Ok(swapped.map(|_| ()).map_err(StateWord::from_bits))
    }

    #[inline]
    fn publish_entry(&self, key: &K, value: V, state: StateWord) -> Result<()> {
        if Layout::<K, V>::KEY_FIRST {
            let (first, second) = (*key, value);
            return self.publish(
                self.part(Layout::<K, V>::PAIR),
                Pair { first, second },
                state,
            );
        }
        let (first, second) = (value, *key);
        self.publish(
            self.part(Layout::<K, V>::PAIR),
            Pair { first, second },
            state,
        )
    }

    #[inline]
    fn publish_value(&self, value: V, state: StateWord) -> Result<()> {
        self.publish(self.value_as::<V>(), value, state)
    }

    #[inline]
    fn has_key(&self, key: &K) -> Result<bool> {
        Ok(self.load_key()?.as_bytes() == key.as_bytes())
    }

    #[inline]
    fn entry_of(&self, key: &K) -> Result<Option<V>> {
        let (there, value) = self.entry()?;
        Ok((there.as_bytes() == key.as_bytes()).then_some(value))
    }

    #[inline]
    fn value(&self) -> Result<V> {
        self.value_as::<V>().get(self.world)
    }

    #[inline]
    fn load_word(&self) -> Result<V> {
        match Layout::<K, V>::KIND {
            ValueKind::Word4 => self.value_as::<u32>().atomic_load(self.world).map(of_word),
            ValueKind::Word8 => self.value_as::<u64>().atomic_load(self.world).map(of_word),
            ValueKind::Nothing | ValueKind::Wide => Ok(V::new_zeroed()),
        }
    }

    #[inline]
    fn swap_word(&self, value: V) -> Result<()> {
        match Layout::<K, V>::KIND {
            ValueKind::Word4 => swap(self.world, self.value_as::<u32>(), value),
            ValueKind::Word8 => swap(self.world, self.value_as::<u64>(), value),
            ValueKind::Nothing | ValueKind::Wide => Ok(()),
        }
    }

    #[inline]
    fn compare_swap_word(&self, current: V, new: V) -> Result<Result<(), V>> {
        match Layout::<K, V>::KIND {
            ValueKind::Word4 => compare_swap(self.world, self.value_as::<u32>(), current, new),
            ValueKind::Word8 => compare_swap(self.world, self.value_as::<u64>(), current, new),
            ValueKind::Nothing | ValueKind::Wide => Ok(Ok(())),
        }
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        self.world.wait_for(
            "another rank to finish writing an entry of a hash map",
            ready,
        )
    }
}

impl<K: Pod, V: Pod> GlobalSlot<'_, K, V> {
    /// Asks for the slot's cache lines.
    #[inline]
    pub(super) fn prefetch(&self) {
        self.at.prefetch(self.world);
        // Slots that do not divide a cache line may lie in two.
        if 64 % Layout::<K, V>::STRIDE != 0 {
            let last = self.at.to_bits() + Layout::<K, V>::STRIDE - 1;
            GlobalPtr::<u8>::from_bits(last).prefetch(self.world);
        }
    }

    /// The key (R).
    #[inline]
    pub(super) fn load_key(&self) -> Result<K> {
        self.key().get(self.world)
    }

    /// Key and value, the latter maybe torn (R).
    #[inline]
    pub(super) fn entry(&self) -> Result<(K, V)> {
        if Layout::<K, V>::KEY_FIRST {
            let pair: Pair<K, V> = self
                .part::<Pair<K, V>>(Layout::<K, V>::PAIR)
                .get(self.world)?;
            return Ok((pair.first, pair.second));
        }
        let pair: Pair<V, K> = self
            .part::<Pair<V, K>>(Layout::<K, V>::PAIR)
            .get(self.world)?;
        Ok((pair.second, pair.first))
    }
}

#[inline]
fn swap<W: Atomic, V: Pod>(world: &World, place: GlobalPtr<W>, value: V) -> Result<()> {
    place.swap(world, to_word(&value)).map(|_| ())
}

#[inline]
fn compare_swap<W: Atomic, V: Pod>(
    world: &World,
    place: GlobalPtr<W>,
    current: V,
    new: V,
) -> Result<Result<(), V>> {
    let swapped = place.compare_exchange(world, to_word(&current), to_word(&new))?;
    Ok(swapped.map(|_| ()).map_err(of_word))
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
