//! The members of a team, and the progress of its collectives on this rank.

mod runs;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::backend::{Backend, Group};
use crate::locks::lock;
use crate::rank::Rank;
use crate::segment::{Ledger, Part};

pub(crate) use runs::Members;

/// The identity of a team: the same on all of its members, and unique in the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TeamId(u64);

impl TeamId {
    /// The team of all ranks.
    pub(crate) const WORLD: Self = Self(0);
    /// Bits of the counter, below the rank that counts.
    const COUNTER_BITS: u32 = 40;

    /// The `counter`th team (from 1) whose first member is `first`.
    pub(crate) fn new(first: Rank, counter: u64) -> Self {
        assert!(
            counter < 1 << Self::COUNTER_BITS,
            "a rank makes fewer than 2^40 teams"
        );
        Self(u64::from(first.number()) << Self::COUNTER_BITS | counter)
    }

    /// The name as a number, for a message or a table.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let all = world.team().id();
    /// assert_eq!((all.bits(), all.to_string()), (0, "0.0".to_owned()));
    /// ```
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TeamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counter = self.0 & ((1 << Self::COUNTER_BITS) - 1);
        write!(f, "{}.{counter}", self.0 >> Self::COUNTER_BITS)
    }
}

impl fmt::Debug for TeamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TeamId({self})")
    }
}

/// The shared state of all handles of one rank on one team.
#[derive(Debug)]
pub(crate) struct Shared {
    id: TeamId,
    members: Members,
    /// This rank's number.
    rank: u32,
    /// The sequence number of the next collective.
    next: AtomicU64,
    /// The window of collectives that every member is known to have reached.
    window: AtomicU64,
    /// The transport's own collectives, where it has them.
    native: Option<Native>,
    /// Dropped with the last handle on the team, by which its parent's ledger knows.
    handles: Arc<()>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Shared {
    pub(crate) fn new(
        id: TeamId,
        members: Members,
        rank: u32,
        group: Option<Arc<dyn Group>>,
    ) -> Self {
        // A single member has nobody to send to.
        let group = group.filter(|_| members.len() > 1);
        Self {
            id,
            members,
            rank,
            next: AtomicU64::new(0),
            window: AtomicU64::new(0),
            native: group.map(Native::new),
            handles: Arc::default(),
            ledger: Arc::default(),
        }
    }

    /// The team of all ranks.
    pub(crate) fn world(backend: &dyn Backend) -> Self {
        Self::new(
            TeamId::WORLD,
            Members::all(backend.n_ranks()),
            backend.rank().number(),
            backend.collectives(),
        )
    }

    pub(crate) fn native(&self) -> Option<&Native> {
        self.native.as_ref()
    }

    pub(crate) fn id(&self) -> TeamId {
        self.id
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

    /// What the members have allocated together.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// What the ledger of the parent has of the team.
    pub(crate) fn part(&self) -> Part {
        Part {
            handles: Arc::downgrade(&self.handles),
            ledger: Arc::clone(&self.ledger),
        }
    }

    /// The first member and how far it is from one to the next, if that is the same everywhere.
    pub(crate) fn spacing(&self) -> Option<(u32, i32)> {
        self.members.spacing()
    }

    /// The rank of member `i`, if there is one.
    pub(crate) fn find(&self, i: u32) -> Option<Rank> {
        self.members.rank(i)
    }

    /// Which member `rank` is, if it is one.
    pub(crate) fn position(&self, rank: Rank) -> Option<u32> {
        self.members.position(rank)
    }

    /// The sequence number of a collective that begins.
    pub(crate) fn take_number(&self) -> u64 {
        // A count: it orders nothing. One thread at a time calls a team's collectives.
        self.next.fetch_add(1, Ordering::Relaxed)
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
