//! Which segments this process can load from and store to, and where, one by one.
#![expect(unsafe_code, reason = "hands raw pointers to other threads")]

use std::ptr::{self, NonNull};

use crate::Rank;
use crate::backend::Backend;

/// The segments that are mapped into this process: one entry for each rank of this host's range, so
/// its size does not grow with the job.
#[derive(Debug)]
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
}
