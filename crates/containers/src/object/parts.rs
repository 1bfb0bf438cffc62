//! Tuples: the slots of their members side by side.

use std::borrow::Cow;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::hash::{KeyHasher, mix};
use super::heap::Heap;
use super::repr::{
    KeyOf, Object, Repr, Sealed, SlotOf, each_from_slot, each_to_slot, has_heap, key, release,
    to_slot,
};
use pgas_core::Result;

/// Tuples: each member in its own representation.
#[derive(Clone, Copy, Debug)]
pub struct Parts;

impl Sealed for Parts {}

/// The slots of two members without a gap.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub struct PairSlot<A, B> {
    first: A,
    second: B,
}

impl<A: Copy, B: Copy> Clone for PairSlot<A, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Copy, B: Copy> Copy for PairSlot<A, B> {}

impl<A: Copy, B: Copy> PairSlot<A, B> {
    /// The slots of the members.
    #[inline]
    pub(crate) fn members(self) -> (A, B) {
        (self.first, self.second)
    }
}

impl<A, B> std::fmt::Debug for PairSlot<A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PairSlot({} bytes)", size_of::<Self>())
    }
}

/// Makes a slot of `first` and `second`. If `second` failed, releases `first`.
fn pair<A: Object, B, S>(
    first: SlotOf<A>,
    second: Result<S>,
    heap: &Heap,
    make: impl FnOnce(SlotOf<A>, S) -> B,
) -> Result<B> {
    match second {
        Ok(second) => Ok(make(first, second)),
        Err(error) => {
            release::<A>(&first, heap)?;
            Err(error)
        }
    }
}

impl<A: Object, B: Object> Object for (A, B) {
    type Repr = Parts;
}

impl<A: Object, B: Object> Repr<(A, B)> for Parts {
    type Slot = PairSlot<SlotOf<A>, SlotOf<B>>;

    const HAS_HEAP: bool = has_heap::<A>() || has_heap::<B>();

    #[inline]
    fn to_slot((a, b): &(A, B), heap: &Heap) -> Result<Self::Slot> {
        let first = to_slot::<A>(a, heap)?;
        let second = to_slot::<B>(b, heap);
        pair::<A, _, _>(first, second, heap, |first, second| PairSlot {
            first,
            second,
        })
    }

    type Loaded = (<A::Repr as Repr<A>>::Loaded, <B::Repr as Repr<B>>::Loaded);

    #[inline]
    fn is_outside(slot: &Self::Slot) -> bool {
        let (a, b) = (slot.first, slot.second);
        <A::Repr as Repr<A>>::is_outside(&a) || <B::Repr as Repr<B>>::is_outside(&b)
    }

    #[inline]
    fn load(slot: Self::Slot, heap: &Heap) -> Result<Self::Loaded> {
        let (a, b) = (slot.first, slot.second);
        let a = <A::Repr as Repr<A>>::load(a, heap)?;
        let b = <B::Repr as Repr<B>>::load(b, heap)?;
        Ok((a, b))
    }

    #[inline]
    fn decode((a, b): Self::Loaded) -> Result<(A, B)> {
        let a = <A::Repr as Repr<A>>::decode(a)?;
        let b = <B::Repr as Repr<B>>::decode(b)?;
        Ok((a, b))
    }

    #[inline]
    fn release(slot: &Self::Slot, heap: &Heap) -> Result<()> {
        let (a, b) = (slot.first, slot.second);
        release::<A>(&a, heap)?;
        release::<B>(&b, heap)
    }

    #[inline]
    fn hash((a, b): &(A, B), former: u64) -> Result<u64> {
        <B::Repr as Repr<B>>::hash(b, <A::Repr as Repr<A>>::hash(a, former)?)
    }

    type Key = (KeyOf<A>, KeyOf<B>);

    #[inline]
    fn key((a, b): &(A, B)) -> Result<Self::Key> {
        Ok((key::<A>(a)?, key::<B>(b)?))
    }

    #[inline]
    fn is_key_outside((a, b): &Self::Key) -> bool {
        <A::Repr as Repr<A>>::is_key_outside(a) || <B::Repr as Repr<B>>::is_key_outside(b)
    }

    #[inline]
    fn key_slot((a, b): &Self::Key, heap: &Heap) -> Result<Self::Slot> {
        let first = <A::Repr as Repr<A>>::key_slot(a, heap)?;
        let second = <B::Repr as Repr<B>>::key_slot(b, heap);
        pair::<A, _, _>(first, second, heap, |first, second| PairSlot {
            first,
            second,
        })
    }

    #[inline]
    fn has_key(slot: &Self::Slot, (a, b): &Self::Key, heap: &Heap) -> Result<bool> {
        let (first, second) = (slot.first, slot.second);
        Ok(<A::Repr as Repr<A>>::has_key(&first, a, heap)?
            && <B::Repr as Repr<B>>::has_key(&second, b, heap)?)
    }

    fn is_same_key((a, b): &Self::Key, (c, d): &Self::Key) -> bool {
        <A::Repr as Repr<A>>::is_same_key(a, c) && <B::Repr as Repr<B>>::is_same_key(b, d)
    }

    #[inline]
    fn key_in(slot: Self::Slot, heap: &Heap) -> Result<Self::Key> {
        let a = <A::Repr as Repr<A>>::key_in(slot.first, heap)?;
        Ok((a, <B::Repr as Repr<B>>::key_in(slot.second, heap)?))
    }

    #[inline]
    fn hash_key<H: KeyHasher>((a, b): &Self::Key, hasher: &H) -> u64 {
        let a = <A::Repr as Repr<A>>::hash_key(a, hasher);
        mix(a.rotate_left(32) ^ <B::Repr as Repr<B>>::hash_key(b, hasher))
    }

    fn write((a, b): &(A, B), out: &mut Vec<u8>) -> Result<()> {
        <A::Repr as Repr<A>>::write(a, out)?;
        <B::Repr as Repr<B>>::write(b, out)
    }

    fn read(bytes: &mut &[u8]) -> Result<(A, B)> {
        let a = <A::Repr as Repr<A>>::read(bytes)?;
        Ok((a, <B::Repr as Repr<B>>::read(bytes)?))
    }

    fn layout() -> Cow<'static, str> {
        format!("({}, {})", A::saved_as(), B::saved_as()).into()
    }

    fn to_slots<'v>(values: &'v [(A, B)], heap: &Heap) -> Result<Cow<'v, [Self::Slot]>> {
        each_to_slot::<_, Self>(values, heap).map(Cow::Owned)
    }

    fn from_slots(slots: Vec<Self::Slot>, heap: &Heap) -> Result<Vec<(A, B)>> {
        each_from_slot::<_, Self>(slots, heap)
    }
}

impl<A: Object, B: Object, C: Object> Object for (A, B, C) {
    type Repr = Parts;
}

impl<A: Object, B: Object, C: Object> Repr<(A, B, C)> for Parts {
    type Slot = PairSlot<SlotOf<A>, PairSlot<SlotOf<B>, SlotOf<C>>>;

    const HAS_HEAP: bool = has_heap::<A>() || has_heap::<B>() || has_heap::<C>();

    #[inline]
    fn to_slot((a, b, c): &(A, B, C), heap: &Heap) -> Result<Self::Slot> {
        let first = to_slot::<A>(a, heap)?;
        let rest = to_slot::<B>(b, heap).and_then(|second| {
            let third = to_slot::<C>(c, heap);
            pair::<B, _, _>(second, third, heap, |first, second| PairSlot {
                first,
                second,
            })
        });
        pair::<A, _, _>(first, rest, heap, |first, second| PairSlot {
            first,
            second,
        })
    }

    type Loaded = (
        <A::Repr as Repr<A>>::Loaded,
        <B::Repr as Repr<B>>::Loaded,
        <C::Repr as Repr<C>>::Loaded,
    );

    #[inline]
    fn is_outside(slot: &Self::Slot) -> bool {
        let (a, rest) = (slot.first, slot.second);
        let (b, c) = (rest.first, rest.second);
        <A::Repr as Repr<A>>::is_outside(&a)
            || <B::Repr as Repr<B>>::is_outside(&b)
            || <C::Repr as Repr<C>>::is_outside(&c)
    }

    #[inline]
    fn load(slot: Self::Slot, heap: &Heap) -> Result<Self::Loaded> {
        let (a, rest) = (slot.first, slot.second);
        let (b, c) = (rest.first, rest.second);
        let a = <A::Repr as Repr<A>>::load(a, heap)?;
        let b = <B::Repr as Repr<B>>::load(b, heap)?;
        let c = <C::Repr as Repr<C>>::load(c, heap)?;
        Ok((a, b, c))
    }

    #[inline]
    fn decode((a, b, c): Self::Loaded) -> Result<(A, B, C)> {
        let a = <A::Repr as Repr<A>>::decode(a)?;
        let b = <B::Repr as Repr<B>>::decode(b)?;
        let c = <C::Repr as Repr<C>>::decode(c)?;
        Ok((a, b, c))
    }

    #[inline]
    fn release(slot: &Self::Slot, heap: &Heap) -> Result<()> {
        let (a, rest) = (slot.first, slot.second);
        let (b, c) = (rest.first, rest.second);
        release::<A>(&a, heap)?;
        release::<B>(&b, heap)?;
        release::<C>(&c, heap)
    }

    #[inline]
    fn hash((a, b, c): &(A, B, C), former: u64) -> Result<u64> {
        let former = <A::Repr as Repr<A>>::hash(a, former)?;
        <C::Repr as Repr<C>>::hash(c, <B::Repr as Repr<B>>::hash(b, former)?)
    }

    type Key = (KeyOf<A>, KeyOf<(B, C)>);

    #[inline]
    fn key((a, b, c): &(A, B, C)) -> Result<Self::Key> {
        let rest = (key::<B>(b)?, key::<C>(c)?);
        Ok((key::<A>(a)?, rest))
    }

    #[inline]
    fn is_key_outside((a, rest): &Self::Key) -> bool {
        <A::Repr as Repr<A>>::is_key_outside(a) || <Self as Repr<(B, C)>>::is_key_outside(rest)
    }

    #[inline]
    fn key_slot((a, rest): &Self::Key, heap: &Heap) -> Result<Self::Slot> {
        let first = <A::Repr as Repr<A>>::key_slot(a, heap)?;
        let second = <Self as Repr<(B, C)>>::key_slot(rest, heap);
        pair::<A, _, _>(first, second, heap, |first, second| PairSlot {
            first,
            second,
        })
    }

    #[inline]
    fn has_key(slot: &Self::Slot, (a, rest): &Self::Key, heap: &Heap) -> Result<bool> {
        let (first, second) = (slot.first, slot.second);
        Ok(<A::Repr as Repr<A>>::has_key(&first, a, heap)?
            && <Self as Repr<(B, C)>>::has_key(&second, rest, heap)?)
    }

    fn is_same_key((a, b): &Self::Key, (c, d): &Self::Key) -> bool {
        <A::Repr as Repr<A>>::is_same_key(a, c) && <Self as Repr<(B, C)>>::is_same_key(b, d)
    }

    #[inline]
    fn key_in(slot: Self::Slot, heap: &Heap) -> Result<Self::Key> {
        let a = <A::Repr as Repr<A>>::key_in(slot.first, heap)?;
        Ok((a, <Self as Repr<(B, C)>>::key_in(slot.second, heap)?))
    }

    #[inline]
    fn hash_key<H: KeyHasher>((a, rest): &Self::Key, hasher: &H) -> u64 {
        let a = <A::Repr as Repr<A>>::hash_key(a, hasher);
        mix(a.rotate_left(32) ^ <Self as Repr<(B, C)>>::hash_key(rest, hasher))
    }

    fn write((a, b, c): &(A, B, C), out: &mut Vec<u8>) -> Result<()> {
        <A::Repr as Repr<A>>::write(a, out)?;
        <B::Repr as Repr<B>>::write(b, out)?;
        <C::Repr as Repr<C>>::write(c, out)
    }

    fn read(bytes: &mut &[u8]) -> Result<(A, B, C)> {
        let (a, (b, c)) = <Self as Repr<(A, (B, C))>>::read(bytes)?;
        Ok((a, b, c))
    }

    fn layout() -> Cow<'static, str> {
        let (a, b, c) = (A::saved_as(), B::saved_as(), C::saved_as());
        format!("({a}, {b}, {c})").into()
    }

    fn to_slots<'v>(values: &'v [(A, B, C)], heap: &Heap) -> Result<Cow<'v, [Self::Slot]>> {
        each_to_slot::<_, Self>(values, heap).map(Cow::Owned)
    }

    fn from_slots(slots: Vec<Self::Slot>, heap: &Heap) -> Result<Vec<(A, B, C)>> {
        each_from_slot::<_, Self>(slots, heap)
    }
}
