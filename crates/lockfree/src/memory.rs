//! Blocks of memory, larger than a word, that other threads and processes read and write at the
//! same time.

use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Release},
    fence,
};

/// A block of shared memory. Offsets are in bytes from its start.
pub trait Memory: Copy {
    /// Four words that are read together.
    type Four: FourWords;

    /// The word of four bytes at `offset`.
    fn word32(&self, offset: usize) -> &AtomicU32;

    /// The word of eight bytes at `offset`.
    fn word64(&self, offset: usize) -> &AtomicU64;

    /// Reads four words of four bytes from `offset` on, in any order, each as
    /// [`word::load`](crate::word::load) does.
    fn load_four(&self, offset: usize) -> Self::Four;
}

/// Access to parts of a block as values of a type, by relaxed accesses. A value that is one word is
/// whole; others may be torn.
pub trait Part<T>: Memory {
    /// Reads the value at `offset`.
    fn read(&self, offset: usize) -> T;

    /// Writes the value at `offset`.
    fn write(&self, offset: usize, value: T);
}

/// Four words of four bytes as they were read.
pub trait FourWords: Copy {
    /// The set of words that are `wanted` once the bits of `ignored` are set in them. Bit 0 stands
    /// for the first word in memory.
    fn matching(self, ignored: u32, wanted: u32) -> u32;

    /// The set of words whose highest bit is set.
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

/// Calls `read`, and orders later accesses of this thread after it.
#[inline(always)]
pub fn acquire_after<T>(read: impl FnOnce() -> T) -> T {
    let value = read();
    // Pairs with the writer's release: a thread that reads the value also sees what the writer
    // wrote before.
    fence(Acquire);
    value
}

/// Reads the value at `offset`, and orders later accesses of this thread after it.
#[inline(always)]
pub fn load<T, M: Part<T>>(memory: &M, offset: usize) -> T {
    acquire_after(|| memory.read(offset))
}

/// Orders earlier accesses of this thread before its next writes, for every thread that sees these
/// writes and acquires.
#[inline(always)]
pub fn release() {
    fence(Release);
}
