//! Effects and results of operations on a key, and the form of results in messages.

use pgas_am::codec::Wire;
use pgas_core::Pod;
use zerocopy::FromZeros as _;

use super::slot::layout::Pair;
use crate::Result;
use crate::object::{self, Heap, Object, SlotOf};

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

    fn to_answer(self, heap: &Heap) -> Result<Self::Answer>;

    fn of_answer(answer: Self::Answer, heap: &Heap) -> Result<Self>;
}

impl<V: Object> Outcome<V> for bool {
    type Answer = u8;

    #[inline]
    fn was_there(&self) -> bool {
        *self
    }

    fn to_answer(self, _: &Heap) -> Result<u8> {
        Ok(self.into())
    }

    fn of_answer(answer: u8, _: &Heap) -> Result<Self> {
        Ok(answer != 0)
    }
}

impl<V: Object> Outcome<V> for Option<V> {
    /// Whether the key was present, and the value.
    type Answer = Pair<u8, SlotOf<V>>;

    #[inline]
    fn was_there(&self) -> bool {
        self.is_some()
    }

    fn to_answer(self, heap: &Heap) -> Result<Self::Answer> {
        let is_there = self.is_some().into();
        let value = self
            .map(|value| object::to_slot(&value, heap))
            .transpose()?;
        Ok(Pair::new(
            is_there,
            value.unwrap_or_else(SlotOf::<V>::new_zeroed),
        ))
    }

    fn of_answer(answer: Self::Answer, heap: &Heap) -> Result<Self> {
        let (is_there, value) = answer.parts();
        let there = (is_there != 0).then(|| object::from_slot::<V>(value, heap));
        there.transpose()
    }
}
