//! The twin of `system.rs` for systems that are not Linux, where the ranks of a job are threads.

use std::fs::File;

use super::pages::{self, Pages};
use crate::layout::HUGE_PAGE;

/// Bytes of memory that the host has: the largest segment that one rank could fill.
pub(super) fn memory_of_host() -> u64 {
    pages::of_host().max(1 << 30) & !(HUGE_PAGE as u64 - 1)
}

/// Does nothing: the system chooses its pages.
pub(super) fn advise_huge(_pages: &Pages, _segment_bytes: u64) {}

/// Gives whole pages of the segments back, `bytes` from `at` on in the job's memory. They read as
/// zero afterwards; an error changes nothing.
pub(super) fn give_back(
    pages: &Pages,
    _file: Option<&File>,
    at: usize,
    bytes: usize,
) -> rustix::io::Result<()> {
    pages.renew(at, bytes)
}
