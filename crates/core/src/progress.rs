//! The optional progress thread, for programs that compute for long between calls.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::world::lock;
use crate::{Error, Result, World};

/// How long the thread sleeps when there is nothing to do; messages wake it.
const NAP: Duration = Duration::from_millis(1);

/// The handles that keep a world's progress thread going, and the thread.
///
/// The thread has a handle on the world itself, which does not count: it ends with the last counted
/// one, so that the world is always left by a thread of the program.
#[derive(Debug, Default)]
pub(crate) struct ProgressThread {
    n_handles: AtomicUsize,
    is_over: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ProgressThread {
    /// Counts a new handle of the program.
    pub(crate) fn count_handle(&self) {
        // Relaxed: who makes a handle has one, so the count cannot reach zero meanwhile.
        self.n_handles.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a new handle of the program, if it has one still: without any the rank is leaving.
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
        // Release: pairs with the acquire in the thread's loop.
        self.is_over.store(true, Ordering::Release);
        wake();
        // A handler may have dropped the last handle, on the thread itself, which then ends by itself.
        if thread.thread().id() != thread::current().id() {
            // A panic of a handler has been reported by the thread.
            drop(thread.join());
        }
    }

    /// Starts the thread; `world` is an uncounted handle.
    pub(crate) fn start(&self, world: World) -> Result<()> {
        let name = format!("progress of rank {}", world.rank());
        let run = move || {
            let thread = world.progress_thread();
            // Acquire: pairs with the release in `drop_handle`.
            while !thread.is_over.load(Ordering::Acquire) {
                match world.progress() {
                    Ok(true) => {}
                    Ok(false) => world.backend().park(NAP),
                    // The program's own next call reports it.
                    Err(_) => return,
                }
            }
        };
        let thread = thread::Builder::new().name(name).spawn(run);
        *lock(&self.thread) = Some(thread.map_err(|error| Error::os("pthread_create", error))?);
        Ok(())
    }
}

impl World {
    /// Sleeps until a message arrives for this rank, a barrier ends, somebody [wakes](Self::unpark) it or `at_most` is
    /// over: for a loop of a program's own around [`progress`](Self::progress). May return early.
    ///
    /// A transport that cannot wake a sleeper is polled instead.
    ///
    /// # Cost
    ///
    /// Two system calls; a sleeper wakes some tens of microseconds after the message.
    pub fn park(&self, at_most: Duration) {
        self.backend().park(at_most);
    }

    /// Ends [`park`](Self::park) in the other threads of this rank.
    ///
    /// # Cost
    ///
    /// A fence and a load; a system call if somebody sleeps.
    pub fn unpark(&self) {
        self.backend().notify(self.rank());
    }
}
