//! Which segments this process can load from and store to, and where: one by one, and, where they
//! lie in one mapping, evenly spaced, which is what nearly every access looks at.
#![expect(
    unsafe_code,
    reason = "hands pointers to other threads, and finds places in one mapping"
)]

use std::ptr::NonNull;

use crate::backend::{Backend, RemoteAddr};
use crate::segment::{MIN_SEGMENT_BYTES, NULL_BYTES};
use crate::{GlobalPtr, Rank};

/// A place in a segment that is mapped into this process, on any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared(pub(crate) NonNull<u8>);

// SAFETY: an address is a number with a right to access, and gives no access by itself: who follows
// it says in an `unsafe` block that the place is mapped, and goes through `raw`, whose accesses are
// atomic, so that it does not matter which thread makes them.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`; it cannot be changed by a shared reference.
unsafe impl Sync for Shared {}

/// The segments that are mapped into this process: one entry for each rank of this host's range, so
/// its size does not grow with the job.
#[derive(Debug)]
pub(crate) struct SegmentMap {
    first: u32,
    bases: Box<[Option<Shared>]>,
}

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
        let base = |rank| backend.mapped(Rank::new(rank)).map(Shared);
        Self {
            first: ranks.start,
            bases: ranks.map(base).collect(),
        }
    }

    /// Whether each of `n_ranks` ranks is in the table.
    pub(crate) fn covers(&self, n_ranks: u32) -> bool {
        self.first == 0
            && self.bases.len() == n_ranks as usize
            && self.bases.iter().all(Option::is_some)
    }

    /// Where the segment of `rank` begins, if it is mapped.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the whole of a direct access besides the access"
    )]
    pub(crate) fn base(&self, rank: Rank) -> Option<NonNull<u8>> {
        let index = rank.number().wrapping_sub(self.first);
        Some((*self.bases.get(index as usize)?)?.0)
    }

    /// Where `at` is, if its segment is mapped.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below the size of a mapped segment"
    )]
    pub(crate) fn place(&self, at: RemoteAddr) -> Option<NonNull<u8>> {
        let base = self.base(at.rank)?;
        NonNull::new(base.as_ptr().wrapping_add(at.offset as usize))
    }
}

/// The segments of a range of ranks in one mapping. A place in them is found by arithmetic on four
/// words of one cache line, without a table, so that an access waits for no chain of loads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvenMap {
    start: Shared,
    stride: usize,
    segment_bytes: u64,
    first: u32,
    n: u32,
}

impl EvenMap {
    /// A map in which nothing is found.
    pub(crate) fn empty() -> Self {
        Self {
            start: Shared(NonNull::dangling()),
            stride: 0,
            segment_bytes: MIN_SEGMENT_BYTES,
            first: 0,
            n: 0,
        }
    }

    /// The mapped segments of `backend`, if they lie in one mapping.
    pub(crate) fn of(backend: &dyn Backend) -> Self {
        let ranks = backend.mapped_ranks();
        let start = (!ranks.is_empty()).then(|| backend.mapped(Rank::new(ranks.start)));
        match (backend.mapped_stride(), start.flatten()) {
            (Some(stride), Some(start)) => Self {
                start: Shared(start),
                stride,
                segment_bytes: backend.segment_bytes(),
                first: ranks.start,
                n: ranks.end - ranks.start,
            },
            _ => Self::empty(),
        }
    }

    /// Where the `n` elements at `ptr` are, if their rank is mapped, its segment holds all of them,
    /// and they are aligned.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the whole of a direct access besides the access"
    )]
    pub(crate) fn place<T>(&self, ptr: GlobalPtr<T>, n: usize) -> Option<NonNull<u8>> {
        let bytes = size_of::<T>().checked_mul(n)?;
        self.block(ptr.cast(), bytes, align_of::<T>())
    }

    /// Where the block of `bytes` at `ptr` is, if its rank is mapped, its segment holds all of it,
    /// and it is aligned to `align`.
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
        // SAFETY: `index` is below the number of mapped ranks, whose segments lie in one mapping,
        // `stride` bytes from one to the next (`Backend::mapped_stride`), and `fits` says that the
        // offset is inside of this one.
        Some(unsafe {
            self.start
                .0
                .add(index as usize * self.stride + offset as usize)
        })
    }
}
