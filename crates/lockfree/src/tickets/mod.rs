//! The protocol of a queue that is pushed to and popped from at once, over whatever holds its words:
//! global memory, or a model that tries every interleaving.
//!
//! ```text
//!        consumed <= head <= published <= tail <= head + capacity
//!  free     |  being read  |  there  |  being written  |   free
//! ```
//!
//! Tickets number the elements from the first one that was ever pushed. A push takes the next ticket at
//! `tail`, writes its element into the ticket's slot and moves `published` over it; a pop takes the next
//! one at `head`, reads, and moves `consumed` over it. So both are one protocol, with two sides, and
//! what limits the one is how far the other is done.
//!
//! **Nobody ever gives a ticket back.** It is taken by a compare-and-swap, and only if it is known that there
//! is room for it: what a rank has seen of the other side is a lower bound, since all four words only
//! grow.
//!
//! **Nobody waits for a rank that is slow, unless it needs that rank's element.** Whoever is done while
//! earlier tickets are still being worked on leaves a *mark* under its own ticket, and goes. Whoever finds
//! nothing to take moves the word over the marks.
//!
//! **Linearizability.** A push and a pop take effect when they take their tickets: elements are popped in
//! the order in which they were pushed, and a pop whose element is still being written waits for it. A
//! queue is full for a push that knows a ticket not above `tail` and then reads a `head` that leaves no
//! room behind it: it takes effect with that read, and at that moment there was none. Likewise
//! for an empty one.
//!
//! **What cannot hang.** No code of the user runs while a ticket is worked on, so none can panic or wait
//! there. A rank that dies there ends the job, and whoever waits for it gets that as an error.
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
    /// How far all elements are there.
    Published,
    /// Where pops take tickets.
    Head,
    /// How far all elements were read.
    Consumed,
}

/// Pushing or popping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Elements come.
    Push,
    /// Elements go.
    Pop,
}

impl Side {
    /// Where tickets are taken.
    const fn taken(self) -> Word {
        match self {
            Self::Push => Word::Tail,
            Self::Pop => Word::Head,
        }
    }

    /// How far all work on tickets is done.
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
    /// How many there are.
    pub n: u64,
}

impl Tickets {
    const fn end(self) -> u64 {
        self.first.wrapping_add(self.n)
    }
}

/// How many slots there are, and how many elements they may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The most elements.
    pub capacity: u64,
    /// The binary logarithm of the number of slots. A power of two, so that tickets may wrap around.
    pub slot_bits: u32,
}

impl Size {
    /// That of a queue of so many elements.
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

/// What is left under the first of some tickets by who is done with them before `done` has come there:
/// the lap over the slots in the upper 31 bits, then 32 bits of their number, then the side.
///
/// A mark of an earlier lap is cleared by who moved `done` over it, and if that rank is late, the lap
/// tells it from this one's.
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

/// A queue's words. Prices are those of one call.
pub trait Words {
    /// What fails of them.
    type Error;

    /// That of the queue.
    fn size(&self) -> Size;

    /// Reads a word, and what was written before it (A).
    fn load(&self, word: Word) -> Result<u64, Self::Error>;

    /// Replaces a word if it is `current`, else returns what it is (A).
    fn swap(&self, word: Word, current: u64, new: u64) -> Result<Result<(), u64>, Self::Error>;

    /// Moves a word from `from` to `to` if it is there; nobody else moves it away from `from`. Who sees it
    /// sees what this rank did before (A).
    fn advance(&self, word: Word, from: u64, to: u64) -> Result<bool, Self::Error>;

    /// Reads the mark in a slot (A).
    fn mark(&self, slot: u64) -> Result<u64, Self::Error>;

    /// Leaves a mark. Who sees it sees what this rank did before (A).
    fn set_mark(&self, slot: u64, mark: u64) -> Result<(), Self::Error>;

    /// Removes a mark if it is still this one (A).
    fn clear_mark(&self, slot: u64, mark: u64) -> Result<(), Self::Error>;

    /// Lets other ranks go first, after so many swaps that came too late.
    fn give_way(&self, n_late: u32);

    /// Makes progress until `ready`.
    fn wait_until(
        &self,
        ready: &mut dyn FnMut() -> Result<bool, Self::Error>,
    ) -> Result<(), Self::Error>;
}

/// What one side has seen: lower bounds of the word where it takes tickets, and of how far the other side
/// is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Where tickets are taken.
    pub taken: u64,
    /// How far the other side is done.
    pub limit: u64,
}

/// How many tickets a side may take from `at` on, when the other side has come to `other`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "three instructions")]
fn room(size: Size, side: Side, at: u64, other: u64) -> u64 {
    let end = match side {
        Side::Push => other.wrapping_add(size.capacity),
        Side::Pop => other,
    };
    // What was seen of one side may be much older than what was seen of the other.
    end.wrapping_sub(at).cast_signed().max(0).cast_unsigned()
}

/// Takes `least` to `most` tickets, or none if there is no room for `least` (A; A more for each time that
/// another rank was faster, and when the end of what was seen of the other side is reached, 2A where more
/// than `least` are wanted; 2A, 3A if there is no room). Unless both sides `meet`, what was seen of the other side is all there is: A, and
/// nothing if there is no room.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the hot part of push and pop")]
pub fn take<W: Words>(
    words: &W,
    side: Side,
    seen: &mut Seen,
    (least, most): (u64, u64),
    meet: bool,
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

/// Takes the next ticket, if what was seen leaves room for it and no other rank is faster (A, nothing if there is no room); else the
/// ticket that another rank would take now.
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

/// How far the other side is done, once that leaves room for `least` tickets from `at` on; nothing if it
/// has not even taken enough.
#[inline]
fn find_room<W: Words>(
    words: &W,
    side: Side,
    at: u64,
    (least, most): (u64, u64),
) -> Result<Option<u64>, W::Error> {
    let (size, other) = (words.size(), side.other());
    // Who takes what there is takes all of it, also what is done but not moved over yet.
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
    wait_for_room(words, side, at, least)
}

/// As [`find_room`], when work on tickets of the other side is under way.
#[cold]
fn wait_for_room<W: Words>(
    words: &W,
    side: Side,
    at: u64,
    least: u64,
) -> Result<Option<u64>, W::Error> {
    let (size, other) = (words.size(), side.other());
    let mut limit = None;
    words.wait_until(&mut || {
        let done = move_over_marks(words, other)?;
        if room(size, side, at, done) >= least {
            limit = Some(done);
            return Ok(true);
        }
        // Others of this side may have taken what was there, so that there is nothing to wait for.
        let taken = words.load(other.taken())?;
        Ok(room(size, side, at, taken) < least)
    })?;
    Ok(limit)
}

/// Says that the work on `tickets` is done (A; about 5A if an earlier one is still worked on).
#[inline(always)]
#[expect(clippy::inline_always, reason = "the hot part of push and pop")]
pub fn finish<W: Words>(words: &W, side: Side, tickets: Tickets) -> Result<(), W::Error> {
    if words.advance(side.done(), tickets.first, tickets.end())? {
        return Ok(());
    }
    finish_early(words, side, tickets)
}

/// As [`finish`], where an earlier ticket is still worked on.
#[cold]
pub fn finish_early<W: Words>(words: &W, side: Side, tickets: Tickets) -> Result<(), W::Error> {
    let size = words.size();
    words.set_mark(size.slot(tickets.first), mark(size, side, tickets))?;
    // Whoever was before may have come to these tickets before the mark was there.
    move_over_marks(words, side).map(drop)
}

/// Moves `done` over tickets that are marked, and returns where it then is.
fn move_over_marks<W: Words>(words: &W, side: Side) -> Result<u64, W::Error> {
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

/// [`Words::advance`] of a word in memory of this process.
#[inline(always)]
pub fn advance(word: &AtomicU64, from: u64, to: u64) -> bool {
    // Acquire: who comes after an earlier ticket releases what was done under it too.
    if word.load(Acquire) != from {
        return false;
    }
    // Pairs with the acquire of every load: who sees the word sees what was written under the ticket, or writes over what was read there
    // after it was read. Nobody else moves the word away from `from`, so this needs no atomic instruction.
    memory::release();
    word.store(to, Relaxed);
    true
}
