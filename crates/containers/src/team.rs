//! Members of the teams that containers are made on.

use pgas_core::{Error, Member, Rank, Result, Team};

/// A member of a container's team, named by its [`Rank`], or by its number in the team, a `u32`.
///
/// # Examples
///
/// ```
/// use pgas_containers::HashMap;
///
/// # let world = pgas_core::backend::loopback::world();
/// let team = world.team();
/// let map = HashMap::<u64, u64>::with_capacity(&team, 100)?;
/// map.insert(&1, 2)?;
/// let by_rank = map.entries_on(team.world_rank(0)).count();
/// assert_eq!((by_rank, map.entries_on(0).count()), (1, 1));
///
/// use pgas_containers::TeamMember as _;
/// let n_ranks = team.n_ranks();
/// assert_eq!((0_u32.in_team(&team), n_ranks.in_team(&team)), (Some(0), None));
/// assert_eq!(n_ranks.name_of_absent(&team), "rank 1 of a job with 1 ranks");
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub trait TeamMember: Member + sealed::Sealed {
    /// Its number in the team, if there is such a member.
    fn in_team(self, team: &Team) -> Option<u32>;

    /// What a message calls it if there is none.
    fn name_of_absent(self, team: &Team) -> String;
}

mod sealed {
    /// The names of members are those of this crate.
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed {}

    impl Sealed for pgas_core::Rank {}
    impl Sealed for u32 {}
}

impl TeamMember for Rank {
    fn in_team(self, team: &Team) -> Option<u32> {
        let is_rank = self.number() < team.world().n_ranks();
        is_rank.then(|| team.team_rank(self)).flatten()
    }

    fn name_of_absent(self, team: &Team) -> String {
        if team.is_world() {
            return self.number().name_of_absent(team);
        }
        format!("rank {self}, which is not in {team:?}")
    }
}

impl TeamMember for u32 {
    fn in_team(self, team: &Team) -> Option<u32> {
        (self < team.n_ranks()).then_some(self)
    }

    fn name_of_absent(self, team: &Team) -> String {
        let (member, whole) = if team.is_world() {
            ("rank", "job")
        } else {
            ("member", "team")
        };
        format!("{member} {self} of a {whole} with {} ranks", team.n_ranks())
    }
}

/// The number of `host` in the team, or an error if it is no member. All members get the same
/// result.
pub(crate) fn check_host(team: &Team, what: &str, host: impl TeamMember) -> Result<u32> {
    host.in_team(team).ok_or_else(|| {
        let name = host.name_of_absent(team);
        Error::Argument(format!("{what} was to be hosted by {name}").into())
    })
}
