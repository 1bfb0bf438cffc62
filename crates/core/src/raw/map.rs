//! Which segments this process can load from and store to, and where.
#![expect(unsafe_code, reason = "hands raw pointers to other threads")]

use std::ptr::{self, NonNull};

use crate::backend::Backend;
use crate::segment::{MIN_SEGMENT_BYTES, NULL_BYTES};
use crate::{GlobalPtr, Rank};

/// The segments that are mapped into this process: one entry for each rank of this host's range, so
/// its size does not grow with the job.
#[derive(Clone, Debug)]
pub(crate) struct SegmentMap {
    first: u32,
    bases: Box<[*mut u8]>,
}

// SAFETY: the table is never written after it is built, and the pointers are only followed through
// `raw`, which accesses shared memory atomically.
unsafe impl Send for SegmentMap {}
// SAFETY: as for `Send`.
unsafe impl Sync for SegmentMap {}

impl SegmentMap {
    /// A table that sends everything through the backend.
    pub(crate) fn empty() -> Self {
        Self {
            first: 0,
            bases: Box::new([]),
        }
    }

    /// The segments that `backend` has mapped.
    pub(crate) fn of(backend: &dyn Backend) -> Self {
        let ranks = backend.mapped_ranks();
        let base = |rank| {
            backend
                .mapped(Rank::new(rank))
                .map_or(ptr::null_mut(), NonNull::as_ptr)
        };
        Self {
            first: ranks.start,
            bases: ranks.map(base).collect(),
        }
    }

    /// Whether each of `n_ranks` ranks is in the table.
    pub(crate) fn covers(&self, n_ranks: u32) -> bool {
        self.first == 0
            && self.bases.len() == n_ranks as usize
            && self.bases.iter().all(|base| !base.is_null())
    }

    /// Where the segment of `rank` begins, if it is mapped.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the whole of a direct access besides the access"
    )]
    pub(crate) fn base(&self, rank: Rank) -> Option<NonNull<u8>> {
        let index = rank.number().wrapping_sub(self.first);
        NonNull::new(*self.bases.get(index as usize)?)
    }

    /// Where the `n` elements at `ptr` are, if their rank is mapped, its segment of `segment_bytes`
    /// holds all of them, and they are aligned.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the whole of a direct access besides the access"
    )]
    pub(crate) fn place<T>(
        &self,
        ptr: GlobalPtr<T>,
        n: usize,
        segment_bytes: u64,
    ) -> Option<NonNull<u8>> {
        let bytes = size_of::<T>().checked_mul(n)?;
        self.block(ptr.cast(), bytes, align_of::<T>(), segment_bytes)
    }

    /// Where the block of `bytes` at `ptr` is, if its rank is mapped, its segment of `segment_bytes`
    /// holds all of it, and it is aligned to `align`.
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
        segment_bytes: u64,
    ) -> Option<NonNull<u8>> {
        let base = self.base(ptr.rank())?;
        let offset = ptr.offset_bytes();
        let bytes = bytes as u64;
        // No segment is smaller than that, which spares small blocks of a constant size a check.
        if bytes > MIN_SEGMENT_BYTES - NULL_BYTES && bytes > segment_bytes - NULL_BYTES {
            return None;
        }
        let last = (segment_bytes - NULL_BYTES) - bytes;
        let fits = offset.wrapping_sub(NULL_BYTES) <= last;
        if !fits || !offset.is_multiple_of(align as u64) {
            return None;
        }
        // SAFETY: the offset lies inside of the segment, which is mapped at `base`.
        Some(unsafe { base.add(offset as usize) })
    }
}
