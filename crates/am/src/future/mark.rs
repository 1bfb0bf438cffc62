//! Whether the job fails if a time limit ends the wait for a chain.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Set once an operation that the chain has begun says that nobody would have what it takes out.
/// All futures of a chain share it, also those that were chained before the operation began.
#[derive(Default)]
pub(super) struct Mark {
    is_set: AtomicBool,
    /// Those of the chains which wait for the end of this one, or for a join of it. Mostly there is
    /// one; `when_any` gives back what the next one waits for. Weak, since programs choose the
    /// length of such a line.
    next: Mutex<Vec<Weak<Self>>>,
}

impl Mark {
    pub(super) fn is_set(&self) -> bool {
        // Relaxed: nothing is read for it, and `next` has a lock.
        self.is_set.load(Ordering::Relaxed)
    }

    /// Sets it, and those of the chains that wait for this one.
    pub(super) fn set(&self) {
        let mut others = self.set_alone();
        while let Some(mark) = others.pop() {
            if let Some(mark) = mark.upgrade() {
                others.extend(mark.set_alone());
            }
        }
    }

    /// Sets it, and returns those of the chains that wait for this one, if it was not set before.
    fn set_alone(&self) -> Vec<Weak<Self>> {
        if self.is_set.swap(true, Ordering::Relaxed) {
            return Vec::new();
        }
        mem::take(&mut self.next())
    }

    /// Another chain waits for this one.
    pub(super) fn pass_to(&self, next: &Arc<Self>) {
        {
            let mut others = self.next();
            others.retain(|mark| mark.strong_count() > 0);
            others.push(Arc::downgrade(next));
        }
        // Who sets it has either had the lock before, and this sees that it is set, or takes the new
        // one.
        if self.is_set() {
            next.set();
        }
    }

    fn next(&self) -> MutexGuard<'_, Vec<Weak<Self>>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
