//! Credits: the share of a target's request ring that one sender may take. It is half of the ring,
//! so that other senders always find room.
//!
//! A sender counts the slots that it takes of each mailbox, in parts of a sixteenth of the ring. It
//! remembers where in the ring each of the last eight parts ended. It begins another part once the
//! receiver has given back the oldest of these. So at most eight parts are out at a time, and the
//! receiver does nothing for it.

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The maximum number of parts that are out.
const N_PARTS: usize = 8;
/// Parts of a ring.
const PARTS_PER_RING: usize = 2 * N_PARTS;

/// The slots that one sender has taken of one mailbox. The threads of the sender's process share
/// it; two that send at once may be counted as one.
#[derive(Debug)]
pub struct Credits {
    /// Slots of a part.
    part: u64,
    /// Slots ever taken.
    n_taken: AtomicU64,
    /// The end of each of the last parts, as a ticket.
    ends: [AtomicU64; N_PARTS],
}

impl Credits {
    /// Credits for a ring of `n_slots`.
    #[must_use]
    pub fn new(n_slots: usize) -> Self {
        Self {
            part: (n_slots / PARTS_PER_RING).max(1) as u64,
            n_taken: AtomicU64::new(0),
            ends: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Whether `n` more slots may be taken. `head` reads up to which ticket the receiver has given
    /// slots back; it is seldom called.
    #[inline]
    pub fn allow(&self, n: u64, head: impl FnOnce() -> u64) -> bool {
        let first = self.n_taken.load(Relaxed);
        let (begun, last) = (first.div_ceil(self.part), (first + n - 1) / self.part);
        if begun > last {
            return true;
        }
        let head = head();
        (begun..=last).all(|part| self.may_begin(part, head))
    }

    /// Counts `n` slots that were taken, up to the ticket `end`.
    #[inline]
    pub fn take(&self, n: u64, end: u64) {
        let first = self.n_taken.load(Relaxed);
        for part in first / self.part..=(first + n - 1) / self.part {
            self.end_of(part).store(end, Relaxed);
        }
        self.n_taken.store(first + n, Relaxed);
    }

    /// Slots that may be taken one by one, while the receiver has given back those before `head`.
    #[must_use]
    pub fn n_left(&self, head: u64) -> u64 {
        let first = self.n_taken.load(Relaxed);
        let begun = first.div_ceil(self.part);
        let free = (begun..)
            .take(N_PARTS)
            .take_while(|part| self.may_begin(*part, head));
        (begun + free.count() as u64) * self.part - first
    }

    /// Whether the receiver has given back the part that `part` replaces.
    #[inline]
    fn may_begin(&self, part: u64, head: u64) -> bool {
        let end = self.end_of(part).load(Relaxed);
        part < N_PARTS as u64 || head.wrapping_sub(end) < 1 << 63
    }

    #[inline]
    fn end_of(&self, part: u64) -> &AtomicU64 {
        let index = usize::try_from(part % N_PARTS as u64).expect("below `N_PARTS`");
        &self.ends[index]
    }
}
