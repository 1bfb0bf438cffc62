//! Arrays: of plain values plain, of encoded ones one encoding, of tuples the slots of the elements
//! side by side.

use std::borrow::Cow;

use pgas_core::Result;

use super::hash::{KeyHasher, mix};
use super::heap::Heap;
use super::parts::Parts;
use super::repr::{
    KeyOf, Object, Repr, ReprOf, SlotOf, each_from_slot, each_to_slot, has_heap, key, release,
};

impl<T: Object, const N: usize> Object for [T; N] {
    type Repr = <ReprOf<T> as Repr<T>>::Array<N>;

    fn saved_as() -> Cow<'static, str> {
        format!("[{}; {N}]", T::saved_as()).into()
    }
}

/// The results of `each` for all elements of an array.
fn try_map<A, B, const N: usize>(
    array: impl IntoIterator<Item = A>,
    each: impl FnMut(A) -> Result<B>,
) -> Result<[B; N]> {
    array
        .into_iter()
        .map(each)
        .collect::<Result<_>>()
        .map(exact)
}

/// The elements as an array of their number.
fn exact<T, const N: usize>(elements: Vec<T>) -> [T; N] {
    let array = elements.try_into();
    array.unwrap_or_else(|of_other_length: Vec<T>| {
        unreachable!("{} elements of {N}", of_other_length.len())
    })
}

impl<T: Object, const N: usize> Repr<[T; N]> for Parts {
    type Slot = [SlotOf<T>; N];

    type Array<const M: usize> = Self;

    const HAS_HEAP: bool = has_heap::<T>();

    fn to_slot(values: &[T; N], heap: &Heap) -> Result<Self::Slot> {
        each_to_slot::<T, ReprOf<T>>(values, heap).map(exact)
    }

    fn is_outside(slot: &Self::Slot) -> bool {
        slot.iter().any(<ReprOf<T> as Repr<T>>::is_outside)
    }

    fn load(slot: Self::Slot, heap: &Heap) -> Result<Self::Key> {
        try_map(slot, |slot| <ReprOf<T> as Repr<T>>::load(slot, heap))
    }

    fn decode(loaded: Self::Key) -> Result<[T; N]> {
        try_map(loaded, <ReprOf<T> as Repr<T>>::decode)
    }

    fn release(slot: &Self::Slot, heap: &Heap) -> Result<()> {
        slot.iter().try_for_each(|slot| release::<T>(slot, heap))
    }

    fn hash(values: &[T; N], former: u64) -> Result<u64> {
        let mut values = values.iter();
        values.try_fold(former, |former, value| {
            <ReprOf<T> as Repr<T>>::hash(value, former)
        })
    }

    type Key = [KeyOf<T>; N];

    fn key(values: &[T; N]) -> Result<Self::Key> {
        try_map(values, key::<T>)
    }

    fn is_key_outside(keys: &Self::Key) -> bool {
        keys.iter().any(<ReprOf<T> as Repr<T>>::is_key_outside)
    }

    fn key_slot(keys: &Self::Key, heap: &Heap) -> Result<Self::Slot> {
        let mut slots = Vec::with_capacity(N);
        for key in keys {
            match <ReprOf<T> as Repr<T>>::key_slot(key, heap) {
                Ok(slot) => slots.push(slot),
                Err(error) => {
                    slots.iter().try_for_each(|slot| release::<T>(slot, heap))?;
                    return Err(error);
                }
            }
        }
        Ok(exact(slots))
    }

    fn has_key(slot: &Self::Slot, keys: &Self::Key, heap: &Heap) -> Result<bool> {
        for (slot, key) in slot.iter().zip(keys) {
            if !<ReprOf<T> as Repr<T>>::has_key(slot, key, heap)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_same_key(a: &Self::Key, b: &Self::Key) -> bool {
        let mut pairs = a.iter().zip(b);
        pairs.all(|(a, b)| <ReprOf<T> as Repr<T>>::is_same_key(a, b))
    }

    fn hash_key<H: KeyHasher>(keys: &Self::Key, hasher: &H) -> u64 {
        keys.iter().fold(hasher.hash(&[]), |former, key| {
            mix(former.rotate_left(32) ^ <ReprOf<T> as Repr<T>>::hash_key(key, hasher))
        })
    }

    fn write(values: &[T; N], out: &mut Vec<u8>) -> Result<()> {
        let mut values = values.iter();
        values.try_for_each(|value| <ReprOf<T> as Repr<T>>::write(value, out))
    }

    fn read(bytes: &mut &[u8]) -> Result<[T; N]> {
        try_map(0..N, |_| <ReprOf<T> as Repr<T>>::read(bytes))
    }

    fn layout() -> Cow<'static, str> {
        <[T; N]>::saved_as()
    }

    fn to_slots<'v>(values: &'v [[T; N]], heap: &Heap) -> Result<Cow<'v, [Self::Slot]>> {
        each_to_slot::<_, Self>(values, heap).map(Cow::Owned)
    }

    fn from_slots(slots: Vec<Self::Slot>, heap: &Heap) -> Result<Vec<[T; N]>> {
        each_from_slot::<_, Self>(slots, heap)
    }
}
