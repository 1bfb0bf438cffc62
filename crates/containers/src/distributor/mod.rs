//! Many-to-many redistribution without a barrier: every rank sends elements to ranks of their
//! choice.
//!
//! Each rank has an inbox, a [queue](crate::queue) that all others push to. The sender collects
//! elements for one rank until there are enough for one push. A rank that meets a full inbox
//! empties its own one first, so no circle of ranks waits for each other. A rank that has sent all
//! its elements tells every other rank the number of elements for it (A each). A rank is done when
//! all have told it, and it has received the sum of these numbers.
//!
//! Where ranks serve atomics by messages, a push would be three round trips. There the elements
//! travel in [messages](crate::mail), several of which are in flight at once.
//!
//! Among many ranks elements take a [route](crate::route) of two or three hops. Each hop is such an
//! exchange with inboxes of its own, among the ranks that it leads to, and a rank that has received
//! all of one hop tells those of the next one. There is no deadlock: a rank always takes what has
//! come by the last hop, so what has come by the hop before it is passed on sooner or later.

mod channel;
mod passing;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pgas_core::{AsTeam, Event, Member, Pod, Rank, Team, World, keep_line, part_of_object};
use zerocopy::FromZeros as _;

use self::channel::{Channel, message_bytes};
use self::passing::{LaneId, Passing};
use crate::error::{extremes, give_up, same};
use crate::object::{self, Heap, Object, SlotOf, Unused};
use crate::queue::{Size, size_of_capacity};
use crate::route::{Model, Route, Shape};
use crate::{Error, Result, TakeError};

/// What fails when there will never be room in the inbox of a rank.
const SENDING: &str = "sending by a distributor";
/// Pauses of a wait in which a failure of the job is reported, for which a rank may have left.
const PAUSES_TO_FAILURE: u32 = 8;
/// Pauses of a wait for others between two looks whether one of them has left.
const PAUSES_PER_LOOK: u32 = 64;
/// What fails when a rank cannot be told how many elements it gets.
const TELLING: &str = "telling what a distributor has sent";
/// What fails when an element that has come cannot be received.
const RECEIVING: &str = "receiving by a distributor";
const FINISHING: &str = "the finishing of a distributor";

/// Sends elements to other ranks and receives those that are for this one.
///
/// Each rank sends its elements and then calls [`finish`](Self::finish), which returns the elements
/// that were sent to this rank. Elements of one sender arrive in their order; those of several
/// senders arrive in any order.
///
/// Nothing is lost and nothing comes twice, whatever the capacity of the inboxes. A rank that
/// neither sends nor finishes for long holds up the ranks that send to it, once its inbox is full.
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
///
/// Elements are taken while others still send:
///
/// ```
/// use pgas_containers::Distributor;
///
/// # let world = pgas_core::backend::loopback::world();
/// let mut distributor = Distributor::<u64>::with_capacity(&world, 100)?; // collective
/// let mut received = Vec::new();
/// for i in 0..1000 {
///     distributor.send(distributor.team().world_rank(0), i)?;
///     received.extend(distributor.poll()?);
/// }
/// assert_eq!(distributor.world().n_ranks(), 1);
/// received.extend(distributor.finish()?); // collective
/// assert!(received.into_iter().eq(0..1000)); // of the one rank of this example
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct Distributor<T: Object, M = Rank> {
    team: Team,
    heap: Arc<Heap>,
    /// Takes elements to their ranks.
    last: Channel<SlotOf<T>>,
    /// The elements that this rank passes on.
    passing: Passing<SlotOf<T>>,
    /// Zero if elements go directly to their ranks: then a rank's number is that of its lane.
    /// Otherwise all bits, which is no lane.
    routed_mask: usize,
    received: Vec<SlotOf<T>>,
    /// The element that found no room. It is not handed on from the stack of who sends: an element
    /// whose address is known lies there, stored field by field, and would be copied to its lane as
    /// a whole. Processors do not load together what was just stored in parts; that took 5 ns.
    waiting: SlotOf<T>,
    /// Whether the last round is over: no rank waits for this one any more.
    has_finished: bool,
    /// Whether no round follows in which a rank could send what it has not sent in this one.
    is_last_round: bool,
    member: PhantomData<fn(M)>,
}

/// The arguments of a distributor, on which all ranks agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    size: Size,
    route: Route,
}

impl<T: Object, M: Member> Distributor<T, M> {
    /// A distributor whose inboxes have room for `capacity` elements.
    ///
    /// The memory of an inbox does not depend on the number of ranks. A rank also has a buffer of
    /// up to 32 KiB for each rank that it sends to. Where [ranks serve
    /// atomics](pgas_core::backend::Capabilities::ranks_serve_atomics) elements travel by messages,
    /// which wait for the receiver to make progress. An inbox then grows as needed, and its
    /// capacity has no effect.
    ///
    /// The number of hops follows from the number of ranks and of those that share a host, by
    /// [`Model::choose`](crate::route::Model::choose), unless `PGAS_ROUTE` sets it. Up to some
    /// hundred ranks it is one. With more ranks, a rank sends only to those of its row and its
    /// column, and passes on what comes from them: of 65,536 ranks to 512, with buffers of 16 MiB
    /// instead of 2 GiB. There is an inbox for each hop.
    ///
    /// # Cost
    ///
    /// 2B + 3 allreduces. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Argument`](crate::Error::Argument) if the capacity is 0 or over
    /// 2^31, [`Error::Mismatch`](crate::Error::Mismatch) if the ranks give different ones, or
    /// different settings, [`Exhausted`](pgas_core::Error::Exhausted) if the symmetric heap has no
    /// room.
    #[track_caller]
    pub fn with_capacity(on: &impl AsTeam<Member = M>, capacity: usize) -> Result<Self> {
        let team = on.as_team();
        let plan = agree_on_plan(&team, capacity)?;
        Self::with_heap(&team, plan, Arc::new(Heap::of::<T>(&team)?))
    }

    /// As [`with_capacity`](Self::with_capacity), by a plan that was agreed on. Long elements lie
    /// in `heap`, which the caller may share with another container.
    #[track_caller]
    pub(crate) fn with_heap(team: &Team, plan: Plan, heap: Arc<Heap>) -> Result<Self> {
        let Plan { size, route } = plan;
        let n_hops = route.n_hops();
        Ok(Self {
            team: team.clone(),
            heap,
            last: Channel::new(team, (&route, n_hops - 1), size)?,
            passing: Passing::new(team, route, size)?,
            routed_mask: if n_hops == 1 { 0 } else { usize::MAX },
            received: Vec::new(),
            waiting: SlotOf::<T>::new_zeroed(),
            has_finished: false,
            is_last_round: false,
            member: PhantomData,
        })
    }

    /// The world whose ranks exchange elements.
    #[must_use]
    pub fn world(&self) -> &World {
        self.team.world()
    }

    /// The team whose members exchange elements.
    #[must_use]
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Sends `value` to `to`, now or with later ones: to a [`Rank`] if the distributor was made on
    /// the world, to the number of a member if on a team.
    ///
    /// # Cost
    ///
    /// ℓ, and once for every 32 KiB 2A + W, as
    /// [`CircularQueue::push_slice`](crate::CircularQueue::push_slice), one-sided; or M without an
    /// answer. By a route of several hops as much for each hop, paid by the rank that passes it on.
    /// Waits for room in the other rank's inbox, or for messages, and receives meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if the value cannot be encoded; errors of the
    /// transport; the failure of the job while waiting, also if a rank with a full inbox has left,
    /// or has dropped its distributor.
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
    pub fn send(&mut self, to: M, value: T) -> Result<()> {
        let to = to.number();
        if self.collect(to, &value)? {
            return Ok(());
        }
        let _line = keep_line();
        self.ship_before(to, &mut Self::receive).map(drop)
    }

    /// Collects an element for member `to`, if it needs one hop, and there is room until the others
    /// are shipped. If not, call [`ship_before`](Self::ship_before).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of most sends")]
    pub(crate) fn collect(&mut self, to: u32, value: &T) -> Result<bool> {
        let slot = object::to_slot(value, &self.heap)?;
        if self.last.collect(to as usize | self.routed_mask, slot) {
            return Ok(true);
        }
        self.waiting = slot;
        Ok(false)
    }

    /// Collects the element for member `to` that [`collect`](Self::collect) has refused. If there
    /// is no room, it first sends the elements that are collected for `to`, or that take the same
    /// next hop. While the inbox of the next rank is full, or if it is this rank's, `receive` has
    /// to [take](Self::receive_into) received elements and return their number. Returns whether
    /// elements were sent to another rank.
    #[inline(never)]
    #[track_caller]
    pub(crate) fn ship_before(
        &mut self,
        to: u32,
        receive: &mut dyn FnMut(&mut Self) -> Result<u64>,
    ) -> Result<bool> {
        let slot = self.waiting;
        self.assert_member(to, &slot);
        let to = Rank::new(to);
        let place = self.passing.place(0, to);
        let collect = |this: &mut Self| this.passing.collect(&mut this.last, (to, slot), place);
        if collect(self) {
            return Ok(false);
        }
        let (heap, slots) = (Arc::clone(&self.heap), [slot]);
        // The element is refused after an error, and after a panic in a wait.
        let mut unused = Unused::<T>::new(&slots, &heap);
        self.ship_lane(place, receive)?;
        unused.keep();
        assert!(collect(self), "there is room now");
        Ok(!self.is_own(place))
    }

    /// Panics if there is no member `to`, for which the element in `slot` is.
    #[track_caller]
    fn assert_member(&self, to: u32, slot: &SlotOf<T>) {
        let n = self.team.n_ranks();
        if to < n {
            return;
        }
        self.release(slot);
        let what = if self.team.is_world() {
            "rank"
        } else {
            "member"
        };
        panic!("{what} {to} was named, but there are only {n}");
    }

    /// Releases the memory of an element that is not sent.
    fn release(&self, slot: &SlotOf<T>) {
        // A failure to do so is no news: the element is given up for another one.
        let _released = object::release::<T>(slot, &self.heap);
    }

    #[track_caller]
    fn ship_lane(
        &mut self,
        place: LaneId,
        receive: &mut dyn FnMut(&mut Self) -> Result<u64>,
    ) -> Result<()> {
        if self.is_own(place) {
            return receive(self).map(drop);
        }
        if self.try_ship(place)? {
            return Ok(());
        }
        let (world, to) = (self.world().clone(), self.target(place));
        let missing = || vec![to];
        let mut waiting = world
            .own_wait("room in the inbox of a distributor")
            .with_short_rounds();
        let mut n_left = 0;
        while !self.try_ship(place)? {
            if receive(self)? > 0 {
                continue;
            }
            // The rank may have made room and then left: more attempts follow.
            if let Some(why) = self.end_of(place)? {
                n_left += 1;
                if n_left > PAUSES_TO_FAILURE {
                    let cause = format!("{why} while others wait for room in its inbox");
                    return Err(give_up(&world, SENDING, Error::rank_failed(to, &cause)));
                }
            }
            waiting.pause(&missing)?;
        }
        Ok(())
    }

    /// Whether a lane is for this rank itself.
    fn is_own(&self, place: LaneId) -> bool {
        place.hop == self.passing.hops.len() && self.last.is_own(place.lane)
    }

    fn try_ship(&mut self, LaneId { hop, lane }: LaneId) -> Result<bool> {
        match self.passing.hops.get_mut(hop) {
            Some(hop) => hop.channel.try_ship(self.team.world(), lane),
            None => self.last.try_ship(self.team.world(), lane),
        }
    }

    /// Why there will be no room where a lane leads to, if that is so.
    fn end_of(&self, place: LaneId) -> Result<Option<&'static str>> {
        let (world, to) = (self.team.world(), self.target(place));
        match self.passing.hops.get(place.hop) {
            Some(hop) => hop.channel.end_of(world, to),
            None => self.last.end_of(world, to),
        }
    }

    /// The rank that a lane leads to.
    fn target(&self, LaneId { hop, lane }: LaneId) -> Rank {
        match self.passing.hops.get(hop) {
            Some(hop) => hop.channel.to(lane),
            None => self.last.to(lane),
        }
    }

    /// Appends to `slots` the elements collected for this rank itself and those in its inbox, and
    /// passes on those for others. Returns the number of elements.
    pub(crate) fn receive_into(&mut self, slots: &mut Vec<SlotOf<T>>) -> Result<u64> {
        let Self {
            team,
            last,
            passing,
            ..
        } = self;
        receive(team.world(), (passing, last), slots)
    }

    /// Receives elements. Returns their number.
    fn receive(&mut self) -> Result<u64> {
        // What was received before stays in its place: a handler may panic meanwhile.
        let Self {
            team,
            last,
            passing,
            received,
            ..
        } = self;
        receive(team.world(), (passing, last), received)
    }

    /// Sends the remaining elements, waits until all ranks have sent the elements for this one, and
    /// returns them.
    ///
    /// # Cost
    ///
    /// A for each rank that this one sends to, and 2A + W if there are elements left for it; for
    /// what is received, that of [`CircularQueue::pop_many`](crate::CircularQueue::pop_many). Or M
    /// without an answer for each such rank. These are all ranks, or by a route of several hops
    /// about the square root of their number for each of two hops, and the cube root for each of
    /// three. Collective over the team, without a barrier: a rank returns as soon as it has its own
    /// elements, and has passed on those for others.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), and [`Error::Codec`](crate::Error::Codec) if a received element
    /// cannot be read. That element is gone; the error has the others. The error is this rank's
    /// alone, and other ranks do not learn of it. But an error of the transport, or the end of a
    /// limit, while others wait for this rank or its elements fails the job, as does a rank that
    /// leaves the job, or drops its distributor, without finishing. In a handler
    /// [`InHandler`](pgas_core::Error::InHandler), and the distributor is dropped.
    #[track_caller]
    pub fn finish(mut self) -> Result<Vec<T>, TakeError<T>> {
        // Those who wait for this rank are told that it drops its distributor.
        pgas_core::refuse_in_handler(FINISHING)?;
        self.is_last_round = true;
        let finished = self.finish_round(&mut Self::receive);
        self.end();
        match (finished, self.take_received()) {
            (Ok(()), received) => received,
            (Err(error), Ok(taken)) => Err(TakeError::new(taken, 0, error)),
            (Err(error), Err(received)) => {
                Err(TakeError::new(received.taken, received.lost.n, error))
            }
        }
    }

    /// Receives the elements that have come and returns them, without waiting for others to come.
    /// Elements for other ranks are passed on, for which it may wait until there is room, as
    /// [`send`](Self::send) does.
    ///
    /// # Cost
    ///
    /// As [`CircularQueue::pop_many`](crate::CircularQueue::pop_many), and by a route of several
    /// hops that of [`send`](Self::send) for what is passed on. One-sided.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    #[track_caller]
    pub fn poll(&mut self) -> Result<Vec<T>, TakeError<T>> {
        let _line = keep_line();
        self.receive()?;
        self.take_received()
    }

    /// Sends the rest, and waits until all ranks have sent the elements for this one; `receive` as
    /// for [`ship`](Self::ship). A next round of elements may begin after a further collective of
    /// all ranks.
    #[track_caller]
    pub(crate) fn finish_round(
        &mut self,
        receive: &mut dyn FnMut(&mut Self) -> Result<u64>,
    ) -> Result<()> {
        let object = self.last.identity();
        let _waits = part_of_object(FINISHING, object);
        let team = self.team.clone();
        let _step = team.world().in_step(FINISHING);
        // This rank receives while the others arrive, since they may wait for room in its inbox.
        let mut same = Some(
            self.team
                .agree_nb("the distributor that is finished", object),
        );
        let mut outcome = Ok(());
        for hop in 0..self.passing.hops.len() {
            let finished = self.finish_hop(
                hop,
                |from| &mut from.passing.hops[hop].channel,
                receive,
                &mut same,
            )?;
            outcome = outcome.and(finished);
        }
        let last = self.passing.hops.len();
        outcome = outcome.and(self.finish_hop(last, |from| &mut from.last, receive, &mut same)?);
        same.map_or(Ok(()), Event::wait)?;
        outcome
    }

    /// Sends the rest of a hop, and waits until all ranks have sent this one its elements of the
    /// hop, and until those are passed on. The inner result is that of the passing.
    #[track_caller]
    fn finish_hop<S: Pod>(
        &mut self,
        hop: usize,
        channel: impl Fn(&mut Self) -> &mut Channel<S>,
        receive: &mut dyn FnMut(&mut Self) -> Result<u64>,
        same: &mut Option<Event<()>>,
    ) -> Result<Result<()>> {
        let world = self.world().clone();
        let mut outcome = Ok(());
        for lane in channel(self).lanes_in_turn() {
            if !channel(self).leads_somewhere(lane) {
                continue;
            }
            if channel(self).is_to_be_shipped(lane) {
                let shipped = self.ship_lane(LaneId { hop, lane }, receive);
                if self.is_last_round {
                    // The others would end well without these elements.
                    shipped.map_err(|error| give_up(&world, SENDING, error))?;
                } else {
                    outcome = outcome.and(shipped);
                }
            }
            // A rank that is not told waits for ever.
            let told = channel(self).tell(&world, lane);
            told.map_err(|error| give_up(&world, TELLING, error))?;
        }
        let told = channel(self).end_round(&world);
        told.map_err(|error| give_up(&world, TELLING, error))?;
        let mut waiting = world
            .own_wait("what others send by a distributor")
            .with_short_rounds();
        let team = self.team.clone();
        // Who had left at the last look: if it was for a failure of the job, a pause reports that.
        let (mut n_pauses, mut departed) = (0, None);
        loop {
            // While this rank receives the others wait for room in its inbox.
            let received = receive(self).map_err(|error| give_up(&world, RECEIVING, error))?;
            if received > 0 {
                waiting.begin_anew();
            }
            if let Some(agreed) = same
                && agreed.is_complete()?
            {
                same.take().map_or(Ok(()), Event::wait)?;
            }
            let has_all = channel(self).has_all(&world);
            if has_all.map_err(|error| give_up(&world, RECEIVING, error))?
                && !self.passing.holds_some()
            {
                return Ok(outcome);
            }
            if received > 0 {
                continue;
            }
            n_pauses += 1;
            if u32::is_multiple_of(n_pauses, PAUSES_PER_LOOK) {
                let now = channel(self).departed(&team);
                let now = now.map_err(|error| give_up(&world, RECEIVING, error))?;
                if let Some((rank, why)) = now.filter(|_| now == departed) {
                    let cause = format!("{why}, and others wait for what it sends");
                    return Err(give_up(&world, RECEIVING, Error::rank_failed(rank, &cause)));
                }
                departed = now;
            }
            let paused = waiting.pause(&Vec::new);
            paused.map_err(|error| give_up(&world, RECEIVING, error))?;
        }
    }

    /// After the last round. A round that fails has told the others.
    pub(crate) fn end(&mut self) {
        self.has_finished = true;
    }

    fn take_received(&mut self) -> Result<Vec<T>, TakeError<T>> {
        object::take_all(std::mem::take(&mut self.received), &self.heap)
    }
}

/// As [`Distributor::receive_into`].
fn receive<S: Pod>(
    world: &World,
    (passing, last): (&mut Passing<S>, &mut Channel<S>),
    slots: &mut Vec<S>,
) -> Result<u64> {
    let n_passed_on = passing.pass_on(world, last, slots)?;
    Ok(n_passed_on + last.receive_into(world, slots)?)
}

/// A plan for inboxes with room for `capacity` elements, which all ranks ask for. Collective.
#[track_caller]
pub(crate) fn agree_on_plan(team: &Team, capacity: usize) -> Result<Plan> {
    let world = team.world();
    let wanted = world.config().routing;
    let [least, most] = Shape::seen_by(team);
    let code = wanted.map_or(0, |routing| routing as u64 + 1);
    let [capacities, routings, [(_, least), _], [_, (_, most)]] =
        extremes(team, [capacity as u64, code, least, most])?;
    same("the capacity of a distributor", capacities)?;
    same("the hops of PGAS_ROUTE, from 1 on", routings)?;
    let shape = Shape::agreed(team.n_ranks(), [least, most]);
    let size = size_of_capacity("an inbox of a distributor", capacity)?;
    let message_bytes = message_bytes(world) as u64;
    let route = Model::shipped().choose(shape, message_bytes, wanted);
    Ok(Plan { size, route })
}

/// Others that wait for this rank are told, or the job fails. So it is if the rank panics: the
/// program may catch the panic.
impl<T: Object, M> Drop for Distributor<T, M> {
    fn drop(&mut self) {
        const WHAT: &str = "telling that a distributor is dropped";
        let world = self.team.world();
        if world.is_forked() {
            return;
        }
        // Messages may wait for room, and handlers and chained actions that run meanwhile may
        // panic: then the others are not told.
        let _step = (!self.has_finished).then(|| world.in_step(WHAT));
        let mut hops = self.passing.hops.iter();
        let told = hops.try_for_each(|hop| hop.channel.tell_drop(world, self.has_finished));
        let told = told.and_then(|()| self.last.tell_drop(world, self.has_finished));
        if let Err(error) = told {
            // The job's error: each rank's next call returns it.
            let _told = give_up(world, WHAT, error);
        }
    }
}

impl<T: Object, M> fmt::Debug for Distributor<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.received.len();
        write!(
            f,
            "Distributor({n} received on rank {})",
            self.team.world().rank()
        )
    }
}

#[cfg(test)]
mod tests;
