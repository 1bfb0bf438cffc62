//! Ordered sets of ranks.
//!
//! The collectives over a team are in [`collective`](crate::collective).

use std::fmt;
use std::sync::Arc;

use crate::members::Shared;
use crate::rank::Rank;
use crate::team_id::{Split, TeamId};
use crate::world::World;

/// An ordered set of ranks, and the collectives over it.
///
/// A member is known by its number in the team, a `u32` from 0 to [`n_ranks`](Self::n_ranks) - 1;
/// [`world_rank`](Self::world_rank) and [`team_rank`](Self::team_rank) translate. The handle is
/// cheap to clone. A team stores its members as runs of evenly spaced ranks. So a team of all
/// ranks, of a block of ranks or of every n-th rank takes the same little memory in a job of any
/// size.
///
/// [`World::team`] is the team of all ranks; [`split`](Self::split) makes smaller ones.
///
/// # Examples
///
/// ```
/// use pgas_core::backend::loopback;
///
/// loopback::run(4, |world| {
///     let rank = world.rank();
///     let pair = world.team().split(Some(rank.number() / 2), 0)?.expect("a colour"); // collective
///     assert!(!pair.is_world() && world.team().is_world() && pair.id() != world.team().id());
///     assert_eq!((pair.rank(), pair.n_ranks()), (rank.number() % 2, 2));
///     let numbers = pair.ranks().map(|other| pair.team_rank(other));
///     assert!(numbers.eq([Some(0), Some(1)]));
///     assert_eq!(pair.world_rank(pair.rank()), pair.world().rank());
///     pair.barrier()
/// })
/// # .into_iter().for_each(|result| result.unwrap());
/// ```
#[derive(Clone)]
pub struct Team {
    world: World,
    shared: Arc<Shared>,
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
            shared: Arc::clone(self.members()),
        }
    }
}

impl World {
    /// A handle on the team with this identity. `None` if this rank is not a member, or has dropped
    /// all its handles on the team.
    ///
    /// # Cost
    ///
    /// A lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let team = world.team().reorder(0)?;
    /// let id = team.id();
    /// assert!(world.team_by_id(id).is_some_and(|same| same.id() == id));
    /// drop(team);
    /// assert!(world.team_by_id(id).is_none());
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[must_use]
    pub fn team_by_id(&self, id: TeamId) -> Option<Team> {
        if id == TeamId::WORLD {
            return Some(self.team());
        }
        let shared = self.teams().find(id)?;
        Some(Team {
            world: self.clone(),
            shared,
        })
    }

    /// Whether this rank takes part in `split` now. Other members may already have the new team. A
    /// split that has ended here has added its team before.
    #[doc(hidden)]
    #[must_use]
    pub fn is_in_split(&self, split: Split) -> bool {
        self.teams().is_in(split)
    }

    /// The number of splits that have ended on this rank.
    #[doc(hidden)]
    #[must_use]
    pub fn n_splits_ended(&self) -> u64 {
        self.teams().n_splits_ended()
    }
}

impl Team {
    /// The world to which the members belong.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The team's identity.
    #[must_use]
    pub fn id(&self) -> TeamId {
        self.shared.id()
    }

    /// The split that has made the team, for messages that name the team.
    #[doc(hidden)]
    #[must_use]
    pub fn made_by(&self) -> Split {
        self.shared.made_by()
    }

    /// Whether this is the team of all ranks that [`World::team`] gives.
    #[must_use]
    pub fn is_world(&self) -> bool {
        self.shared.id() == TeamId::WORLD
    }

    /// This rank's number in the team.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.shared.rank()
    }

    /// The number of members.
    #[must_use]
    pub fn n_ranks(&self) -> u32 {
        self.shared.n_ranks()
    }

    /// The rank of member `i`.
    ///
    /// # Cost
    ///
    /// ℓ: constant if the members are evenly spaced, else logarithmic in the number of runs.
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
    #[inline]
    #[track_caller]
    pub fn world_rank(&self, i: u32) -> Rank {
        let Some(rank) = self.shared.find(i) else {
            panic!("a team of {} has no member {i}", self.n_ranks());
        };
        rank
    }

    /// The number of `rank` in the team, if it is a member.
    ///
    /// # Cost
    ///
    /// ℓ: proportional to the number of runs of evenly spaced ranks; one run if all are evenly
    /// spaced.
    #[must_use]
    pub fn team_rank(&self, rank: Rank) -> Option<u32> {
        self.shared.position(rank)
    }

    /// The member after `member`, a neighbour in the ring of the team; after the last comes the
    /// first.
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let team = world.team();
    /// let right = team.member_after(team.rank());
    /// assert_eq!(team.member_before(right), team.rank());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn member_after(&self, member: u32) -> u32 {
        let _: Rank = self.world_rank(member);
        (member + 1) % self.n_ranks()
    }

    /// The member before `member`; before the first comes the last.
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[must_use]
    #[track_caller]
    pub fn member_before(&self, member: u32) -> u32 {
        let _: Rank = self.world_rank(member);
        member.checked_sub(1).unwrap_or(self.n_ranks() - 1)
    }

    /// The ranks of the members, in order.
    pub fn ranks(&self) -> impl ExactSizeIterator<Item = Rank> + '_ {
        (0..self.n_ranks()).map(|i| self.shared.world_rank(i))
    }

    pub(crate) fn new(world: World, shared: Shared) -> Self {
        let shared = Arc::new(shared);
        world.teams().add(&shared);
        Self { world, shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// The ranks that share memory or a container: the [`World`], or the members of a [`Team`].
///
/// All members make the collective calls: the constructor, changes of phase and so on. Other ranks
/// make none of them. UPC++ has team arguments for this.
///
/// # Examples
///
/// ```
/// use pgas_core::{AsTeam, GlobalPtr, Member as _, Rank, Result, Symmetric};
///
/// /// A counter at member `at`, and the memory that it lies in.
/// fn counter<G: AsTeam>(on: &G, at: G::Member) -> Result<(Symmetric<u64>, GlobalPtr<u64>)> {
///     let counters = on.as_team().alloc_symmetric(1)?;
///     let counter = counters.member(at.number());
///     Ok((counters, counter))
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// let (_memory, of_all) = counter(&world, Rank::ZERO)?;
/// let (_memory, of_team) = counter(&world.team(), 0)?;
/// assert_eq!((of_all.fetch_inc(&world)?, of_team.fetch_inc(&world)?), (0, 0));
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub trait AsTeam {
    /// The type that names a member: [`Rank`] for the world, `u32` for a team. A member's
    /// [`number`](Member::number) is its number in [`as_team`](Self::as_team), so [`Rank`] suits
    /// nothing but all ranks in their order.
    type Member: Member;

    /// The team; for the world the team of all ranks.
    fn as_team(&self) -> Team;
}

/// The name of a member of a [`Team`] or of the [`World`].
///
/// # Examples
///
/// ```
/// use pgas_core::{Member as _, Rank, backend::loopback};
///
/// # for result in
/// loopback::run(3, |world| {
///     let reversed = world.team().reorder(2 - world.rank().number())?;
///     assert_eq!(0.rank_in(&reversed), Rank::new(2));
///     assert_eq!(Rank::new(2).rank_in(&reversed), Rank::new(2));
///     Ok::<(), pgas_core::Error>(())
/// })
/// # { result?; }
/// # Ok::<(), pgas_core::Error>(())
/// ```
///
/// See also [`AsTeam`].
pub trait Member: Copy + fmt::Debug {
    /// The member's number, from 0.
    fn number(self) -> u32;

    /// The rank that this names among the members of `team`.
    ///
    /// A number is that of a member. A [`Rank`] names itself, in every team.
    ///
    /// # Panics
    ///
    /// If the team has no such member.
    #[track_caller]
    fn rank_in(self, team: &Team) -> Rank {
        team.world_rank(self.number())
    }
}

impl AsTeam for World {
    type Member = Rank;

    fn as_team(&self) -> Team {
        self.team()
    }
}

impl AsTeam for Team {
    type Member = u32;

    fn as_team(&self) -> Team {
        self.clone()
    }
}

impl<G: AsTeam + ?Sized> AsTeam for &G {
    type Member = G::Member;

    fn as_team(&self) -> Team {
        G::as_team(self)
    }
}

impl Member for Rank {
    #[inline]
    fn number(self) -> u32 {
        self.number()
    }

    #[track_caller]
    fn rank_in(self, team: &Team) -> Rank {
        if team.is_world() {
            team.world().assert_rank(self);
        } else {
            let position = team.team_rank(self);
            assert!(position.is_some(), "rank {self} is no member of {team:?}");
        }
        self
    }
}

impl Member for u32 {
    #[inline]
    fn number(self) -> u32 {
        self
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Team({}, member {} of {})",
            self.shared.id(),
            self.rank(),
            self.n_ranks()
        )
    }
}
