//! A loom model of the futex: a word that threads sleep on.
//!
//! Comparing the word and going to sleep are one step with regard to a wake-up; a change of the
//! word is not. Time does not pass, so a lost wake-up is a deadlock, which loom reports.

use std::time::Duration;

use loom::sync::{Condvar, Mutex, MutexGuard};

use super::Bell;
use crate::sync::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
    fence,
};

pub(crate) type Doorbell = super::Doorbell<Futex<true>>;

/// A doorbell whose owner fences for itself alone, as on systems that refuse to fence for others.
pub(crate) type DeafDoorbell = super::Doorbell<Futex<false>>;

/// `HAS_FENCES` says whether a heavy fence turns every light fence into a full one.
#[derive(Debug, Default)]
pub(crate) struct Futex<const HAS_FENCES: bool> {
    word: AtomicU32,
    queue: Mutex<()>,
    woken: Condvar,
}

impl<const HAS_FENCES: bool> Bell for Futex<HAS_FENCES> {
    fn word(&self) -> &AtomicU32 {
        &self.word
    }

    fn wait(&self, expected: u32, _timeout: Option<Duration>) {
        let queue = self.lock();
        if self.word.load(Relaxed) == expected {
            let queue = self.woken.wait(queue);
            drop(queue.expect("no model panics while it holds the queue"));
        }
    }

    fn wake_all(&self) {
        let _queue = self.lock();
        self.woken.notify_all();
    }

    /// The model of the asymmetric fences: both sides fence.
    fn light_fence() {
        if HAS_FENCES {
            fence(SeqCst);
        }
    }

    fn heavy_fence() {
        fence(SeqCst);
    }
}

impl<const HAS_FENCES: bool> Futex<HAS_FENCES> {
    fn lock(&self) -> MutexGuard<'_, ()> {
        let queue = self.queue.lock();
        queue.expect("no model panics while it holds the queue")
    }
}
