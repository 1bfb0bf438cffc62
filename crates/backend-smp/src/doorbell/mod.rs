//! Sleeping and waking between ranks: a rank that found nothing to do for a while sleeps, whoever gives it work rings.
//!
//! Ringing costs a fence and a load as long as nobody sleeps; the system call is made only if somebody does. No wake-up can be lost.
//! The sleeper announces itself and then looks for work; the ringer gives work and then looks for sleepers; both
//! have a sequentially consistent fence in between, so at least one of them sees the other (Dekker's argument). If the ringer sees the sleeper, it
//! changes the word that the sleeper is about to wait on, and the kernel refuses to put anyone to sleep on a word that has changed.

#[cfg(not(loom))]
mod futex;
#[cfg(loom)]
mod futex_model;
#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::time::{Duration, Instant};

use crate::sync::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
    fence,
};
#[cfg(not(loom))]
use futex::Futex;
#[cfg(loom)]
use futex_model::Futex;

/// The bell of one rank, in shared memory; valid when all its bytes are zero.
///
/// A cache line of its own: every sender reads it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Doorbell {
    n_rings: Futex,
    /// Threads of the rank that sleep or are about to.
    n_sleepers: AtomicU32,
}

impl Doorbell {
    /// Wakes the owner if it sleeps. To be called after what it waits for has been published, once for any number of things.
    ///
    /// # Cost
    /// A full fence and a load; a system call only if the owner sleeps.
    #[inline]
    pub fn ring(&self) {
        // Pairs with the fence in `sleep_until`: what was published before is visible to its `ready`, or its announcement to the load below.
        fence(SeqCst);
        if self.n_sleepers.load(Relaxed) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.n_rings.increment();
        self.n_rings.wake_all();
    }

    /// Sleeps until `ready` says yes or `timeout` is over, and says whether it was `ready`.
    ///
    /// `ready` is asked at least once, again after every ring, and before giving up. It must depend on nothing but what ringers publish
    /// before they ring; something that changes without a ring is noticed at the next ring or at the end of `timeout`. Several
    /// threads of a rank may sleep on its bell; each ring wakes them all.
    ///
    /// # Cost
    /// Microseconds, tens of them if the ringer is on another core: spin and yield first, as core's wait loop does.
    #[must_use]
    pub fn sleep_until(&self, mut ready: impl FnMut() -> bool, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let _sleeper = Sleeper::announce(&self.n_sleepers);
        // Pairs with the fence in `ring`.
        fence(SeqCst);
        loop {
            // Before `ready`: a ring after this line changes the word, and `wait` returns at once.
            let n_rings = self.n_rings.load();
            if ready() {
                return true;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return false;
            }
            self.n_rings.wait(n_rings, left);
        }
    }
}

/// One in the count of sleepers, taken back on drop, even if `ready` panics.
struct Sleeper<'a>(&'a AtomicU32);

impl<'a> Sleeper<'a> {
    fn announce(n_sleepers: &'a AtomicU32) -> Self {
        // Relaxed: the fence that follows orders it.
        n_sleepers.fetch_add(1, Relaxed);
        Self(n_sleepers)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
