//! Teams as arguments of calls.

use pgas_core::{Error, Result, Team, TeamId, World};

use crate::codec::{Codec, Decoder, Each, Encoder, Wire, unreadable};
use crate::error::no_handle_on;
use crate::objects::OF_SPLIT;
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
        out.put(&team.id().bits())
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Team> {
        let bits = input.get()?;
        let no_world = || unreadable::<Team>("a result has no teams");
        named::<Team>(input.world().ok_or_else(no_world)?, bits)
    }
}

/// This rank's handle on the team that a `T` in a call names.
///
/// # Errors
///
/// [`Error::NotBuilt`] if a split may be making the team; else that this rank has no handle on it.
pub(crate) fn named<T>(world: &World, bits: u64) -> Result<Team> {
    let id = TeamId::from_bits(bits);
    // Asked first: a split that ends after this has added its team before the search below.
    let is_splitting = world.splits().oldest.is_some();
    if let Some(team) = world.team_by_id(id) {
        return Ok(team);
    }
    if is_splitting {
        return Err(Error::NotBuilt(OF_SPLIT, bits));
    }
    Err(unreadable::<T>(no_handle_on(world, id)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use pgas_core::backend::loopback;
    use pgas_core::{Config, Layer as _, Rank, World};

    use super::*;
    use crate::{RemoteCalls as _, TeamCalls as _, quiet};

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

    /// Waits until something holds on this rank, which other threads of it serve, too.
    fn until(world: &World, mut holds: impl FnMut() -> bool) {
        world.wait_for("the test", || Ok(holds())).unwrap();
    }

    /// Rank 1 has dropped a team that rank 0 names in its calls. One of its threads is in a split
    /// when they come, and another one begins a split before that ends.
    #[test]
    fn calls_that_name_a_dropped_team_fail_when_the_splits_that_might_make_it_are_over() {
        let is_first = AtomicBool::new(false);
        let is_second = AtomicBool::new(false);
        loopback::run(2, |world| {
            crate::attach(&world).unwrap();
            let [first, second] = [0, 1].map(|key| world.team().reorder(key).unwrap());
            let dropped = world.team().reorder(0).unwrap();
            let set = |flag: &AtomicBool| flag.store(true, Ordering::Release);
            let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
            world.barrier().unwrap();
            if world.rank() == Rank::ZERO {
                let name = dropped.id().to_string();
                until(&world, || is_set(&is_first));
                let call = world.rpc(Rank::new(1), member_of, dropped.clone()).unwrap();
                world.rpc_ff(Rank::new(1), drop::<Team>, dropped).unwrap();
                until(&world, || is_set(&is_second));
                let _one = first.reorder(0).unwrap();
                let refused = call.wait().unwrap_err().to_string();
                let text = format!("rank 1 is no member of team {name}, or has dropped");
                assert!(refused.contains(&text), "{refused}");
                let _two = second.reorder(0).unwrap();
            } else {
                drop(dropped);
                let before = world.splits().n_begun;
                let put_off = &crate::state::am(&world).unwrap().put_off;
                thread::scope(|threads| {
                    threads.spawn(|| first.reorder(0).unwrap());
                    until(&world, || world.splits().n_begun == before + 1);
                    set(&is_first);
                    until(&world, || put_off.n_of(|_| true) == 2);
                    // Calls that are put off are no work.
                    let attached = world.layer::<crate::state::Attached>().unwrap();
                    assert!((0..3).all(|_| !attached.advance(&world).unwrap()));
                    threads.spawn(|| second.reorder(0).unwrap());
                    until(&world, || world.splits().n_begun == before + 2);
                    set(&is_second);
                });
                assert!(!put_off.has_some());
            }
            let lost = quiet(&world).unwrap_err().to_string();
            assert!(lost.contains("has dropped its handles on it"), "{lost}");
        });
    }
}
