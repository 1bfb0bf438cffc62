//! The members of a job, and its first failure, in words that any rank may read at any time.
//!
//! All zero is valid: a healthy job that nobody has joined.

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

const WORD_BYTES: usize = size_of::<u64>();

/// Whether a rank is in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The rank has not joined yet.
    Absent,
    /// The rank has joined.
    Joined,
    /// The rank has left in good order.
    Left,
}

/// Words of a [`Place`].
pub const PLACE_WORDS: usize = 2;

const JOINED: u64 = 1;
const LEFT: u64 = 2;

/// The membership words of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    state: &'a AtomicU64,
    /// The process, and above it the settings.
    process: &'a AtomicU64,
}

const PROCESS_BITS: u32 = 32;

impl<'a> Place<'a> {
    /// Views the words as those of one rank.
    #[must_use]
    #[inline]
    pub fn attach([state, process]: &'a [AtomicU64; PLACE_WORDS]) -> Self {
        Self { state, process }
    }

    /// Announces that the rank has joined, as this process, with these settings. Called by the rank
    /// itself, once.
    pub fn join(self, process: u32, settings: u32) {
        let word = u64::from(settings) << PROCESS_BITS | u64::from(process);
        self.process.store(word, Relaxed);
        // Release: pairs with the acquire in `membership`, which makes the process visible.
        self.state.store(JOINED, Release);
    }

    /// Announces that the rank has left in good order. Called by the rank itself.
    pub fn leave(self) {
        // Release: what the rank did before is visible to a rank that sees it gone.
        self.state.store(LEFT, Release);
    }

    /// Whether the rank is in the job.
    ///
    /// # Cost
    /// One load.
    #[must_use]
    #[inline]
    pub fn membership(self) -> Membership {
        // Acquire: pairs with `join` and `leave`.
        match self.state.load(Acquire) {
            0 => Membership::Absent,
            LEFT => Membership::Left,
            _ => Membership::Joined,
        }
    }

    /// The process that the rank is, once it has joined.
    #[must_use]
    pub fn process(self) -> u32 {
        let word = self.process.load(Relaxed) << PROCESS_BITS >> PROCESS_BITS;
        u32::try_from(word).unwrap_or(0)
    }

    /// The settings of the rank, once it has joined.
    #[must_use]
    pub fn settings(self) -> Option<u32> {
        if self.membership() == Membership::Absent {
            return None;
        }
        u32::try_from(self.process.load(Relaxed) >> PROCESS_BITS).ok()
    }
}

/// The first failure of a job, which stays.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The failed rank plus one, once the text is complete.
    rank: &'a AtomicU64,
    /// Not zero once a rank is reporting a failure.
    claim: &'a AtomicU64,
    text: &'a [AtomicU64],
}

impl<'a> Failure<'a> {
    /// Bytes of shared memory for a text of up to `text_bytes`, a multiple of eight.
    #[must_use]
    pub const fn bytes(text_bytes: usize) -> usize {
        2 * WORD_BYTES + text_bytes
    }

    /// Views `words` as the record of a failure.
    ///
    /// # Panics
    /// If there are fewer words than [`bytes`](Self::bytes) of an empty text.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn attach(words: &'a [AtomicU64]) -> Self {
        let [rank, claim, text @ ..] = words else {
            panic!("a failure has 2 words at least, not {}", words.len());
        };
        Self { rank, claim, text }
    }

    /// Reports that `rank` has failed, unless another failure was reported before. Text beyond the
    /// room, or behind a zero byte, is lost.
    pub fn tell(self, rank: u32, text: &str) {
        // Relaxed: only the rank with the claim writes the other words.
        if self.claim.compare_exchange(0, 1, Relaxed, Relaxed).is_err() {
            return;
        }
        for (word, chunk) in self.text.iter().zip(text.as_bytes().chunks(WORD_BYTES)) {
            let mut padded = [0; WORD_BYTES];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(padded), Relaxed);
        }
        // Release: pairs with the acquire in `told`, which then sees the text.
        self.rank.store(u64::from(rank) + 1, Release);
    }

    /// Whether a failure was reported.
    ///
    /// # Cost
    /// One load.
    #[must_use]
    #[inline]
    pub fn is_told(self) -> bool {
        // Relaxed: `told` acquires the rest.
        self.rank.load(Relaxed) != 0
    }

    /// The rank that has failed, and its text.
    #[must_use]
    pub fn told(self) -> Option<(u32, String)> {
        // Acquire: pairs with the release in `tell`.
        let rank = self.rank.load(Acquire).checked_sub(1)?;
        let words = self.text.iter();
        let bytes = words.flat_map(|word| word.load(Relaxed).to_ne_bytes());
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some((u32::try_from(rank).ok()?, text))
    }
}
