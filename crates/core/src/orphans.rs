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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::backend::loopback;

    use super::*;

    #[test]
    fn buffers_are_kept_until_their_operation_is_over() {
        let orphans = Orphans::default();
        let buffers = [Arc::new(()), Arc::new(())];
        for (op, buffer) in (1..).map(OpId).zip(&buffers) {
            orphans.adopt(op, Box::new(Arc::clone(buffer)));
        }
        let are_kept = || {
            buffers
                .each_ref()
                .map(|buffer| Arc::strong_count(buffer) > 1)
        };
        orphans.reap(|_| false);
        assert_eq!((orphans.len(), are_kept()), (2, [true, true]));
        orphans.reap(|op| op == OpId(1));
        assert_eq!((orphans.len(), are_kept()), (1, [false, true]));
        orphans.reap(|_| true);
        assert_eq!((orphans.len(), are_kept()), (0, [false, false]));
    }

    #[test]
    fn a_dropped_event_leaves_its_buffers_to_the_world_until_the_transfer_is_over() {
        let world = loopback::world();
        let cells = world.alloc::<u64>(4).unwrap();
        drop(cells.get_vec_nb(&world, 4).unwrap());
        drop(cells.put_vec_nb(&world, vec![1; 4]).unwrap());
        assert_eq!(world.orphans().len(), 2);
        let mut n_rounds = 0;
        while world.orphans().len() > 0 {
            world.progress().unwrap();
            n_rounds += 1;
            assert!(n_rounds < 10_000, "they are never over");
        }
        assert_eq!(cells.get_vec(&world, 4).unwrap(), [1; 4]);
    }
}
