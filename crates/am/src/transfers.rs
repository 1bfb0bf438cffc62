//! Actions chained to transfers. They may send when the transfers complete, so they count as
//! unfinished work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of actions that wait for transfers; they may send later.
#[derive(Debug, Default)]
pub(crate) struct Transfers(Arc<AtomicU64>);

/// A guard that counts one action until it is over.
#[derive(Debug)]
pub(crate) struct Transfer(Arc<AtomicU64>);

impl Transfers {
    pub(crate) fn begin(&self) -> Transfer {
        self.0.fetch_add(1, Ordering::Relaxed);
        Transfer(Arc::clone(&self.0))
    }

    pub(crate) fn n_running(&self) -> u64 {
        // Acquire: pairs with the release at an action's end; the messages that it has sent are
        // counted.
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
