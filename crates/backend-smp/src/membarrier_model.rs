//! What `membarrier.rs` amounts to, for loom: both sides fence.

use crate::sync::{Ordering::SeqCst, fence};

/// The side that is in a hurry.
pub(crate) fn light() {
    fence(SeqCst);
}

/// The side that is not.
pub(crate) fn heavy() {
    fence(SeqCst);
}
