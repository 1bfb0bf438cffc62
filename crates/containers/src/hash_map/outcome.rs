//! Effects and results of operations on a key, and the form of results in messages.

use pgas_am::codec::Wire;
use pgas_core::Pod;
use zerocopy::FromZeros as _;

use super::slot::layout::Pair;
use crate::Result;
use crate::object::{self, Heap, Object, SlotOf};
use crate::requests::LONGEST_PART;

/// The effect of an operation on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Reads only.
    Read,
    /// Changes the value of a present key.
    Change,
    /// Leaves the key present.
    Claim,
    /// Leaves the key absent.
    Remove,
}

impl Effect {
    /// The name of such an operation, for reports of its waits.
    pub(super) const fn whole(self) -> &'static str {
        match self {
            Self::Read => "a search in a hash map",
            Self::Change => "a change in a hash map",
            Self::Claim => "an insert into a hash map",
            Self::Remove => "a removal from a hash map",
        }
    }
}

/// The outcome of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The key was absent.
    New,
    /// The key was present, and its value was overwritten.
    Replaced,
}

impl Inserted {
    pub(super) const fn over(was_there: bool) -> Self {
        if was_there { Self::Replaced } else { Self::New }
    }
}

/// The result of an operation on a key. The default is that the key was absent.
pub(super) trait Outcome<V: Object>: Default {
    /// The form in messages.
    type Answer: Pod + Wire;

    fn was_there(&self) -> bool;

    /// Puts a long value into the parcel `answered`, or, if it is too long for a message, into a
    /// block of `heap`.
    fn to_answer(self, answered: &Heap, heap: &Heap) -> Result<Self::Answer>;

    fn of_answer(answer: Self::Answer, parcel: &Heap, heap: &Heap) -> Result<Self>;
}

impl<V: Object> Outcome<V> for bool {
    type Answer = u8;

    #[inline]
    fn was_there(&self) -> bool {
        *self
    }

    fn to_answer(self, _: &Heap, _: &Heap) -> Result<u8> {
        Ok(self.into())
    }

    fn of_answer(answer: u8, _: &Heap, _: &Heap) -> Result<Self> {
        Ok(answer != 0)
    }
}

impl<V: Object> Outcome<V> for Option<V> {
    /// How the value is told, and the value.
    type Answer = Pair<u8, SlotOf<V>>;

    #[inline]
    fn was_there(&self) -> bool {
        self.is_some()
    }

    fn to_answer(self, answered: &Heap, heap: &Heap) -> Result<Self::Answer> {
        let Some(value) = self else {
            return Ok(Pair::new(ABSENT, SlotOf::<V>::new_zeroed()));
        };
        if !object::has_heap::<V>() {
            return Ok(Pair::new(PRESENT, object::to_slot(&value, answered)?));
        }
        let n_before = answered.n_packed();
        let slot = object::to_slot(&value, answered)?;
        if answered.n_packed() - n_before <= LONGEST_PART {
            return Ok(Pair::new(PRESENT, slot));
        }
        answered.shorten(n_before);
        Ok(Pair::new(IN_THE_HEAP, object::to_slot(&value, heap)?))
    }

    fn of_answer(answer: Self::Answer, parcel: &Heap, heap: &Heap) -> Result<Self> {
        let (how, slot) = answer.parts();
        if how == ABSENT {
            return Ok(None);
        }
        if object::has_heap::<V>() && how == IN_THE_HEAP {
            return object::take_out::<V>(slot, heap).map(Some);
        }
        object::from_slot::<V>(slot, parcel).map(Some)
    }
}

/// How an answer tells a value: there is none, it came with the answer, or it lies in a block of
/// the heap that whoever has asked releases.
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const IN_THE_HEAP: u8 = 2;
