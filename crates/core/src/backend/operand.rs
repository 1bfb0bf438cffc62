//! Operands: a place in a segment, and memory of this process, both checked.
//!
//! Core checks rank, bounds and alignment, and then makes the operand. Only this step takes an
//! `unsafe` block. From there on the operand carries the proof: a transport cuts it into parts,
//! keeps it for later, or passes it to an inner transport, without another promise. Where the bytes
//! move, a transport relies on the promise that the operand's maker gave.
#![expect(unsafe_code, reason = "carries pointers that were checked")]

use std::slice;

use super::call::{AtomicCall, AtomicType, Shape, SwapCall};
use super::operation::RemoteAddr;
use crate::rank::Rank;

/// The operands of a transport.
///
/// It belongs to the transport until the operation is reported: for a blocking call until the call
/// returns, else until [`Backend::test`](super::Backend::test) has reported the stage at which the
/// memory of this process is free. A transport promises to use it no longer than that, and to pass
/// it only to a transport of the same ranks and segments.
pub trait Operand: Sized {
    /// The rank whose segment it is in.
    fn rank(&self) -> Rank;

    /// The same operand with another number for the rank.
    ///
    /// # Safety
    ///
    /// The transport that gets it knows the same segment by that rank.
    #[must_use]
    unsafe fn named(self, rank: Rank) -> Self;
}

/// Bytes that go to a segment.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    dst: RemoteAddr,
    src: *const u8,
    len: usize,
}

/// Bytes that come from a segment.
#[derive(Clone, Copy, Debug)]
pub struct Get {
    src: RemoteAddr,
    dst: *mut u8,
    len: usize,
}

/// A regular grid of blocks that go to a segment.
#[derive(Clone, Copy, Debug)]
pub struct PutGrid<'a> {
    first: RemoteAddr,
    src: *const u8,
    shape: &'a Shape,
}

/// A regular grid of blocks that come from a segment.
#[derive(Clone, Copy, Debug)]
pub struct GetGrid<'a> {
    first: RemoteAddr,
    dst: *mut u8,
    shape: &'a Shape,
}

/// A word in a segment, and the operation on it.
#[derive(Clone, Copy, Debug)]
pub struct Atomic<C = AtomicCall> {
    target: RemoteAddr,
    call: C,
}

/// A put with a copy of its bytes, which is carried out after its source was given back.
#[derive(Clone, Debug)]
pub struct Copied {
    dst: RemoteAddr,
    bytes: Vec<u8>,
}

/// The destination of the former bits of a word.
#[derive(Debug)]
pub struct Former(*mut u64);

// SAFETY: the constructors demand that the memory of an operation is left to it until the operation
// is reported, whichever thread carries it out.
unsafe impl Send for Put {}
// SAFETY: as for `Send`; by a shared reference the source is only read, which many threads may.
unsafe impl Sync for Put {}
// SAFETY: as for `Put`. One thread at a time writes the destination: the one that carries the
// operation out.
unsafe impl Send for Get {}
// SAFETY: as for `Put`.
unsafe impl Send for Former {}

impl Put {
    /// A put of the `len` bytes at `src`.
    ///
    /// # Safety
    ///
    /// The `len` bytes at `dst` lie in a segment of the job of the transport that gets the put. As
    /// long as the put belongs to the transport ([`Operand`]), `src` is readable for `len`
    /// initialized bytes, which nobody writes.
    #[must_use]
    #[inline]
    pub const unsafe fn new(dst: RemoteAddr, src: *const u8, len: usize) -> Self {
        Self { dst, src, len }
    }

    /// The address in the segment.
    #[must_use]
    #[inline]
    pub const fn dst(&self) -> RemoteAddr {
        self.dst
    }

    /// The address in this process.
    #[must_use]
    #[inline]
    pub const fn src(&self) -> *const u8 {
        self.src
    }

    /// How many bytes.
    #[must_use]
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "nobody asks whether there are any"
    )]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The `len` bytes from byte `start` on, for an operation of their own.
    ///
    /// # Panics
    ///
    /// If the put has fewer bytes.
    #[must_use]
    pub fn part(&self, start: usize, len: usize) -> Self {
        assert_part(start, len, self.len);
        Self {
            dst: further(self.dst, start),
            src: self.src.wrapping_add(start),
            len,
        }
    }

    /// Copies the bytes.
    ///
    /// # Panics
    ///
    /// If there are not as many places.
    pub fn copy_to(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), self.len, "a place for each byte");
        // SAFETY: the maker of the put promised that `len` bytes are readable, and that nobody
        // writes them while the put belongs to the transport, as it does during this call. `bytes`
        // is another range, since this is the only reference to it.
        unsafe {
            self.src
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), self.len);
        };
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        if self.len == 0 {
            return Vec::new();
        }
        // SAFETY: the maker of the put promised that `len` bytes are readable, and that nobody
        // writes them while the put belongs to the transport, as it does during this call.
        unsafe { slice::from_raw_parts(self.src, self.len) }.to_vec()
    }
}

impl Copied {
    /// A copy of the bytes of `put`, for the same place.
    #[must_use]
    pub fn of(put: &Put) -> Self {
        Self {
            dst: put.dst,
            bytes: put.to_vec(),
        }
    }

    /// How many bytes.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "nobody asks whether there are any"
    )]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The address in the segment.
    #[must_use]
    pub fn dst(&self) -> RemoteAddr {
        self.dst
    }

    /// Passes a put of the copy to `carry_out`. The put must be over when that returns, as after
    /// [`Backend::put`](super::Backend::put).
    pub fn lend<R>(&self, carry_out: impl FnOnce(Put) -> R) -> R {
        let (dst, src) = (self.dst, self.bytes.as_ptr());
        // SAFETY: the maker of the copied put promised that as many bytes at `dst` lie in a
        // segment. The copy is readable, and does not change until the put is over.
        carry_out(unsafe { Put::new(dst, src, self.bytes.len()) })
    }
}

impl Get {
    /// A get of `len` bytes to `dst`.
    ///
    /// # Safety
    ///
    /// The `len` bytes at `src` lie in a segment of the job of the transport that gets the get. As
    /// long as the get belongs to the transport ([`Operand`]), `dst` is writable for `len` bytes,
    /// which are not part of a segment, and nobody else accesses them.
    #[must_use]
    #[inline]
    pub const unsafe fn new(src: RemoteAddr, dst: *mut u8, len: usize) -> Self {
        Self { src, dst, len }
    }

    /// The address in the segment.
    #[must_use]
    #[inline]
    pub const fn src(&self) -> RemoteAddr {
        self.src
    }

    /// The address in this process.
    #[must_use]
    #[inline]
    pub const fn dst(&self) -> *mut u8 {
        self.dst
    }

    /// How many bytes.
    #[must_use]
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "nobody asks whether there are any"
    )]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The `len` bytes from byte `start` on, for an operation of their own.
    ///
    /// # Panics
    ///
    /// If the get has fewer bytes.
    #[must_use]
    pub fn part(&self, start: usize, len: usize) -> Self {
        assert_part(start, len, self.len);
        Self {
            src: further(self.src, start),
            dst: self.dst.wrapping_add(start),
            len,
        }
    }

    /// Writes all the bytes.
    ///
    /// # Panics
    ///
    /// If there are not as many.
    pub fn fill(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len, "a byte for each place");
        // SAFETY: the maker of the get promised that `len` bytes are writable, and that nobody else
        // accesses them while the get belongs to the transport, as it does during this call.
        // `bytes` is another range, since there is a reference to it.
        unsafe { self.dst.copy_from_nonoverlapping(bytes.as_ptr(), self.len) };
    }
}

fn assert_part(start: usize, len: usize, whole: usize) {
    let is_part = start <= whole && len <= whole - start;
    assert!(is_part, "{len} bytes from {start} on, of {whole}");
}

/// The place `bytes` bytes further.
fn further(at: RemoteAddr, bytes: usize) -> RemoteAddr {
    RemoteAddr {
        offset: at.offset + bytes as u64,
        ..at
    }
}

/// The place `bytes` bytes further or back.
fn moved(at: RemoteAddr, bytes: isize) -> RemoteAddr {
    let offset = at.offset.wrapping_add_signed(bytes as i64);
    RemoteAddr { offset, ..at }
}

impl<'a> PutGrid<'a> {
    /// A put of the blocks of `shape`, with [`Shape::remote`] counted from `first` and
    /// [`Shape::local`] from `src`.
    ///
    /// # Safety
    ///
    /// Each block is as [`Put::new`] has it.
    #[must_use]
    pub const unsafe fn new(first: RemoteAddr, src: *const u8, shape: &'a Shape) -> Self {
        Self { first, src, shape }
    }

    /// Where the first block goes.
    #[must_use]
    pub const fn dst(&self) -> RemoteAddr {
        self.first
    }

    /// Where the first block comes from.
    #[must_use]
    pub const fn src(&self) -> *const u8 {
        self.src
    }

    /// The grid.
    #[must_use]
    pub const fn shape(&self) -> &'a Shape {
        self.shape
    }

    /// Calls `visit` with each block, the last dimension running fastest.
    ///
    /// # Errors
    ///
    /// The first error of `visit`, which ends the walk.
    pub fn for_each<E>(&self, mut visit: impl FnMut(Put) -> Result<(), E>) -> Result<(), E> {
        self.shape.for_each_block(|remote, local| {
            visit(Put {
                dst: moved(self.first, remote),
                src: self.src.wrapping_offset(local),
                len: self.shape.block_bytes,
            })
        })
    }
}

impl<'a> GetGrid<'a> {
    /// A get of the blocks of `shape`, with [`Shape::remote`] counted from `first` and
    /// [`Shape::local`] from `dst`.
    ///
    /// # Safety
    ///
    /// Each block is as [`Get::new`] has it.
    #[must_use]
    pub const unsafe fn new(first: RemoteAddr, dst: *mut u8, shape: &'a Shape) -> Self {
        Self { first, dst, shape }
    }

    /// Where the first block comes from.
    #[must_use]
    pub const fn src(&self) -> RemoteAddr {
        self.first
    }

    /// Where the first block goes.
    #[must_use]
    pub const fn dst(&self) -> *mut u8 {
        self.dst
    }

    /// The grid.
    #[must_use]
    pub const fn shape(&self) -> &'a Shape {
        self.shape
    }

    /// Calls `visit` with each block, the last dimension running fastest.
    ///
    /// # Errors
    ///
    /// The first error of `visit`, which ends the walk.
    pub fn for_each<E>(&self, mut visit: impl FnMut(Get) -> Result<(), E>) -> Result<(), E> {
        self.shape.for_each_block(|remote, local| {
            visit(Get {
                src: moved(self.first, remote),
                dst: self.dst.wrapping_offset(local),
                len: self.shape.block_bytes,
            })
        })
    }
}

/// The operation on a word.
pub trait Call: Copy + sealed::Sealed {
    /// The word's type.
    fn ty(&self) -> AtomicType;
}

mod sealed {
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed {}
    impl Sealed for super::AtomicCall {}
    impl Sealed for super::SwapCall {}
}

impl Call for AtomicCall {
    #[inline]
    fn ty(&self) -> AtomicType {
        self.ty
    }
}

impl Call for SwapCall {
    #[inline]
    fn ty(&self) -> AtomicType {
        self.ty
    }
}

impl<C: Call> Atomic<C> {
    /// The operation `call` on the word at `target`.
    ///
    /// # Safety
    ///
    /// `target` is aligned for the call's type, and the word lies in a segment of the job of the
    /// transport that gets the operand.
    #[must_use]
    #[inline]
    pub const unsafe fn new(target: RemoteAddr, call: C) -> Self {
        Self { target, call }
    }

    /// The address of the word.
    #[must_use]
    #[inline]
    pub const fn target(&self) -> RemoteAddr {
        self.target
    }

    /// The operation on it.
    #[must_use]
    #[inline]
    pub const fn call(&self) -> C {
        self.call
    }

    /// Another operation on the same word.
    ///
    /// # Panics
    ///
    /// If it is for a word of another size.
    #[must_use]
    #[inline]
    pub fn with<D: Call>(&self, call: D) -> Atomic<D> {
        let (bytes, target) = (self.call.ty().bytes(), self.target);
        assert_eq!(call.ty().bytes(), bytes, "of the same word");
        Atomic { target, call }
    }
}

impl Former {
    /// Writes the former bits to `place`.
    ///
    /// # Safety
    ///
    /// As long as this belongs to the transport ([`Operand`]), `place` is writable and aligned, and
    /// nobody else accesses it.
    #[must_use]
    #[inline]
    pub const unsafe fn new(place: *mut u64) -> Self {
        Self(place)
    }

    /// Writes them.
    #[inline]
    pub fn set(self, bits: u64) {
        // SAFETY: the maker of this promised that the place may be written while it belongs to the
        // transport, as it does during this call.
        unsafe { self.0.write(bits) };
    }
}

impl Operand for Put {
    fn rank(&self) -> Rank {
        self.dst.rank
    }

    unsafe fn named(mut self, rank: Rank) -> Self {
        self.dst.rank = rank;
        self
    }
}

impl Operand for Get {
    fn rank(&self) -> Rank {
        self.src.rank
    }

    unsafe fn named(mut self, rank: Rank) -> Self {
        self.src.rank = rank;
        self
    }
}

impl Operand for PutGrid<'_> {
    fn rank(&self) -> Rank {
        self.first.rank
    }

    unsafe fn named(mut self, rank: Rank) -> Self {
        self.first.rank = rank;
        self
    }
}

impl Operand for GetGrid<'_> {
    fn rank(&self) -> Rank {
        self.first.rank
    }

    unsafe fn named(mut self, rank: Rank) -> Self {
        self.first.rank = rank;
        self
    }
}

impl<C> Operand for Atomic<C> {
    fn rank(&self) -> Rank {
        self.target.rank
    }

    unsafe fn named(mut self, rank: Rank) -> Self {
        self.target.rank = rank;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: RemoteAddr = RemoteAddr {
        rank: Rank::ZERO,
        offset: 64,
    };

    #[test]
    fn a_part_lies_within_the_whole() {
        let bytes = [1, 2, 3, 4];
        // SAFETY: it is given to no transport; the bytes outlive it.
        let put = unsafe { Put::new(AT, bytes.as_ptr(), bytes.len()) };
        assert_eq!(put.part(1, 2).to_vec(), [2, 3]);
        assert_eq!(put.part(1, 2).dst().offset, 65);
        assert_eq!(put.part(4, 0).to_vec(), []);
        for (start, len) in [(5, 0), (4, 1), (0, 5), (1, usize::MAX)] {
            let part = std::panic::catch_unwind(|| put.part(start, len));
            assert!(part.is_err(), "{start}, {len}");
        }
    }

    #[test]
    #[should_panic(expected = "of the same word")]
    fn a_word_of_four_bytes_is_no_word_of_eight() {
        let call = |ty| AtomicCall {
            op: super::super::AtomicOp::Load,
            ty,
            operand: 0,
        };
        // SAFETY: it is given to no transport.
        let atomic = unsafe { Atomic::new(AT, call(AtomicType::U32)) };
        let _ = atomic.with(call(AtomicType::I32));
        let _ = atomic.with(call(AtomicType::U64));
    }
}
