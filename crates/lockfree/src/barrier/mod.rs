//! A split-phase barrier in shared memory: one counter that every rank adds to, and one word that
//! the last of them writes.
//!
//! Nothing is ever reset, so two barriers in a row cannot run into each other: the counter of
//! arrivals and the epochs are 64 bits wide and only grow. The words are valid when they are all
//! zero.
//!
//! | word | holds |
//! |---|---|
//! | 0 | arrivals, all ranks and epochs together |
//! | 16 | the last epoch that is complete |
//! | 32 + 8 r | the last epoch at which rank r has arrived (a cache line each), for reports |
//!
//! In a barrier over a team, ranks are numbered as in the team.

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::fmt;

use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

const ARRIVALS: usize = 0;
const COMPLETE: usize = 16;
const CONTROL_WORDS: usize = 32;
const WORDS_PER_RANK: usize = 8;

/// One arrival at a barrier, with the epoch that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an arrival is half a barrier: wait until it is complete"]
pub struct Ticket {
    epoch: u64,
    is_last: bool,
}

impl Ticket {
    /// The ticket of the barrier with this number, to ask about it.
    pub fn of_epoch(epoch: u64) -> Self {
        Self {
            epoch,
            is_last: false,
        }
    }

    /// The number of this barrier, from 1.
    #[must_use]
    pub fn epoch(self) -> u64 {
        self.epoch
    }

    /// Whether this arrival completed the barrier. Its rank then rings the doorbells of ranks that
    /// may be asleep.
    #[must_use]
    pub fn is_last(self) -> bool {
        self.is_last
    }
}

/// A view of one barrier in shared memory; every participating rank holds one.
#[derive(Clone, Copy)]
pub struct Barrier<'a> {
    control: &'a [AtomicU64; CONTROL_WORDS],
    epochs: &'a [AtomicU64],
}

impl<'a> Barrier<'a> {
    /// Bytes of shared memory that a barrier of `n_ranks` ranks takes; a multiple of eight.
    #[must_use]
    pub const fn bytes(n_ranks: u32) -> usize {
        (CONTROL_WORDS + n_ranks as usize * WORDS_PER_RANK) * size_of::<u64>()
    }

    /// Views `words` as the barrier of `n_ranks` ranks. The words are all zero at first, and best
    /// begin on a cache-line boundary.
    ///
    /// # Panics
    /// If there are no ranks, or `words` are not exactly [`bytes`](Self::bytes) long.
    #[must_use]
    #[track_caller]
    pub fn attach(words: &'a [AtomicU64], n_ranks: u32) -> Self {
        let want = Self::bytes(n_ranks) / size_of::<u64>();
        assert!(n_ranks > 0, "a barrier of no ranks");
        assert!(
            words.len() == want,
            "a barrier of {n_ranks} ranks has {want} words, not {}",
            words.len()
        );
        let (control, epochs) = words
            .split_first_chunk()
            .expect("`bytes` counts the control words");
        Self { control, epochs }
    }

    /// Announces the arrival of `rank`. What the rank did before is visible to every rank for which
    /// the barrier is complete.
    ///
    /// If the ticket [is the last](Ticket::is_last), the caller rings the doorbells of the other
    /// ranks.
    ///
    /// # Cost
    /// One `fetch_add` on a line that all ranks share, one store on an own line.
    ///
    /// # Panics
    /// If `rank` is not in the barrier, or has not seen its previous barrier complete.
    #[track_caller]
    pub fn arrive(&self, rank: u32) -> Ticket {
        let n_ranks = self.n_ranks();
        assert!(
            rank < n_ranks,
            "rank {rank} at a barrier of {n_ranks} ranks"
        );
        let own = &self.epochs[rank as usize * WORDS_PER_RANK];
        // Relaxed: only this rank writes it.
        let previous = own.load(Relaxed);
        let is_previous_complete = self.control[COMPLETE].load(Relaxed) >= previous;
        assert!(
            is_previous_complete,
            "rank {rank} arrives at a barrier before barrier {previous} is complete"
        );

        let epoch = previous + 1;
        own.store(epoch, Relaxed);
        // AcqRel: every arrival releases what its rank did before, and the last acquires it from
        // all of them.
        let n_arrivals = self.control[ARRIVALS].fetch_add(1, AcqRel) + 1;
        let is_last = n_arrivals == epoch * u64::from(n_ranks);
        if is_last {
            // Release: pairs with the acquire in `is_complete`.
            self.control[COMPLETE].store(epoch, Release);
        }
        Ticket { epoch, is_last }
    }

    /// Whether every rank has arrived at the barrier of `ticket`.
    ///
    /// # Cost
    /// One load, of a line that changes once a barrier.
    #[must_use]
    #[inline]
    pub fn is_complete(&self, ticket: Ticket) -> bool {
        // Acquire: pairs with the release of the last arrival.
        self.control[COMPLETE].load(Acquire) >= ticket.epoch
    }

    /// The ranks that have not arrived at the barrier of `ticket`, for the report of a long wait.
    pub fn missing(&self, ticket: Ticket) -> impl Iterator<Item = u32> + use<'a> {
        let epochs = self.epochs;
        (0..self.n_ranks()).filter(move |rank| {
            epochs[*rank as usize * WORDS_PER_RANK].load(Relaxed) < ticket.epoch
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "`attach` was given a u32")]
    fn n_ranks(&self) -> u32 {
        (self.epochs.len() / WORDS_PER_RANK) as u32
    }
}

impl fmt::Debug for Barrier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("n_ranks", &self.n_ranks())
            .field("n_arrivals", &self.control[ARRIVALS].load(Relaxed))
            .field("complete_epoch", &self.control[COMPLETE].load(Relaxed))
            .finish_non_exhaustive()
    }
}
