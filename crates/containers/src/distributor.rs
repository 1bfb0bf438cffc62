//! Many-to-many redistribution without a barrier: every rank sends elements to ranks of their choice.
//!
//! Each rank has an inbox, a [queue](crate::queue) that all others push to. Elements for one rank are
//! collected here until there are enough for one push. Who meets a full inbox empties its own one first,
//! so no circle of ranks waits for each other. When a rank has sent all it tells every other one how many
//! elements it got (A each), and a rank is done when all have told it and it has received as many.
//!
//! Where ranks serve atomics by messages, a push would be three round trips. There the elements are
//! [messages](crate::mail) themselves, several of which are on their way at once.

use std::fmt;
use std::sync::Arc;

use pgas_am::DistObject;
use pgas_core::{Rank, Symmetric, World};

use crate::error::agree;
use crate::mail::{self, Inbox};
use crate::object::{self, Heap, Object, SlotOf};
use crate::queue::{Access, Place, Request, Seen, Size, Tickets, index, layout, size_of_capacity};
use crate::{Error, Result, TakeError};

/// Elements of one push take this many bytes, if the inbox is not too small.
const BATCH_BYTES: usize = 32 << 10;
/// What fails when a rank cannot be told how many elements it gets.
const TELLING: &str = "telling what a distributor has sent";
/// What fails when an element that has come cannot be received.
const RECEIVING: &str = "receiving by a distributor";
/// The count of elements in a rank's last word of a round; above it is the count of such words.
const COUNT_BITS: u32 = 40;

/// Sends elements to other ranks and receives those that are for this one.
///
/// Each rank sends what it has and then calls [`finish`](Self::finish), which returns what the others
/// have sent here. Elements of one sender arrive in their order; those of several, in any.
///
/// Nothing is lost and nothing comes twice, whatever the capacity of the inboxes; a rank that neither
/// sends nor finishes for long holds up those that send to it once its inbox is full.
///
/// # Examples
///
/// ```
/// use pgas_containers::Distributor;
/// use pgas_core::Rank;
///
/// let sums = pgas_smp::threads(3, |world| {
///     let mut numbers = Distributor::<u32>::with_capacity(&world, 1 << 10)?; // collective
///     for number in 0..99 {
///         numbers.send(Rank::new(number % 3), number)?;
///     }
///     let mine = numbers.finish()?;
///     assert!(mine.iter().all(|number| number % 3 == world.rank().number()));
///     Ok::<_, pgas_containers::Error>(mine.len())
/// })?;
/// assert_eq!(sums.into_iter().collect::<Result<Vec<_>, _>>()?, [99, 99, 99]);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct Distributor<T: Object> {
    world: World,
    way: Way<SlotOf<T>>,
    heap: Arc<Heap>,
    lanes: Vec<Lane<SlotOf<T>>>,
    received: Vec<SlotOf<T>>,
    /// How many have come from other ranks.
    n_from_others: u64,
    /// How often all ranks have sent all.
    n_rounds: u64,
    batch: usize,
}

/// How elements come to other ranks.
enum Way<S> {
    Queues(Queues),
    Messages(DistObject<Inbox<S>>),
}

/// Inboxes in global memory.
struct Queues {
    /// The block of an inbox on each rank.
    inboxes: Symmetric<u8>,
    /// On each rank, how many elements it gets, from those ranks that have sent all; over all rounds,
    /// modulo 2^64.
    totals: Symmetric<u64>,
    size: Size,
    /// What was seen of this rank's own inbox.
    seen: Seen,
}

/// What is to go to one rank.
struct Lane<S> {
    /// Room for as many as travel together, once there has been one.
    slots: Vec<S>,
    /// How many of these are there.
    len: usize,
    seen: Seen,
    /// How many were sent in this round.
    n_sent: u64,
    /// How many messages were sent.
    n_messages: u64,
}

impl<S> Lane<S> {
    fn collected(&self) -> &[S] {
        &self.slots[..self.len]
    }
}

impl<T: Object> Distributor<T> {
    /// A distributor whose inboxes have room for `capacity` elements.
    ///
    /// The memory of an inbox does not depend on the number of ranks; what a rank keeps for itself is up
    /// to 32 KiB for each rank that it sends to. Where
    /// [ranks serve atomics](pgas_core::backend::Capabilities::ranks_serve_atomics) elements travel by
    /// messages, which wait for the receiver to make progress; an inbox then takes what has come, and
    /// its capacity says nothing.
    ///
    /// # Cost
    ///
    /// 2B + 4 allreduces. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Argument`](crate::Error::Argument) if the capacity is 0 or over 2^31,
    /// [`Error::Disagreement`](crate::Error::Disagreement) if the
    /// ranks give different ones, [`Exhausted`](pgas_core::Error::Exhausted) in [`Error::Core`](crate::Error::Core) if the
    /// symmetric heap has no room.
    pub fn with_capacity(world: &World, capacity: usize) -> Result<Self> {
        let size = agree_on_capacity(world, capacity)?;
        Self::with_heap(world, size, Arc::new(Heap::of::<T>(world)?))
    }

    /// As [`with_capacity`](Self::with_capacity), of a size that was agreed on; long elements lie
    /// in `heap`, and go on to whatever else has it.
    pub(crate) fn with_heap(world: &World, size: Size, heap: Arc<Heap>) -> Result<Self> {
        let slot_bytes = size_of::<SlotOf<T>>();
        let lane = |_| Lane {
            slots: Vec::new(),
            len: 0,
            seen: Seen::default(),
            n_sent: 0,
            n_messages: 0,
        };
        let capabilities = world.capabilities();
        let are_messages = capabilities.ranks_serve_atomics();
        let inbox = are_messages.then(|| DistObject::new(&world.team(), Inbox::new()));
        let (way, batch) = match inbox {
            Some(Ok(inbox)) => {
                let most = Inbox::<SlotOf<T>>::most(capabilities.max_medium);
                (Way::Messages(inbox), most)
            }
            // To a world without messages none was attached, on all ranks.
            Some(Err(_)) | None => {
                let (bytes, align) = layout::<SlotOf<T>>(size, true);
                let queues = Queues {
                    inboxes: world.alloc_symmetric_aligned(bytes, align)?,
                    totals: world.alloc_symmetric(1)?,
                    size,
                    seen: Seen::default(),
                };
                let most = BATCH_BYTES / slot_bytes.max(1);
                (Way::Queues(queues), most.min(index(size.capacity)).max(1))
            }
        };
        Ok(Self {
            world: world.clone(),
            way,
            heap,
            lanes: world.ranks().map(lane).collect(),
            received: Vec::new(),
            n_from_others: 0,
            n_rounds: 0,
            batch,
        })
    }

    /// The world whose ranks exchange elements.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Sends `value` to `to`, maybe later.
    ///
    /// # Cost
    ///
    /// ℓ, and once for every 32 KiB 2A + W, as
    /// [`CircularQueue::push_slice`](crate::CircularQueue::push_slice), one-sided; or M without an
    /// answer. Waits for room in the other rank's inbox, or for messages, and receives meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if the value cannot be encoded; what the transport reports; the failure of the job
    /// while waiting.
    ///
    /// # Panics
    ///
    /// If there is no such rank.
    #[inline]
    #[track_caller]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is given away, as to a queue"
    )]
    pub fn send(&mut self, to: Rank, value: T) -> Result<()> {
        let slot = self.slot_of(&value)?;
        if self.collect(to, slot) {
            return Ok(());
        }
        self.ship_before(to, slot)
    }

    #[cold]
    #[track_caller]
    fn ship_before(&mut self, to: Rank, slot: SlotOf<T>) -> Result<()> {
        if let Err(error) = self.ship(to, &mut Self::receive) {
            object::release::<T>(&slot, &self.heap)?;
            return Err(error);
        }
        assert!(self.collect(to, slot), "there is room now");
        Ok(())
    }

    /// What travels of `value`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a copy for plain values")]
    pub(crate) fn slot_of(&self, value: &T) -> Result<SlotOf<T>> {
        object::to_slot(value, &self.heap)
    }

    /// Collects an element for `to`, if there is room until the others are [shipped](Self::ship).
    #[inline(always)]
    #[track_caller]
    #[expect(clippy::inline_always, reason = "all of most sends")]
    pub(crate) fn collect(&mut self, to: Rank, slot: SlotOf<T>) -> bool {
        // Those for this rank too: where half of all go here, a branch on it would be guessed wrong half of the time.
        let Some(lane) = self.lanes.get_mut(to.index()) else {
            self.world.assert_rank(to);
            unreachable!("each rank has a lane");
        };
        let Some(place) = lane.slots.get_mut(lane.len) else {
            return false;
        };
        *place = slot;
        lane.len += 1;
        true
    }

    /// Pushes what is collected for `to`, so that there is room for more. While that rank's inbox is full, and if it is this rank,
    /// `receive` is to [take](Self::receive_into) what has come, and to say how much that was.
    #[track_caller]
    pub(crate) fn ship(
        &mut self,
        to: Rank,
        receive: &mut dyn FnMut(&mut Self) -> Result<u64>,
    ) -> Result<()> {
        if self.lanes[to.index()].slots.is_empty() {
            let batch = self.batch;
            let slots = &mut self.lanes[to.index()].slots;
            slots.resize_with(batch, zero_slot::<T>);
            return Ok(());
        }
        if to == self.world().rank() {
            return receive(self).map(drop);
        }
        if let Way::Messages(_) = &self.way {
            return self.post(to, 0);
        }
        if !self.try_push(to)? {
            let (world, missing) = (self.world().clone(), || vec![to]);
            let mut waiting = world.own_wait("room in the inbox of a distributor");
            while !self.try_push(to)? {
                if receive(self)? == 0 {
                    waiting.pause(&missing)?;
                }
            }
        }
        Ok(())
    }

    /// Sends what is collected for `to`, and tells it something.
    fn post(&mut self, to: Rank, told: u64) -> Result<()> {
        let Way::Messages(inbox) = &self.way else {
            unreachable!("elements go by messages");
        };
        let lane = &mut self.lanes[to.index()];
        mail::send(inbox, to, (lane.n_messages, told), lane.collected())?;
        lane.n_messages += 1;
        lane.n_sent += lane.len as u64;
        lane.len = 0;
        Ok(())
    }

    fn try_push(&mut self, to: Rank) -> Result<bool> {
        let Way::Queues(queues) = &self.way else {
            unreachable!("elements go to queues");
        };
        let (access, lane) = (self.access(queues, to), &self.lanes[to.index()]);
        let (mut seen, slots) = (lane.seen, lane.collected());
        let write = |tickets| access.place.write(access.world, tickets, slots);
        let pushed = access.perform(&mut seen, Request::push(slots.len(), true), write)?;
        let lane = &mut self.lanes[to.index()];
        lane.seen = seen;
        if let Some(n) = pushed {
            lane.n_sent += n;
            lane.len = 0;
        }
        Ok(pushed.is_some())
    }

    fn access(&self, queues: &Queues, on: Rank) -> Access<'_> {
        let place = Place::new::<SlotOf<T>>(queues.inboxes.on(on), queues.size);
        Access {
            world: &self.world,
            place,
            slot_bytes: size_of::<SlotOf<T>>(),
        }
    }

    /// Appends to `slots` what was collected for this rank itself, and what is in its inbox; how many elements that is.
    pub(crate) fn receive_into(&mut self, slots: &mut Vec<SlotOf<T>>) -> Result<u64> {
        let here = self.world().rank();
        let own = &mut self.lanes[here.index()];
        slots.extend_from_slice(own.collected());
        let n_own = std::mem::take(&mut own.len) as u64;
        let n = self.receive_from_others(slots)?;
        self.n_from_others += n;
        Ok(n_own + n)
    }

    fn receive_from_others(&mut self, slots: &mut Vec<SlotOf<T>>) -> Result<u64> {
        let here = self.world().rank();
        let queues = match &self.way {
            Way::Messages(inbox) => {
                self.world.progress()?;
                return Ok(inbox.take_to(slots));
            }
            Way::Queues(queues) => queues,
        };
        let mut seen = queues.seen;
        let access = self.access(queues, here);
        let read = |tickets: Tickets| {
            let start = slots.len();
            // Not all at once: the zeros are overwritten while they are in the cache.
            slots.resize_with(start + index(tickets.n), zero_slot::<T>);
            let read = access
                .place
                .read(access.world, tickets, &mut slots[start..]);
            read.inspect_err(|_| slots.truncate(start))
        };
        let popped = access.perform(&mut seen, Request::pop(self.batch, true), read);
        if let Way::Queues(queues) = &mut self.way {
            queues.seen = seen;
        }
        Ok(popped?.unwrap_or(0))
    }

    /// Takes what has come; how many elements that is.
    fn receive(&mut self) -> Result<u64> {
        let mut received = std::mem::take(&mut self.received);
        let n = self.receive_into(&mut received);
        self.received = received;
        n
    }

    /// Sends what is left, waits until all ranks have sent what is for this one, and returns it.
    ///
    /// # Cost
    ///
    /// For each rank A, and 2A + W if something is left for it; what is received, as
    /// [`CircularQueue::pop_many`](crate::CircularQueue::pop_many); or M without an answer for each
    /// rank. Collective over the world, without a barrier: a rank returns as soon as it has its own.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), and [`Error::Codec`](crate::Error::Codec) if an element that has come cannot be read, which is then gone; with
    /// the elements that could be. That is this rank's outcome: the others are not told. What the
    /// transport reports while they wait for this rank is the failure of the job.
    #[track_caller]
    pub fn finish(mut self) -> Result<Vec<T>, TakeError<T>> {
        let finished = self.finish_round(&mut Self::receive);
        match (finished, self.take_received()) {
            (Ok(()), received) => received,
            (Err(error), Ok(taken)) => Err(TakeError::new(taken, 0, error)),
            (Err(error), Err(received)) => {
                Err(TakeError::new(received.taken, received.lost.n, error))
            }
        }
    }

    /// Receives what has come, without waiting, and returns it.
    ///
    /// # Cost
    ///
    /// As [`CircularQueue::pop_many`](crate::CircularQueue::pop_many). One-sided.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn poll(&mut self) -> Result<Vec<T>, TakeError<T>> {
        self.receive()?;
        self.take_received()
    }

    /// Where long elements are.
    pub(crate) fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Sends what is left, and waits until all ranks have sent what is for this one; `receive` as for
    /// [`ship`](Self::ship). Elements may be sent again behind a collective that all ranks call next.
    #[track_caller]
    pub(crate) fn finish_round(
        &mut self,
        receive: &mut dyn FnMut(&mut Self) -> Result<u64>,
    ) -> Result<()> {
        let world = self.world().clone();
        let (here, n_ranks) = (world.rank(), world.n_ranks());
        let mut outcome = Ok(());
        // Each rank begins with its successor, so that they do not all come to one at once.
        for distance in 0..n_ranks {
            let to = Rank::new((here.number() + distance) % n_ranks);
            let is_message = matches!(self.way, Way::Messages(_));
            if self.lanes[to.index()].len > 0 && (to == here || !is_message) {
                outcome = outcome.and(self.ship(to, receive));
            }
            // Who is not told waits for ever.
            self.tell(to)
                .map_err(|error| give_up(&world, TELLING, error))?;
        }
        self.n_rounds += 1;
        let all_told = self.n_rounds.wrapping_mul(n_ranks.into()) << COUNT_BITS;
        let mut waiting = world.own_wait("what others send by a distributor");
        loop {
            // While this rank receives the others wait for room in its inbox.
            let received = receive(self).map_err(|error| give_up(&world, RECEIVING, error))?;
            if received > 0 {
                waiting.begin_anew();
            } else {
                let total = match &self.way {
                    Way::Messages(inbox) => Ok(inbox.told()),
                    Way::Queues(queues) => queues.totals.here().atomic_load(&world),
                };
                let total = total.map_err(|error| give_up(&world, RECEIVING, error.into()))?;
                if total == all_told.wrapping_add(self.n_from_others) {
                    return outcome;
                }
                waiting.pause(&Vec::new)?;
            }
        }
    }

    /// Tells `to` how many elements it has got of this rank, all that could be shipped, or ships the rest
    /// with that, where elements go by messages.
    fn tell(&mut self, to: Rank) -> Result<()> {
        let lane = &mut self.lanes[to.index()];
        let n_sent = std::mem::take(&mut lane.n_sent);
        let word = 1 << COUNT_BITS | n_sent;
        match &self.way {
            Way::Queues(queues) => {
                queues.totals.on(to).fetch_add(&self.world, word)?;
            }
            Way::Messages(inbox) if to == self.world.rank() => inbox.tell(word),
            Way::Messages(_) => {
                let n_left = lane.len as u64;
                self.post(to, word + n_left)?;
                self.lanes[to.index()].n_sent = 0;
            }
        }
        Ok(())
    }

    fn take_received(&mut self) -> Result<Vec<T>, TakeError<T>> {
        object::take_all(std::mem::take(&mut self.received), &self.heap)
    }
}

/// The size of an inbox with room for `capacity` elements, which all ranks ask for. Collective.
pub(crate) fn agree_on_capacity(world: &World, capacity: usize) -> Result<Size> {
    agree(world, "the capacity of a distributor", capacity as u64)?;
    size_of_capacity(capacity)
}

#[cold]
fn give_up(world: &World, what: &'static str, error: Error) -> Error {
    match error {
        Error::Core(error) => world.give_up(what, error).into(),
        error => error,
    }
}

fn zero_slot<T: Object>() -> SlotOf<T> {
    zerocopy::FromZeros::new_zeroed()
}

impl<T: Object> fmt::Debug for Distributor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.received.len();
        write!(
            f,
            "Distributor({n} received on rank {})",
            self.world().rank()
        )
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::testing::{Random, everywhere};

    /// Every rank sends `n` random elements; each arrives once, in the order of its sender.
    fn check(world: &World, capacity: usize, n: u32) {
        let me = world.rank().number();
        let mut random = Random(u64::from(me) + (u64::from(n) << 20));
        let mut distributor = Distributor::with_capacity(world, capacity).unwrap();
        let mut sent = vec![0_u64; world.n_ranks() as usize];
        for i in 0..n {
            let to = u32::try_from(random.below(world.n_ranks().into())).unwrap();
            distributor.send(Rank::new(to), (me, to, i)).unwrap();
            sent[to as usize] += 1;
        }
        let received: Vec<(u32, u32, u32)> = distributor.finish().unwrap();
        world
            .team()
            .allreduce_slice(&mut sent, |a: u64, b| a + b)
            .unwrap();
        assert_eq!(received.len() as u64, sent[me as usize]);
        for from in 0..world.n_ranks() {
            let of_sender = received.iter().filter(|element| element.0 == from);
            let numbers: Vec<u32> = of_sender
                .map(|&(_, to, i)| (i, assert_eq!(to, me)).0)
                .collect();
            assert!(
                numbers.is_sorted_by(|a, b| a < b),
                "once, in order: {numbers:?}"
            );
        }
    }

    #[test]
    fn every_element_arrives_once_whatever_the_capacity_of_the_inboxes() {
        for n_ranks in [1, 2, 3, 4] {
            everywhere(n_ranks, |world| {
                for (capacity, n) in [(1, 30), (7, 300), (64, 0), (100_000, 3000)] {
                    check(&world, capacity, n);
                }
            });
        }
    }

    #[test]
    fn a_rank_that_sends_nothing_receives_all_the_same() {
        everywhere(3, |world| {
            let mut distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
            if world.rank() == Rank::ZERO {
                for i in 0..100 {
                    distributor.send(Rank::new(2), i).unwrap();
                }
            }
            let expected = if world.rank() == Rank::new(2) {
                (0..100).collect()
            } else {
                vec![]
            };
            assert_eq!(distributor.finish().unwrap(), expected);
        });
    }

    #[test]
    fn elements_of_any_type_arrive_and_leave_no_memory_behind() {
        everywhere(3, |world| {
            for _ in 0..3 {
                let mut distributor = Distributor::<String>::with_capacity(&world, 8).unwrap();
                for i in 0..30_u32 {
                    let text = "text ".repeat(i as usize);
                    distributor.send(Rank::new(i % 3), text).unwrap();
                }
                let received = distributor.finish().unwrap();
                assert_eq!(received.len(), 30);
                assert!(
                    received
                        .iter()
                        .all(|text| text.len() / 5 % 3 == world.rank().index())
                );
            }
            world.barrier().unwrap();
            world.reclaim().unwrap();
            assert_eq!(world.local_heap_use().used, 0);
        });
    }

    #[test]
    fn bad_capacities_are_errors_on_every_rank() {
        everywhere(2, |world| {
            let error = Distributor::<u8>::with_capacity(&world, 0).unwrap_err();
            assert!(
                error.to_string().contains("capacity was to be 0"),
                "{error}"
            );
            let mine = 5 + world.rank().index();
            let error = Distributor::<u8>::with_capacity(&world, mine).unwrap_err();
            assert!(
                error.to_string().contains("rank 0 has 5, rank 1 has 6"),
                "{error}"
            );
        });
    }
}
