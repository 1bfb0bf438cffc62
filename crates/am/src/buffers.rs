//! A few buffers that are used again and again.

use std::sync::{Mutex, PoisonError};

/// Buffers that are kept at most.
const MAX_KEPT: usize = 16;

/// The buffers of a rank that nobody uses now.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    kept: Mutex<Vec<Vec<u64>>>,
}

impl Buffers {
    /// A buffer with anything in it.
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
