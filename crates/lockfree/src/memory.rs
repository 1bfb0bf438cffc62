//! Memory of this process that others read and write at the same time, larger than a word.

use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Release},
    fence,
};

/// A block of such memory. Offsets are in bytes from its start.
pub trait Memory: Copy {
    /// Four words that are read together.
    type Four: FourWords;

    /// The word of four bytes at `offset`.
    fn word32(&self, offset: usize) -> &AtomicU32;

    /// The word of eight bytes at `offset`.
    fn word64(&self, offset: usize) -> &AtomicU64;

    /// Reads four words of four bytes from `offset` on, in any order, each as [`word::load`](crate::word::load) does.
    fn load_four(&self, offset: usize) -> Self::Four;
}

/// Parts of a block as values of a type, by relaxed accesses: a value that is a word is whole, and others may be torn.
pub trait Part<T>: Memory {
    /// Reads the value at `offset`.
    fn read(&self, offset: usize) -> T;

    /// Writes the value at `offset`.
    fn write(&self, offset: usize, value: T);
}

/// Four words of four bytes as they were read.
pub trait FourWords: Copy {
    /// Which of the words are `wanted` once the bits of `ignored` are set in them: a bit for each word, the lowest one for the first in
    /// memory.
    fn matching(self, ignored: u32, wanted: u32) -> u32;

    /// In which of the words the highest bit is set, likewise.
    fn highest(self) -> u32;
}

impl FourWords for [u32; 4] {
    #[inline]
    fn matching(self, ignored: u32, wanted: u32) -> u32 {
        let bits = self.map(|word| u32::from(word | ignored == wanted));
        bits[0] | bits[1] << 1 | bits[2] << 2 | bits[3] << 3
    }

    #[inline]
    fn highest(self) -> u32 {
        self.matching(!(1 << 31), u32::MAX)
    }
}

/// What `read` reads; later accesses of this thread come after.
#[inline(always)]
pub fn settled<T>(read: impl FnOnce() -> T) -> T {
    let value = read();
    // Pairs with the release of who wrote: whose value was read is seen with what it wrote before.
    fence(Acquire);
    value
}

/// Reads the value at `offset`; later accesses of this thread come after.
#[inline(always)]
pub fn load<T, M: Part<T>>(memory: &M, offset: usize) -> T {
    settled(|| memory.read(offset))
}

/// Has what this thread accessed before come before what it writes next, for everybody who sees the latter and acquires.
#[inline(always)]
pub fn release() {
    fence(Release);
}
