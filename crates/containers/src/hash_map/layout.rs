//! What a slot looks like in global memory: a state word, key and value at fixed offsets.

use std::marker::PhantomData;

use pgas_core::Pod;
use pgas_core::rma::Block;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// How a value is read and written while others do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// It has no bytes.
    Nothing,
    /// As one word of four bytes, by atomics.
    Word4,
    /// As one word of eight bytes, by atomics.
    Word8,
    /// Under the version in the state word.
    Wide,
}

/// Key and value side by side without a gap, so that one put writes both: the one with the larger
/// alignment comes first.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub(super) struct Pair<A, B> {
    pub(super) first: A,
    pub(super) second: B,
}

impl<A: Copy, B: Copy> Clone for Pair<A, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Copy, B: Copy> Copy for Pair<A, B> {}

/// The places of a slot's parts, in bytes from its start.
///
/// | offset | |
/// |---|---|
/// | 0 | state word |
/// | [`PAIR`](Self::PAIR) | key and value, the more aligned one first |
/// | [`STRIDE`](Self::STRIDE) | the next slot |
pub(super) struct Layout<K, V>(PhantomData<fn() -> (K, V)>);

impl<K: Pod, V: Pod> Layout<K, V> {
    pub(super) const KIND: ValueKind = match size_of::<V>() {
        0 => ValueKind::Nothing,
        4 => ValueKind::Word4,
        8 => ValueKind::Word8,
        _ => ValueKind::Wide,
    };

    /// A value that is accessed as a word is placed as one, whatever its own alignment.
    const VALUE_ALIGN: usize = match Self::KIND {
        ValueKind::Word4 => larger(4, align_of::<V>()),
        ValueKind::Word8 => larger(8, align_of::<V>()),
        ValueKind::Nothing | ValueKind::Wide => align_of::<V>(),
    };

    pub(super) const KEY_FIRST: bool = align_of::<K>() >= Self::VALUE_ALIGN;
    pub(super) const SLOT_ALIGN: usize = larger(8, larger(align_of::<K>(), Self::VALUE_ALIGN));
    pub(super) const PAIR: usize = {
        let align = larger(align_of::<K>(), Self::VALUE_ALIGN);
        8_usize.next_multiple_of(align)
    };
    pub(super) const KEY: usize = if Self::KEY_FIRST {
        Self::PAIR
    } else {
        Self::PAIR + size_of::<V>()
    };
    pub(super) const VALUE: usize = if Self::KEY_FIRST {
        Self::PAIR + size_of::<K>()
    } else {
        Self::PAIR
    };
    pub(super) const STRIDE: usize = {
        let end = Self::PAIR + size_of::<K>() + size_of::<V>();
        end.next_multiple_of(Self::SLOT_ALIGN)
    };
}

impl<K: Pod, V: Pod> Block for Layout<K, V> {
    const BYTES: usize = Self::STRIDE;
    const ALIGN: usize = Self::SLOT_ALIGN;
}

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: Pod, V: Pod>(stride: usize, kind: ValueKind) {
        assert_eq!(Layout::<K, V>::STRIDE, stride);
        assert_eq!(Layout::<K, V>::KIND, kind);
        let (key, value) = (Layout::<K, V>::KEY, Layout::<K, V>::VALUE);
        let (key_end, value_end) = (key + size_of::<K>(), value + size_of::<V>());
        assert!(key >= 8 && value >= 8, "the state word comes first");
        assert!(key_end <= value || value_end <= key, "they do not overlap");
        assert_eq!(
            key_end.max(value_end),
            Layout::<K, V>::PAIR + size_of::<Pair<K, V>>()
        );
        assert_eq!(key % align_of::<K>(), 0);
        assert_eq!(value % align_of::<V>(), 0);
        match kind {
            ValueKind::Word4 => assert_eq!(value % 4, 0),
            ValueKind::Word8 => assert_eq!(value % 8, 0),
            ValueKind::Nothing | ValueKind::Wide => {}
        }
        assert_eq!(stride % Layout::<K, V>::SLOT_ALIGN, 0);
    }

    #[test]
    fn slots_waste_nothing_and_every_part_is_aligned() {
        check::<u64, u64>(24, ValueKind::Word8);
        check::<u64, u32>(24, ValueKind::Word4);
        check::<u32, u32>(16, ValueKind::Word4);
        check::<u32, u64>(24, ValueKind::Word8);
        check::<[u8; 3], u64>(24, ValueKind::Word8);
        check::<[u8; 4], [u8; 8]>(24, ValueKind::Word8);
        check::<[u8; 5], [u8; 4]>(24, ValueKind::Word4);
        check::<u64, ()>(16, ValueKind::Nothing);
        check::<u64, u8>(24, ValueKind::Wide);
        check::<u64, [u8; 40]>(56, ValueKind::Wide);
        check::<u128, u64>(48, ValueKind::Word8);
        check::<u64, u128>(48, ValueKind::Wide);
        check::<[u8; 1], [u16; 3]>(16, ValueKind::Wide);
        check::<(), ()>(8, ValueKind::Nothing);
    }
}
