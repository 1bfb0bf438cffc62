//! The number of a map's keys, as this rank counts those that it inserts and removes.

use std::sync::atomic::{AtomicU64, Ordering};

use thread_local::ThreadLocal;

use super::outcome::Effect;

/// Counts of this rank's threads.
#[derive(Debug, Default)]
pub(super) struct Counts(ThreadLocal<Counter>);

/// Counts of one thread of this rank. Only that thread writes them, so counting takes no atomic
/// instruction, which for every insert would be a tenth of its time.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counter {
    /// Keys inserted minus keys removed, modulo 2^64.
    keys: AtomicU64,
    /// Keys removed. Some may have been inserted again.
    removed: AtomicU64,
    /// Keys removed since this thread last reclaimed slots.
    noted: AtomicU64,
}

/// Adds to a word that no other thread writes.
#[inline]
fn add(word: &AtomicU64, n: u64) {
    // Relaxed: a count orders nothing.
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(n),
        Ordering::Relaxed,
    );
}

impl Counts {
    /// Counts `n` keys that operations with this effect have inserted or removed.
    #[inline]
    pub(super) fn count(&self, effect: Effect, n: u64) {
        match effect {
            Effect::Read | Effect::Change => {}
            Effect::Claim => self.count_new(n),
            Effect::Remove => self.count_removed(n),
        }
    }

    /// Counts inserted keys.
    #[inline]
    pub(super) fn count_new(&self, n: u64) {
        if n > 0 {
            add(&self.0.get_or_default().keys, n);
        }
    }

    #[inline]
    fn count_removed(&self, n: u64) {
        if n > 0 {
            let counter = self.0.get_or_default();
            add(&counter.keys, n.wrapping_neg());
            add(&counter.removed, n);
        }
    }

    /// Notes keys that this thread has removed, until [`forget_noted`](Self::forget_noted). Returns
    /// how many were noted before.
    pub(super) fn note_removed(&self, n: u64) -> u64 {
        let noted = &self.0.get_or_default().noted;
        let before = noted.load(Ordering::Relaxed);
        add(noted, n);
        before
    }

    pub(super) fn forget_noted(&self) {
        self.0.get_or_default().noted.store(0, Ordering::Relaxed);
    }

    /// Keys inserted minus keys removed, modulo 2^64, and keys removed, as these and `others` have
    /// counted them.
    pub(super) fn sums(&self, others: &Self) -> [u64; 2] {
        // Relaxed loads are enough: an earlier insert is ordered before by whatever told this rank
        // of it, as the future of an operation that was in flight.
        let mut sums = [0_u64; 2];
        for counter in self.0.iter().chain(&others.0) {
            for (sum, count) in sums.iter_mut().zip([&counter.keys, &counter.removed]) {
                *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
            }
        }
        sums
    }
}
