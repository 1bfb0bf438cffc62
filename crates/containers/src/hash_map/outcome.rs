//! Effects and results of operations on a key, and the form of results in messages.

use pgas_am::codec::Wire;
use pgas_core::Pod;
use zerocopy::FromZeros as _;

use super::slot::layout::Pair;
use crate::object::{self, Heap, KeyOf, Object, Repr, SlotOf};
use crate::requests::LONGEST_PART;
use crate::{Error, Result};

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

    /// Puts a long value into the parcel `answered`, unless it is too long for a message. The
    /// operation may have changed the map: only where it is safe to repeat does this fail.
    fn to_answer(&self, answered: &Heap) -> Result<Self::Answer>;

    fn of_answer(answer: Self::Answer, parcel: &Heap) -> Result<Self>;
}

impl<V: Object> Outcome<V> for bool {
    type Answer = u8;

    #[inline]
    fn was_there(&self) -> bool {
        *self
    }

    #[inline]
    fn to_answer(&self, _: &Heap) -> Result<u8> {
        Ok((*self).into())
    }

    #[inline]
    fn of_answer(answer: u8, _: &Heap) -> Result<Self> {
        Ok(answer != 0)
    }
}

impl<V: Object> Outcome<V> for Option<V> {
    /// Whether there is a value, and the value.
    type Answer = Pair<u8, SlotOf<V>>;

    #[inline]
    fn was_there(&self) -> bool {
        self.is_some()
    }

    #[inline]
    fn to_answer(&self, answered: &Heap) -> Result<Self::Answer> {
        let Some(value) = self else {
            return Ok(Pair::new(0, SlotOf::<V>::new_zeroed()));
        };
        // Other values pack nothing, and would pay for the parcel's lock.
        let is_long = object::has_heap::<V>();
        let n_packed = || if is_long { answered.n_packed() } else { 0 };
        let n_before = n_packed();
        let slot = object::to_slot(value, answered)?;
        if n_packed() - n_before > LONGEST_PART {
            answered.shorten(n_before);
            return Err(too_long());
        }
        Ok(Pair::new(1, slot))
    }

    #[inline]
    fn of_answer(answer: Self::Answer, parcel: &Heap) -> Result<Self> {
        let (is_there, slot) = answer.parts();
        let value = (is_there != 0).then(|| object::from_slot::<V>(slot, parcel));
        value.transpose()
    }
}

/// Why the asking rank performs an operation whose answer would be too long.
pub(super) fn too_long() -> Error {
    Error::Argument("the answer is long".into())
}

/// A value that is taken out of the map.
pub(super) struct Taken<V: Object> {
    /// What the rank that asked could read of the answer. The value is gone in any case.
    value: Result<V>,
    /// What a rank that serves answers. It is there before the value is taken out, since afterwards
    /// nothing may fail.
    sent: Option<(SlotOf<V>, Heap)>,
}

impl<V: Object> Taken<V> {
    /// The value, and if this rank serves, its answer.
    pub(super) fn read(loaded: KeyOf<V>) -> Result<Self> {
        let mut sent = None;
        if object::has_heap::<V>() && object::is_serving() {
            let parcel = Heap::parcel(Vec::new());
            let slot = <V::Repr as Repr<V>>::key_slot(&loaded, &parcel)?;
            if parcel.n_packed() > LONGEST_PART {
                return Err(too_long());
            }
            sent = Some((slot, parcel));
        }
        let value = Ok(<V::Repr as Repr<V>>::decode(loaded)?);
        Ok(Self { value, sent })
    }

    /// The value, after the removal is counted.
    #[inline]
    pub(super) fn value_of(taken: Option<Self>) -> Result<Option<V>> {
        taken.map(|taken| taken.value).transpose()
    }
}

impl<V: Object> Outcome<V> for Option<Taken<V>> {
    type Answer = <Option<V> as Outcome<V>>::Answer;

    #[inline]
    fn was_there(&self) -> bool {
        self.is_some()
    }

    #[inline]
    fn to_answer(&self, answered: &Heap) -> Result<Self::Answer> {
        let slot = match self {
            None => return Ok(Pair::new(0, SlotOf::<V>::new_zeroed())),
            Some(Taken {
                sent: Some((slot, parcel)),
                ..
            }) => object::unpack::<V>(*slot, parcel, answered)?,
            Some(Taken { value, sent: None }) => {
                let value = value.as_ref().expect("it was read here");
                object::to_slot(value, answered)?
            }
        };
        Ok(Pair::new(1, slot))
    }

    #[inline]
    fn of_answer(answer: Self::Answer, parcel: &Heap) -> Result<Self> {
        let value = <Option<V> as Outcome<V>>::of_answer(answer, parcel).transpose();
        let sent = None;
        Ok(value.map(|value| Taken { value, sent }))
    }
}
