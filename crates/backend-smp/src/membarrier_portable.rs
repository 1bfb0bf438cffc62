//! The twin of `membarrier.rs` for systems that are not Linux: a full fence on both sides.

use std::sync::atomic::{Ordering::SeqCst, fence};

/// Whether every [`light`] of this process is a full fence together with a [`heavy`] of another
/// one: it always is one.
pub(crate) fn register() -> bool {
    true
}

/// The frequent side: a full fence.
#[inline]
pub(crate) fn light() {
    fence(SeqCst);
}

/// The rare side: a full fence.
pub(crate) fn heavy() {
    fence(SeqCst);
}
