//! Ordered sets of ranks.
//!
//! The collectives over a team are in [`collective`](crate::collective).

mod members;
mod split;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use members::Members;

use crate::backend::{Backend, Group};
use crate::collective::Native;
use crate::{Rank, World};

/// An ordered set of ranks, and the collectives over it.
///
/// A member is known by its number in the team, a `u32` from 0 to [`n_ranks`](Self::n_ranks) - 1;
/// [`world_rank`](Self::world_rank) and [`team_rank`](Self::team_rank) translate. The handle is cheap to
/// clone. A team takes memory for its runs of evenly spaced ranks, so that of all ranks, a block or
/// every n-th rank is as small in a large job as in a small one.
///
/// [`World::team`] is the team of all ranks; [`split`](Self::split) makes smaller ones.
#[derive(Clone)]
pub struct Team {
    world: World,
    shared: Arc<Shared>,
}

/// The name of a team, the same on all its members and unlike that of any other team of the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TeamId(u64);

impl TeamId {
    /// The team of all ranks.
    const WORLD: Self = Self(0);
    /// Bits of the counter, below the rank that counts.
    const COUNTER_BITS: u32 = 40;

    /// The `counter`th team (from 1) whose first member is `first`.
    fn new(first: Rank, counter: u64) -> Self {
        assert!(
            counter < 1 << Self::COUNTER_BITS,
            "a rank makes fewer than 2^40 teams"
        );
        Self(u64::from(first.number()) << Self::COUNTER_BITS | counter)
    }

    /// The name as a number, for a message or a table.
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

/// What all handles of one rank on one team have in common.
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
}

impl Shared {
    fn new(id: TeamId, members: Members, rank: u32, group: Option<Arc<dyn Group>>) -> Self {
        // One member has nobody to send to.
        let group = group.filter(|_| members.len() > 1);
        Self {
            id,
            members,
            rank,
            next: AtomicU64::new(0),
            window: AtomicU64::new(0),
            native: group.map(Native::new),
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

impl World {
    /// The team of all ranks, in order.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let team = world.team();
    /// assert_eq!(team.n_ranks(), world.n_ranks());
    /// assert_eq!(team.world_rank(team.rank()), world.rank());
    /// ```
    #[must_use]
    pub fn team(&self) -> Team {
        Team {
            world: self.clone(),
            shared: Arc::clone(self.team_shared()),
        }
    }
}

impl Team {
    /// The world that the members are ranks of.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The team's name.
    #[must_use]
    pub fn id(&self) -> TeamId {
        self.shared.id
    }

    /// Whether this is the team of all ranks that [`World::team`] gives.
    #[must_use]
    pub fn is_world(&self) -> bool {
        self.shared.id == TeamId::WORLD
    }

    /// This rank's number in the team.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.shared.rank
    }

    /// The number of members.
    #[must_use]
    pub fn n_ranks(&self) -> u32 {
        self.shared.members.len()
    }

    /// The rank of member `i`.
    ///
    /// # Cost
    ///
    /// ℓ: constant for a regular team, else logarithmic in its runs.
    ///
    /// # Panics
    ///
    /// If the team has no member `i`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(4, |world| {
    ///     let odd = world.team().split(Some(world.rank().number() % 2), 0)?;
    ///     if let Some(team) = odd.filter(|_| world.rank().number() % 2 == 1) {
    ///         assert_eq!(team.world_rank(1), Rank::new(3));
    ///         assert_eq!(team.team_rank(Rank::new(3)), Some(1));
    ///         assert_eq!(team.team_rank(Rank::new(2)), None);
    ///     }
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn world_rank(&self, i: u32) -> Rank {
        let Some(rank) = self.shared.members.rank(i) else {
            panic!("a team of {} has no member {i}", self.n_ranks());
        };
        rank
    }

    /// The number of `rank` in the team, if it is a member.
    ///
    /// # Cost
    ///
    /// ℓ: proportional to the runs of evenly spaced ranks that the team is made of, one for a regular
    /// team.
    #[must_use]
    pub fn team_rank(&self, rank: Rank) -> Option<u32> {
        self.shared.members.position(rank)
    }

    /// The ranks of the members, in order.
    pub fn ranks(&self) -> impl ExactSizeIterator<Item = Rank> + '_ {
        (0..self.n_ranks()).map(|i| self.shared.world_rank(i))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Team({}, member {} of {})",
            self.shared.id,
            self.rank(),
            self.n_ranks()
        )
    }
}
