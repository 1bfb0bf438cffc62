//! What slots look like in global memory: state words, keys and values at fixed offsets.

use std::marker::PhantomData;

use pgas_core::Pod;
use pgas_core::rma::Block;
pub(super) use pgas_lockfree::slots::scan::MOST;
use pgas_lockfree::slots::state::StateAt;
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

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// The places of slots and of their parts. Slots lie in blocks, which are as large and come one after the other.
///
/// A block is one slot with a state word of 64 bits, of which most count the versions of the value:
///
/// | offset | |
/// |---|---|
/// | 0 | state word |
/// | [`PAIR`](Self::PAIR) | key and value, the more aligned one first |
///
/// or, if the value is a word or nothing, which needs no version, and there is room for at least two slots: a cache line,
/// with [narrow](super::state::StateWord::narrow) state words. A search then looks at the states of several slots at once, and
/// all that it needs lies in one line:
///
/// | offset | |
/// |---|---|
/// | 4 i | state word of slot i |
/// | [`PAIR`](Self::PAIR) + i [`PAIR_STRIDE`](Self::PAIR_STRIDE) | its key and value |
pub(super) struct Layout<K, V>(PhantomData<fn() -> (K, V)>);

/// How slots lie in blocks.
pub(super) trait Blocks {
    /// The slots of a block.
    const SLOTS: usize;

    /// Whether there are several, with narrow state words.
    const IS_PACKED: bool = Self::SLOTS > 1;
}

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

    const PAIR_ALIGN: usize = larger(align_of::<K>(), Self::VALUE_ALIGN);
    pub(super) const PAIR_BYTES: usize = size_of::<K>() + size_of::<V>();
    pub(super) const PAIR_STRIDE: usize = Self::PAIR_BYTES.next_multiple_of(Self::PAIR_ALIGN);

    /// The first of `n` pairs behind as many narrow states.
    const fn pairs_behind(n: usize) -> usize {
        (4 * n).next_multiple_of(Self::PAIR_ALIGN)
    }

    /// As many slots as a line has room for, or one that may be larger.
    const N_SLOTS: usize = {
        let mut n = match Self::KIND {
            ValueKind::Wide => 1,
            ValueKind::Nothing | ValueKind::Word4 | ValueKind::Word8 => MOST,
        };
        while n > 1 && Self::pairs_behind(n) + n * Self::PAIR_STRIDE > LINE {
            n -= 1;
        }
        n
    };

    pub(super) const KEY_FIRST: bool = align_of::<K>() >= Self::VALUE_ALIGN;

    /// The key and value of the first slot.
    pub(super) const PAIR: usize = if Self::IS_PACKED {
        Self::pairs_behind(Self::SLOTS)
    } else {
        8_usize.next_multiple_of(Self::PAIR_ALIGN)
    };

    /// The key of the first slot.
    pub(super) const KEY: usize = if Self::KEY_FIRST {
        Self::PAIR
    } else {
        Self::PAIR + size_of::<V>()
    };

    /// The value of the first slot.
    pub(super) const VALUE: usize = if Self::KEY_FIRST {
        Self::PAIR + size_of::<K>()
    } else {
        Self::PAIR
    };

    /// The bytes of a block that are used.
    pub(super) const USED: usize =
        Self::PAIR + (Self::SLOTS - 1) * Self::PAIR_STRIDE + Self::PAIR_BYTES;

    /// The place in a block of what is at `offset` in its first slot's key and value, for the slot with this index.
    #[inline(always)]
    pub(super) const fn of_slot(offset: usize, index: usize) -> usize {
        if Self::IS_PACKED {
            // Tells the compiler that the part lies within the block.
            assert!(index < Self::SLOTS, "no such slot in a block");
            offset + index * Self::PAIR_STRIDE
        } else {
            offset
        }
    }

    /// Where the state of the slot with this index is.
    #[inline(always)]
    pub(super) const fn state(index: usize) -> StateAt {
        if Self::IS_PACKED {
            assert!(index < Self::SLOTS, "no such slot in a block");
        }
        StateAt {
            offset: if Self::IS_PACKED { 4 * index } else { 0 },
            is_narrow: Self::IS_PACKED,
        }
    }
}

impl<K: Pod, V: Pod> Blocks for Layout<K, V> {
    const SLOTS: usize = Self::N_SLOTS;
}

impl<K: Pod, V: Pod> Block for Layout<K, V> {
    const BYTES: usize = if Self::IS_PACKED {
        LINE
    } else {
        Self::USED.next_multiple_of(Self::ALIGN)
    };
    const ALIGN: usize = if Self::IS_PACKED {
        LINE
    } else {
        larger(8, Self::PAIR_ALIGN)
    };
}

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: Pod, V: Pod>(bytes: usize, slots: usize, kind: ValueKind) {
        assert_eq!(Layout::<K, V>::BYTES, bytes);
        assert_eq!(Layout::<K, V>::SLOTS, slots);
        assert_eq!(Layout::<K, V>::KIND, kind);
        let mut parts = Vec::new();
        for index in 0..slots {
            let state = Layout::<K, V>::state(index);
            assert_eq!(state.is_narrow, slots > 1);
            let width = if state.is_narrow { 4 } else { 8 };
            assert_eq!(state.offset % width, 0);
            let key = Layout::<K, V>::of_slot(Layout::<K, V>::KEY, index);
            let value = Layout::<K, V>::of_slot(Layout::<K, V>::VALUE, index);
            let pair = Layout::<K, V>::of_slot(Layout::<K, V>::PAIR, index);
            assert_eq!(pair, key.min(value));
            let end = (key + size_of::<K>()).max(value + size_of::<V>());
            assert_eq!(end, pair + size_of::<Pair<K, V>>(), "no gap");
            assert_eq!(key % align_of::<K>(), 0);
            assert_eq!(value % align_of::<V>(), 0);
            match kind {
                ValueKind::Word4 => assert_eq!(value % 4, 0),
                ValueKind::Word8 => assert_eq!(value % 8, 0),
                ValueKind::Nothing | ValueKind::Wide => {}
            }
            parts.push((state.offset, width));
            parts.push((key, size_of::<K>()));
            parts.push((value, size_of::<V>()));
        }
        parts.retain(|&(_, len)| len > 0);
        parts.sort_unstable();
        for pair in parts.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "two parts overlap");
        }
        let (last, len) = parts[parts.len() - 1];
        assert_eq!(last + len, Layout::<K, V>::USED);
        assert!(Layout::<K, V>::USED <= bytes, "a part lies outside");
        assert_eq!(bytes % Layout::<K, V>::ALIGN, 0);
    }

    #[test]
    fn small_slots_share_a_cache_line_and_every_part_is_aligned() {
        check::<u64, u64>(64, 3, ValueKind::Word8);
        check::<u64, u32>(64, 3, ValueKind::Word4);
        check::<u32, u32>(64, 5, ValueKind::Word4);
        check::<u16, u32>(64, 5, ValueKind::Word4);
        check::<u32, u64>(64, 3, ValueKind::Word8);
        check::<[u8; 3], u64>(64, 3, ValueKind::Word8);
        check::<[u8; 4], [u8; 8]>(64, 3, ValueKind::Word8);
        check::<[u8; 5], [u8; 4]>(64, 4, ValueKind::Word4);
        check::<[u64; 2], u64>(64, 2, ValueKind::Word8);
        check::<[u64; 3], ()>(64, 2, ValueKind::Nothing);
        check::<u128, ()>(64, 3, ValueKind::Nothing);
        check::<[u32; 2], u32>(64, 4, ValueKind::Word4);
        check::<u64, ()>(64, 5, ValueKind::Nothing);
        check::<[u8; 6], ()>(64, 6, ValueKind::Nothing);
        check::<[u8; 5], ()>(64, 7, ValueKind::Nothing);
        check::<u32, ()>(64, 8, ValueKind::Nothing);
        check::<(), ()>(64, 8, ValueKind::Nothing);
    }

    #[test]
    fn other_slots_stand_alone_and_waste_nothing() {
        check::<u64, u8>(24, 1, ValueKind::Wide);
        check::<u64, [u8; 40]>(56, 1, ValueKind::Wide);
        check::<u128, u64>(48, 1, ValueKind::Word8);
        check::<u64, u128>(48, 1, ValueKind::Wide);
        check::<[u8; 1], [u16; 3]>(16, 1, ValueKind::Wide);
        check::<[u64; 3], u64>(40, 1, ValueKind::Word8);
        check::<[u8; 40], ()>(48, 1, ValueKind::Nothing);
    }
}
