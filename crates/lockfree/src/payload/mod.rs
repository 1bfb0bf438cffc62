//! Buffers in shared memory, a few of each rank's, for payloads that are filled in place.
//!
//! A sender takes one of its buffers, fills it, and sends a record of one slot through the target's
//! [mailbox](crate::mailbox) that names the buffer. The target's handler reads from the buffer
//! itself, and the buffer is free again. Nothing copies the payload.
//!
//! So a buffer is not a part of a ring. A buffer that is held for long, dropped, forgotten, or left
//! behind by a dead rank delays no message, and takes no room but its own. A rank without a free
//! buffer sends copies through the ring.
//!
//! # Layout
//!
//! | words | hold |
//! |---|---|
//! | 0 | 0: free; 1: taken |
//! | 1 to 7 | the opening of the message, which ends with word 7 |
//! | 8 and on | its payload |
//!
//! Valid when all words are zero.
//!
//! # Whose it is
//!
//! The sender owns a buffer after it has taken it by compare-and-swap with acquire, and writes to
//! it by plain stores. The publication of the record passes the buffer to the receiver that the
//! record goes to, which reads it while the handler runs. The receiver's store of 0, with release,
//! frees the buffer. One record is sent for a taken buffer.

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

const WORD_BYTES: usize = 8;
const LINE_WORDS: usize = 8;
/// The state and the room for an opening: a cache line.
const FRONT_WORDS: usize = LINE_WORDS;
/// The number of lines of a payload that are prefetched; the processor's own prefetcher finds those
/// behind.
const LINES_AHEAD: usize = 16;
const OPENING_WORDS: usize = FRONT_WORDS - 1;

/// Whole cache lines, so that no two buffers share one.
const fn buffer_words(capacity: usize) -> usize {
    FRONT_WORDS + capacity.div_ceil(WORD_BYTES).next_multiple_of(LINE_WORDS)
}

const FREE: u64 = 0;
const TAKEN: u64 = 1;

/// The location of a message in a buffer, as the record in the ring names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The index of the sender's buffer.
    pub index: u32,
    /// Words of the opening.
    n_opening_words: u32,
    /// Bytes of the payload behind the opening.
    len: u32,
}

const INDEX_BITS: u32 = 16;
const OPENING_BITS: u32 = 16;

impl Location {
    #[inline]
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.index)
            | u64::from(self.n_opening_words) << INDEX_BITS
            | u64::from(self.len) << (INDEX_BITS + OPENING_BITS)
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each field is cut to its bits"
    )]
    pub(crate) fn from_word(word: u64) -> Self {
        Self {
            index: word as u32 & ((1 << INDEX_BITS) - 1),
            n_opening_words: (word >> INDEX_BITS) as u32 & ((1 << OPENING_BITS) - 1),
            len: (word >> (INDEX_BITS + OPENING_BITS)) as u32,
        }
    }
}

/// The buffers of all ranks of a job.
#[derive(Clone, Copy, Debug)]
pub struct Buffers<'a> {
    words: &'a [AtomicU64],
    /// Of each rank.
    n_buffers: usize,
    buffer_words: usize,
}

impl<'a> Buffers<'a> {
    /// Bytes of one rank's buffers for payloads of `capacity` bytes.
    #[must_use]
    pub const fn bytes_of_rank(n_buffers: usize, capacity: usize) -> usize {
        n_buffers * buffer_words(capacity) * WORD_BYTES
    }

    /// Views `words` as buffers of several ranks, of `n_buffers` for payloads of `capacity` bytes
    /// each.
    #[must_use]
    #[inline]
    pub fn attach(words: &'a [AtomicU64], n_buffers: usize, capacity: usize) -> Self {
        Self {
            words,
            n_buffers,
            buffer_words: buffer_words(capacity),
        }
    }

    #[inline]
    fn buffer(&self, rank: u32, index: usize) -> Buffer<'a> {
        let first = (rank as usize * self.n_buffers + index) * self.buffer_words;
        Buffer {
            words: &self.words[first..first + self.buffer_words],
        }
    }

    /// Takes a free buffer of `rank`, searching from index `hint` on, and returns its index; the
    /// next index is the best hint afterwards. Prefetches the first lines for a payload of about
    /// `len` bytes.
    #[inline]
    pub fn take(
        &self,
        rank: u32,
        hint: usize,
        len: usize,
        prefetch_for_write: impl Fn(&AtomicU64),
    ) -> Option<usize> {
        let n = self.n_buffers;
        let candidates = (hint..n).chain(0..hint.min(n));
        let taken = candidates
            .into_iter()
            .find(|index| self.buffer(rank, *index).try_take());
        if let Some(index) = taken {
            self.buffer(rank, index).fetch(len, prefetch_for_write);
        }
        taken
    }

    /// The payload of a buffer.
    #[must_use]
    #[inline]
    pub fn payload(&self, rank: u32, index: usize) -> &'a [AtomicU64] {
        self.buffer(rank, index).payload()
    }

    /// Writes the opening of a message in front of its `len` bytes of payload, and returns the
    /// message's location; `None` if the opening does not fit. For the rank that has taken the
    /// buffer.
    #[must_use]
    #[inline]
    pub fn open(&self, rank: u32, index: usize, opening: &[u8], len: usize) -> Option<Location> {
        let (words, []) = opening.as_chunks() else {
            return None;
        };
        if words.len() > OPENING_WORDS {
            return None;
        }
        let places = &self.buffer(rank, index).words[FRONT_WORDS - words.len()..];
        for (place, word) in places.iter().zip(words) {
            place.store(u64::from_ne_bytes(*word), Relaxed);
        }
        Some(Location {
            index: u32::try_from(index).ok()?,
            n_opening_words: u32::try_from(words.len()).ok()?,
            len: u32::try_from(len).ok()?,
        })
    }

    /// Gives back a buffer that was taken, from which nothing was sent.
    #[inline]
    pub fn give_back(&self, rank: u32, index: usize) {
        self.buffer(rank, index).give_back();
    }

    /// The message that a record from `rank` names; `None` if the record is invalid. The record was
    /// published, and is seen once.
    #[inline]
    pub(crate) fn arrived(
        &self,
        rank: u32,
        at: Location,
        prefetch: impl Fn(&AtomicU64),
    ) -> Option<Arrived<'a>> {
        let index = at.index as usize;
        let n_ranks = self.words.len() / (self.n_buffers * self.buffer_words);
        if index >= self.n_buffers || rank as usize >= n_ranks {
            return None;
        }
        let buffer = self.buffer(rank, index);
        let first = FRONT_WORDS.checked_sub(at.n_opening_words as usize)?;
        if first == 0 || at.len as usize > buffer.payload().len() * WORD_BYTES {
            return None;
        }
        let len = at.n_opening_words * 8 + at.len;
        buffer.fetch(at.len as usize, prefetch);
        Some(Arrived { buffer, first, len })
    }
}

#[derive(Clone, Copy, Debug)]
struct Buffer<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Buffer<'a> {
    #[inline]
    fn payload(self) -> &'a [AtomicU64] {
        &self.words[FRONT_WORDS..]
    }

    /// Prefetches the front and the first lines of a payload of `len` bytes from the cache of the
    /// last owner, all at once.
    #[inline]
    fn fetch(self, len: usize, prefetch: impl Fn(&AtomicU64)) {
        let n_lines = 1 + len.div_ceil(LINE_WORDS * WORD_BYTES).min(LINES_AHEAD);
        let (lines, _) = self.words.as_chunks::<LINE_WORDS>();
        lines
            .iter()
            .take(n_lines)
            .for_each(|line| prefetch(&line[0]));
    }

    #[inline]
    fn try_take(self) -> bool {
        let state = &self.words[0];
        // Acquire: pairs with the release in `give_back`; what the receiver read comes before what
        // is written now.
        let take = || state.compare_exchange(FREE, TAKEN, Acquire, Relaxed);
        // Relaxed: only a check, which leaves the line in its owner's cache.
        state.load(Relaxed) == FREE && take().is_ok()
    }

    #[inline]
    fn give_back(self) {
        // Release: pairs with the acquire in `try_take`.
        self.words[0].store(FREE, Release);
    }
}

/// A message in the sender's buffer, given back on drop.
#[derive(Debug)]
pub struct Arrived<'a> {
    buffer: Buffer<'a>,
    /// The first word of the opening.
    first: usize,
    /// Bytes of opening and payload.
    pub(crate) len: u32,
}

impl<'a> Arrived<'a> {
    /// The words of opening and payload, and their length in bytes. Nobody writes to them while
    /// this value lives, if all records come from ranks that keep to the protocol.
    #[must_use]
    #[inline]
    pub fn words(&self) -> (&'a [AtomicU64], usize) {
        let words = &self.buffer.words[self.first..];
        let len = (self.len as usize).min(words.len() * WORD_BYTES);
        (words, len)
    }
}

impl Drop for Arrived<'_> {
    #[inline]
    fn drop(&mut self) {
        self.buffer.give_back();
    }
}
