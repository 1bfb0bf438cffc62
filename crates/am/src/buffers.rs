//! A few buffers that are reused.

use std::sync::{Mutex, PoisonError};

/// The maximum number of buffers that are kept.
const MAX_KEPT: usize = 16;

/// The unused buffers of a rank.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    kept: Mutex<Vec<Vec<u64>>>,
}

impl Buffers {
    /// A buffer with any contents.
    pub(crate) fn take(&self) -> Vec<u64> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.pop().unwrap_or_default()
    }

    /// Keeps a buffer, unless enough are kept.
    pub(crate) fn put(&self, buffer: Vec<u64>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_KEPT {
            kept.push(buffer);
        }
    }
}
