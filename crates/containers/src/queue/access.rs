//! Pushes and pops of a queue's slots, in each of the ways in which its words are reached.

use std::sync::atomic::{Ordering, fence};

use pgas_core::rma::Near;
use pgas_core::{GlobalPtr, Pod, Result as CoreResult, World};

use super::PushError;
use super::ring::{Control, Place, Ring, index};
use super::ticket::{self, Side, Size, Tickets, Word, Words};
use crate::Result;
use crate::object::{self, Object, Plain, Repr, SlotOf};

/// The marks of a queue, and what all ways to its words have in common.
#[derive(Clone, Copy)]
struct Marks<'a> {
    world: &'a World,
    at: GlobalPtr<u64>,
}

impl Marks<'_> {
    fn mark(&self, slot: u64) -> CoreResult<u64> {
        self.at.offset(index(slot)).atomic_load(self.world)
    }

    /// An atomic with a result, since those are complete on return.
    fn set(&self, slot: u64, mark: u64) -> CoreResult<()> {
        self.at.offset(index(slot)).swap(self.world, mark).map(drop)
    }

    fn clear(&self, slot: u64, mark: u64) -> CoreResult<()> {
        let at = self.at.offset(index(slot));
        at.compare_exchange(self.world, mark, 0).map(drop)
    }
}

fn wait(world: &World, ready: &mut dyn FnMut() -> CoreResult<bool>) -> CoreResult<()> {
    world.wait_for("an element of a queue that another rank works on", ready)
}

/// Words that this process loads from and stores to.
struct NearWords<'a> {
    control: Near<'a, Control>,
    size: Size,
    marks: Marks<'a>,
}

impl Words for NearWords<'_> {
    #[inline(always)]
    fn size(&self) -> Size {
        self.size
    }

    #[inline(always)]
    fn load(&self, word: Word) -> CoreResult<u64> {
        Ok(self.control.load(Control::offset(word)))
    }

    #[inline(always)]
    fn swap(&self, word: Word, current: u64, new: u64) -> CoreResult<Result<(), u64>> {
        let offset = Control::offset(word);
        let swapped = self.control.compare_exchange(offset, current, new);
        Ok(swapped.map(|_| ()))
    }

    #[inline(always)]
    fn advance(&self, word: Word, from: u64, to: u64) -> CoreResult<bool> {
        if self.load(word)? != from {
            return Ok(false);
        }
        // Pairs with the acquire of every load: who sees the word sees what was written under the ticket,
        // or writes over what was read there after it was read. Nobody else moves the word away from
        // `from`, so this needs no locked instruction.
        fence(Ordering::Release);
        self.control.store(Control::offset(word), to);
        Ok(true)
    }

    fn mark(&self, slot: u64) -> CoreResult<u64> {
        self.marks.mark(slot)
    }

    fn set_mark(&self, slot: u64, mark: u64) -> CoreResult<()> {
        self.marks.set(slot, mark)
    }

    fn clear_mark(&self, slot: u64, mark: u64) -> CoreResult<()> {
        self.marks.clear(slot, mark)
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> CoreResult<bool>) -> CoreResult<()> {
        wait(self.marks.world, ready)
    }
}

/// Words anywhere; every step is an operation on a global pointer, and is counted.
struct FarWords<'a> {
    place: Place,
    marks: Marks<'a>,
}

impl Words for FarWords<'_> {
    fn size(&self) -> Size {
        self.place.size
    }

    fn load(&self, word: Word) -> CoreResult<u64> {
        self.place.word(word).atomic_load(self.marks.world)
    }

    fn swap(&self, word: Word, current: u64, new: u64) -> CoreResult<Result<(), u64>> {
        let at = self.place.word(word);
        let swapped = at.compare_exchange(self.marks.world, current, new)?;
        Ok(swapped.map(|_| ()))
    }

    fn advance(&self, word: Word, from: u64, to: u64) -> CoreResult<bool> {
        // What was put under the ticket has been flushed, what was read there is here.
        Ok(self.swap(word, from, to)?.is_ok())
    }

    fn mark(&self, slot: u64) -> CoreResult<u64> {
        self.marks.mark(slot)
    }

    fn set_mark(&self, slot: u64, mark: u64) -> CoreResult<()> {
        self.marks.set(slot, mark)
    }

    fn clear_mark(&self, slot: u64, mark: u64) -> CoreResult<()> {
        self.marks.clear(slot, mark)
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> CoreResult<bool>) -> CoreResult<()> {
        wait(self.marks.world, ready)
    }
}

/// What is done with the slots of the tickets that were taken.
pub(super) trait Work<T: Object> {
    fn run(self, ring: &Ring<T>, tickets: Tickets) -> Result<()>;
}

impl<T: Object, F: FnOnce(&Ring<T>, Tickets) -> Result<()>> Work<T> for F {
    #[inline(always)]
    fn run(self, ring: &Ring<T>, tickets: Tickets) -> Result<()> {
        self(ring, tickets)
    }
}

/// What is wanted of tickets.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) side: Side,
    /// At least and at most how many.
    pub(super) n: (u64, u64),
    /// Whether the other side may be at work; else the end of the phase says that the work is done.
    pub(super) meet: bool,
}

impl Request {
    pub(super) fn push(n: usize, meet: bool) -> Self {
        let (side, n) = (Side::Push, n as u64);
        Self {
            side,
            n: (n, n),
            meet,
        }
    }

    pub(super) fn pop(most: usize, meet: bool) -> Self {
        Self {
            side: Side::Pop,
            n: (1, most as u64),
            meet,
        }
    }
}

impl<T: Object> Ring<T> {
    fn marks(&self) -> Marks<'_> {
        Marks {
            world: self.world(),
            at: self.place.marks(size_of::<SlotOf<T>>()),
        }
    }

    /// Takes tickets, works on their slots and says that it is done; how many there were.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of push and pop")]
    pub(super) fn perform(&self, request: Request, work: impl Work<T>) -> Result<Option<u64>> {
        if let Some(control) = self.place.block.near::<Control>(self.world()) {
            let words = NearWords {
                control,
                size: self.place.size,
                marks: self.marks(),
            };
            return self.perform_on(&words, request, work);
        }
        self.perform_far(request, work)
    }

    #[inline(never)]
    fn perform_far(&self, request: Request, work: impl Work<T>) -> Result<Option<u64>> {
        let words = FarWords {
            place: self.place,
            marks: self.marks(),
        };
        let flushed = |ring: &Self, tickets| {
            work.run(ring, tickets)?;
            if request.side == Side::Push && request.meet {
                ring.world().flush(ring.host())?;
            }
            Ok(())
        };
        self.perform_on(&words, request, flushed)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of push and pop")]
    fn perform_on(
        &self,
        words: &impl Words,
        request: Request,
        work: impl Work<T>,
    ) -> Result<Option<u64>> {
        let Request { side, n, meet } = request;
        let mut seen = self.seen(side);
        let taken = ticket::take(words, side, &mut seen, n, meet)?;
        self.set_seen(side, seen);
        let Some(tickets) = taken else {
            return Ok(None);
        };
        work.run(self, tickets)?;
        if meet {
            ticket::finish(words, side, tickets)?;
        }
        Ok(Some(tickets.n))
    }
}

/// The operations of queues, for phases in which both sides `meet` and for others.
impl<T: Object> Ring<T> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a push")]
    pub(super) fn push(&self, value: T, meet: bool) -> Result<(), PushError<T>> {
        let slot = object::to_slot(&value, &self.heap)?;
        let write = |ring: &Self, tickets: Tickets| ring.write(tickets.first, slot);
        match self.perform(Request::push(1, meet), write)? {
            Some(_) => Ok(()),
            None => {
                object::release::<T>(&slot, &self.heap)?;
                Err(PushError::Full(value))
            }
        }
    }

    pub(super) fn push_slice(&self, values: &[T], meet: bool) -> Result<(), PushError<()>> {
        if values.is_empty() {
            return Ok(());
        }
        let slots = <T::Repr as Repr<T>>::to_slots(values, &self.heap)?;
        let write = |ring: &Self, tickets| ring.place.write(ring.world(), tickets, &slots);
        let pushed = if values.len() > self.capacity() {
            None
        } else {
            self.perform(Request::push(values.len(), meet), write)?
        };
        if pushed.is_none() {
            for slot in slots.iter() {
                object::release::<T>(slot, &self.heap)?;
            }
            return Err(PushError::Full(()));
        }
        Ok(())
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a pop")]
    pub(super) fn pop(&self, meet: bool) -> Result<Option<T>> {
        let mut slot = None;
        let read = |ring: &Self, tickets: Tickets| {
            slot = Some(ring.read(tickets.first)?);
            Ok(())
        };
        self.perform(Request::pop(1, meet), read)?;
        // The slot is free again before code of the user runs.
        slot.map(|slot| self.value_of(slot)).transpose()
    }

    /// The value in a slot that was popped, whose memory is given back.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all for plain values")]
    pub(super) fn value_of(&self, slot: SlotOf<T>) -> Result<T> {
        let value = object::from_slot::<T>(slot, &self.heap);
        object::release::<T>(&slot, &self.heap)?;
        value
    }

    pub(super) fn pop_many(&self, most: usize, meet: bool) -> Result<Vec<T>> {
        let mut slots = Vec::new();
        if most == 0 {
            return Ok(Vec::new());
        }
        let read = |ring: &Self, tickets: Tickets| {
            slots = super::ring::zeroed::<SlotOf<T>>(index(tickets.n));
            ring.place.read(ring.world(), tickets, &mut slots)
        };
        self.perform(Request::pop(most, meet), read)?;
        if !object::has_heap::<T>() {
            return <T::Repr as Repr<T>>::from_slots(slots, &self.heap);
        }
        slots.into_iter().map(|slot| self.value_of(slot)).collect()
    }
}

impl<T: Object<Repr = Plain> + Pod> Ring<T> {
    pub(super) fn pop_slice(&self, out: &mut [T], meet: bool) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let request = Request::pop(out.len(), meet);
        let read = |ring: &Self, tickets: Tickets| {
            let out = &mut out[..index(tickets.n)];
            ring.place.read(ring.world(), tickets, out)
        };
        let popped = self.perform(request, read)?;
        Ok(index(popped.unwrap_or(0)))
    }
}
