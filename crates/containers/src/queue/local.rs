//! The local phase: the host works on its own memory, and no other rank accesses it.

use super::PushError;
use super::phase::{Local, Phase, Sealed};
use super::ring::{Ring, index, zeroed};
use super::ticket::{Seen, Side, Tickets};
use crate::object::{self, Object, Repr, SlotOf};
use crate::{Result, prices};

/// Slots that are read at once.
const CHUNK: u64 = 256;

/// The host's position in the local phase; empty in other phases.
pub(super) struct Cursor<T: Object> {
    at: Option<OwnTickets<SlotOf<T>>>,
}

/// The host's own tickets.
struct OwnTickets<S> {
    head: u64,
    tail: u64,
    /// The slots of the tickets from `head` on that were read already, the next one last.
    read: Vec<S>,
}

impl<S: pgas_core::Pod> OwnTickets<S> {
    /// Reads the next slots. Returns whether there are any. After an error none was read. Out of
    /// line, so that a pop stays short.
    #[cold]
    #[inline(never)]
    fn fetch<T: Object<Repr: Repr<T, Slot = S>>>(&mut self, ring: &Ring<T>) -> Result<bool> {
        let n = self.tail.wrapping_sub(self.head).min(CHUNK);
        if n == 0 {
            return Ok(false);
        }
        let tickets = Tickets {
            first: self.head,
            n,
        };
        let mut read = zeroed(index(n))?;
        ring.place.read(ring.world(), tickets, &mut read)?;
        read.reverse();
        self.read = read;
        Ok(true)
    }
}

impl<T: Object> Default for Cursor<T> {
    fn default() -> Self {
        Self { at: None }
    }
}

impl<T: Object> Cursor<T> {
    /// Begins the phase `P` after the queue has settled, or stays in the present phase if it could
    /// not be left.
    pub(super) fn enter<P: Phase>(&mut self, ring: &Ring<T>) {
        let is_elsewhere = P::NUMBER != Local::NUMBER || ring.world().rank() != ring.host();
        if is_elsewhere || self.at.is_some() {
            return;
        }
        let Seen { taken, limit } = ring.seen(Side::Pop);
        self.at = Some(OwnTickets {
            head: taken,
            tail: limit,
            read: Vec::new(),
        });
    }

    /// Ends the phase: writes the host's position to the queue's words, and to what this rank has
    /// seen of them.
    pub(super) fn leave(&mut self, ring: &Ring<T>) -> Result<()> {
        if let Some(OwnTickets { head, tail, .. }) = self.at {
            ring.place.set_words(ring.world(), head, tail)?;
            ring.see(head, tail);
            self.at = None;
        }
        Ok(())
    }

    #[inline]
    #[track_caller]
    fn local(&mut self) -> &mut OwnTickets<SlotOf<T>> {
        let local = self.at.as_mut();
        local.expect("in its local phase only the host uses a queue")
    }

    #[inline]
    #[track_caller]
    pub(super) fn push(&mut self, ring: &Ring<T>, value: T) -> Result<(), PushError<T>> {
        let local = self.local();
        let is_full = local.tail.wrapping_sub(local.head) == ring.place.size.capacity;
        let count = || {
            ring.world()
                .count_local_as(&prices::QUEUE_LOCAL_PUSH, is_full);
        };
        if is_full {
            count();
            return Err(PushError::Full(value));
        }
        let slot = object::to_slot(&value, &ring.heap)?;
        ring.write(local.tail, slot)?;
        local.tail = local.tail.wrapping_add(1);
        // The write, too.
        count();
        Ok(())
    }

    #[inline]
    #[track_caller]
    pub(super) fn pop(&mut self, ring: &Ring<T>) -> Result<Option<T>> {
        let local = self.local();
        let is_empty = local.head == local.tail;
        ring.world()
            .count_local_as(&prices::QUEUE_LOCAL_POP, is_empty);
        if local.read.is_empty() && !local.fetch(ring)? {
            return Ok(None);
        }
        let slot = local.read.pop().expect("one was read");
        local.head = local.head.wrapping_add(1);
        ring.value_of(slot).map(Some)
    }

    #[track_caller]
    pub(super) fn len(&self) -> usize {
        let local = self.at.as_ref();
        let local = local.expect("in its local phase only the host uses a queue");
        index(local.tail.wrapping_sub(local.head))
    }
}
