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

    /// Uncounts a handle, and ends the thread with the last one; `wake` ends its nap.
    pub(crate) fn drop_handle(&self, wake: impl FnOnce()) {
        // AcqRel: what the other handles did comes before the end.
        if self.n_handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
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
        // Acquire: pairs with the release in `drop_handle`.
        self.is_over.load(Ordering::Acquire)
    }
}
