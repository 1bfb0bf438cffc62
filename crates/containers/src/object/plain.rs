//! Byte-copyable values, whose slots are the values themselves.

use std::borrow::Cow;

use pgas_core::Pod;

use super::codec;
use super::hash::{self, KeyHasher};
use super::heap::Heap;
use super::repr::{Repr, Sealed};
use pgas_core::Result;

/// Byte-copyable values ([`Pod`]), kept as they are.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl<T: Pod> Repr<T> for Plain {
    type Slot = T;

    type Array<const N: usize> = Self;

    const HAS_HEAP: bool = false;

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn to_slot(value: &T, _: &Heap) -> Result<T> {
        Ok(*value)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn is_outside(_: &T) -> bool {
        false
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn load(slot: T, _: &Heap) -> Result<T> {
        Ok(slot)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn decode(loaded: T) -> Result<T> {
        Ok(loaded)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn release(_: &T, _: &Heap) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few multiplications")]
    fn hash(value: &T, former: u64) -> Result<u64> {
        Ok(hash::of_bytes(value.as_bytes(), former))
    }

    type Key = T;

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn key(value: &T) -> Result<T> {
        Ok(*value)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn is_key_outside(_: &T) -> bool {
        false
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn key_slot(key: &T, _: &Heap) -> Result<T> {
        Ok(*key)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few compares")]
    fn has_key(slot: &T, key: &T, _: &Heap) -> Result<bool> {
        Ok(slot.as_bytes() == key.as_bytes())
    }

    fn is_same_key(a: &T, b: &T) -> bool {
        a.as_bytes() == b.as_bytes()
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the key's length is a constant, which leaves two multiplications for short keys"
    )]
    fn hash_key<H: KeyHasher>(key: &T, hasher: &H) -> u64 {
        hasher.hash(key.as_bytes())
    }

    fn write(value: &T, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn read(bytes: &mut &[u8]) -> Result<T> {
        let value = codec::take(bytes, size_of::<T>())?;
        Ok(T::read_from_bytes(value).expect("as many bytes"))
    }

    fn layout() -> Cow<'static, str> {
        format!("{} plain bytes", size_of::<T>()).into()
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn to_slots<'v>(values: &'v [T], _: &Heap) -> Result<Cow<'v, [T]>> {
        Ok(Cow::Borrowed(values))
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn from_slots(slots: Vec<T>, _: &Heap) -> Result<Vec<T>> {
        Ok(slots)
    }
}

impl Sealed for Plain {}
