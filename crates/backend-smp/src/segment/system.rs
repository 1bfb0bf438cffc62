//! Linux only: the host's memory, large pages, and memory given back. `system_portable.rs` replaces
//! it on other systems.

use std::fs::File;

use rustix::fs::FallocateFlags;

use super::pages::Pages;
use crate::layout::HUGE_PAGE;

/// Bytes of memory that the host has: the largest segment that one rank could fill.
pub(super) fn memory_of_host() -> u64 {
    let info = rustix::system::sysinfo();
    let bytes = info.totalram.saturating_mul(u64::from(info.mem_unit));
    bytes.max(1 << 30) & !(HUGE_PAGE as u64 - 1)
}

/// Asks for 2 MiB pages for segments that are large; a refusal only costs speed.
pub(super) fn advise_huge(pages: &Pages, segment_bytes: u64) {
    if segment_bytes < 64 * HUGE_PAGE as u64 {
        return;
    }
    pages.advise_huge();
}

/// Gives whole pages of the segments back to the system: `bytes` from `at` on in the job's memory,
/// which is in `file` if it is shared. They read as zero afterwards. An error changes nothing.
pub(super) fn give_back(
    pages: &Pages,
    file: Option<&File>,
    at: usize,
    bytes: usize,
) -> rustix::io::Result<()> {
    if let Some(file) = file {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        return rustix::fs::fallocate(file, flags, at as u64, bytes as u64);
    }
    pages.renew(at, bytes)
}
