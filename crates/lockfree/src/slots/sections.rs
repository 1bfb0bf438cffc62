//! Sections: spans of a thread's execution in which no slot that it has seen taken loses its key. A
//! thread that reclaims slots waits until the sections that others have open have ended.
//!
//! Each thread has a word of its own, or shares one with others. It holds the number of nested open
//! sections, and counts how often that number has become zero. When a section begins while another
//! thread prepares a reclaim, at least one of them sees the other: both write their own words and
//! read the other's by sequentially consistent accesses. So the reclaiming thread sees the open
//! section, or the section sees what that thread did before.
//!
//! A lookup needs no section: it reads the count of reclaims before and after.

use crate::sync::AtomicU64;
use crate::sync::Ordering::{Relaxed, Release};
use crate::word;

/// The bits that count nested open sections.
const OPEN: u64 = (1 << 16) - 1;

/// One end of the outermost section.
const END: u64 = OPEN + 1;

/// The number of open sections in `word`.
#[must_use]
pub const fn n_open(word: u64) -> u64 {
    word & OPEN
}

/// The word after the end of one section.
const fn closed(word: u64) -> u64 {
    if n_open(word) == 1 {
        word - 1 + END
    } else {
        word - 1
    }
}

/// Opens a section of the only thread that writes the word `own`.
#[inline]
pub fn open(own: &AtomicU64) {
    // Relaxed: only this thread writes the word.
    let n = own.load(Relaxed);
    if n_open(n) == 0 {
        word::swap(own, n + 1);
    } else {
        own.store(n + 1, Relaxed);
    }
}

/// Closes a section of the only thread that writes the word `own`.
#[inline]
pub fn close(own: &AtomicU64) {
    // Release: a thread that sees the end sees all that was done in the section. Pairs with the
    // load in [`Wait::is_over`].
    own.store(closed(own.load(Relaxed)), Release);
}

/// Opens a section of a thread that shares the word with others.
#[cold]
pub fn open_shared(shared: &AtomicU64) {
    word::add(shared, 1);
}

/// Closes a section of a thread that shares the word with others.
#[cold]
pub fn close_shared(shared: &AtomicU64) {
    word::update(shared, closed);
}

/// The words of threads whose sections were open when the wait began, and may still be.
#[derive(Debug)]
pub struct Wait(Vec<(usize, u64)>);

impl Wait {
    /// Begins a wait for the sections open in `words`. Each word must have been
    /// [loaded](word::load) after the caller wrote what later sections have to see.
    pub fn new(words: impl Iterator<Item = u64>) -> Self {
        let open = |&(_, word): &(usize, u64)| n_open(word) > 0;
        Self(words.enumerate().filter(open).collect())
    }

    /// Whether all these sections have ended. `load` [loads](word::load) the word with a number.
    pub fn is_over(&mut self, load: impl Fn(usize) -> u64) -> bool {
        self.0.retain(|&(i, then)| load(i) / END == then / END);
        self.0.is_empty()
    }
}

/// Runs the lookup `read` and returns its result, or `None` if slots were reclaimed meanwhile.
/// `count` counts the begins and ends of reclaims.
#[inline]
pub fn read_optimistically<T>(count: &AtomicU64, read: impl FnOnce() -> T) -> Option<T> {
    let before = word::load(count);
    if before & 1 != 0 {
        return None;
    }
    let found = read();
    // All reads have acquired: a thread that saw a slot's next key sees the reclaim.
    (word::load(count) == before).then_some(found)
}
