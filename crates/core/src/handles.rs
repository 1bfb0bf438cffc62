//! The handles of a program on a world, and the thread that ends with the last of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use crate::error::{Error, Result};
use crate::locks::lock;

/// The handles that keep a world's progress thread going, and the thread.
///
/// The thread has a handle on the world itself, which is not counted. The thread ends with the last
/// counted handle, so a thread of the program always leaves the world.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    n_handles: AtomicUsize,
    is_over: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Handles {
    /// Counts a new handle of the program.
    pub(crate) fn count_handle(&self) {
        // Relaxed: a thread that makes a handle has one, so the count cannot reach zero meanwhile.
        self.n_handles.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a new handle of the program, if it still has one. Without any the rank is leaving.
    pub(crate) fn count_handle_if_held(&self) -> bool {
        let more = |n: usize| (n > 0).then_some(n + 1);
        // Relaxed, as in `count_handle`.
        let counted = self
            .n_handles
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok()
    }

    /// Whether a handle is the last one.
    pub(crate) fn is_last(&self) -> bool {
        self.n_handles.load(Ordering::Relaxed) == 1
    }

    /// Uncounts a handle, unless it is the last one. Of handles that are dropped at the same time
    /// one finds that it is the last.
    pub(crate) fn drop_unless_last(&self) -> bool {
        let fewer = |n: usize| (n > 1).then(|| n - 1);
        // AcqRel, and acquire: what the other handles did comes before the end.
        let dropped = self
            .n_handles
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
        dropped.is_ok()
    }

    /// Uncounts the last handle, and ends the thread with it; `wake` ends its nap. Does nothing,
    /// and returns false, if there are others again.
    pub(crate) fn drop_last(&self, wake: impl FnOnce()) -> bool {
        // Acquire, as in `drop_unless_last`; relaxed: then it is dropped by that.
        let dropped = self
            .n_handles
            .compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed);
        if dropped.is_ok() {
            self.end_thread(wake);
        }
        dropped.is_ok()
    }

    fn end_thread(&self, wake: impl FnOnce()) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        // Release: pairs with the acquire in `is_over`.
        self.is_over.store(true, Ordering::Release);
        wake();
        // A handler may have dropped the last handle, on the thread itself, which then ends by
        // itself.
        if thread.thread().id() != thread::current().id() {
            // The thread catches panics of handlers.
            drop(thread.join());
        }
    }

    /// Starts the thread, which runs `body` until that ends.
    pub(crate) fn start(&self, name: String, body: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = thread::Builder::new().name(name).spawn(body);
        *lock(&self.thread) = Some(thread.map_err(|error| Error::os("pthread_create", error))?);
        Ok(())
    }

    /// Whether no counted handle is left.
    pub(crate) fn is_over(&self) -> bool {
        // Acquire: pairs with the release in `end_thread`.
        self.is_over.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_handles_that_are_dropped_at_once_one_is_the_last() {
        for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
            let handles = Handles::default();
            let n_last = AtomicUsize::new(0);
            (0..3).for_each(|_| handles.count_handle());
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        if !handles.drop_unless_last() {
                            n_last.fetch_add(1, Ordering::Relaxed);
                            assert!(handles.is_last() && handles.drop_last(|| ()));
                        }
                    });
                }
            });
            assert_eq!(n_last.into_inner(), 1);
            assert!(!handles.count_handle_if_held());
        }
    }

    #[test]
    fn a_last_handle_that_finds_another_one_is_no_longer_the_last() {
        let handles = Handles::default();
        handles.count_handle();
        assert!(!handles.drop_unless_last());
        assert!(handles.count_handle_if_held());
        assert!(!handles.drop_last(|| ()));
        assert!(handles.drop_unless_last());
        assert!(handles.drop_last(|| ()));
    }
}
