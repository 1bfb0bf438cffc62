//! Who is in a job, and how it has failed: words that any rank may look at, at any time.
//!
//! They are valid when they are all zero: a job that nobody has joined, and that is well.

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
    /// Not yet.
    Absent,
    /// It is.
    Joined,
    /// It has left in good order.
    Left,
}

/// Words of a [`Place`].
pub const PLACE_WORDS: usize = 2;

const JOINED: u64 = 1;
const LEFT: u64 = 2;

/// What a rank tells of itself.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    state: &'a AtomicU64,
    process: &'a AtomicU64,
}

impl<'a> Place<'a> {
    /// Views `words` as the place of a rank.
    #[must_use]
    #[inline]
    pub fn attach([state, process]: &'a [AtomicU64; PLACE_WORDS]) -> Self {
        Self { state, process }
    }

    /// Says that the rank is in the job, as this process. By the rank itself, once.
    pub fn join(self, process: u32) {
        self.process.store(u64::from(process), Relaxed);
        // Release: pairs with the acquire in `membership`, which makes the process visible.
        self.state.store(JOINED, Release);
    }

    /// Says that the rank has left in good order. By the rank itself.
    pub fn leave(self) {
        // Release: what the rank did before is visible to who sees it gone.
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
        u32::try_from(self.process.load(Relaxed)).unwrap_or(0)
    }
}

/// How a job has failed: the first failure that somebody tells, which stays.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// Its rank and one more, once the text is there.
    rank: &'a AtomicU64,
    /// Not zero once somebody is going to tell one.
    claim: &'a AtomicU64,
    text: &'a [AtomicU64],
}

impl<'a> Failure<'a> {
    /// Bytes of shared memory for a text of up to `text_bytes`, a multiple of eight.
    #[must_use]
    pub const fn bytes(text_bytes: usize) -> usize {
        2 * WORD_BYTES + text_bytes
    }

    /// Views `words` as the place of a failure.
    ///
    /// # Panics
    /// If they are fewer than any [has](Self::bytes).
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn attach(words: &'a [AtomicU64]) -> Self {
        let [rank, claim, text @ ..] = words else {
            panic!("a failure has 2 words at least, not {}", words.len());
        };
        Self { rank, claim, text }
    }

    /// Tells that `rank` has failed, unless another failure was told before. What there is no room for of
    /// the text, and what follows a zero byte in it, is lost.
    pub fn tell(self, rank: u32, text: &str) {
        // Relaxed: who has the claim writes words that nobody else does.
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

    /// Whether a failure was told.
    ///
    /// # Cost
    /// One load.
    #[must_use]
    #[inline]
    pub fn is_told(self) -> bool {
        // Relaxed: who wants to know more asks `told`.
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
