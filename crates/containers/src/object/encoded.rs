//! Values that live in global memory as the bytes that serde makes of them.

use std::borrow::Cow;

use pgas_core::GlobalPtr;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::codec::{self, Encoding};
use super::{Heap, Repr, each_from_slot, each_to_slot, hash};
use crate::{Error, Result};

/// Values in serde's encoding: up to `INLINE` bytes of it in the slot, longer ones in the global heap of
/// the rank that wrote them, behind a pointer in the slot.
///
/// A slot has `INLINE + 4` bytes. `INLINE` is at least 8, the size of the pointer.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<const INLINE: usize = 60>;

/// The slot of an [`Encoded`] value: a length, and the encoding or the pointer to it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct EncodedSlot<const INLINE: usize> {
    len: [u8; 4],
    bytes: [u8; INLINE],
}

impl<const INLINE: usize> EncodedSlot<INLINE> {
    fn len(&self) -> usize {
        u32::from_ne_bytes(self.len) as usize
    }

    /// The pointer and the length of an encoding that is not in the slot.
    fn outside(&self) -> Option<(GlobalPtr<u8>, usize)> {
        let len = self.len();
        if len <= INLINE {
            return None;
        }
        let (bits, _) = self
            .bytes
            .split_first_chunk()
            .expect("INLINE is at least 8");
        Some((GlobalPtr::from_bits(u64::from_ne_bytes(*bits)), len))
    }
}

impl<T: Serialize + DeserializeOwned, const INLINE: usize> Repr<T> for Encoded<INLINE> {
    type Slot = EncodedSlot<INLINE>;

    const HAS_HEAP: bool = true;

    fn to_slot(value: &T, heap: &Heap) -> Result<Self::Slot> {
        const { assert!(INLINE >= 8, "a slot has room for a pointer") };
        let mut bytes = [0; INLINE];
        let long = match codec::encode(value, &mut bytes)? {
            Encoding::Inline(len) => {
                // What an encoding that did not fit has left behind would be sent along.
                bytes[len..].fill(0);
                let len = u32::try_from(len).expect("slots are short").to_ne_bytes();
                return Ok(EncodedSlot { len, bytes });
            }
            Encoding::Long(long) => long,
        };
        let too_long = |_| Error::Codec(format!("{} bytes are over 4 GiB", long.len()).into());
        let len = u32::try_from(long.len()).map_err(too_long)?;
        let len = len.to_ne_bytes();
        let at = heap.store(&long)?;
        bytes.fill(0);
        bytes[..8].copy_from_slice(&at.to_bits().to_ne_bytes());
        Ok(EncodedSlot { len, bytes })
    }

    type Loaded = (EncodedSlot<INLINE>, Option<Vec<u8>>);

    fn is_outside(slot: &Self::Slot) -> bool {
        slot.outside().is_some()
    }

    fn load(slot: Self::Slot, heap: &Heap) -> Result<Self::Loaded> {
        let outside = slot.outside();
        let long = outside.map(|(at, len)| heap.load(at, len)).transpose()?;
        Ok((slot, long))
    }

    fn decode((slot, long): Self::Loaded) -> Result<T> {
        match long {
            None => codec::decode(&slot.bytes[..slot.len()]),
            Some(bytes) => codec::decode(&bytes),
        }
    }

    fn release(slot: &Self::Slot, heap: &Heap) -> Result<()> {
        match slot.outside() {
            None => Ok(()),
            Some((at, len)) => heap.release(at, len),
        }
    }

    fn hash(value: &T, former: u64) -> Result<u64> {
        let mut bytes = [0; INLINE];
        Ok(match codec::encode(value, &mut bytes)? {
            Encoding::Inline(len) => hash::of_bytes(&bytes[..len], former),
            Encoding::Long(long) => hash::of_bytes(&long, former),
        })
    }

    fn to_slots<'v>(values: &'v [T], heap: &Heap) -> Result<Cow<'v, [Self::Slot]>> {
        each_to_slot::<T, Self>(values, heap).map(Cow::Owned)
    }

    fn from_slots(slots: Vec<Self::Slot>, heap: &Heap) -> Result<Vec<T>> {
        each_from_slot::<T, Self>(slots, heap)
    }
}
