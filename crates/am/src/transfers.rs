//! What was chained to transfers: it may send when they are over, so that work is not done before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many actions follow transfers that are not complete; they may send when they are.
#[derive(Debug, Default)]
pub(crate) struct Transfers(Arc<AtomicU64>);

/// One of them, until it is over.
#[derive(Debug)]
pub(crate) struct Transfer(Arc<AtomicU64>);

impl Transfers {
    pub(crate) fn begin(&self) -> Transfer {
        self.0.fetch_add(1, Ordering::Relaxed);
        Transfer(Arc::clone(&self.0))
    }

    pub(crate) fn n_running(&self) -> u64 {
        // Acquire: pairs with the release when one is over; what it has sent is counted.
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
