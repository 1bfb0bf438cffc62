//! Teams as arguments of calls.

use pgas_core::{Error, Result, Split, Team, TeamId, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::codec::{Codec, Decoder, Each, Encoder, Wire, unreadable};
use crate::error::no_handle_on;
use crate::rpc::TakesPlace;

/// A team arrives as the target's own handle on it. If the target has not yet returned from the
/// split that makes the team, the call waits there until it has. A target that is not a member, or
/// has dropped its handles, answers with an error.
impl Wire for Team {
    type By = TakesPlace;
}

impl Codec<Team> for TakesPlace {
    type Array<const N: usize> = Each<Self>;

    fn encode(team: &Team, out: &mut Encoder) -> Result<()> {
        out.write(TeamName::of(team).as_bytes());
        Ok(())
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Team> {
        let bytes = input.take::<Team>(size_of::<TeamName>())?;
        let name = TeamName::read_from_bytes(bytes).expect("as many bytes as were taken");
        let no_world = || unreadable::<Team>("a result has no teams");
        name.find::<Team>(input.world().ok_or_else(no_world)?)
    }
}

/// A team in a message.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct TeamName {
    id: u64,
    made_by: Split,
}

impl TeamName {
    pub(crate) fn of(team: &Team) -> Self {
        Self {
            id: team.id().bits(),
            made_by: team.made_by(),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// This rank's handle on the team that a `T` in a call names.
    ///
    /// The sender has the team already. So its split has begun here, and a team that this rank does
    /// not find after the end of that split is one that it has dropped, or is no member of.
    ///
    /// # Errors
    ///
    /// [`Error::NotSplit`] if the split that makes the team has not ended here; else that this rank
    /// has no handle on it.
    pub(crate) fn find<T>(self, world: &World) -> Result<Team> {
        let id = TeamId::from_bits(self.id);
        // Asked first: a split that ends after this has added its team before the search below.
        let is_split = !world.is_in_split(self.made_by);
        if let Some(team) = world.team_by_id(id) {
            return Ok(team);
        }
        if is_split {
            return Err(unreadable::<T>(no_handle_on(world, id)));
        }
        Err(Error::NotSplit(Box::new((id, self.made_by))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use pgas_core::backend::loopback;
    use pgas_core::{Config, Rank, World};

    use super::*;
    use crate::{DistObject, RemoteCalls as _, TeamCalls as _, quiet};

    #[expect(
        clippy::needless_pass_by_value,
        reason = "remote functions own their arguments"
    )]
    fn member_of(team: Team) -> [u32; 2] {
        [team.rank(), team.n_ranks()]
    }

    #[test]
    fn a_team_arrives_as_the_targets_own_handle_or_not_at_all() {
        loopback::run(3, |world| {
            crate::attach(&world).unwrap();
            let me = world.rank();
            let all = world.rpc(Rank::new(2), member_of, world.team()).unwrap();
            assert_eq!(all.wait().unwrap(), [2, 3]);
            let reversed = world.team().reorder(3 - me.number()).unwrap();
            let first = reversed.rpc(0, member_of, reversed.clone()).unwrap();
            assert_eq!(first.wait().unwrap(), [0, 3]);
            // Ranks 0 and 1; rank 2 is in no team.
            let colour = (me.number() < 2).then_some(0);
            let pair = world.team().split(colour, 0).unwrap();
            if let Some(pair) = &pair {
                let other = 1 - pair.rank();
                let asked = pair.rpc(other, member_of, pair.clone()).unwrap();
                assert_eq!(asked.wait().unwrap(), [other, 2]);
                let refused = world.rpc(Rank::new(2), member_of, pair.clone()).unwrap();
                let refused = refused.wait().unwrap_err().to_string();
                let text = "rank 2 is no member of team 0.2";
                assert!(refused.contains(text), "{refused}");
            }
            world.barrier().unwrap();
            drop(pair);
            quiet(&world).unwrap();
        });
    }

    /// Rank 0 is back from the split before the others, and calls them at once.
    fn call_early(world: &World) {
        crate::attach(world).unwrap();
        let count = |(team, n): (Team, u32)| team.n_ranks() + n;
        for n in 0..3 {
            let team = world.team().reorder(0).unwrap();
            let asked = world.ranks().map(|rank| {
                let args = (team.clone(), n);
                world.rpc(rank, count, args).unwrap()
            });
            for asked in asked.collect::<Vec<_>>() {
                assert_eq!(asked.wait().unwrap(), world.n_ranks() + n);
            }
            world.barrier().unwrap();
        }
    }

    #[test]
    fn a_call_that_names_a_team_waits_for_the_end_of_its_split() {
        loopback::run(3, |world| call_early(&world));
        for seed in 0..100 {
            let config = Config::default();
            pgas_testkit::weak::run(3, &config, seed, |world| call_early(&world));
        }
    }

    /// Rank 1 has dropped a team, and waits in a split that rank 0 enters after its calls, which
    /// name the team.
    #[test]
    fn a_call_that_names_a_dropped_team_does_not_wait_for_another_split() {
        let is_dropped = AtomicBool::new(false);
        loopback::run(2, |world| {
            crate::attach(&world).unwrap();
            let dropped = world.team().reorder(0).unwrap();
            if world.rank() == Rank::ZERO {
                let has_dropped = || Ok(is_dropped.load(Ordering::Acquire));
                world.wait_for("the test", has_dropped).unwrap();
                let to = Rank::new(1);
                let name = dropped.id().to_string();
                let text = format!("rank 1 is no member of team {name}, or has dropped");
                let call = world.rpc(to, member_of, dropped.clone()).unwrap();
                let refused = call.wait().unwrap_err().to_string();
                assert!(refused.contains(&text), "{refused}");
                let object = DistObject::new(&dropped, 0_u8).unwrap();
                let call = world.rpc(to, drop::<DistObject<u8>>, object).unwrap();
                let refused = call.wait().unwrap_err().to_string();
                assert!(refused.contains(&text), "{refused}");
            } else {
                drop(dropped);
                is_dropped.store(true, Ordering::Release);
            }
            let _later = world.team().reorder(0).unwrap();
            quiet(&world).unwrap();
        });
    }
}
