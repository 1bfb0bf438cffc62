//! Values that are kept in global memory in the encoding in which they travel.

use std::borrow::Cow;

use pgas_am::Wire;
use pgas_am::codec::Encoder;
use pgas_core::GlobalPtr;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::codec;
use super::hash::{self, KeyHasher};
use super::heap::Heap;
use super::repr::{Repr, Sealed, each_from_slot, each_to_slot};
use pgas_core::{Error, Result};

/// Values in their [`Wire`] encoding. The slot holds an encoding of up to `INLINE` bytes. A longer
/// one lies in the global heap of the rank that wrote it, and the slot holds a pointer to it. Where
/// ranks serve operations, that is the rank that holds the slot.
///
/// A slot has `INLINE + 4` bytes. `INLINE` is at least 8, the size of the pointer.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<const INLINE: usize = 60>;

impl<const INLINE: usize> Sealed for Encoded<INLINE> {}

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

/// An encoding: in a slot, or longer than one.
#[derive(Clone, Debug)]
pub struct EncodedKey<const INLINE: usize> {
    /// Without a pointer if the encoding is longer.
    slot: EncodedSlot<INLINE>,
    long: Option<Vec<u8>>,
}

impl<const INLINE: usize> EncodedKey<INLINE> {
    pub(super) fn of(encoded: &Encoder) -> Result<Self> {
        const { assert!(INLINE >= 8, "a slot has room for a pointer") };
        let mut bytes = [0; INLINE];
        let Some(inline) = bytes.get_mut(..encoded.bytes().len()) else {
            return Self::long(encoded.bytes().to_vec());
        };
        inline.copy_from_slice(encoded.bytes());
        let len = u32::try_from(inline.len()).expect("slots are short");
        let len = len.to_ne_bytes();
        let slot = EncodedSlot { len, bytes };
        Ok(Self { slot, long: None })
    }

    fn long(long: Vec<u8>) -> Result<Self> {
        let too_long = |_| {
            let why = format!("{} bytes are over 4 GiB", long.len());
            Error::codec::<[u8]>("encoding an element", why)
        };
        let len = u32::try_from(long.len()).map_err(too_long)?.to_ne_bytes();
        let bytes = [0; INLINE];
        Ok(Self {
            slot: EncodedSlot { len, bytes },
            long: Some(long),
        })
    }
}

impl<T: Wire, const INLINE: usize> Repr<T> for Encoded<INLINE> {
    type Slot = EncodedSlot<INLINE>;

    type Array<const N: usize> = Encoded;

    const HAS_HEAP: bool = true;

    fn to_slot(value: &T, heap: &Heap) -> Result<Self::Slot> {
        <Self as Repr<T>>::key_slot(&<Self as Repr<T>>::key(value)?, heap)
    }

    fn is_outside(slot: &Self::Slot) -> bool {
        slot.outside().is_some()
    }

    fn load(slot: Self::Slot, heap: &Heap) -> Result<Self::Key> {
        let Some((at, len)) = slot.outside() else {
            return Ok(EncodedKey { slot, long: None });
        };
        let mut key = EncodedKey {
            slot,
            long: Some(heap.load(at, len)?),
        };
        key.slot.bytes.fill(0);
        Ok(key)
    }

    fn decode(EncodedKey { slot, long }: Self::Key) -> Result<T> {
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
        Ok(hash::of_bytes(codec::encode(value)?.bytes(), former))
    }

    type Key = EncodedKey<INLINE>;

    fn key(value: &T) -> Result<Self::Key> {
        EncodedKey::of(&codec::encode(value)?)
    }

    fn is_key_outside(key: &Self::Key) -> bool {
        key.long.is_some()
    }

    fn key_slot(key: &Self::Key, heap: &Heap) -> Result<Self::Slot> {
        let mut slot = key.slot;
        if let Some(long) = &key.long {
            let at = heap.store(long)?;
            slot.bytes[..8].copy_from_slice(&at.to_bits().to_ne_bytes());
        }
        Ok(slot)
    }

    fn has_key(slot: &Self::Slot, key: &Self::Key, heap: &Heap) -> Result<bool> {
        match (&key.long, slot.outside()) {
            (None, None) => Ok(slot.as_bytes() == key.slot.as_bytes()),
            (Some(long), Some((at, len))) if len == long.len() => Ok(heap.load(at, len)? == *long),
            _ => Ok(false),
        }
    }

    fn is_same_key(a: &Self::Key, b: &Self::Key) -> bool {
        a.slot.as_bytes() == b.slot.as_bytes() && a.long == b.long
    }

    fn hash_key<H: KeyHasher>(key: &Self::Key, hasher: &H) -> u64 {
        match &key.long {
            None => hasher.hash(&key.slot.bytes[..key.slot.len()]),
            Some(long) => hasher.hash(long),
        }
    }

    fn write(value: &T, out: &mut Vec<u8>) -> Result<()> {
        codec::write(value, out)
    }

    fn read(bytes: &mut &[u8]) -> Result<T> {
        codec::read(bytes)
    }

    fn layout() -> Cow<'static, str> {
        pgas_am::codec::Layout::of::<T>().into()
    }

    fn to_slots<'v>(values: &'v [T], heap: &Heap) -> Result<Cow<'v, [Self::Slot]>> {
        each_to_slot::<T, Self>(values, heap).map(Cow::Owned)
    }

    fn from_slots(slots: Vec<Self::Slot>, heap: &Heap) -> Result<Vec<T>> {
        each_from_slot::<T, Self>(slots, heap)
    }
}
