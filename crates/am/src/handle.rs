//! How futures name the state that they belong to: by number, so that one that is forgotten keeps nothing.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::layer::Am;

/// The state of a rank, if that is still in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(u64);

/// What exists.
static LIVING: Mutex<Vec<(Handle, Weak<Am>)>> = Mutex::new(Vec::new());

thread_local! {
    /// What this thread asked for last: most threads belong to one rank.
    static LAST: RefCell<Option<(Handle, Weak<Am>)>> = const { RefCell::new(None) };
}

fn living() -> MutexGuard<'static, Vec<(Handle, Weak<Am>)>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// A name that nothing has yet.
    pub(crate) fn unused() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes this the name of `am`.
    pub(crate) fn give_to(self, am: &Arc<Am>) {
        let mut living = living();
        living.retain(|(_, am)| am.strong_count() > 0);
        living.push((self, Arc::downgrade(am)));
    }

    /// What it names.
    #[inline]
    pub(crate) fn get(self) -> Option<Arc<Am>> {
        let known = LAST.try_with(|last| match &*last.borrow() {
            Some((handle, am)) if *handle == self => Some(am.upgrade()),
            _ => None,
        });
        match known {
            Ok(Some(am)) => am,
            _ => self.look_up(),
        }
    }

    #[cold]
    fn look_up(self) -> Option<Arc<Am>> {
        let found = living()
            .iter()
            .find(|(handle, _)| *handle == self)
            .cloned()?;
        let am = found.1.upgrade();
        // A thread that is ending has nothing to remember.
        drop(LAST.try_with(|last| last.replace(Some(found))));
        am
    }
}
