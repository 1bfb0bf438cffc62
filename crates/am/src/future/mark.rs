//! Whether the job fails if a time limit ends the wait for a chain.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Set once an operation that the chain has begun says that nobody would have what it takes out.
/// All futures of a chain share it, also those that were chained before the operation began.
#[derive(Default)]
pub(super) struct Mark {
    is_set: AtomicBool,
    /// That of the chain which waits for the end of this one, or for a join of it: futures have one
    /// owner, so there is one at most. Weak, since programs choose the length of such a line.
    next: OnceLock<Weak<Self>>,
}

impl Mark {
    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Sets it, and those of the chains that wait for this one.
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        let mut next = self.next();
        while let Some(mark) = next {
            mark.is_set.store(true, Ordering::SeqCst);
            next = mark.next();
        }
    }

    /// Another chain waits for this one.
    pub(super) fn pass_to(&self, next: &Arc<Self>) {
        // A part of a join that was passed on with the whole of it.
        let _is_known = self.next.set(Arc::downgrade(next));
        // Either this load or the one in `set` sees the other thread's store.
        if self.is_set() {
            next.set();
        }
    }

    fn next(&self) -> Option<Arc<Self>> {
        self.next.get()?.upgrade()
    }
}
