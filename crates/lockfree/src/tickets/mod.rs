//! The protocol of a queue with concurrent pushes and pops, generic over its words: global memory,
//! or a model that tries every interleaving.
//!
//! ```text
//!        consumed <= head <= published <= tail <= head + capacity
//!  free     |  being read  |  there  |  being written  |   free
//! ```
//!
//! Tickets number the elements from the first push on. A push takes the next ticket at `tail`,
//! writes its element into the ticket's slot and moves `published` over it. A pop takes the next
//! ticket at `head`, reads, and moves `consumed` over it. So both are one protocol with two sides,
//! and each side is limited by the progress of the other.
//!
//! **Tickets are never given back.** A ticket is taken by a compare-and-swap, and only if there is
//! certainly room for it: what a rank has seen of the other side is a lower bound, since all four
//! words only grow.
//!
//! **No rank waits for a slow rank, unless it needs that rank's element.** A rank that finishes
//! while earlier tickets are still being worked on leaves a *mark* under its own ticket, and goes
//! on. A rank that finds nothing to take moves the word over the marks.
//!
//! **Linearizability.** A push and a pop take effect when they take their tickets. Elements are
//! popped in the order in which they were pushed, and a pop whose element is still being written
//! waits for it. A push finds the queue full if it knows a ticket not above `tail` and then reads a
//! `head` that leaves no room behind it. It takes effect with that read: at that moment there was
//! no room. The same holds for a pop of an empty queue.
//!
//! **No operation hangs.** No code of the user runs while a ticket is worked on, so none can panic
//! or wait there. The death of a rank that holds a ticket ends the job, and ranks that wait for it
//! get an error.
#![expect(
    clippy::missing_errors_doc,
    reason = "all that fails is what the memory reports"
)]

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::memory;
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
};

/// The four words, each on cache lines of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Where pushes take tickets.
    Tail,
    /// All elements before it are written.
    Published,
    /// Where pops take tickets.
    Head,
    /// All elements before it were read.
    Consumed,
}

/// Pushing or popping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Adds elements.
    Push,
    /// Takes elements.
    Pop,
}

impl Side {
    /// The word where tickets are taken.
    const fn taken(self) -> Word {
        match self {
            Self::Push => Word::Tail,
            Self::Pop => Word::Head,
        }
    }

    /// The word up to which all work on tickets is done.
    pub const fn done(self) -> Word {
        match self {
            Self::Push => Word::Published,
            Self::Pop => Word::Consumed,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Push => Self::Pop,
            Self::Pop => Self::Push,
        }
    }
}

/// Consecutive tickets, taken by one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tickets {
    /// The first of them.
    pub first: u64,
    /// The number of tickets.
    pub n: u64,
}

impl Tickets {
    const fn end(self) -> u64 {
        self.first.wrapping_add(self.n)
    }
}

/// The number of slots, and the number of elements that they may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The maximum number of elements.
    pub capacity: u64,
    /// The binary logarithm of the number of slots. A power of two, so that tickets may wrap
    /// around.
    pub slot_bits: u32,
}

impl Size {
    /// The size of a queue with this capacity.
    #[must_use]
    pub fn of(capacity: u64) -> Self {
        let slot_bits = capacity.next_power_of_two().trailing_zeros();
        Self {
            capacity,
            slot_bits,
        }
    }

    /// The slots, a power of two.
    #[must_use]
    pub const fn n_slots(self) -> u64 {
        1 << self.slot_bits
    }

    /// The slot of a ticket.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one instruction")]
    pub const fn slot(self, ticket: u64) -> u64 {
        ticket & (self.n_slots() - 1)
    }
}

/// The mark under the first of some tickets that are done before `done` has reached them: the lap
/// over the slots in the upper 31 bits, then 32 bits of their number, then the side.
///
/// The rank that moves `done` over a mark clears it. If that rank is late, the lap tells an old
/// mark from a new one.
const fn mark(size: Size, side: Side, tickets: Tickets) -> u64 {
    let side = matches!(side, Side::Pop) as u64;
    lap(size, tickets.first) | tickets.n << 1 | side
}

const fn lap(size: Size, ticket: u64) -> u64 {
    (ticket >> size.slot_bits) << 33
}

/// The number of tickets that `mark`, which lies in the slot of `ticket`, says are done.
fn marked(size: Size, side: Side, ticket: u64, mark: u64) -> Option<u64> {
    let n = mark >> 1 & u64::from(u32::MAX);
    let tickets = Tickets { first: ticket, n };
    (n != 0 && mark == self::mark(size, side, tickets)).then_some(n)
}

/// A queue's words. Costs are for one call.
pub trait Words {
    /// An error of the access.
    type Error;

    /// The size of the queue.
    fn size(&self) -> Size;

    /// Reads a word. What was written before it is then visible (A).
    fn load(&self, word: Word) -> Result<u64, Self::Error>;

    /// Replaces a word if it is `current`, else returns what it is (A).
    fn swap(&self, word: Word, current: u64, new: u64) -> Result<Result<(), u64>, Self::Error>;

    /// Moves a word to `to` if it is `from`; no other rank moves it away from `from`. A rank that
    /// sees the new value sees what this rank did before (A).
    fn advance(&self, word: Word, from: u64, to: u64) -> Result<bool, Self::Error>;

    /// Reads the mark in a slot (A).
    fn mark(&self, slot: u64) -> Result<u64, Self::Error>;

    /// Leaves a mark. A rank that sees it sees what this rank did before (A).
    fn set_mark(&self, slot: u64, mark: u64) -> Result<(), Self::Error>;

    /// Removes a mark if it is still this one (A).
    fn clear_mark(&self, slot: u64, mark: u64) -> Result<(), Self::Error>;

    /// Lets other ranks go first, after `n_late` failed swaps.
    fn give_way(&self, n_late: u32);

    /// Makes progress until `ready`.
    fn wait_until(
        &self,
        ready: &mut dyn FnMut() -> Result<bool, Self::Error>,
    ) -> Result<(), Self::Error>;
}

/// Lower bounds that one side has seen: of the word where it takes tickets, and of the word up to
/// which the other side is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The lower bound of the word where tickets are taken.
    pub taken: u64,
    /// The lower bound of the word up to which the other side is done.
    pub limit: u64,
}

/// The number of tickets that a side may take from `at` on, when the other side is done up to
/// `other`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "three instructions")]
fn room(size: Size, side: Side, at: u64, other: u64) -> u64 {
    let end = match side {
        Side::Push => other.wrapping_add(size.capacity),
        Side::Pop => other,
    };
    // The bound of one side may be much older than the bound of the other.
    end.wrapping_sub(at).cast_signed().max(0).cast_unsigned()
}

/// Takes `least` to `most` tickets, or none if there is no room for `least`. Costs A, and A more
/// each time that another rank was faster. At the end of the known room it costs A more, 2A if more
/// than `least` are wanted. Costs 2A, at most 3A, if there is no room. Unless both sides `meet`,
/// the known room is all there is: A, and nothing if there is no room. Before it takes some, it
/// calls `reserve` with their number, again if another rank was faster: tickets are never given
/// back, so what their owner needs has to be there.
///
/// # Errors
///
/// Those of the words; that of `reserve`, and then none are taken.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the hot part of push and pop")]
pub fn take<W: Words>(
    words: &W,
    side: Side,
    seen: &mut Seen,
    (least, most): (u64, u64),
    meet: bool,
    mut reserve: impl FnMut(u64) -> Result<(), W::Error>,
) -> Result<Option<Tickets>, W::Error> {
    let size = words.size();
    let mut n_late = 0;
    loop {
        let mut free = room(size, side, seen.taken, seen.limit);
        if free < most && meet {
            let looked = find_room(words, side, seen.taken, (least, most))?;
            let Some(limit) = looked else {
                return Ok(None);
            };
            seen.limit = limit;
            free = room(size, side, seen.taken, limit);
        }
        if free < least {
            return Ok(None);
        }
        let n = free.min(most);
        reserve(n)?;
        let first = seen.taken;
        let tickets = Tickets { first, n };
        match words.swap(side.taken(), first, tickets.end())? {
            Ok(()) => {
                seen.taken = tickets.end();
                return Ok(Some(tickets));
            }
            Err(now) => seen.taken = now,
        }
        n_late += 1;
        words.give_way(n_late);
    }
}

/// Takes the next ticket if the known room allows it and no other rank is faster (A; nothing if
/// there is no room). Otherwise returns the ticket that another rank would take now.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the hot part of push and pop")]
pub fn take_next<W: Words>(
    words: &W,
    side: Side,
    seen: Seen,
) -> Result<Result<u64, u64>, W::Error> {
    if room(words.size(), side, seen.taken, seen.limit) == 0 {
        return Ok(Err(seen.taken));
    }
    let next = seen.taken.wrapping_add(1);
    let taken = words.swap(side.taken(), seen.taken, next)?;
    if taken.is_err() {
        words.give_way(1);
    }
    Ok(taken.map(|()| seen.taken))
}

/// Waits until the other side leaves room for `least` tickets from `at` on, and returns up to where
/// it is done. `None` if it has not even taken enough tickets.
#[inline]
fn find_room<W: Words>(
    words: &W,
    side: Side,
    at: u64,
    (least, most): (u64, u64),
) -> Result<Option<u64>, W::Error> {
    let (size, other) = (words.size(), side.other());
    // A caller that takes whatever there is also takes elements that are done but not moved over
    // yet.
    let done = if least == most {
        words.load(other.done())?
    } else {
        move_over_marks(words, other)?
    };
    if room(size, side, at, done) >= least {
        return Ok(Some(done));
    }
    let taken = words.load(other.taken())?;
    if room(size, side, at, taken) < least {
        return Ok(None);
    }
    wait_for_room(words, side, at, least).map(Some)
}

/// As [`find_room`], if the other side is still working on tickets that it has taken.
#[cold]
fn wait_for_room<W: Words>(words: &W, side: Side, at: u64, least: u64) -> Result<u64, W::Error> {
    let (size, other) = (words.size(), side.other());
    let mut limit = 0;
    words.wait_until(&mut || {
        limit = move_over_marks(words, other)?;
        Ok(room(size, side, at, limit) >= least)
    })?;
    Ok(limit)
}

/// Completes the work on `tickets` (A; 4A if an earlier ticket is still worked on, and 4A more for
/// each mark that is moved over).
#[inline(always)]
#[expect(clippy::inline_always, reason = "the hot part of push and pop")]
pub fn finish<W: Words>(words: &W, side: Side, tickets: Tickets) -> Result<(), W::Error> {
    if words.advance(side.done(), tickets.first, tickets.end())? {
        return Ok(());
    }
    finish_early(words, side, tickets)
}

/// As [`finish`], if an earlier ticket is still worked on.
#[cold]
pub fn finish_early<W: Words>(words: &W, side: Side, tickets: Tickets) -> Result<(), W::Error> {
    let size = words.size();
    words.set_mark(size.slot(tickets.first), mark(size, side, tickets))?;
    // The rank before may have reached these tickets before the mark was set.
    move_over_marks(words, side).map(drop)
}

/// Moves `done` over marked tickets, and returns its new value. If no ticket is worked on, no mark
/// is left.
///
/// # Errors
///
/// Those of the steps on words and marks.
pub fn move_over_marks<W: Words>(words: &W, side: Side) -> Result<u64, W::Error> {
    let size = words.size();
    loop {
        let at = words.load(side.done())?;
        let slot = size.slot(at);
        let mark = words.mark(slot)?;
        let Some(n) = marked(size, side, at, mark) else {
            return Ok(at);
        };
        if words.swap(side.done(), at, at.wrapping_add(n))?.is_ok() {
            words.clear_mark(slot, mark)?;
        }
    }
}

/// [`Words::advance`] of a word in local memory.
#[inline(always)]
pub fn advance(word: &AtomicU64, from: u64, to: u64) -> bool {
    // Acquire: the release below then also covers what was done under earlier tickets.
    if word.load(Acquire) != from {
        return false;
    }
    // Pairs with the acquire of every load. A rank that sees the word sees the element that was
    // written under the ticket, or overwrites the slot after its element was read. No other rank
    // moves the word away from `from`, so this needs no atomic instruction.
    memory::release();
    word.store(to, Relaxed);
    true
}
