//! Tuples: the slots of their members side by side.
//!
//! The slot and the key of a tuple are those of its first member and those of the rest, which is the
//! last member or a shorter tuple.

use std::borrow::Cow;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::hash::{KeyHasher, mix};
use super::heap::Heap;
use super::repr::{
    KeyOf, Object, Repr, ReprOf, Sealed, SlotOf, each_from_slot, each_to_slot, has_heap, key,
    release, to_slot,
};
use pgas_core::Result;

/// Tuples, and arrays of tuples: each member and element in its own representation.
#[derive(Clone, Copy, Debug)]
pub struct Parts;

impl Sealed for Parts {}

/// The slots of two members without a gap.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub struct PairSlot<A, B> {
    first: A,
    second: B,
}

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

/// The slots of the first member and of the rest. If those of the rest failed, releases the first.
fn pair<A: Object, S>(
    first: SlotOf<A>,
    rest: Result<S>,
    heap: &Heap,
) -> Result<PairSlot<SlotOf<A>, S>> {
    match rest {
        Ok(second) => Ok(PairSlot { first, second }),
        Err(error) => {
            release::<A>(&first, heap)?;
            Err(error)
        }
    }
}

/// The slot of some members.
macro_rules! slot_of {
    ($heap:ident, $a:ident: $A:ident) => { to_slot::<$A>($a, $heap) };
    ($heap:ident, $a:ident: $A:ident, $($rest:tt)+) => {
        to_slot::<$A>($a, $heap)
            .and_then(|first| pair::<$A, _>(first, slot_of!($heap, $($rest)+), $heap))
    };
}

/// The key of some members.
macro_rules! key_of {
    ($a:ident: $A:ident) => { key::<$A>($a)? };
    ($a:ident: $A:ident, $($rest:tt)+) => { (key::<$A>($a)?, key_of!($($rest)+)) };
}

/// Implements [`Object`] for the tuple of the two first members, and for those of the first three,
/// four and so on.
macro_rules! tuples {
    ($a:ident: $A:ident, $b:ident: $B:ident; $($next:tt)+) => {
        tuple! { $a: $A, [$b: $B], $b, $B }
        tuples! { @ $a: $A, [$b: $B] $($next)+ }
    };
    (@ $a:ident: $A:ident, [$($b:ident: $B:ident),+]) => {};
    (
        @ $a:ident: $A:ident, [$($b:ident: $B:ident),+]
        $c:ident: $C:ident $(, $next:ident: $Next:ident)*
    ) => {
        tuple! { $a: $A, [$($b: $B),+, $c: $C], ($($b),+, $c), ($($B),+, $C) }
        tuples! { @ $a: $A, [$($b: $B),+, $c: $C] $($next: $Next),* }
    };
}

/// Implements [`Object`] for the tuple of a first member and the members in brackets. Together
/// these are the rest, with its pattern and its type.
macro_rules! tuple {
    ($a:ident: $A:ident, [$($b:ident: $B:ident),+], $rest:pat, $Rest:ty) => {
        impl<$A: Object, $($B: Object),+> Object for ($A, $($B),+) {
            type Repr = Parts;
        }

        impl<$A: Object, $($B: Object),+> Repr<($A, $($B),+)> for Parts {
            type Slot = PairSlot<SlotOf<$A>, SlotOf<$Rest>>;

            type Array<const N: usize> = Self;

            const HAS_HEAP: bool = has_heap::<$A>() || has_heap::<$Rest>();

            #[inline]
            fn to_slot(($a, $($b),+): &($A, $($B),+), heap: &Heap) -> Result<Self::Slot> {
                slot_of!(heap, $a: $A, $($b: $B),+)
            }

            #[inline]
            fn is_outside(slot: &Self::Slot) -> bool {
                let (first, rest) = slot.members();
                <ReprOf<$A> as Repr<$A>>::is_outside(&first)
                    || <ReprOf<$Rest> as Repr<$Rest>>::is_outside(&rest)
            }

            #[inline]
            fn load(slot: Self::Slot, heap: &Heap) -> Result<Self::Key> {
                let (first, rest) = slot.members();
                let first = <ReprOf<$A> as Repr<$A>>::load(first, heap)?;
                Ok((first, <ReprOf<$Rest> as Repr<$Rest>>::load(rest, heap)?))
            }

            #[inline]
            fn decode((first, rest): Self::Key) -> Result<($A, $($B),+)> {
                let $a = <ReprOf<$A> as Repr<$A>>::decode(first)?;
                let $rest = <ReprOf<$Rest> as Repr<$Rest>>::decode(rest)?;
                Ok(($a, $($b),+))
            }

            #[inline]
            fn release(slot: &Self::Slot, heap: &Heap) -> Result<()> {
                let (first, rest) = slot.members();
                release::<$A>(&first, heap)?;
                release::<$Rest>(&rest, heap)
            }

            #[inline]
            fn hash(($a, $($b),+): &($A, $($B),+), former: u64) -> Result<u64> {
                let hash = <ReprOf<$A> as Repr<$A>>::hash($a, former)?;
                $(let hash = <ReprOf<$B> as Repr<$B>>::hash($b, hash)?;)+
                Ok(hash)
            }

            type Key = (KeyOf<$A>, KeyOf<$Rest>);

            #[inline]
            fn key(($a, $($b),+): &($A, $($B),+)) -> Result<Self::Key> {
                Ok(key_of!($a: $A, $($b: $B),+))
            }

            #[inline]
            fn is_key_outside((first, rest): &Self::Key) -> bool {
                <ReprOf<$A> as Repr<$A>>::is_key_outside(first)
                    || <ReprOf<$Rest> as Repr<$Rest>>::is_key_outside(rest)
            }

            #[inline]
            fn key_slot((first, rest): &Self::Key, heap: &Heap) -> Result<Self::Slot> {
                let first = <ReprOf<$A> as Repr<$A>>::key_slot(first, heap)?;
                pair::<$A, _>(first, <ReprOf<$Rest> as Repr<$Rest>>::key_slot(rest, heap), heap)
            }

            #[inline]
            fn has_key(slot: &Self::Slot, (a, b): &Self::Key, heap: &Heap) -> Result<bool> {
                let (first, rest) = slot.members();
                Ok(<ReprOf<$A> as Repr<$A>>::has_key(&first, a, heap)?
                    && <ReprOf<$Rest> as Repr<$Rest>>::has_key(&rest, b, heap)?)
            }

            fn is_same_key((a, b): &Self::Key, (c, d): &Self::Key) -> bool {
                <ReprOf<$A> as Repr<$A>>::is_same_key(a, c)
                    && <ReprOf<$Rest> as Repr<$Rest>>::is_same_key(b, d)
            }

            #[inline]
            fn hash_key<By: KeyHasher>((first, rest): &Self::Key, hasher: &By) -> u64 {
                let first = <ReprOf<$A> as Repr<$A>>::hash_key(first, hasher);
                mix(first.rotate_left(32) ^ <ReprOf<$Rest> as Repr<$Rest>>::hash_key(rest, hasher))
            }

            fn write(($a, $($b),+): &($A, $($B),+), out: &mut Vec<u8>) -> Result<()> {
                <ReprOf<$A> as Repr<$A>>::write($a, out)?;
                $(<ReprOf<$B> as Repr<$B>>::write($b, out)?;)+
                Ok(())
            }

            fn read(bytes: &mut &[u8]) -> Result<($A, $($B),+)> {
                let $a = <ReprOf<$A> as Repr<$A>>::read(bytes)?;
                let $rest = <ReprOf<$Rest> as Repr<$Rest>>::read(bytes)?;
                Ok(($a, $($b),+))
            }

            fn layout() -> Cow<'static, str> {
                let members = [$A::saved_as(), $($B::saved_as()),+];
                format!("({})", members.join(", ")).into()
            }

            fn to_slots<'v>(
                values: &'v [($A, $($B),+)],
                heap: &Heap,
            ) -> Result<Cow<'v, [Self::Slot]>> {
                each_to_slot::<_, Self>(values, heap).map(Cow::Owned)
            }

            fn from_slots(slots: Vec<Self::Slot>, heap: &Heap) -> Result<Vec<($A, $($B),+)>> {
                each_from_slot::<_, Self>(slots, heap)
            }
        }
    };
}

tuples! {
    a: A, b: B; c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L
}
