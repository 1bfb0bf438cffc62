//! Whether the job fails if a time limit ends the wait for a chain.

use std::sync::atomic::{AtomicBool, Ordering, fence};
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
        // Relaxed: nothing is read for it.
        self.is_set.load(Ordering::Relaxed)
    }

    /// Sets it, and those of the chains that wait for this one.
    pub(super) fn set(&self) {
        let mut next = self.set_alone();
        while let Some(mark) = next {
            next = mark.set_alone();
        }
    }

    /// Sets it, and returns that of the chain which waits for this one.
    fn set_alone(&self) -> Option<Arc<Self>> {
        self.is_set.store(true, Ordering::Relaxed);
        // Pairs with the fence in `pass_to`.
        fence(Ordering::SeqCst);
        self.next.get()?.upgrade()
    }

    /// Another chain waits for this one.
    pub(super) fn pass_to(&self, next: &Arc<Self>) {
        // A part of a join that was passed on with the whole of it.
        let _is_known = self.next.set(Arc::downgrade(next));
        // Either this thread sees that it is set, or who sets it sees the next one.
        fence(Ordering::SeqCst);
        if self.is_set() {
            next.set();
        }
    }
}
