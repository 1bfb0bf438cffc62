//! What `system.rs` does, on systems that are not Linux, where the ranks of a job are threads.

use super::{HUGE_PAGE, Job, pages};

/// Bytes of memory that the host has: the largest segment that one rank could fill.
pub(super) fn memory_of_host() -> u64 {
    pages::of_host().max(1 << 30) & !(HUGE_PAGE as u64 - 1)
}

/// Does nothing: the system chooses its pages.
pub(super) fn advise_huge(_job: &Job) {}

/// Gives whole pages of the segments back, `bytes` from `at` on in the job's memory. They read as zero
/// afterwards; an error changes nothing.
pub(super) fn give_back(job: &Job, at: usize, bytes: usize) -> rustix::io::Result<()> {
    job.pages.renew(at, bytes)
}
