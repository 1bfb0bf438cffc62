//! Pushes and pops: each takes tickets, works on their slots, and counts.

use std::panic::Location;

use pgas_core::Pod;
use pgas_core::stats::Operation;

use super::super::PushError;
use super::super::ring::{CountedRing, PlainRing, Ring, Room, index};
use super::super::ticket::{Side, Tickets};
use super::{Request, Rows};
use crate::object::{self, Object, Plain, Repr, SlotOf};
use crate::{Result, TakeError, prices};

/// The operations of queues. `meet`: whether ranks push and pop at the same time in this phase.
impl<T: Object> Ring<T> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a push")]
    #[track_caller]
    pub(in super::super) fn push(&self, value: T, meet: bool) -> Result<(), PushError<T>> {
        let slot = object::to_slot(&value, &self.heap)?;
        let write = |local: &PlainRing<_>, i| local.write(i, slot);
        let pushed = self.perform_next(self.local.as_ref(), Side::Push, meet, write)?;
        if pushed.is_some() {
            return Ok(());
        }
        self.push_slot(value, slot, meet)
    }

    /// As [`push`](Self::push), with its slot.
    #[inline(never)]
    #[track_caller]
    fn push_slot(&self, value: T, slot: SlotOf<T>, meet: bool) -> Result<(), PushError<T>> {
        let (rows, at) = (
            [&prices::QUEUE_PUSH_ONLY, &prices::QUEUE_PUSH],
            Location::caller(),
        );
        let pushed = match &self.counted {
            Some(local) => self.push_counted(local, rows, slot, meet),
            None => {
                let push = || self.try_push(&[slot], meet, at);
                self.counted(rows, meet, push, |is_pushed| !is_pushed)
            }
        };
        let release = |error: &_| object::release_refused::<T>(error, &[slot], &self.heap);
        if pushed.inspect_err(release)? {
            return Ok(());
        }
        object::release::<T>(&slot, &self.heap)?;
        self.world().look_around()?;
        Err(PushError::Full(value))
    }

    /// Pushes all slots or none. Returns whether there was room.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a push")]
    fn try_push(
        &self,
        slots: &[SlotOf<T>],
        meet: bool,
        at: &'static Location<'static>,
    ) -> Result<bool> {
        if slots.len() > self.capacity() {
            return Ok(false);
        }
        if let Some(is_pushed) = self.ask_to_push(slots, meet, at)? {
            return Ok(is_pushed);
        }
        let mut unused = object::Unused::<T>::new(slots, &self.heap);
        let write = |ring: &Self, tickets: Tickets| {
            // Others may read them from now on.
            unused.keep();
            match slots {
                [slot] => ring.write(tickets.first, *slot),
                slots => ring.place.write(ring.world(), tickets, slots),
            }
        };
        let pushed = self.perform(Request::push(slots.len(), meet).at(at), write);
        // A panic in the wait for room is over. Errors are the caller's.
        unused.keep();
        Ok(pushed?.is_some())
    }

    #[track_caller]
    pub(in super::super) fn push_slice(
        &self,
        values: &[T],
        meet: bool,
    ) -> Result<(), PushError<()>> {
        if values.is_empty() {
            return Ok(());
        }
        let at = Location::caller();
        let slots = <T::Repr as Repr<T>>::to_slots(values, &self.heap)?;
        let rows = [&prices::QUEUE_PUSH_SLICE_ONLY, &prices::QUEUE_PUSH_SLICE];
        let push = || self.try_push(&slots, meet, at);
        let pushed = self.counted(rows, meet, push, |is_pushed| !is_pushed);
        let release = |error: &_| object::release_refused::<T>(error, &slots, &self.heap);
        if !pushed.inspect_err(release)? {
            for slot in slots.iter() {
                object::release::<T>(slot, &self.heap)?;
            }
            self.world().look_around()?;
            return Err(PushError::Full(()));
        }
        Ok(())
    }

    /// Runs `work`, and counts it as the first of `rows`, or as the second one if both sides
    /// `meet`. `missed` says of its result whether it met a full or an empty queue.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a branch where memory is local")]
    fn counted<R>(
        &self,
        rows: Rows,
        meet: bool,
        work: impl FnOnce() -> Result<R>,
        missed: impl FnOnce(&R) -> bool,
    ) -> Result<R> {
        // Where `local` is there, nothing is counted.
        if self.local.is_some() {
            return work();
        }
        self.counted_elsewhere(rows[usize::from(meet)], work, missed)
    }

    /// As [`counted`](Self::counted), of work by counted steps alone.
    fn perform_counted<R>(
        &self,
        rows: Rows,
        meet: bool,
        missed: impl FnOnce(&R) -> bool,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let row = rows[usize::from(meet)];
        let missed = |done: &Result<R>| done.as_ref().is_ok_and(missed).into();
        self.world().perform_near(row, 1, work, missed)
    }

    #[inline(never)]
    fn counted_elsewhere<R>(
        &self,
        row: &'static Operation,
        work: impl FnOnce() -> Result<R>,
        missed: impl FnOnce(&R) -> bool,
    ) -> Result<R> {
        let mut performing = self.world().performs(row, 1);
        let done = work()?;
        performing.miss(missed(&done).into());
        Ok(done)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a pop")]
    #[track_caller]
    pub(in super::super) fn pop(&self, meet: bool) -> Result<Option<T>> {
        let read = |local: &PlainRing<_>, i| local.read(i);
        let popped = self.perform_next(self.local.as_ref(), Side::Pop, meet, read)?;
        let slot = match popped {
            Some(slot) => Some(slot),
            None => self.pop_slot(meet)?,
        };
        // The slot is free again before code of the user runs.
        slot.map(|slot| self.value_of(slot)).transpose()
    }

    #[inline(never)]
    #[track_caller]
    fn pop_slot(&self, meet: bool) -> Result<Option<SlotOf<T>>> {
        let (rows, at) = (
            [&prices::QUEUE_POP_ONLY, &prices::QUEUE_POP],
            Location::caller(),
        );
        let popped = match &self.counted {
            Some(local) => self.pop_counted(local, rows, meet)?,
            None => self.counted(rows, meet, || self.try_pop(meet, at), Option::is_none)?,
        };
        if popped.is_none() {
            self.world().look_around()?;
        }
        Ok(popped)
    }

    /// As [`push_slot`](Self::push_slot) by counted steps. Returns whether there was room.
    #[inline(never)]
    #[track_caller]
    fn push_counted(
        &self,
        local: &CountedRing<SlotOf<T>>,
        rows: Rows,
        slot: SlotOf<T>,
        meet: bool,
    ) -> Result<bool> {
        let at = Location::caller();
        let push = || -> Result<bool> {
            let write = |local: &CountedRing<_>, i| local.write(i, slot);
            let next = self.perform_next(Some(local), Side::Push, meet, write)?;
            if next.is_some() {
                return Ok(true);
            }
            self.try_push(&[slot], meet, at)
        };
        self.perform_counted(rows, meet, |is_pushed| !is_pushed, push)
    }

    /// As [`pop_slot`](Self::pop_slot) by counted steps.
    #[inline(never)]
    #[track_caller]
    fn pop_counted(
        &self,
        local: &CountedRing<SlotOf<T>>,
        rows: Rows,
        meet: bool,
    ) -> Result<Option<SlotOf<T>>> {
        let at = Location::caller();
        let pop = || -> Result<Option<SlotOf<T>>> {
            let read = |local: &CountedRing<_>, i| local.read(i);
            let next = self.perform_next(Some(local), Side::Pop, meet, read)?;
            if next.is_some() {
                return Ok(next);
            }
            self.try_pop(meet, at)
        };
        self.perform_counted(rows, meet, Option::is_none, pop)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a pop")]
    fn try_pop(&self, meet: bool, at: &'static Location<'static>) -> Result<Option<SlotOf<T>>> {
        if let Some(slots) = self.ask_to_pop(1, meet, at)? {
            return Ok(slots.first().copied());
        }
        let mut slot = None;
        let read = |ring: &Self, tickets: Tickets| {
            slot = Some(ring.read(tickets.first)?);
            Ok(())
        };
        self.perform(Request::pop(1, meet).at(at), read)?;
        Ok(slot)
    }

    /// The value in a slot that was popped, whose memory is given back.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all for plain values")]
    pub(in super::super) fn value_of(&self, slot: SlotOf<T>) -> Result<T> {
        object::take_out(slot, &self.heap)
    }

    #[track_caller]
    pub(in super::super) fn pop_many(
        &self,
        most: usize,
        meet: bool,
    ) -> Result<Vec<T>, TakeError<T>> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let slots = self.pop_slots(most, meet)?;
        object::take_all(slots, &self.heap)
    }

    #[track_caller]
    fn pop_slots(&self, most: usize, meet: bool) -> Result<Vec<SlotOf<T>>> {
        let at = Location::caller();
        let try_pop = || {
            if let Some(slots) = self.ask_to_pop(most, meet, at)? {
                return Ok(slots);
            }
            let room = Room::<SlotOf<T>>::default();
            let reserve = |n| room.reserve(n);
            let read = |ring: &Self, tickets: Tickets| {
                let mut slots = room.first(tickets.n);
                ring.place.read(ring.world(), tickets, &mut slots)
            };
            let request = Request::pop(most, meet).at(at).reserving(&reserve);
            let popped = self.perform(request, read)?;
            Ok(room.filled(popped.unwrap_or(0)))
        };
        let popped = self.counted(pop_many_rows(), meet, try_pop, Vec::is_empty)?;
        if popped.is_empty() {
            self.world().look_around()?;
        }
        Ok(popped)
    }
}

fn pop_many_rows() -> Rows {
    [&prices::QUEUE_POP_MANY_ONLY, &prices::QUEUE_POP_MANY]
}

impl<T: Object<Repr = Plain> + Pod> Ring<T> {
    #[track_caller]
    pub(in super::super) fn pop_slice(&self, out: &mut [T], meet: bool) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let at = Location::caller();
        let try_pop = || {
            if let Some(slots) = self.ask_to_pop(out.len(), meet, at)? {
                out[..slots.len()].copy_from_slice(&slots);
                return Ok(slots.len());
            }
            let request = Request::pop(out.len(), meet).at(at);
            let read = |ring: &Self, tickets: Tickets| {
                let out = &mut out[..index(tickets.n)];
                ring.place.read(ring.world(), tickets, out)
            };
            let popped = self.perform(request, read)?;
            Ok(index(popped.unwrap_or(0)))
        };
        let n_popped = self.counted(pop_many_rows(), meet, try_pop, |n| *n == 0)?;
        if n_popped == 0 {
            self.world().look_around()?;
        }
        Ok(n_popped)
    }
}
