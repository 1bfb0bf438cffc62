//! What `system.rs` does, on systems that are not Linux, where the ranks of a job are threads.
#![expect(
    unsafe_code,
    reason = "asks for the size of memory, and maps fresh pages"
)]

use rustix::mm::{MapFlags, ProtFlags};

use super::{HUGE_PAGE, Job};

/// Bytes of memory that the host has: the largest segment that one rank could fill.
pub(super) fn memory_of_host() -> u64 {
    // SAFETY: the call takes a number and touches no memory of the program.
    let n_pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    let n_pages = u64::try_from(n_pages).unwrap_or(0);
    let bytes = n_pages.saturating_mul(rustix::param::page_size() as u64);
    bytes.max(1 << 30) & !(HUGE_PAGE as u64 - 1)
}

/// Does nothing: the system chooses its pages.
pub(super) fn advise_huge(_job: &Job) {}

/// Gives whole pages of the segments back, `bytes` from `at` on in the job's memory. They read as zero
/// afterwards; an error changes nothing.
pub(super) fn give_back(job: &Job, at: usize, bytes: usize) -> rustix::io::Result<()> {
    // SAFETY: the range is inside of the job's mapping.
    let first = unsafe { job.base.as_ptr().add(at) };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: fresh pages replace whole pages of the job's private mapping, in one step; they are only
    // accessed atomically, so that no reference sees them change.
    unsafe { rustix::mm::mmap_anonymous(first.cast(), bytes, prot, flags) }.map(drop)
}
