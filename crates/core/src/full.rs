//! The ranks whose mailboxes are full, so that a message that waits for room counts once.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::backend::{Backend, MessageClass};
use crate::rank::Rank;

/// For each rank a bit a class: whether the last message to it found no room.
#[derive(Debug)]
pub(crate) struct FullMailboxes(Box<[AtomicU8]>);

impl FullMailboxes {
    /// Of all ranks, or none if nobody wants to know.
    pub(crate) fn of(backend: &dyn Backend, is_wanted: bool) -> Self {
        let n_ranks = if is_wanted { backend.n_ranks() } else { 0 };
        Self((0..n_ranks).map(|_| AtomicU8::new(0)).collect())
    }

    /// Records that a message found no room, and says whether the one before it did.
    pub(crate) fn refuse(&self, to: Rank, class: MessageClass) -> bool {
        let bit = 1 << class as u8;
        // Counts order nothing.
        let was_full = |word: &AtomicU8| word.fetch_or(bit, Ordering::Relaxed) & bit != 0;
        self.0.get(to.index()).is_some_and(was_full)
    }

    /// Records that a message found room.
    pub(crate) fn accept(&self, to: Rank, class: MessageClass) {
        let bit = 1 << class as u8;
        if let Some(word) = self.0.get(to.index())
            && word.load(Ordering::Relaxed) & bit != 0
        {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}
