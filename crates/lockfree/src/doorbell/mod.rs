//! Sleeping and waking between ranks: a rank that found nothing to do for a while sleeps, whoever gives it work rings.
//!
//! Ringing costs a load as long as nobody sleeps; the system call is made only if somebody does. No wake-up can be lost.
//! The sleeper announces itself and then looks for work; the ringer gives work and then looks for sleepers; both
//! have a fence in between, so at least one of them sees the other (Dekker's argument). The sleeper pays for both fences
//! ([`Bell::heavy_fence`]). If the ringer sees the sleeper, it
//! changes the word that the sleeper is about to wait on, and the kernel refuses to put anyone to sleep on a word that has changed.

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

/// What the system does for a doorbell: a word that threads sleep on, and a fence of which one side pays for both.
pub trait Bell: Default {
    /// The word; zero at first.
    fn word(&self) -> &AtomicU32;

    /// Sleeps while the word is `expected`, until woken or `timeout` is over. May return early. Comparing the word and going to sleep
    /// are one step with regard to [`wake_all`](Self::wake_all).
    fn wait(&self, expected: u32, timeout: Option<Duration>);

    /// Wakes all who sleep on the word.
    fn wake_all(&self);

    /// A full fence for who is in a hurry, together with a [heavy one](Self::heavy_fence) on the other side.
    fn light_fence();

    /// A full fence for who is in no hurry; it makes one of every light fence elsewhere.
    fn heavy_fence();
}

/// The bell of one rank, in shared memory; valid when all its bytes are zero.
///
/// A cache line of its own: every sender reads it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Doorbell<B> {
    bell: B,
    /// Threads of the rank that sleep or are about to; and [`IS_DEAF`] and [`HAS_LEFT`].
    n_sleepers: AtomicU32,
}

/// The owner cannot fence for its ringers.
const IS_DEAF: u32 = 1 << 31;
/// The owner has left, and looks at nothing any more.
const HAS_LEFT: u32 = 1 << 30;

impl<B: Bell> Doorbell<B> {
    /// What the system has for it.
    #[must_use]
    pub fn bell(&self) -> &B {
        &self.bell
    }

    /// Threads of the owner that sleep or are about to, for reports.
    #[must_use]
    pub fn n_sleepers(&self) -> u32 {
        self.n_sleepers.load(Relaxed) & !(IS_DEAF | HAS_LEFT)
    }

    /// Wakes the owner if it sleeps. To be called after what it waits for has been published, once for any number of things. Says whether the
    /// owner has [left](Self::leave); if not, it sees what was published before it does.
    ///
    /// # Cost
    /// A load, and a full fence where the system has no fence that the sleeper alone pays for; a system call only if the owner sleeps.
    #[inline]
    pub fn ring(&self) -> bool {
        // Pairs with the fence in `sleep_until`: what was published before is visible to its `ready`, or its announcement to the load below.
        B::light_fence();
        self.n_sleepers.load(Relaxed) != 0 && self.wake()
    }

    #[cold]
    fn wake(&self) -> bool {
        // For an owner that fences for itself alone. It also releases what the ring below announces.
        fence(SeqCst);
        // Acquire: pairs with the release in `leave`.
        let n_sleepers = self.n_sleepers.load(Acquire);
        if n_sleepers & !(IS_DEAF | HAS_LEFT) != 0 {
            // Relaxed: with the fence above, it pairs with the acquire in `sleep_until`; who sees
            // the ring sees what it announces.
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

    /// Tells all who ring from here on that the owner has left. It looks once more, after this call, for what was published before.
    pub fn leave(&self) {
        // Release: who sees it sees what the owner has taken before. The fence that follows pairs with the one in
        // `ring`, as in `sleep_until`.
        self.n_sleepers.fetch_or(HAS_LEFT, Release);
        B::heavy_fence();
    }

    /// Has ringers fence fully, because the owner's process cannot do it for them. To be called before anybody rings; a ringer that has not seen it
    /// may wake a sleeper only at the end of its timeout.
    pub fn refuse_light_fences(&self) {
        // Relaxed: whatever lets others ring comes later.
        self.n_sleepers.fetch_or(IS_DEAF, Relaxed);
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
