//! The members of a team, and the progress of its collectives on this rank.

mod runs;
mod teams;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::backend::{Backend, Group};
use crate::locks::lock;
use crate::rank::Rank;
use crate::segment::Ledgers;
use crate::team_id::{Split, TeamId};

pub(crate) use runs::Members;
pub(crate) use teams::Teams;

/// The shared state of all handles of one rank on one team.
#[derive(Debug)]
pub(crate) struct Shared {
    id: TeamId,
    made_by: Split,
    members: Members,
    /// This rank's number.
    rank: u32,
    /// The sequence number of the next collective.
    next: AtomicU64,
    /// The window of collectives that every member is known to have reached.
    window: AtomicU64,
    /// The transport's own collectives, where it has them.
    native: Option<Native>,
    /// Those of all teams of this rank.
    ledgers: Arc<Mutex<Ledgers>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.ledgers().end(self.id);
    }
}

impl Shared {
    pub(crate) fn new(
        id: TeamId,
        made_by: Split,
        members: Members,
        rank: u32,
        group: Option<Arc<dyn Group>>,
        ledgers: Arc<Mutex<Ledgers>>,
    ) -> Self {
        // A single member has nobody to send to.
        let group = group.filter(|_| members.len() > 1);
        Self {
            id,
            made_by,
            members,
            rank,
            next: AtomicU64::new(0),
            window: AtomicU64::new(0),
            native: group.map(Native::new),
            ledgers,
        }
    }

    /// The team of all ranks.
    pub(crate) fn world(backend: &dyn Backend) -> Self {
        Self::new(
            TeamId::WORLD,
            Split::NONE,
            Members::all(backend.n_ranks()),
            backend.rank().number(),
            backend.collectives(),
            Arc::default(),
        )
    }

    pub(crate) fn native(&self) -> Option<&Native> {
        self.native.as_ref()
    }

    pub(crate) fn id(&self) -> TeamId {
        self.id
    }

    /// The split that has made the team.
    pub(crate) fn made_by(&self) -> Split {
        self.made_by
    }

    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    pub(crate) fn n_ranks(&self) -> u32 {
        self.members.len()
    }

    pub(crate) fn world_rank(&self, i: u32) -> Rank {
        self.members
            .rank(i)
            .expect("algorithms count modulo the number of members")
    }

    /// The symmetric allocations of this rank's teams.
    pub(crate) fn ledgers(&self) -> MutexGuard<'_, Ledgers> {
        lock(&self.ledgers)
    }

    /// A handle on them, for a new team.
    pub(crate) fn share_ledgers(&self) -> Arc<Mutex<Ledgers>> {
        Arc::clone(&self.ledgers)
    }

    /// The first member's rank, and the distance from one member to the next, if it is the same for
    /// all.
    pub(crate) fn spacing(&self) -> Option<(u32, i32)> {
        self.members.spacing()
    }

    /// The rank of member `i`, if there is one.
    #[inline]
    pub(crate) fn find(&self, i: u32) -> Option<Rank> {
        self.members.rank(i)
    }

    /// The number of `rank` in the team, if it is a member.
    pub(crate) fn position(&self, rank: Rank) -> Option<u32> {
        self.members.position(rank)
    }

    /// The sequence number of a collective that begins.
    pub(crate) fn take_number(&self) -> u64 {
        // A count: it orders nothing. One thread at a time calls a team's collectives.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of collectives that this rank has begun.
    pub(crate) fn n_begun(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The last window that every member is known to have reached.
    pub(crate) fn window(&self) -> u64 {
        // Pairs with `reach_window`; a count, which orders nothing else.
        self.window.load(Ordering::Relaxed)
    }

    /// Notes that every member has reached `window`.
    pub(crate) fn reach_window(&self, window: u64) {
        self.window.fetch_max(window, Ordering::Relaxed);
    }
}

/// The transport's side of a team.
#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) group: Arc<dyn Group>,
    /// The next ticket.
    pub(crate) tickets: AtomicU64,
    /// The ticket that may begin now.
    pub(crate) turn: AtomicU64,
}

impl Native {
    fn new(group: Arc<dyn Group>) -> Self {
        Self {
            group,
            tickets: AtomicU64::new(0),
            turn: AtomicU64::new(0),
        }
    }
}
