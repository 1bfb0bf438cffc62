//! Copies of the sources of short puts, so that the callers' own are free at once.
//!
//! Only a local flush tells that MPI has taken a source, which with Open MPI takes half as long as
//! a flush of both sides. A copy takes some nanoseconds, and is freed by the next flush of either
//! kind that the target gets anyway.

#![expect(unsafe_code, reason = "copies sources, and makes puts of the copies")]

use std::cell::Cell;

use pgas_core::backend::Put;

/// A buffer for copies, one behind the other, until MPI has taken them all.
#[derive(Debug)]
pub(crate) struct Staging {
    /// MPI reads some of them while others are written, so there is no exclusive reference to them.
    bytes: Vec<Cell<u8>>,
    n_used: usize,
}

impl Staging {
    /// Longer puts wait for MPI: the wait is short beside their own time.
    pub(crate) const LONGEST: usize = 256;
    const BYTES: usize = 16 << 10;
    /// Copies begin at multiples of this.
    const ALIGN: usize = 8;

    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![Cell::new(0); Self::BYTES],
            n_used: 0,
        }
    }

    /// `len` bytes that are left alone until all are [cleared](Self::clear), if there is room for
    /// them.
    #[inline]
    fn take(&mut self, len: usize) -> Option<*mut u8> {
        let place = self.bytes.get(self.n_used..)?.get(..len)?;
        // A multiple of a power of two, in two instructions.
        self.n_used += (len + Self::ALIGN - 1) & !(Self::ALIGN - 1);
        Some(place.as_ptr().cast_mut().cast())
    }

    /// `put` with a copy of its source, if there is room for it. The copy is left alone until all
    /// are [cleared](Self::clear), which is when MPI has taken them.
    #[inline]
    pub(crate) fn copy(&mut self, put: &Put) -> Option<Put> {
        let (src, len) = (put.src(), put.len());
        let copy = self.take(len)?;
        if len == size_of::<u64>() {
            // SAFETY: as below; a length that the compiler knows needs no call.
            unsafe { copy.copy_from_nonoverlapping(src, size_of::<u64>()) };
        } else {
            // SAFETY: the maker of the put promised `len` readable bytes. As many are writable at
            // `copy`, which `take` has not handed out before; they are this process's own.
            unsafe { copy.copy_from_nonoverlapping(src, len) };
        }
        // SAFETY: the place in a segment is that of the put. The copy stays as it is until it is
        // cleared, when MPI has taken it, or for ever.
        Some(unsafe { Put::new(put.dst(), copy, len) })
    }

    /// Frees all copies: MPI has taken them.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.n_used = 0;
    }

    /// Leaves the buffer to MPI for ever.
    pub(crate) fn leave(&mut self) {
        std::mem::take(&mut self.bytes).leak();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_copies_overlap_until_all_are_given_up() {
        let mut staging = Staging::new();
        let start = staging.bytes.as_ptr().addr();
        let mut end = start;
        let mut n_bytes = 0;
        for len in (0..=Staging::LONGEST).cycle() {
            let Some(place) = staging.take(len) else {
                break;
            };
            assert!(place.addr() >= end && place.addr().is_multiple_of(Staging::ALIGN));
            end = place.addr() + len;
            n_bytes += len;
        }
        assert!(end <= start + Staging::BYTES);
        assert!(n_bytes > Staging::BYTES / 2);
        staging.clear();
        let first = staging.take(Staging::LONGEST).unwrap();
        assert_eq!(first.addr(), start);
    }
}
