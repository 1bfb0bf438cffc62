//! Sleeping and waking between ranks. A rank without work for a while sleeps; a rank that gives it
//! work rings.
//!
//! Ringing costs a load as long as nobody sleeps; the system call is made only if somebody does. No
//! wake-up can be lost. The sleeper announces itself and then looks for work; the ringer gives work
//! and then looks for sleepers; both have a fence in between, so at least one of them sees the
//! other (Dekker's argument). The sleeper pays for both fences ([`Bell::heavy_fence`]). If the
//! ringer sees the sleeper, it changes the word that the sleeper is about to wait on, and the
//! kernel refuses to put anyone to sleep on a word that has changed.

#[cfg(test)]
#[cfg(loom)]
pub(crate) mod futex_model;
#[cfg(test)]
#[cfg(loom)]
mod models;

use std::time::{Duration, Instant};

use crate::sync::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// The system's part of a doorbell: a word that threads sleep on, and an asymmetric fence, for
/// which one side pays.
pub trait Bell: Default {
    /// The word that threads sleep on; zero at first.
    fn word(&self) -> &AtomicU32;

    /// Sleeps while the word is `expected`, until woken or `timeout` is over. May return early.
    /// Comparing the word and going to sleep are one step with regard to
    /// [`wake_all`](Self::wake_all).
    fn wait(&self, expected: u32, timeout: Option<Duration>);

    /// Wakes all who sleep on the word.
    fn wake_all(&self);

    /// The light side of the asymmetric fence: a full fence together with a [heavy
    /// one](Self::heavy_fence) on the other side.
    fn light_fence();

    /// The heavy side of the asymmetric fence: it turns every light fence of other threads into a
    /// full one.
    fn heavy_fence();
}

/// The bell of one rank, in shared memory; valid when all its bytes are zero.
///
/// In a cache line of its own, since every sender reads it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Doorbell<B> {
    bell: B,
    /// The number of threads of the rank that sleep or are about to, and the bits [`IS_DEAF`] and
    /// [`HAS_LEFT`].
    n_sleepers: AtomicU32,
}

/// Set if the owner cannot fence for its ringers.
const IS_DEAF: u32 = 1 << 31;
/// Set if the owner has left and takes no more messages.
const HAS_LEFT: u32 = 1 << 30;

impl<B: Bell> Doorbell<B> {
    /// The system's part of the doorbell.
    #[must_use]
    pub fn bell(&self) -> &B {
        &self.bell
    }

    /// Threads of the owner that sleep or are about to, for reports.
    #[must_use]
    pub fn n_sleepers(&self) -> u32 {
        self.n_sleepers.load(Relaxed) & !(IS_DEAF | HAS_LEFT)
    }

    /// Wakes the owner if it sleeps. To be called after the work has been published, once for any
    /// number of items. Returns whether the owner has [left](Self::leave). If it has not, it sees
    /// what was published before it leaves.
    ///
    /// # Cost
    /// A load. A full fence if the system has no asymmetric fence. A system call only if the owner
    /// sleeps.
    #[inline]
    pub fn ring(&self) -> bool {
        // Pairs with the fence in `sleep_until`: what was published before is visible to its
        // `ready`, or its announcement to the load below.
        B::light_fence();
        self.n_sleepers.load(Relaxed) != 0 && self.wake()
    }

    #[cold]
    fn wake(&self) -> bool {
        // For an owner that fences for itself alone. It also releases what the ring below
        // announces.
        fence(SeqCst);
        // Acquire: pairs with the release in `leave`.
        let n_sleepers = self.n_sleepers.load(Acquire);
        if n_sleepers & !(IS_DEAF | HAS_LEFT) != 0 {
            // Relaxed: with the fence above, it pairs with the acquire in `sleep_until`. A thread
            // that sees the ring sees the published work.
            self.bell.word().fetch_add(1, Relaxed);
            self.bell.wake_all();
        }
        n_sleepers & HAS_LEFT != 0
    }

    /// Whether the owner has left.
    #[inline]
    #[must_use]
    pub fn has_left(&self) -> bool {
        // Relaxed: a hint; `ring` tells for certain.
        self.n_sleepers.load(Relaxed) & HAS_LEFT != 0
    }

    /// Announces to all later ringers that the owner has left. After this call the owner looks once
    /// more for work published before.
    pub fn leave(&self) {
        // Release: a thread that sees the bit sees what the owner has taken before. The fence that
        // follows pairs with the one in `ring`, as in `sleep_until`.
        self.n_sleepers.fetch_or(HAS_LEFT, Release);
        B::heavy_fence();
    }

    /// Makes ringers use full fences, because the owner's process cannot fence for them. To be
    /// called before any rank rings: a ringer that has not seen it may wake a sleeper only at the
    /// end of its timeout.
    pub fn refuse_light_fences(&self) {
        // Relaxed: whatever lets others ring comes later.
        self.n_sleepers.fetch_or(IS_DEAF, Relaxed);
    }

    /// Sleeps until `ready` returns true or `timeout` is over, and returns whether it was `ready`.
    ///
    /// `ready` is called at least once, again after every ring, and before the timeout is reported.
    /// It must depend only on what ringers publish before they ring. A change without a ring is
    /// noticed at the next ring or at the end of `timeout`. Several threads of a rank may sleep on
    /// its bell; each ring wakes them all.
    ///
    /// # Cost
    /// Microseconds, tens of them if the ringer is on another core: spin and yield first, as core's
    /// wait loop does.
    #[must_use]
    pub fn sleep_until(&self, mut ready: impl FnMut() -> bool, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let _sleeper = Sleeper::announce(&self.n_sleepers);
        // Pairs with the fence in `ring`.
        B::heavy_fence();
        loop {
            // Before `ready`: a ring after this line changes the word, and `wait` returns at once.
            // Acquire: pairs with the fence in `wake`.
            let n_rings = self.bell.word().load(Acquire);
            if ready() {
                return true;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return false;
            }
            self.bell.wait(n_rings, left);
        }
    }
}

/// A guard that counts one sleeper until it is dropped, even if `ready` panics.
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
