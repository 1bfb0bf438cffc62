//! The layout of slots in global memory: state words, keys and values at fixed offsets.

use std::marker::PhantomData;

use pgas_am::codec::{AsBytes, Wire};
use pgas_core::Pod;
use pgas_core::rma::Block;
pub(in super::super) use pgas_lockfree::slots::probe::MOST;
use pgas_lockfree::slots::state::StateAt;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// How a value is read and written concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ValueKind {
    /// The value has no bytes.
    Nothing,
    /// As one word of four bytes, by atomics.
    Word4,
    /// As one word of eight bytes, by atomics.
    Word8,
    /// Under the version in the state word.
    Wide,
}

/// A key and its value behind it without a gap, so that one put writes both.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub(in super::super) struct Pair<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

impl<K: Pod, V: Pod> Wire for Pair<K, V> {
    type By = AsBytes;
}

impl<K: Copy, V: Copy> Pair<K, V> {
    #[inline]
    pub(in super::super) fn new(key: K, value: V) -> Self {
        Self { key, value }
    }

    #[inline]
    pub(in super::super) fn parts(self) -> (K, V) {
        (self.key, self.value)
    }
}

/// Bytes of a cache line.
pub(in super::super) const LINE: usize = 64;

/// The offsets of slots and of their parts. Slots lie in blocks of equal size, one after the other.
///
/// A block is one slot with a state word of 64 bits, most of which count the versions of the value:
///
/// | offset | |
/// |---|---|
/// | 0 | state word |
/// | [`KEY`](Self::KEY) | key, and value behind it |
///
/// Or it is a cache line of several slots with
/// [narrow](pgas_lockfree::slots::state::StateWord::narrow) state words. This is so if the value is
/// a word or nothing, which needs no version, and at least two slots fit. A probe then examines the
/// states of several slots together, and all that it needs lies in one line:
///
/// | offset | |
/// |---|---|
/// | 4 i | state word of slot i |
/// | [`KEY`](Self::KEY) + i [`STRIDE`](Self::STRIDE) | its key, and its value behind it |
pub(in super::super) struct Layout<K, V>(PhantomData<fn() -> (K, V)>);

/// The arrangement of slots in blocks.
pub(in super::super) trait Blocks {
    /// The number of slots of a block.
    const SLOTS: usize;

    /// Whether a block has several slots, with narrow state words.
    const IS_PACKED: bool = Self::SLOTS > 1;
}

impl<K: Pod, V: Pod> Layout<K, V> {
    pub(in super::super) const KIND: ValueKind = match size_of::<V>() {
        0 => ValueKind::Nothing,
        4 => ValueKind::Word4,
        8 => ValueKind::Word8,
        _ => ValueKind::Wide,
    };

    /// A value that is accessed as a word is aligned as one, whatever its own alignment.
    const VALUE_ALIGN: usize = match Self::KIND {
        ValueKind::Word4 => larger(4, align_of::<V>()),
        ValueKind::Word8 => larger(8, align_of::<V>()),
        ValueKind::Nothing | ValueKind::Wide => align_of::<V>(),
    };

    const PAIR_ALIGN: usize = larger(align_of::<K>(), Self::VALUE_ALIGN);
    const PAIR_BYTES: usize = size_of::<K>() + size_of::<V>();
    const STRIDE: usize = Self::PAIR_BYTES.next_multiple_of(Self::PAIR_ALIGN);

    /// The offset of the first pair behind `states` bytes of states. The part with the larger
    /// alignment is aligned; then the other part is, too.
    const fn pairs_behind(states: usize) -> usize {
        if align_of::<K>() >= Self::VALUE_ALIGN {
            return states.next_multiple_of(Self::PAIR_ALIGN);
        }
        (states + size_of::<K>()).next_multiple_of(Self::PAIR_ALIGN) - size_of::<K>()
    }

    /// As many slots as fit in a line, or one slot of any size.
    const N_SLOTS: usize = {
        let mut n = match Self::KIND {
            ValueKind::Wide => 1,
            ValueKind::Nothing | ValueKind::Word4 | ValueKind::Word8 => MOST,
        };
        while n > 1 && Self::pairs_behind(4 * n) + (n - 1) * Self::STRIDE + Self::PAIR_BYTES > LINE
        {
            n -= 1;
        }
        n
    };

    /// The key of the first slot.
    pub(super) const KEY: usize = if Self::IS_PACKED {
        Self::pairs_behind(4 * Self::SLOTS)
    } else {
        Self::pairs_behind(8)
    };

    /// The value of the first slot.
    pub(super) const VALUE: usize = Self::KEY + size_of::<K>();

    /// The bytes of a block that are used.
    pub(super) const USED: usize = Self::KEY + (Self::SLOTS - 1) * Self::STRIDE + Self::PAIR_BYTES;

    /// The offset of a part of slot `index`, if the part of the first slot is at `offset`.
    #[inline]
    pub(super) const fn of_slot(offset: usize, index: usize) -> usize {
        if Self::IS_PACKED {
            // The assertion tells the compiler that the part lies within the block.
            assert!(index < Self::SLOTS, "no such slot in a block");
            offset + index * Self::STRIDE
        } else {
            offset
        }
    }

    /// The offset of the state of slot `index`.
    #[inline]
    pub(in super::super) const fn state(index: usize) -> StateAt {
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
            let end = value + size_of::<V>();
            assert_eq!(end, key + size_of::<Pair<K, V>>(), "no gap");
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
        check::<u64, u128>(32, 1, ValueKind::Wide);
        check::<[u8; 1], [u16; 3]>(16, 1, ValueKind::Wide);
        check::<[u64; 3], u64>(40, 1, ValueKind::Word8);
        check::<[u8; 40], ()>(48, 1, ValueKind::Nothing);
    }
}
