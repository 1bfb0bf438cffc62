//! What operations in flight still read or write after their events were dropped.

use std::any::Any;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::backend::OpId;
use crate::locks::lock;

/// Operations whose events were dropped in flight, with their buffers.
#[derive(Default)]
pub(crate) struct Orphans {
    list: Mutex<Vec<Orphan>>,
    len: AtomicUsize,
}

struct Orphan {
    op: OpId,
    _buffers: Box<dyn Any + Send>,
}

impl fmt::Debug for Orphans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Orphans({})", self.len())
    }
}

impl Orphans {
    /// Keeps the buffers of an operation until it is over.
    pub(crate) fn adopt(&self, op: OpId, buffers: Box<dyn Any + Send>) {
        let mut list = lock(&self.list);
        list.push(Orphan {
            op,
            _buffers: buffers,
        });
        // Only a hint that saves `reap` the lock.
        self.len.store(list.len(), Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Frees the buffers of the operations that are over; `over` asks the backend.
    pub(crate) fn reap(&self, mut over: impl FnMut(OpId) -> bool) {
        if self.len() == 0 {
            return;
        }
        let mut list = lock(&self.list);
        list.retain(|orphan| !over(orphan.op));
        self.len.store(list.len(), Ordering::Relaxed);
    }

    /// Leaves the buffers allocated for ever: the network may still write into them.
    pub(crate) fn leak(&self) {
        for orphan in lock(&self.list).drain(..) {
            Box::leak(Box::new(orphan));
        }
    }
}
