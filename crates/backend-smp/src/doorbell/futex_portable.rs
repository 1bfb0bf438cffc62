//! The twin of `futex.rs` for systems that are not Linux. All sleepers and wakers are threads of
//! one process: each word has a queue, found by its address.
//!
//! Comparing the word and going to sleep are one step with regard to a wake-up, because both happen
//! under the queue's lock.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pgas_lockfree::doorbell::Bell;

use crate::membarrier;

/// A 32-bit word that the threads of one process share.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Futex(AtomicU32);

/// The queues of all words. Words that share a queue wake each other's sleepers, who check and
/// sleep again.
static QUEUES: [Queue; N_QUEUES] = [const { Queue::new() }; N_QUEUES];
const N_QUEUES: usize = 64;
/// The distance of the words of two ranks.
const STRIDE: usize = 128;

#[derive(Debug)]
struct Queue {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Queue {
    const fn new() -> Self {
        Self {
            lock: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // The lock guards nothing that a panic could leave half done.
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell for Futex {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        &self.0
    }

    fn wait(&self, expected: u32, timeout: Option<Duration>) {
        let queue = self.queue();
        let asleep = queue.lock();
        // Relaxed: a thread that changes the word takes the lock afterwards, to wake.
        if self.0.load(Relaxed) != expected {
            return;
        }
        match timeout {
            None => drop(queue.woken.wait(asleep)),
            Some(timeout) => drop(queue.woken.wait_timeout(asleep, timeout)),
        }
    }

    fn wake_all(&self) {
        let queue = self.queue();
        // A sleeper that has looked at the word before it changed holds the lock until it sleeps.
        drop(queue.lock());
        queue.woken.notify_all();
    }

    #[inline]
    fn light_fence() {
        membarrier::light();
    }

    fn heavy_fence() {
        membarrier::heavy();
    }
}

impl Futex {
    fn queue(&self) -> &'static Queue {
        &QUEUES[ptr::from_ref(self).addr() / STRIDE % N_QUEUES]
    }
}
