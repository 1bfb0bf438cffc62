//! The kernel's promise about a futex, in loom's terms.
//!
//! Comparing the word and going to sleep are one step with regard to a wake-up; changing the word is not. Time does not
//! pass, so a wake-up that gets lost is a deadlock, which loom reports.

use std::time::Duration;

use loom::sync::{Condvar, Mutex, MutexGuard};

use crate::sync::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

#[derive(Debug, Default)]
pub(super) struct Futex {
    word: AtomicU32,
    queue: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    pub(super) fn load(&self) -> u32 {
        self.word.load(Acquire)
    }

    pub(super) fn increment(&self) {
        self.word.fetch_add(1, Release);
    }

    pub(super) fn wait(&self, expected: u32, _timeout: Option<Duration>) {
        let queue = self.lock();
        if self.word.load(Relaxed) == expected {
            let queue = self.woken.wait(queue);
            drop(queue.expect("no model panics while it holds the queue"));
        }
    }

    pub(super) fn wake_all(&self) {
        let _queue = self.lock();
        self.woken.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        let queue = self.queue.lock();
        queue.expect("no model panics while it holds the queue")
    }
}
