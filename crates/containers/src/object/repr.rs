//! The trait of storable types, and that of their representations.

use std::borrow::Cow;

use pgas_core::{Pod, Team};

use super::hash::{self, KeyHasher};
use super::heap::Heap;
use crate::error::TakeError;
use pgas_core::{Error, Result};

/// A type whose values can be put into containers.
///
/// It is implemented for integers, floats, `bool`, `char`, [`Rank`](pgas_core::Rank) and
/// [`GlobalPtr`](pgas_core::GlobalPtr), for arrays of any such types, tuples of two to twelve,
/// `String`, and the containers and further types of std; for a type of your own it is one line,
/// see the [module](super). A [`Team`] is not an object: it is a handle of this process.
#[diagnostic::on_unimplemented(
    message = "a container cannot store a `{Self}`",
    label = "this type has no `Object` implementation",
    note = "if `{Self}` is yours: put `#[pgas::pod]` on a struct of numbers, `#[derive(pgas::Wire, pgas::Object)]` on any other type",
    note = "without the derives: `impl Object for {Self} {{ type Repr = Plain; }}` for a byte-copyable type, \
            `{{ type Repr = Encoded<24>; }}`, with the bytes that a slot holds itself, for one that implements `Wire`"
)]
pub trait Object: Sized + Send + Sync + 'static {
    /// The representation of values in slots.
    type Repr: Repr<Self>;

    /// The name of the type in files. Values are only loaded from a file that calls it the same.
    ///
    /// By default it describes the layout: for an [`Encoded`](super::Encoded) type its name and
    /// those of its members or variants, for a [`Plain`](super::Plain) one the size. It does not
    /// depend on the module of the type, or on the compiler. Give a name of your own where the
    /// default says too little, or too much.
    ///
    /// ```
    /// # use pgas_containers::object::{Object, Plain};
    /// # #[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
    /// # #[repr(C)]
    /// # struct Edge(u32);
    /// impl Object for Edge {
    ///     type Repr = Plain;
    ///
    ///     fn saved_as() -> std::borrow::Cow<'static, str> {
    ///         "edge of a road map, version 1".into()
    ///     }
    /// }
    /// ```
    #[must_use]
    fn saved_as() -> Cow<'static, str> {
        Self::Repr::layout()
    }
}

/// The representation of a `T`.
pub(super) type ReprOf<T> = <T as Object>::Repr;

/// The contents of a container's slot for a `T`.
pub type SlotOf<T> = <<T as Object>::Repr as Repr<T>>::Slot;

/// A representation of a `T` in a slot. [`Plain`](super::Plain), [`Parts`](super::Parts) and
/// [`Encoded`](super::Encoded) are all there are.
///
/// A slot that was made by [`to_slot`](Self::to_slot) is [released](Self::release) once, when
/// nobody will read it any more.
#[diagnostic::on_unimplemented(
    message = "`{T}` cannot live in global memory as `{Self}`",
    note = "`Plain` asks for zerocopy's `FromBytes`, `IntoBytes` and `Immutable` and for `Copy`; `Encoded` asks for `Wire`"
)]
pub trait Repr<T>: Sealed {
    /// The content of a slot.
    type Slot: Pod;

    /// The representation of arrays of such values.
    type Array<const N: usize>: Repr<[T; N]>;

    /// Whether a slot may point to heap memory.
    const HAS_HEAP: bool;

    /// The contents of a slot for `value`.
    ///
    /// # Cost
    ///
    /// ℓ; W on this rank's own memory for an encoding that is longer than the slot, and A + nR more
    /// if this rank has no free block of the size, for n blocks that other ranks have released.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if the value cannot be encoded,
    /// [`Exhausted`](pgas_core::Error::Exhausted) if this rank's heap has no room for it.
    fn to_slot(value: &T, heap: &Heap) -> Result<Self::Slot>;

    /// Whether the slot points to heap memory.
    fn is_outside(slot: &Self::Slot) -> bool;

    /// The content of a slot, together with its heap memory. That may have been released by now:
    /// unless the caller can rule that out, it checks that the slot is unchanged before it uses the
    /// result.
    ///
    /// # Cost
    ///
    /// ℓ; R for an encoding that is longer than the slot.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn load(slot: Self::Slot, heap: &Heap) -> Result<Self::Key>;

    /// The value that was loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if the slot did not hold a `T`.
    fn decode(loaded: Self::Key) -> Result<T>;

    /// The value in a slot that no other rank releases at the same time.
    ///
    /// # Cost
    ///
    /// As [`load`](Self::load).
    ///
    /// # Errors
    ///
    /// Those of [`load`](Self::load) and [`decode`](Self::decode).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all for plain values")]
    fn from_slot(slot: Self::Slot, heap: &Heap) -> Result<T> {
        Self::decode(Self::load(slot, heap)?)
    }

    /// Frees the heap memory of the slot.
    ///
    /// # Cost
    ///
    /// Nothing if there is none; ℓ on the rank that wrote the slot, 2A + W on others.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn release(slot: &Self::Slot, heap: &Heap) -> Result<()>;

    /// A hash of `value`, which is the same on every rank; continues `former`.
    ///
    /// Plain values are hashed by their bytes (so 0.0 and -0.0 are two), others by their encoding.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if the value cannot be encoded.
    fn hash(value: &T, former: u64) -> Result<u64>;

    /// A value outside of its slot, in the form that a search compares: the value itself if it is
    /// plain, else its encoding. Two values are one key if they have the same bytes or the same
    /// encoding.
    type Key: Clone + Send + Sync;

    /// The form of `value` that a search compares.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if the value cannot be encoded.
    fn key(value: &T) -> Result<Self::Key>;

    /// Whether the slot of a value with this key points to heap memory.
    fn is_key_outside(key: &Self::Key) -> bool;

    /// The contents of a slot for the value with this key.
    ///
    /// # Errors
    ///
    /// [`Exhausted`](pgas_core::Error::Exhausted) if this rank's heap has no room for it.
    fn key_slot(key: &Self::Key, heap: &Heap) -> Result<Self::Slot>;

    /// Whether the value in a slot has this key. No rank may release the slot at the same time.
    ///
    /// # Cost
    ///
    /// ℓ; R where both are longer than a slot, and equally long.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn has_key(slot: &Self::Slot, key: &Self::Key, heap: &Heap) -> Result<bool>;

    /// Whether two keys are the same.
    fn is_same_key(a: &Self::Key, b: &Self::Key) -> bool;

    /// The key's hash.
    fn hash_key<H: KeyHasher>(key: &Self::Key, hasher: &H) -> u64;

    /// Appends `value` to bytes that another job may read.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if the value cannot be encoded.
    fn write(value: &T, out: &mut Vec<u8>) -> Result<()>;

    /// Reads a value from the front of what [`write`](Self::write) has written.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if the bytes are no `T`.
    fn read(bytes: &mut &[u8]) -> Result<T>;

    /// A description of what [`write`](Self::write) writes, for [`Object::saved_as`].
    #[must_use]
    fn layout() -> Cow<'static, str>;

    /// The slots of `values`. Plain values are borrowed, not copied.
    ///
    /// # Errors
    ///
    /// As [`to_slot`](Self::to_slot); then nothing is left behind.
    fn to_slots<'v>(values: &'v [T], heap: &Heap) -> Result<Cow<'v, [Self::Slot]>>;

    /// The values in slots.
    ///
    /// # Errors
    ///
    /// As [`from_slot`](Self::from_slot).
    fn from_slots(slots: Vec<Self::Slot>, heap: &Heap) -> Result<Vec<T>>;
}

/// As [`Repr::to_slot`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "a name for a call")]
pub(crate) fn to_slot<T: Object>(value: &T, heap: &Heap) -> Result<SlotOf<T>> {
    <T::Repr as Repr<T>>::to_slot(value, heap)
}

/// The slot of a value that came with a parcel: its long part goes from there into `heap`.
pub(crate) fn unpack<T: Object>(slot: SlotOf<T>, parcel: &Heap, heap: &Heap) -> Result<SlotOf<T>> {
    if !<T::Repr as Repr<T>>::is_outside(&slot) {
        return Ok(slot);
    }
    let encoded = <T::Repr as Repr<T>>::load(slot, parcel)?;
    <T::Repr as Repr<T>>::key_slot(&encoded, heap)
}

/// A `T` outside of its slot, in the form that a search compares.
pub(crate) type KeyOf<T> = <<T as Object>::Repr as Repr<T>>::Key;

/// As [`Repr::key`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "a name for a call")]
pub(crate) fn key<T: Object>(value: &T) -> Result<KeyOf<T>> {
    <T::Repr as Repr<T>>::key(value)
}

/// As [`Repr::from_slot`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "a name for a call")]
pub(crate) fn from_slot<T: Object>(slot: SlotOf<T>, heap: &Heap) -> Result<T> {
    <T::Repr as Repr<T>>::from_slot(slot, heap)
}

/// As [`Repr::release`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "a name for a call")]
pub(crate) fn release<T: Object>(slot: &SlotOf<T>, heap: &Heap) -> Result<()> {
    <T::Repr as Repr<T>>::release(slot, heap)
}

/// As [`Repr::release`], for a value that an operation has taken out of a container. An error is
/// the job's: the operation is done, and others may have seen it.
pub(crate) fn release_taken<T: Object>(slot: &SlotOf<T>, heap: &Heap) {
    if let Err(error) = release::<T>(slot, heap) {
        heap.give_up(error);
    }
}

/// Encoded values that an operation has been given. They are released if they are not used, or if a
/// function of the program panics meanwhile, or a handler in a wait.
pub(crate) struct Unused<'s, V: Object> {
    slots: &'s [SlotOf<V>],
    heap: &'s Heap,
}

impl<'s, V: Object> Unused<'s, V> {
    pub(crate) fn new(slots: &'s [SlotOf<V>], heap: &'s Heap) -> Self {
        Self { slots, heap }
    }

    pub(crate) fn keep(&mut self) {
        self.slots = &[];
    }
}

impl<V: Object> Drop for Unused<'_, V> {
    fn drop(&mut self) {
        for slot in self.slots {
            release_taken::<V>(slot, self.heap);
        }
    }
}

/// After `error` of an operation that was to hand these slots on: gives them up if a wait was
/// refused to a handler, or ended by its limit, since nothing was done then, or the job has failed.
/// After other errors they may have been handed on.
#[cold]
pub(crate) fn release_refused<T: Object>(error: &Error, slots: &[SlotOf<T>], heap: &Heap) {
    if matches!(error, Error::InHandler { .. } | Error::Timeout(_)) {
        for slot in slots {
            // The refusal is what the caller is told.
            let _released = release::<T>(slot, heap);
        }
    }
}

/// The value in a slot that was taken out of a container. The slot's heap memory is released even
/// if the slot holds no value.
#[inline(always)]
#[expect(clippy::inline_always, reason = "no code at all for plain values")]
pub(crate) fn take_out<T: Object>(slot: SlotOf<T>, heap: &Heap) -> Result<T> {
    let value = from_slot::<T>(slot, heap);
    if !has_heap::<T>() {
        return value;
    }
    let released = release::<T>(&slot, heap);
    // Memory that could not be released is a smaller loss than the value.
    value.or_else(|error| released.and(Err(error)))
}

/// As [`take_out`] for many slots. A slot that holds no value is the only loss.
pub(crate) fn take_all<T: Object>(
    slots: Vec<SlotOf<T>>,
    heap: &Heap,
) -> Result<Vec<T>, TakeError<T>> {
    if !has_heap::<T>() {
        return Ok(<T::Repr as Repr<T>>::from_slots(slots, heap)?);
    }
    let (mut n_lost, mut first) = (0, None);
    let mut taken = Vec::with_capacity(slots.len());
    for slot in slots {
        match take_out::<T>(slot, heap) {
            Ok(value) => taken.push(value),
            Err(error) => {
                n_lost += 1;
                first = first.or(Some(error));
            }
        }
    }
    match first {
        None => Ok(taken),
        Some(first) => Err(TakeError::new(taken, n_lost, first)),
    }
}

/// A hash of `value`, the same on every rank.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a name for a call")]
pub(crate) fn hash_of<T: Object>(value: &T) -> Result<u64> {
    <T::Repr as Repr<T>>::hash(value, 0)
}

/// As [`Repr::HAS_HEAP`].
pub(crate) const fn has_heap<T: Object>() -> bool {
    <T::Repr as Repr<T>>::HAS_HEAP
}

/// The slots of values whose representation is not [`Plain`](super::Plain), one by one.
pub(super) fn each_to_slot<T, R: Repr<T>>(values: &[T], heap: &Heap) -> Result<Vec<R::Slot>> {
    let mut slots = Vec::with_capacity(values.len());
    for value in values {
        match R::to_slot(value, heap) {
            Ok(slot) => slots.push(slot),
            Err(error) => {
                for slot in &slots {
                    R::release(slot, heap)?;
                }
                return Err(error);
            }
        }
    }
    Ok(slots)
}

pub(super) fn each_from_slot<T, R: Repr<T>>(slots: Vec<R::Slot>, heap: &Heap) -> Result<Vec<T>> {
    let read = |slot| R::from_slot(slot, heap);
    slots.into_iter().map(read).collect()
}

impl Heap {
    /// The heap for containers of `T`.
    ///
    /// # Cost
    ///
    /// Nothing for plain types, B + 2 allreduces for others; an allreduce more with `PGAS_CHECK=1`.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// With `PGAS_CHECK=1` [`Mismatch`](pgas_core::Error::Mismatch) if the ranks have different
    /// `T`.
    #[track_caller]
    pub(crate) fn of<T: Object>(team: &Team) -> Result<Self> {
        if team.world().config().check == Some(true) {
            let of_type = hash::of_bytes(T::saved_as().as_bytes(), 0);
            let what = "the type of a container's elements, as a hash of its description";
            team.agree(what, of_type)?;
        }
        Self::new(team, has_heap::<T>())
    }
}

/// Representations are this crate's.
#[expect(unnameable_types, reason = "sealed")]
pub trait Sealed {}
