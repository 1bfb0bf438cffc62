//! Making teams.

use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::gather::allgather;
use super::lane::Call;
use super::{Kind, Signature, zeroed};
use crate::backend::Group;
use crate::error::Result;
use crate::members::{Members, Shared};
use crate::pod::Pod;
use crate::rank::Rank;
use crate::team::Team;
use crate::team_id::{Split, TeamId};
use crate::world::World;

/// After this many splits the next one begins with a reclaim of memory. So the ledger stays small
/// if teams are made and dropped again and again.
const MAX_SPLITS: usize = 64;

/// A member's argument in a split.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Choice {
    /// The counter in the new team's identity, if this member is its first one.
    counter: u64,
    /// 1 if the member joins a new team.
    joins: u32,
    colour: u32,
    key: u32,
    /// 1 if this rank has memory of teams that were split before, and whose handles it has dropped.
    frees: u32,
}

/// This member's place in a new team.
struct Place {
    /// The new team's members by their numbers in the old one, in their new order.
    members: Vec<u32>,
    /// The number of this one.
    rank: u32,
}

impl Place {
    /// The place of member `me`, if it joins a team.
    fn of(choices: &[Choice], me: u32) -> Option<Self> {
        let mine = choices[me as usize];
        if mine.joins == 0 {
            return None;
        }
        let mut members: Vec<u32> = (0..)
            .zip(choices)
            .filter(|(_, choice)| choice.joins == 1 && choice.colour == mine.colour)
            .map(|(i, _)| i)
            .collect();
        // The sort is stable, so members with one key keep their order.
        members.sort_by_key(|i| choices[*i as usize].key);
        let (rank, _) = (0..).zip(&members).find(|(_, i)| **i == me)?;
        Some(Self { members, rank })
    }

    /// A number that the members of no other new team have.
    fn colour(&self) -> u32 {
        self.members[0]
    }
}

impl Team {
    /// Splits the team into one new team for each colour; `None` joins no team, and gets `None`.
    ///
    /// The members of a new team are ordered by rising `key`; members with the same key keep their
    /// order.
    ///
    /// # Cost
    ///
    /// An allgather of 24 bytes a member, and sorting them. A [`reclaim`](Self::reclaim) as well if
    /// memory is left of teams that were split before and dropped, and in every 64th split.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(5, |world| {
    ///     // Ranks 0 and 1, ranks 2 and 3 in reverse; rank 4 stays away.
    ///     let me = world.rank().number();
    ///     let colour = (me < 4).then_some(me / 2);
    ///     let team = world.team().split(colour, 5 - me)?;
    ///     assert_eq!(team.is_some(), me < 4);
    ///     if let Some(pair) = team {
    ///         assert_eq!(pair.n_ranks(), 2);
    ///         assert_eq!(pair.rank(), (me + 1) % 2);
    ///     }
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Comm_split")]
    #[track_caller]
    pub fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Self>> {
        if self.shared().ledgers().n_splits(self.id()) >= MAX_SPLITS {
            self.reclaim()?;
        }
        let call = self.begin(Signature::new(Kind::Split).of::<Choice>(1));
        let made_by = Split::new(self.id(), call.number);
        let _splitting = self.world().teams().begin_split(made_by);
        let choice = Choice {
            counter: self.world().next_team(),
            joins: u32::from(colour.is_some()),
            colour: colour.unwrap_or(0),
            key,
            frees: u32::from(self.shared().ledgers().frees(self.id())),
        };
        let mut place = None;
        let Chosen { choices, group } = self.choose(&call, choice, |choices| {
            place = Place::of(choices, self.rank());
            place.as_ref().map(|place| (place.colour(), place.rank))
        })?;
        if choices.iter().any(|choice| choice.frees == 1) {
            self.reclaim()?;
        }
        let Some(Place { members, rank }) = place else {
            self.shared().ledgers().add_split(self.id(), None);
            return Ok(None);
        };
        let first = members[0];
        let ranks = members.iter().map(|i| self.shared().world_rank(*i));
        let shared = Shared::new(
            TeamId::new(
                self.shared().world_rank(first),
                choices[first as usize].counter,
            ),
            made_by,
            Members::collect(ranks),
            rank,
            group,
            self.shared().share_ledgers(),
        );
        let new = Some(shared.id());
        self.shared().ledgers().add_split(self.id(), new);
        Ok(Some(Self::new(self.world().clone(), shared)))
    }
}

/// Splits of all ranks.
impl World {
    /// [`Team::split`] of all ranks.
    ///
    /// # Cost
    ///
    /// As [`Team::split`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(4, |world| {
    ///     let me = world.rank().number();
    ///     let half = world.split(Some(me % 2), 0)?;
    ///     assert_eq!(half.map(|half| (half.rank(), half.n_ranks())), Some((me / 2, 2)));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Comm_split")]
    #[track_caller]
    pub fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Team>> {
        self.team().split(colour, key)
    }

    /// [`Team::reorder`] of all ranks.
    ///
    /// # Cost
    ///
    /// As [`Team::split`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let reversed = world.reorder(2 - world.rank().number())?;
    ///     assert_eq!(reversed.rank(), 2 - world.rank().number());
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[track_caller]
    pub fn reorder(&self, key: u32) -> Result<Team> {
        self.team().reorder(key)
    }

    /// [`Team::split_host`] of all ranks.
    ///
    /// # Cost
    ///
    /// As [`Team::split`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let host = world.split_host()?;
    ///     assert!(host.team_rank(world.rank()).is_some());
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Comm_split_type")]
    #[track_caller]
    pub fn split_host(&self) -> Result<Team> {
        self.team().split_host()
    }
}

/// The result of the exchange of arguments in a split.
pub(crate) struct Chosen<T> {
    /// The arguments of all members, in their order.
    pub(crate) choices: Vec<T>,
    /// This member's new group at the transport.
    group: Option<Arc<dyn Group>>,
}

impl Team {
    /// Exchanges all members' `choice`s in the `call` of a split, and makes this member's group at
    /// the transport. `place` computes this member's colour and key there from the choices: the colour is the
    /// number of any member of the new team, the same for all of these, and the key is its number
    /// in the new team; `None` if it joins none.
    #[track_caller]
    fn choose<T: Pod>(
        &self,
        call: &Call,
        choice: T,
        place: impl FnOnce(&[T]) -> Option<(u32, u32)>,
    ) -> Result<Chosen<T>> {
        self.drive(call, async {
            let turn = call.enter().await?;
            let mut choices = zeroed::<T>(self.n_ranks() as usize);
            // By messages: a member that has all of them knows that all members are here, and that
            // none needs this member's progress any more.
            allgather(call.main(), choice.as_bytes(), choices.as_mut_bytes()).await?;
            let place = place(&choices);
            let group = turn.map(|turn| turn.split(place)).transpose()?;
            let group = group.flatten();
            Ok(Chosen { choices, group })
        })
    }
}

impl Team {
    /// A team of the same members, ordered by rising `key`; members with the same key keep their
    /// order.
    ///
    /// # Cost
    ///
    /// As [`split`](Self::split). Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let reversed = world.team().reorder(2 - world.rank().number())?;
    ///     assert_eq!(reversed.rank(), 2 - world.rank().number());
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[track_caller]
    pub fn reorder(&self, key: u32) -> Result<Self> {
        match self.split(Some(0), key)? {
            Some(team) => Ok(team),
            None => unreachable!("a rank with a colour is in a team"),
        }
    }

    /// A team of the members whose segments this process has mapped: those of its host, or of the
    /// part of the host that shares memory. If the transport maps none, it has this rank alone.
    ///
    /// # Cost
    ///
    /// As [`split`](Self::split). Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let host = world.team().split_host()?;
    ///     assert!(host.team_rank(world.rank()).is_some());
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Comm_split_type")]
    #[track_caller]
    pub fn split_host(&self) -> Result<Self> {
        let backend = self.world().backend();
        let first = backend
            .mapped_ranks()
            .find(|rank| backend.mapped(Rank::new(*rank)).is_some());
        let colour = first.unwrap_or(self.world().rank().number());
        match self.split(Some(colour), 0)? {
            Some(team) => Ok(team),
            None => unreachable!("a rank with a colour is in a team"),
        }
    }
}
