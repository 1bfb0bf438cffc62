//! Operations that the host of a queue performs for ranks that reach it by messages only: a whole
//! push or pop, by the same protocol as its own ones.
//!
//! The host never waits for them. If it would have to, as for an element that another rank is
//! writing, it does nothing, and the asking rank works one-sidedly.

use std::panic::Location;

use pgas_am::{RemoteCalls as _, WeakObject};
use pgas_core::{Pod, in_handler, part_of_at};

use super::access::{Access, Request, WHOLE};
use super::ring::{Hosted, Ring, Room, Served, index};
use super::ticket::{Side, Tickets};
use crate::Result;
use crate::object::{Object, SlotOf};
use crate::requests::{Sent, receive};

/// Elements of more bytes together are pushed and popped one-sidedly: a remote call carries up to
/// 64 MiB, and what is refused on its way would be lost.
const MOST_BYTES: usize = 1 << 25;

/// The name of a queue, and whether pushes and pops may meet.
type QueueName = (WeakObject<Hosted>, bool);

/// The host's part of a push. Returns whether there was room.
fn push<S: Pod>((on, meet): QueueName, slots: &[S]) -> Option<bool> {
    let on = on.upgrade()?;
    let write = |access: Access<'_>, tickets| access.place.write(access.world, tickets, slots);
    let pushed = perform::<S>(&on, Request::push(slots.len(), meet), write)?;
    Some(pushed > 0)
}

/// The host's part of a pop. Returns up to `most` slots.
fn pop<S: Pod>(((on, meet), most): (QueueName, u64)) -> Option<Vec<Sent<S>>> {
    let on = on.upgrade()?;
    let room = Room::<Sent<S>>::default();
    let reserve = |n| room.reserve(n);
    let read = |access: Access<'_>, tickets: Tickets| {
        let mut slots = room.first(tickets.n);
        access.place.read(access.world, tickets, &mut slots)
    };
    let request = Request::pop(index(most), meet).reserving(&reserve);
    let popped = perform::<S>(&on, request, read)?;
    Some(room.filled(popped))
}

/// Performs a request. Returns the number of elements; `None` if the host cannot do it here and
/// now.
fn perform<S>(
    on: &Served,
    request: Request<'_>,
    work: impl FnOnce(Access<'_>, Tickets) -> Result<()>,
) -> Option<u64> {
    let access = Access {
        world: on.team().world(),
        place: on.place,
        slot_bytes: size_of::<S>(),
    };
    let shared = match request.side() {
        Side::Push => &on.push,
        Side::Pop => &on.pop,
    };
    let mut seen = shared.get();
    let done = access.perform(&mut seen, request, |tickets| work(access, tickets));
    shared.set(seen);
    // The asking rank meets the same error itself.
    Some(done.ok()?.unwrap_or(0))
}

/// Operations of a rank that reaches the queue by messages only: one message each (M). They return
/// `None` if the operation has to be one-sided.
impl<T: Object> Ring<T> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a branch where memory is local")]
    fn host_to_ask(&self, n: usize) -> Option<&Served> {
        if self.local.is_some() || self.counted.is_some() {
            return None;
        }
        let n_bytes = n.min(self.capacity()) * size_of::<SlotOf<T>>();
        let is_elsewhere = self.host() != self.world().rank();
        let may_ask = is_elsewhere && n_bytes <= MOST_BYTES && !in_handler();
        self.served.as_ref().filter(|_| may_ask)
    }

    /// Asks the host to push all of the slots, or none. Returns whether there was room.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a branch where memory is local")]
    pub(super) fn ask_to_push(
        &self,
        slots: &[SlotOf<T>],
        meet: bool,
        at: &'static Location<'static>,
    ) -> Result<Option<bool>> {
        match self.host_to_ask(slots.len()) {
            Some(served) => self.send_push(served, slots, (meet, at)),
            None => Ok(None),
        }
    }

    #[inline(never)]
    fn send_push(
        &self,
        served: &Served,
        slots: &[SlotOf<T>],
        (meet, at): (bool, &'static Location<'static>),
    ) -> Result<Option<bool>> {
        let _waits = part_of_at(WHOLE, at);
        let wanted = (served.downgrade(), meet);
        let answer = self
            .world()
            .rpc_view(self.host(), push::<SlotOf<T>>, wanted, slots)?;
        receive(self.world(), (self.host(), true), answer)
    }

    /// Asks the host to pop up to `most` slots.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a branch where memory is local")]
    pub(super) fn ask_to_pop(
        &self,
        most: usize,
        meet: bool,
        at: &'static Location<'static>,
    ) -> Result<Option<Vec<SlotOf<T>>>> {
        match self.host_to_ask(most) {
            Some(served) => self.send_pop(served, most, (meet, at)),
            None => Ok(None),
        }
    }

    #[inline(never)]
    fn send_pop(
        &self,
        served: &Served,
        most: usize,
        (meet, at): (bool, &'static Location<'static>),
    ) -> Result<Option<Vec<SlotOf<T>>>> {
        let _waits = part_of_at(WHOLE, at);
        let wanted = ((served.downgrade(), meet), most as u64);
        let answer = self.world().rpc(self.host(), pop::<SlotOf<T>>, wanted)?;
        let popped = receive(self.world(), (self.host(), true), answer)?;
        Ok(popped.map(|slots| slots.into_iter().map(|Sent(slot)| slot).collect()))
    }
}
