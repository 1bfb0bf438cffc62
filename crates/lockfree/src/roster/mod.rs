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

/// How often [`Failure::told`] pauses for the rest of a text.
const MAX_PAUSES: u32 = if cfg!(loom) { 2 } else { 100 };

/// The first failure of a job, which stays.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The failed rank plus one.
    rank: &'a AtomicU64,
    /// Not zero once the text is complete, or nobody waits for it any more.
    is_whole: &'a AtomicU64,
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
        let [rank, is_whole, text @ ..] = words else {
            panic!("a failure has 2 words at least, not {}", words.len());
        };
        Self {
            rank,
            is_whole,
            text,
        }
    }

    /// Reports that `rank` has failed, unless another failure was reported before. Text beyond the
    /// room, or behind a zero byte, is lost.
    pub fn tell(self, rank: u32, text: &str) {
        // Relaxed: only the first one writes the text.
        let told = self
            .rank
            .compare_exchange(0, u64::from(rank) + 1, Relaxed, Relaxed);
        if told.is_err() {
            return;
        }
        for (word, chunk) in self.text.iter().zip(text.as_bytes().chunks(WORD_BYTES)) {
            let mut padded = [0; WORD_BYTES];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(padded), Relaxed);
        }
        // Release: pairs with the acquire in `told`, which then sees the text.
        self.is_whole.store(1, Release);
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

    /// The rank that has failed, and its text. While the text is being written, this calls `pause`
    /// and looks again. A reporter that dies over it leaves what it has written, or "has failed":
    /// after a hundred pauses nobody waits for the rest any more.
    #[must_use]
    pub fn told(self, pause: impl Fn()) -> Option<(u32, String)> {
        let rank = self.rank.load(Relaxed).checked_sub(1)?;
        let mut n_pauses = 0;
        // Acquire: pairs with the release in `tell`.
        while self.is_whole.load(Acquire) == 0 {
            if n_pauses == MAX_PAUSES {
                self.is_whole.store(1, Relaxed);
                break;
            }
            pause();
            n_pauses += 1;
        }
        let words = self.text.iter();
        let bytes = words.flat_map(|word| word.load(Relaxed).to_ne_bytes());
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        let text = match bytes.is_empty() {
            true => "has failed".to_owned(),
            false => String::from_utf8_lossy(&bytes).into_owned(),
        };
        Some((u32::try_from(rank).ok()?, text))
    }
}
