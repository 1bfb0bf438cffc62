//! Tuples: the slots of their members side by side.

use std::borrow::Cow;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{
    Heap, Object, Repr, SlotOf, each_from_slot, each_to_slot, from_slot, has_heap, release, to_slot,
};
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

    #[inline]
    fn from_slot(slot: Self::Slot, heap: &Heap) -> Result<(A, B)> {
        let (a, b) = (slot.first, slot.second);
        Ok((from_slot::<A>(a, heap)?, from_slot::<B>(b, heap)?))
    }

    #[inline]
    fn release(slot: &Self::Slot, heap: &Heap) -> Result<()> {
        let (a, b) = (slot.first, slot.second);
        release::<A>(&a, heap)?;
        release::<B>(&b, heap)
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

    #[inline]
    fn from_slot(slot: Self::Slot, heap: &Heap) -> Result<(A, B, C)> {
        let (a, rest) = (slot.first, slot.second);
        let (b, c) = (rest.first, rest.second);
        let a = from_slot::<A>(a, heap)?;
        let b = from_slot::<B>(b, heap)?;
        Ok((a, b, from_slot::<C>(c, heap)?))
    }

    #[inline]
    fn release(slot: &Self::Slot, heap: &Heap) -> Result<()> {
        let (a, rest) = (slot.first, slot.second);
        let (b, c) = (rest.first, rest.second);
        release::<A>(&a, heap)?;
        release::<B>(&b, heap)?;
        release::<C>(&c, heap)
    }

    fn to_slots<'v>(values: &'v [(A, B, C)], heap: &Heap) -> Result<Cow<'v, [Self::Slot]>> {
        each_to_slot::<_, Self>(values, heap).map(Cow::Owned)
    }

    fn from_slots(slots: Vec<Self::Slot>, heap: &Heap) -> Result<Vec<(A, B, C)>> {
        each_from_slot::<_, Self>(slots, heap)
    }
}
