//! Counts of messages sent and served, and the test whether all messages of all ranks were served.
//! Each thread counts for itself: every message is counted at both ends, and a shared counter would
//! take a locked instruction each time.

#[cfg(test)]
#[cfg(loom)]
mod models;

use std::cell::RefCell;
use std::sync::atomic::AtomicU64 as PlainAtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sync::{AtomicU64, Ordering};

/// The counts of one thread, which alone writes them.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts {
    n_sent: AtomicU64,
    n_served: AtomicU64,
}

/// The messages that a rank has sent and served.
#[derive(Debug)]
pub struct MessageCounts {
    /// The identifier of this value, unique in the process.
    id: u64,
    threads: Mutex<Vec<Arc<Counts>>>,
    /// The counts of threads that have ended.
    ended: Counts,
}

thread_local! {
    /// This thread's counts by the identifier of their owner; the last used first.
    static OWN: RefCell<Vec<(u64, Arc<Counts>)>> = const { RefCell::new(Vec::new()) };
}

impl Default for MessageCounts {
    fn default() -> Self {
        static N_VALUES: PlainAtomicU64 = PlainAtomicU64::new(0);
        Self {
            id: N_VALUES.fetch_add(1, Ordering::Relaxed),
            threads: Mutex::default(),
            ended: Counts::default(),
        }
    }
}

impl MessageCounts {
    /// Counts a message before it is sent, so that nobody has served more than was sent.
    #[inline]
    pub fn count_sent(&self) {
        self.add(|counts| &counts.n_sent, 1);
    }

    /// Takes the count back of a message that was not sent.
    #[inline]
    pub fn count_unsent(&self) {
        self.add(|counts| &counts.n_sent, u64::MAX);
    }

    /// Counts a message that was served.
    #[inline]
    pub fn count_served(&self) {
        self.add(|counts| &counts.n_served, 1);
    }

    /// The sums over all threads: what was sent, and what was served.
    pub fn sums(&self) -> (u64, u64) {
        let threads = self.lock();
        let threads = threads.iter().map(|counts| &**counts);
        sum_up(&threads.chain([&self.ended]).collect::<Vec<_>>())
    }

    #[inline]
    fn add(&self, of: impl Fn(&Counts) -> &AtomicU64, n: u64) {
        let is_counted = OWN.try_with(|own| {
            let own = own.borrow();
            let Some((id, counts)) = own.first() else {
                return false;
            };
            if *id != self.id {
                return false;
            }
            increase(of(counts), n);
            true
        });
        if !is_counted.unwrap_or(false) {
            self.add_slowly(of, n);
        }
    }

    #[cold]
    fn add_slowly(&self, of: impl Fn(&Counts) -> &AtomicU64, n: u64) {
        let is_counted = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            let at = own.iter().position(|(id, _)| *id == self.id);
            let at = at.unwrap_or_else(|| {
                // Nobody else holds counts whose owner is gone.
                own.retain(|(_, counts)| Arc::strong_count(counts) > 1);
                own.push((self.id, self.join()));
                own.len() - 1
            });
            own.swap(0, at);
            increase(of(&own[0].1), n);
        });
        if is_counted.is_err() {
            // The thread is ending, and its counts are gone already.
            increase_shared(of(&self.ended), n);
        }
    }

    /// Makes counts for a thread, and sums up those of threads that have ended.
    fn join(&self) -> Arc<Counts> {
        let mut threads = self.lock();
        threads.retain_mut(|counts| {
            // `get_mut` synchronizes with the last owner's drop, so all counts are visible. The
            // reference count alone would not.
            let Some(counts) = Arc::get_mut(counts) else {
                return true;
            };
            // Relaxed: the thread that sums up holds the lock, too.
            let add = |sum: &AtomicU64, n: &AtomicU64| {
                sum.fetch_add(n.load(Ordering::Relaxed), Ordering::Relaxed);
            };
            add(&self.ended.n_sent, &counts.n_sent);
            add(&self.ended.n_served, &counts.n_served);
            false
        });
        let counts = Arc::default();
        threads.push(Arc::clone(&counts));
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Counts>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sums over all ranks of what was sent and what was served, of one round after the other.
///
/// All work is done when the two are equal, and were the same in the round before: the four-counter
/// method of Mattern, "Algorithms for distributed termination detection" (1987).
#[derive(Debug, Default)]
pub struct Rounds {
    before: Option<[u64; 2]>,
}

impl Rounds {
    /// Whether all work is done, with the `sums` of another round.
    pub fn are_over(&mut self, sums: [u64; 2]) -> bool {
        let is_as_before = self.before.replace(sums) == Some(sums);
        is_as_before && sums[0] == sums[1]
    }
}

/// A guard that counts a message as served on drop, also after a panic.
#[derive(Debug)]
#[must_use = "it counts when it is dropped"]
pub struct Served<'a>(Option<&'a MessageCounts>);

impl<'a> Served<'a> {
    /// Counts for `message_counts` on drop.
    #[inline]
    pub fn new(message_counts: &'a MessageCounts) -> Self {
        Self(Some(message_counts))
    }

    /// Counts nothing.
    #[inline]
    pub fn cancel(mut self) {
        self.0 = None;
    }
}

impl Drop for Served<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(message_counts) = self.0 {
            message_counts.count_served();
        }
    }
}

/// The sums of messages sent and of messages served.
fn sum_up(counts: &[&Counts]) -> (u64, u64) {
    // Acquire: pairs with the release in `increase`. A rank that sees a message as served sees in
    // the next round what serving it has sent.
    let sum = |of: fn(&Counts) -> &AtomicU64| {
        counts.iter().fold(0_u64, |sum, counts| {
            sum.wrapping_add(of(counts).load(Ordering::Acquire))
        })
    };
    (sum(|counts| &counts.n_sent), sum(|counts| &counts.n_served))
}

/// Adds to a word that no other thread writes.
#[inline]
fn increase(word: &AtomicU64, n: u64) {
    let sum = word.load(Ordering::Relaxed).wrapping_add(n);
    // Release: pairs with the acquire in `sums`.
    word.store(sum, Ordering::Release);
}

/// Adds to a word that several threads write.
#[inline]
fn increase_shared(word: &AtomicU64, n: u64) {
    // Release: as in `increase`.
    word.fetch_add(n, Ordering::Release);
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_sums_are_over_all_threads_also_those_that_have_ended() {
        let message_counts = MessageCounts::default();
        for _ in 0..10 {
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        message_counts.count_sent();
                        message_counts.count_sent();
                        message_counts.count_unsent();
                        message_counts.count_served();
                    });
                }
            });
        }
        message_counts.count_sent();
        assert_eq!(message_counts.sums(), (31, 30));
        assert!(
            message_counts.lock().len() < 31,
            "threads that have ended are no longer kept"
        );
    }

    #[test]
    fn a_thread_counts_for_several_ranks() {
        let all = [
            MessageCounts::default(),
            MessageCounts::default(),
            MessageCounts::default(),
        ];
        for _ in 0..5 {
            for message_counts in &all {
                message_counts.count_sent();
            }
            all[2].count_served();
        }
        assert_eq!(
            all.each_ref().map(MessageCounts::sums),
            [(5, 0), (5, 0), (5, 5)]
        );
    }
}
