//! One hop of elements: lanes that collect outgoing elements, and an inbox for incoming ones.

use std::thread;

use pgas_am::DistObject;
use pgas_core::{Error, Pod, Rank, Symmetric, Team, World};

use crate::Result;
use crate::mail::{self, Inbox};
use crate::queue::{Access, QueueBlock, Request, Seen, Size, Tickets, index, layout};
use crate::route::Route;

/// Elements of one push take this many bytes, if the inbox is not too small.
const BATCH_BYTES: usize = 32 << 10;
/// The bits of a total that count elements. The bits above them count the ranks that have told
/// their number.
const COUNT_BITS: u32 = 40;

/// How a rank has dropped its channel, in its third word. 0 if it has not.
const DROPPED: u64 = 1;
const PANICKED: u64 = 2;

/// Carries elements to the ranks that a hop of a route leads to.
pub(super) struct Channel<S> {
    way: Way<S>,
    /// One lane for each value of the hop's digit.
    lanes: Vec<Lane<S>>,
    /// The index of the lane for this rank itself.
    own: usize,
    /// The number of elements that travel together.
    batch: usize,
    route: Route,
    hop: usize,
    /// The number of ranks that send to this one, itself included.
    n_sources: u32,
    /// The number of elements received from other ranks.
    n_from_others: u64,
    /// The number of completed rounds.
    n_rounds: u64,
}

/// The transport of elements to other ranks.
enum Way<S> {
    Queues(Queues),
    Messages(DistObject<Inbox<S>>),
}

/// Inboxes in global memory.
struct Queues {
    /// The block of an inbox on each rank.
    inboxes: Symmetric<u8>,
    /// On each rank, the number of elements that it gets from those other ranks that have finished
    /// sending; over all rounds, modulo 2^64. Behind it, the number of rounds in which the rank
    /// itself has, and whether it has dropped its channel.
    totals: Symmetric<u64>,
    size: Size,
    /// The known bounds of this rank's own inbox.
    seen: Seen,
}

/// Outgoing elements for one rank.
struct Lane<S> {
    /// The rank, if there is one.
    to: Option<Rank>,
    /// Room for a batch, allocated with the first element.
    slots: Vec<S>,
    /// The number of collected elements.
    len: usize,
    seen: Seen,
    /// The number of elements sent in this round.
    n_sent: u64,
    /// The number of messages sent.
    n_messages: u64,
}

impl<S> Lane<S> {
    fn collected(&self) -> &[S] {
        &self.slots[..self.len]
    }
}

/// The most bytes of elements that travel together.
pub(super) fn message_bytes(world: &World) -> usize {
    let capabilities = world.capabilities();
    if capabilities.ranks_serve_atomics() {
        capabilities.max_medium
    } else {
        BATCH_BYTES
    }
}

impl<S: Pod> Channel<S> {
    /// For a hop of `route`, with inboxes of that size. Collective.
    #[track_caller]
    pub(super) fn new(team: &Team, (route, hop): (&Route, usize), size: Size) -> Result<Self> {
        let here = Rank::new(team.rank());
        let rank = |member: Rank| team.world_rank(member.number());
        let lane = |lane| Lane {
            to: route.target(hop, here, lane).map(rank),
            slots: Vec::new(),
            len: 0,
            seen: Seen::default(),
            n_sent: 0,
            n_messages: 0,
        };
        let world = team.world();
        let capabilities = world.capabilities();
        let are_messages = capabilities.ranks_serve_atomics();
        let inbox = are_messages.then(|| DistObject::new(team, Inbox::new()));
        let (way, batch) = match inbox {
            Some(Ok(inbox)) => {
                let most = Inbox::<S>::most(message_bytes(world));
                (Way::Messages(inbox), most)
            }
            // To a world without messages none was attached, on all ranks.
            Some(Err(_)) | None => {
                let (bytes, align) = layout::<S>(size, true);
                let queues = Queues {
                    inboxes: team.alloc_symmetric_aligned(bytes, align)?,
                    totals: team.alloc_symmetric(3)?,
                    size,
                    seen: Seen::default(),
                };
                let most = BATCH_BYTES / size_of::<S>().max(1);
                (Way::Queues(queues), most.min(index(size.capacity)).max(1))
            }
        };
        Ok(Self {
            way,
            lanes: (0..route.n_lanes_of(hop)).map(lane).collect(),
            own: route.lane(hop, here) as usize,
            batch,
            route: *route,
            hop,
            n_sources: route.n_sources(hop, here),
            n_from_others: 0,
            n_rounds: 0,
        })
    }

    /// A number that identifies this channel, the same on all ranks.
    pub(super) fn identity(&self) -> u64 {
        match &self.way {
            Way::Queues(queues) => queues.totals.member(0).to_bits(),
            Way::Messages(inbox) => inbox.number(),
        }
    }

    /// Bytes of the lanes that were used.
    #[cfg(test)]
    pub(super) fn lanes_bytes(&self) -> usize {
        let slots = self.lanes.iter().map(|lane| lane.slots.capacity());
        slots.sum::<usize>() * size_of::<S>()
    }

    /// Collects an element in a lane. Returns false if there is no such lane, or no room in it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of most sends")]
    pub(super) fn collect(&mut self, lane: usize, slot: S) -> bool {
        // Elements for this rank are collected, too: if half of all elements stay here, a branch on
        // that would be mispredicted half of the time.
        let Some(lane) = self.lanes.get_mut(lane) else {
            return false;
        };
        let Some(place) = lane.slots.get_mut(lane.len) else {
            return false;
        };
        *place = slot;
        lane.len += 1;
        true
    }

    /// As [`collect`](Self::collect), and allocates the room of the lane, if it has none yet.
    pub(super) fn collect_or_open(&mut self, lane: usize, slot: S) -> bool {
        self.collect(lane, slot) || self.open(lane) && self.collect(lane, slot)
    }

    /// Allocates the room of a lane, if it has none yet. Returns whether it had none.
    pub(super) fn open(&mut self, lane: usize) -> bool {
        let slots = &mut self.lanes[lane].slots;
        if !slots.is_empty() {
            return false;
        }
        slots.resize_with(self.batch, S::new_zeroed);
        true
    }

    /// Whether that lane is for this rank itself.
    pub(super) fn is_own(&self, lane: usize) -> bool {
        lane == self.own
    }

    /// The rank that a lane is for.
    pub(super) fn to(&self, lane: usize) -> Rank {
        self.lanes[lane].to.expect("elements are for ranks")
    }

    /// Sends the elements of another rank's lane, unless its inbox is full. A message waits for
    /// room instead.
    pub(super) fn try_ship(&mut self, world: &World, lane: usize) -> Result<bool> {
        match &self.way {
            Way::Messages(_) => self.post(lane, 0).map(|()| true),
            Way::Queues(_) => self.try_push(world, lane),
        }
    }

    /// Sends the elements of a lane by a message that also carries `told`.
    fn post(&mut self, lane: usize, told: u64) -> Result<()> {
        let to = self.to(lane);
        let Way::Messages(inbox) = &self.way else {
            unreachable!("elements go by messages");
        };
        let lane = &mut self.lanes[lane];
        mail::send(inbox, to, (lane.n_messages, told), lane.collected())?;
        lane.n_messages += 1;
        lane.n_sent += lane.len as u64;
        lane.len = 0;
        Ok(())
    }

    fn try_push(&mut self, world: &World, lane: usize) -> Result<bool> {
        let to = self.to(lane);
        let Way::Queues(queues) = &self.way else {
            unreachable!("elements go to queues");
        };
        let lane = &mut self.lanes[lane];
        let access = queues.access::<S>(world, to);
        let slots = lane.collected();
        let write = |tickets| access.place.write(access.world, tickets, slots);
        let request = Request::push(slots.len(), true);
        let mut seen = lane.seen;
        let pushed = access.perform(&mut seen, request, write)?;
        lane.seen = seen;
        if let Some(n) = pushed {
            lane.n_sent += n;
            lane.len = 0;
        }
        Ok(pushed.is_some())
    }

    /// Appends to `slots` the elements collected for this rank itself and those in its inbox.
    /// Returns their number.
    pub(super) fn receive_into(&mut self, world: &World, slots: &mut Vec<S>) -> Result<u64> {
        // First, since what others have sent need not be copied if `slots` is empty.
        let n = self.receive_from_others(world, slots)?;
        self.n_from_others += n;
        Ok(n + self.take_own(slots))
    }

    /// Appends to `slots` the elements collected for this rank itself. Returns their number.
    pub(super) fn take_own(&mut self, slots: &mut Vec<S>) -> u64 {
        let own = &mut self.lanes[self.own];
        slots.extend_from_slice(own.collected());
        std::mem::take(&mut own.len) as u64
    }

    fn receive_from_others(&mut self, world: &World, slots: &mut Vec<S>) -> Result<u64> {
        let queues = match &mut self.way {
            Way::Messages(inbox) => {
                let n = inbox.take_to(slots);
                if n > 0 {
                    return Ok(n);
                }
                world.serve_once()?;
                return Ok(inbox.take_to(slots));
            }
            Way::Queues(queues) => queues,
        };
        let mut seen = queues.seen;
        let access = queues.access::<S>(world, world.rank());
        let read = |tickets: Tickets| {
            let start = slots.len();
            // At most a batch at a time: the zeros are overwritten while they are in the cache.
            slots.resize_with(start + index(tickets.n), S::new_zeroed);
            let read = access
                .place
                .read(access.world, tickets, &mut slots[start..]);
            read.inspect_err(|_| slots.truncate(start))
        };
        let popped = access.perform(&mut seen, Request::pop(self.batch, true), read);
        queues.seen = seen;
        Ok(popped?.unwrap_or(0))
    }

    /// All lanes, from the one behind this rank's own on, so that not all ranks send to the same
    /// rank at once. Its own is the last: what others wait for is on its way before.
    pub(super) fn lanes_in_turn(&self) -> impl Iterator<Item = usize> + use<S> {
        let n = self.lanes.len();
        let own = self.own;
        (1..=n).map(move |distance| (own + distance) % n)
    }

    /// Whether that lane leads to a rank.
    pub(super) fn leads_somewhere(&self, lane: usize) -> bool {
        self.lanes[lane].to.is_some()
    }

    /// Whether elements have to be sent before the lane's rank can be [told](Self::tell).
    pub(super) fn is_to_be_shipped(&self, lane: usize) -> bool {
        let is_message = matches!(self.way, Way::Messages(_));
        self.lanes[lane].len > 0 && (self.is_own(lane) || !is_message)
    }

    /// Tells the rank of a lane how many elements it gets from this rank. All must have been sent;
    /// a message carries the rest itself.
    pub(super) fn tell(&mut self, world: &World, lane: usize) -> Result<()> {
        let to = self.to(lane);
        let is_own = self.is_own(lane);
        let there = &mut self.lanes[lane];
        let n_sent = std::mem::take(&mut there.n_sent);
        let word = 1 << COUNT_BITS | n_sent;
        match &self.way {
            _ if is_own => {}
            Way::Queues(queues) => {
                queues.totals.on(to).fetch_add(world, word)?;
            }
            Way::Messages(_) => {
                let n_left = there.len as u64;
                self.post(lane, word + n_left)?;
                self.lanes[lane].n_sent = 0;
            }
        }
        Ok(())
    }

    /// Ends the round: this rank has told all others.
    pub(super) fn end_round(&mut self, world: &World) -> Result<()> {
        self.n_rounds += 1;
        if let Way::Queues(queues) = &self.way {
            let rounds = queues.totals.here().add(1);
            rounds.atomic_store(world, self.n_rounds)?;
        }
        Ok(())
    }

    /// Whether all ranks that send to this one have told it their numbers, and all these elements
    /// have arrived.
    pub(super) fn has_all(&self, world: &World) -> Result<bool> {
        let n_others = u64::from(self.n_sources - 1);
        let all_told = self.n_rounds.wrapping_mul(n_others) << COUNT_BITS;
        let total = match &self.way {
            Way::Messages(inbox) => inbox.told(),
            Way::Queues(queues) => queues.totals.here().atomic_load(world)?,
        };
        Ok(total == all_told.wrapping_add(self.n_from_others))
    }

    /// Tells those that wait for this rank that it drops the channel. Nobody waits any more if it
    /// has `finished`. Messages may wait for room, and run functions of the program meanwhile. So a
    /// rank that panics sends none, but fails.
    pub(super) fn tell_drop(&self, world: &World, has_finished: bool) -> Result<()> {
        let inbox = match &self.way {
            Way::Queues(queues) => {
                let how = if thread::panicking() {
                    PANICKED
                } else {
                    DROPPED
                };
                queues.totals.here().add(2).atomic_store(world, how)?;
                return Ok(());
            }
            Way::Messages(_) if has_finished => return Ok(()),
            Way::Messages(_) if thread::panicking() => {
                let how = "panicked before it had finished its distributor";
                return Err(Error::rank_failed(world.rank(), how));
            }
            Way::Messages(inbox) => inbox,
        };
        for (lane, there) in self.lanes.iter().enumerate() {
            let Some(to) = there.to.filter(|_| !self.is_own(lane)) else {
                continue;
            };
            match mail::tell_drop(inbox, to, there.n_messages) {
                // It waits for nothing: it has left, or the job has failed.
                Err(Error::RankFailed(failure)) if failure.rank == to => {}
                told => told?,
            }
        }
        Ok(())
    }

    /// Why nothing more comes of `rank`, and there will be no room in its inbox, if that is so. A
    /// message needs no room there.
    pub(super) fn end_of(&self, world: &World, rank: Rank) -> Result<Option<&'static str>> {
        // Asked first: a rank that drops its distributor does so before it leaves.
        let has_left = world.has_left(rank);
        let dropped = match &self.way {
            Way::Messages(inbox) => u64::from(inbox.is_dropped_by(rank)),
            Way::Queues(queues) => queues.totals.on(rank).add(2).atomic_load(world)?,
        };
        Ok(match (dropped, has_left) {
            (0, false) => None,
            (0, true) => Some("has left the job"),
            (PANICKED, _) => Some("has panicked, and dropped its distributor"),
            (_, false) => Some("has dropped its distributor"),
            (_, true) => Some("has dropped its distributor and left the job"),
        })
    }

    /// A rank that sends to this one, and has left the job, or dropped the channel, before it has
    /// told its number: it is waited for in vain. And why that is so.
    pub(super) fn departed(&self, team: &Team) -> Result<Option<(Rank, &'static str)>> {
        let (world, here) = (team.world(), Rank::new(team.rank()));
        let sources = self.route.sources(self.hop, here);
        for member in sources.filter(|member| *member != here) {
            let rank = team.world_rank(member.number());
            // Asked first: what the rank has told before it left is seen below.
            let Some(why) = self.end_of(world, rank)? else {
                continue;
            };
            let n_told = match &self.way {
                Way::Messages(inbox) => inbox.n_told_by(rank),
                Way::Queues(queues) => queues.totals.on(rank).add(1).atomic_load(world)?,
            };
            if n_told < self.n_rounds {
                return Ok(Some((rank, why)));
            }
        }
        Ok(None)
    }
}

impl Queues {
    fn access<'w, S>(&self, world: &'w World, on: Rank) -> Access<'w> {
        let place = QueueBlock::new::<S>(self.inboxes.on(on), self.size);
        Access {
            world,
            place,
            slot_bytes: size_of::<S>(),
        }
    }
}
