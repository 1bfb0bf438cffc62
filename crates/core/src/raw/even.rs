//! Segments that lie in one mapping, evenly spaced: what nearly every access looks at.
#![expect(unsafe_code, reason = "hands raw pointers to other threads")]

use std::ptr::{self, NonNull};

use crate::GlobalPtr;
use crate::backend::Backend;
use crate::segment::{MIN_SEGMENT_BYTES, NULL_BYTES};

/// The segments of a range of ranks in one mapping. A place in them is found by arithmetic on four
/// words of one cache line, without a table, so that an access waits for no chain of loads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvenMap {
    start: *mut u8,
    stride: usize,
    segment_bytes: u64,
    first: u32,
    n: u32,
}

// SAFETY: the map is never written after it is built, and the pointer is only followed through
// `raw`, which accesses shared memory atomically.
unsafe impl Send for EvenMap {}
// SAFETY: as for `Send`.
unsafe impl Sync for EvenMap {}

impl EvenMap {
    /// A map in which nothing is found.
    pub(crate) fn empty() -> Self {
        Self {
            start: ptr::null_mut(),
            stride: 0,
            segment_bytes: MIN_SEGMENT_BYTES,
            first: 0,
            n: 0,
        }
    }

    /// The mapped segments of `backend`, if they lie in one mapping.
    pub(crate) fn of(backend: &dyn Backend) -> Self {
        let ranks = backend.mapped_ranks();
        let start = (!ranks.is_empty()).then(|| backend.mapped(crate::Rank::new(ranks.start)));
        match (backend.mapped_stride(), start.flatten()) {
            (Some(stride), Some(start)) => Self {
                start: start.as_ptr(),
                stride,
                segment_bytes: backend.segment_bytes(),
                first: ranks.start,
                n: ranks.end - ranks.start,
            },
            _ => Self::empty(),
        }
    }

    /// Where the `n` elements at `ptr` are, if their rank is mapped, its segment holds all of them, and
    /// they are aligned.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the whole of a direct access besides the access"
    )]
    pub(crate) fn place<T>(&self, ptr: GlobalPtr<T>, n: usize) -> Option<NonNull<u8>> {
        let bytes = size_of::<T>().checked_mul(n)?;
        self.block(ptr.cast(), bytes, align_of::<T>())
    }

    /// Where the block of `bytes` at `ptr` is, if its rank is mapped, its segment holds all of it, and it
    /// is aligned to `align`.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the whole of a direct access besides the access"
    )]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below the size of a mapped segment"
    )]
    pub(crate) fn block(
        &self,
        ptr: GlobalPtr<u8>,
        bytes: usize,
        align: usize,
    ) -> Option<NonNull<u8>> {
        let index = ptr.rank().number().wrapping_sub(self.first);
        let offset = ptr.offset_bytes();
        let bytes = bytes as u64;
        // No segment is smaller than that, which spares small blocks of a constant size a check.
        if bytes > MIN_SEGMENT_BYTES - NULL_BYTES && bytes > self.segment_bytes - NULL_BYTES {
            return None;
        }
        let last = (self.segment_bytes - NULL_BYTES) - bytes;
        let fits = offset.wrapping_sub(NULL_BYTES) <= last;
        if index >= self.n || !fits || !offset.is_multiple_of(align as u64) {
            return None;
        }
        // SAFETY: the segment of the range's rank `index` lies that many strides behind the first, in
        // the same mapping, and the offset lies inside of it.
        let place = unsafe {
            self.start
                .add(index as usize * self.stride + offset as usize)
        };
        NonNull::new(place)
    }
}
