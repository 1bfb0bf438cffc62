//! Tuples: the slots of their members side by side.

use std::borrow::Cow;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Heap, Object, Repr, SlotOf, each_from_slot, each_to_slot, has_heap, release, to_slot};
use crate::Result;

/// Tuples, each member as its own type says.
#[derive(Clone, Copy, Debug)]
pub struct Parts;

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

impl<A, B> std::fmt::Debug for PairSlot<A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PairSlot({} bytes)", size_of::<Self>())
    }
}

/// The second slot, made after `first`, which is given up if that fails.
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

    fn to_slots<'v>(values: &'v [(A, B, C)], heap: &Heap) -> Result<Cow<'v, [Self::Slot]>> {
        each_to_slot::<_, Self>(values, heap).map(Cow::Owned)
    }

    fn from_slots(slots: Vec<Self::Slot>, heap: &Heap) -> Result<Vec<(A, B, C)>> {
        each_from_slot::<_, Self>(slots, heap)
    }
}
