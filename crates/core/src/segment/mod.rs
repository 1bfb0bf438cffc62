//! The segment that a rank exposes to the others, and the two heaps in it.
//!
//! On the path of an operation this file comes after [`World`](crate::World) and before
//! [`GlobalPtr`](crate::GlobalPtr): here global memory is handed out.
//!
//! ```text
//! 0        64      4096                      middle                      end
//! | null    | core   | symmetric heap ->       | local heap ->            |
//! ```
//!
//! All ranks use the symmetric heap together. Every rank makes the same requests in the same order,
//! and the allocator is deterministic, so an allocation has the same offset everywhere, and no
//! offsets are exchanged. The local heap has the rank's own allocations, and those of its teams:
//! their members search for an offset that is free on all of them. The bookkeeping is in private
//! memory, where no remote put can damage it.

mod heap;
mod ledger;
#[cfg(test)]
mod properties;

pub use heap::HeapUse;
pub(crate) use heap::{Block, Heap};
pub(crate) use ledger::{Freed, Ledgers};

use std::ops::Range;

use crate::error::{Error, Result};

/// Bytes at the start of a segment that no allocation covers, so that offset 0 can mean null.
pub(crate) const NULL_BYTES: u64 = 64;
/// The offset of the heaps.
const HEAPS_START: u64 = 4096;
/// The smallest segment that can be used, in bytes.
pub const MIN_SEGMENT_BYTES: u64 = 64 * 1024;

/// An error if the segment is too large for a [`GlobalPtr`](crate::GlobalPtr), or too small for the
/// library's own data.
pub(crate) fn check_size(segment_bytes: u64) -> Result<()> {
    if (MIN_SEGMENT_BYTES..=1 << 40).contains(&segment_bytes) {
        return Ok(());
    }
    let reason = "a segment has 64K to 1T bytes";
    Err(Error::setting(
        "PGAS_SEGMENT",
        segment_bytes.to_string(),
        reason,
    ))
}

/// The ranges of the symmetric and of the local heap in a segment of `segment_bytes`.
pub(crate) fn heap_ranges(segment_bytes: u64) -> (Range<u64>, Range<u64>) {
    let middle = (segment_bytes / 2).next_multiple_of(4096);
    (HEAPS_START..middle, middle..segment_bytes)
}
