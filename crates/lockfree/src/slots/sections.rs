//! Stretches of a thread's program in which no slot that it has seen taken loses its key, and how
//! who empties slots waits for the end of those that others have open.
//!
//! Each thread has a word of its own, or shares one with others: how many sections are open, one
//! within the other, and how often there was none again. One of the two is seen by the other: a
//! section that begins, or what was done before by who then looks whether one is open, since both
//! write their words and look at the other's by sequentially consistent accesses.
//!
//! Who only looks needs none: he asks how often slots have been emptied before and after.

use crate::sync::AtomicU64;
use crate::sync::Ordering::{Relaxed, Release};
use crate::word;

/// Sections that are open, one within the other.
const OPEN: u64 = (1 << 16) - 1;

/// One end of all of them.
const END: u64 = OPEN + 1;

/// How many sections are open by this word.
#[must_use]
pub const fn n_open(word: u64) -> u64 {
    word & OPEN
}

/// The word when one more has ended.
const fn closed(word: u64) -> u64 {
    if n_open(word) == 1 {
        word - 1 + END
    } else {
        word - 1
    }
}

/// Opens a section of the thread whose word it is, which nobody else writes.
#[inline]
pub fn open(own: &AtomicU64) {
    // Relaxed: the thread's own.
    let n = own.load(Relaxed);
    if n_open(n) == 0 {
        word::swap(own, n + 1);
    } else {
        own.store(n + 1, Relaxed);
    }
}

/// Ends it.
#[inline]
pub fn close(own: &AtomicU64) {
    // Release: who sees that it has ended sees all that was done in it.
    own.store(closed(own.load(Relaxed)), Release);
}

/// Opens a section of a thread that shares the word with others.
#[cold]
pub fn open_shared(shared: &AtomicU64) {
    word::add(shared, 1);
}

/// Ends it.
#[cold]
pub fn close_shared(shared: &AtomicU64) {
    word::update(shared, closed);
}

/// The words of threads with sections that were open when it began, and may be still.
#[derive(Debug)]
pub struct Wait(Vec<(usize, u64)>);

impl Wait {
    /// As the `words` say, each of which was [loaded](word::load) since the caller did what later
    /// sections are to see.
    pub fn new(words: impl Iterator<Item = u64>) -> Self {
        let open = |&(_, word): &(usize, u64)| n_open(word) > 0;
        Self(words.enumerate().filter(open).collect())
    }

    /// Whether all of them have ended. `load` [loads](word::load) the word with a number.
    pub fn is_over(&mut self, load: impl Fn(usize) -> u64) -> bool {
        self.0.retain(|&(i, then)| load(i) / END == then / END);
        self.0.is_empty()
    }
}

/// What `look` finds, if no slot was emptied meanwhile, by the word that counts how often that was
/// begun and ended.
#[inline]
pub fn read_optimistically<T>(count: &AtomicU64, read: impl FnOnce() -> T) -> Option<T> {
    let before = word::load(count);
    if before & 1 != 0 {
        return None;
    }
    let found = read();
    // All that was read has been acquired: who saw a slot's next key sees that it was emptied.
    (word::load(count) == before).then_some(found)
}
