//! Elements that ranks pass on: the hops of a route before the last one.

use pgas_core::{Pod, Rank, Team, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::channel::Channel;
use crate::Result;
use crate::queue::Size;
use crate::route::Route;

/// An element on its way to a rank that passes it on.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub(super) struct Passed<S> {
    to: u32,
    slot: S,
}

/// A hop before the last one.
pub(super) struct Hop<S> {
    pub(super) channel: Channel<Passed<S>>,
    /// Received elements.
    held: Vec<Passed<S>>,
    /// How many of `held` have been passed on.
    n_passed_on: usize,
}

/// The lane in which an element is collected: a hop and one of its lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneId {
    pub(super) hop: usize,
    pub(super) lane: usize,
}

/// All hops of a route but the last one, in their order; none if it has only one.
pub(super) struct Passing<S> {
    pub(super) route: Route,
    /// This rank, as the route numbers them.
    here: Rank,
    pub(super) hops: Vec<Hop<S>>,
}

impl<S: Pod> Passing<S> {
    /// With inboxes of that size for each hop. Collective.
    #[track_caller]
    pub(super) fn new(team: &Team, route: Route, size: Size) -> Result<Self> {
        let n_before_last = route.n_hops() - 1;
        let hop = |hop| -> Result<Hop<S>> {
            Ok(Hop {
                channel: Channel::new(team, (&route, hop), size)?,
                held: Vec::new(),
                n_passed_on: 0,
            })
        };
        Ok(Self {
            route,
            here: Rank::new(team.rank()),
            hops: (0..n_before_last).map(hop).collect::<Result<_>>()?,
        })
    }

    /// The lane for an element for `to` that has taken the hops before `hop`: that of the next hop
    /// that leaves this rank, or of the last one.
    pub(super) fn place(&self, mut hop: usize, to: Rank) -> LaneId {
        while hop < self.hops.len() && self.route.next(hop, self.here, to) == self.here {
            hop += 1;
        }
        let lane = self.route.lane(hop, to) as usize;
        LaneId { hop, lane }
    }

    /// Collects an element at that place, if there is room.
    pub(super) fn collect(
        &mut self,
        last: &mut Channel<S>,
        (to, slot): (Rank, S),
        LaneId { hop, lane }: LaneId,
    ) -> bool {
        let Some(before_last) = self.hops.get_mut(hop) else {
            return last.collect_or_open(lane, slot);
        };
        let to = to.number();
        before_last
            .channel
            .collect_or_open(lane, Passed { to, slot })
    }

    /// Takes received elements for other ranks, and collects them for the next hop as far as there
    /// is room. Elements for this rank itself go to `slots` if their lane is full. Returns the
    /// number of elements.
    pub(super) fn pass_on(
        &mut self,
        world: &World,
        last: &mut Channel<S>,
        slots: &mut Vec<S>,
    ) -> Result<u64> {
        let mut n = 0;
        // The last hop first, so that it makes room for the elements of those before it.
        for hop in (0..self.hops.len()).rev() {
            n += self.pass_on_held(hop, world, last, slots)?;
            let Hop { channel, held, .. } = &mut self.hops[hop];
            if held.is_empty() && channel.receive_into(world, held)? > 0 {
                n += self.pass_on_held(hop, world, last, slots)?;
            }
        }
        Ok(n)
    }

    /// Collects the elements received by a hop for the next hops, until there is no room.
    fn pass_on_held(
        &mut self,
        hop: usize,
        world: &World,
        last: &mut Channel<S>,
        slots: &mut Vec<S>,
    ) -> Result<u64> {
        let n_before = self.hops[hop].n_passed_on;
        while let Some(&Passed { to, slot }) = self.hops[hop].held.get(self.hops[hop].n_passed_on) {
            let to = Rank::new(to);
            let place = self.place(hop + 1, to);
            if !self.collect(last, (to, slot), place) {
                if !self.try_ship(world, last, place, slots)? {
                    break;
                }
                continue;
            }
            self.hops[hop].n_passed_on += 1;
        }
        let Hop {
            held, n_passed_on, ..
        } = &mut self.hops[hop];
        let n = *n_passed_on - n_before;
        if *n_passed_on == held.len() {
            held.clear();
            *n_passed_on = 0;
        }
        Ok(n as u64)
    }

    /// Empties a lane, if there is room where it leads to.
    fn try_ship(
        &mut self,
        world: &World,
        last: &mut Channel<S>,
        LaneId { hop, lane }: LaneId,
        slots: &mut Vec<S>,
    ) -> Result<bool> {
        match self.hops.get_mut(hop) {
            Some(hop) => hop.channel.try_ship(world, lane),
            None if last.is_own(lane) => Ok(last.take_own(slots) > 0),
            None => last.try_ship(world, lane),
        }
    }

    /// Whether there are received elements that are not passed on yet.
    pub(super) fn holds_some(&self) -> bool {
        self.hops.iter().any(|hop| !hop.held.is_empty())
    }
}
