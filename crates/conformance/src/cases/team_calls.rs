//! Calls and active messages to members of teams, and teams that travel.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pgas_am::{
    ActiveMessages, Aggregator, DistObject, Here, Payload, RemoteCalls, RequestHandler, TeamCalls,
    Token, WeakObject, attach, quiet, when_all,
};
use pgas_core::{Rank, Result, Team, World};

use super::team_containers::teams;
use super::{case, case_alone};
use crate::Case;
use crate::support::{assert_panics, neighbour, until_accepted};

pub(super) const CASES: &[Case] = &[
    case!(1, members_are_called_and_sent_to),
    case_alone!(1, members_get_active_messages),
    case!(1, items_are_collected_for_members),
    case!(1, an_object_is_fetched_by_rank_and_by_number),
    case!(1, all_members_of_a_team_are_called),
    case!(1, a_team_arrives_as_the_targets_own_handle),
    case_alone!(
        2,
        a_call_that_waits_for_an_object_fails_when_its_target_drops_the_team
    ),
];

/// What a call says to a member that the team does not have.
const NO_MEMBER: &str = "has no member";

fn members_are_called_and_sent_to(world: &World) -> Result<()> {
    attach(world)?;
    let cell = world.alloc::<u64>(1)?;
    for team in teams(world)? {
        let sum = DistObject::new(&team, AtomicU64::new(0))?;
        let next = (team.rank() + 1) % team.n_ranks();
        let add = |(sum, n): (DistObject<AtomicU64>, u64)| {
            sum.fetch_add(n, Ordering::Relaxed);
        };
        let add_all = |sum: DistObject<AtomicU64>, words: &[u64]| {
            sum.fetch_add(words.iter().sum::<u64>(), Ordering::Relaxed);
        };
        let len = |_: (), words: &[u64]| words.len();
        let lens = |_: (), words: &[u64], bytes: &[u8]| (words.len(), bytes.len());
        team.rpc(next, add, (sum.clone(), 1))?.wait()?;
        team.rpc_ff(next, add, (sum.clone(), 10))?;
        team.rpc_ff_view(next, add_all, sum.clone(), &[100, 200])?;
        assert_eq!(team.rpc_view(next, len, (), &[7; 5])?.wait()?, 5);
        assert_eq!(
            team.rpc_views(next, lens, (), (&[7; 5], &[1; 3]))?.wait()?,
            (5, 3)
        );
        until_accepted(world, || team.try_rpc_ff(next, add, &(sum.clone(), 1000)))?;
        until_accepted(world, || {
            team.try_rpc_ff_view(next, add_all, &sum, &[2000, 3000])
        })?;
        let add_both = |sum: DistObject<AtomicU64>, words: &[u64], bytes: &[u8]| {
            sum.fetch_add(words[0] + u64::from(bytes[0]), Ordering::Relaxed);
        };
        until_accepted(world, || {
            team.try_rpc_ff_views(next, add_both, &sum, (&[10_000], &[5]))
        })?;
        let put = || cell.put_nb(world, 7);
        let after = team.rpc_after(put(), next, |x: u64| x + 1, 8);
        assert_eq!(after.wait()?, 9);
        let one_way = team.rpc_ff_after(put(), next, add, (sum.clone(), 100_000));
        one_way.wait()?;
        world.wait_for("the calls of another member", &mut || {
            Ok(sum.load(Ordering::Relaxed) == 116_316)
        })?;
        let nobody = team.n_ranks();
        assert_panics(NO_MEMBER, || team.rpc_ff(nobody, |(): ()| (), ()));
        assert_panics(NO_MEMBER, || team.rpc(nobody, |(): ()| (), ()));
        assert_panics(NO_MEMBER, || team.rpc_after(put(), nobody, |(): ()| (), ()));
        team.barrier()?;
    }
    world.barrier()
}

/// Sums up its arguments, and the bytes of payloads.
struct Sum(Arc<AtomicU64>);

impl RequestHandler for Sum {
    type Args = u64;

    fn handle(&self, _: Token<'_>, n: u64, payload: Payload<'_>) -> Result<()> {
        let bytes = match payload {
            Payload::Medium(bytes) => bytes.iter().copied().map(u64::from).sum(),
            Payload::Short | Payload::Long(..) => 0,
        };
        self.0.fetch_add(n + bytes, Ordering::Relaxed);
        Ok(())
    }
}

fn members_get_active_messages(world: &World) -> Result<()> {
    attach(world)?;
    let sum = Arc::new(AtomicU64::new(0));
    world.register(Sum(Arc::clone(&sum)))?;
    world.barrier()?;
    for team in teams(world)? {
        let next = (team.rank() + 1) % team.n_ranks();
        team.request::<Sum>(next, &1)?;
        team.request_medium::<Sum>(next, &10, &[1, 2, 3])?;
        until_accepted(world, || team.try_request::<Sum>(next, &100))?;
        until_accepted(world, || team.try_request_medium::<Sum>(next, &1000, &[4]))?;
        let mut prepared = team.prepare(next, 8)?;
        prepared[..2].copy_from_slice(&[5, 6]);
        prepared.commit::<Sum>(&10_000, 2)?;
        drop(team.try_prepare(next, 8)?);
        assert_eq!(
            team.max_medium::<Sum>(next, &1)?,
            world.max_medium::<Sum>(world.rank(), &1)?
        );
        assert_eq!(team.max_long(next), world.segment_bytes());
        let _credits: u64 = team.n_request_credits(next);
        assert_panics(NO_MEMBER, || team.prepare(team.n_ranks(), 8));
        assert_panics(NO_MEMBER, || team.request::<Sum>(team.n_ranks(), &1));
        assert_panics(NO_MEMBER, || team.try_request::<Sum>(team.n_ranks(), &1));
        quiet(world)?;
        assert_eq!(sum.swap(0, Ordering::Relaxed), 11_111 + 21);
        world.barrier()?;
    }
    Ok(())
}

/// Members of each team of a partition send to each other, by the numbers in their teams.
fn items_are_collected_for_members(world: &World) -> Result<()> {
    const N: u64 = 5000;
    type Sums = DistObject<[AtomicU64; 2]>;
    attach(world)?;
    let keep = |sums: Sums, items: &[u64]| {
        sums[0].fetch_add(items.len() as u64, Ordering::Relaxed);
        sums[1].fetch_add(items.iter().sum(), Ordering::Relaxed);
    };
    let reversed = world
        .team()
        .reorder(world.n_ranks() - world.rank().number())?;
    let half = world.team().split(Some(world.rank().number() % 2), 0)?;
    for team in [reversed, half.expect("a colour")] {
        let sums: Sums = DistObject::new(&team, Default::default())?;
        let mut sender = Aggregator::new(&team, keep, sums.clone())?;
        let n = u64::from(team.n_ranks());
        for _ in 0..N {
            for member in 0..team.n_ranks() {
                sender.push(member, u64::from(member))?;
            }
        }
        assert_panics(NO_MEMBER, || sender.push(team.n_ranks(), 0));
        sender.finish()?;
        let [count, sum] = [0, 1].map(|i: usize| sums[i].load(Ordering::Relaxed));
        assert_eq!((count, sum), (N * n, N * n * u64::from(team.rank())));
        world.barrier()?;
    }
    Ok(())
}

fn an_object_is_fetched_by_rank_and_by_number(world: &World) -> Result<()> {
    attach(world)?;
    let of_all = DistObject::new(world, world.rank().number())?;
    let next = neighbour(world, 1);
    assert_eq!(of_all.fetch(next)?.wait()?, next.number());
    assert_panics("was named", || of_all.fetch(Rank::new(world.n_ranks())));
    for team in teams(world)? {
        let object = DistObject::new(&team, 10 * world.rank().number())?;
        for member in 0..team.n_ranks() {
            let rank = team.world_rank(member);
            assert_eq!(object.fetch(member)?.wait()?, 10 * rank.number());
            assert_eq!(object.fetch(rank)?.wait()?, 10 * rank.number());
        }
        if let Some(other) = world.ranks().find(|rank| team.team_rank(*rank).is_none()) {
            assert_panics("is no member of", || object.fetch(other));
        }
        team.barrier()?;
    }
    world.barrier()
}

fn all_members_of_a_team_are_called(world: &World) -> Result<()> {
    attach(world)?;
    let number = |(here, x): (Here, u32)| here.world().rank().number() + x;
    let numbers = world.rpc_all(number, &(Here::new(world), 10))?.wait()?;
    assert!(
        numbers
            .into_iter()
            .eq((0..world.n_ranks()).map(|rank| rank + 10))
    );
    let half = world.team().split(Some(world.rank().number() % 2), 0)?;
    if let Some(half) = half {
        let numbers = half.rpc_all(number, &(Here::new(world), 0))?.wait()?;
        assert!(numbers.into_iter().eq(half.ranks().map(Rank::number)));
        let last = half.n_ranks() - 1;
        let number = half.rpc(last, number, (Here::new(world), 0))?.wait()?;
        assert_eq!(number, half.world_rank(last).number());
        assert_panics(NO_MEMBER, || half.rpc(last + 1, |x: u64| x, 0));
    }
    world.barrier()
}

/// Who returns first from a split calls the others at once.
fn a_team_arrives_as_the_targets_own_handle(world: &World) -> Result<()> {
    attach(world)?;
    let seat = |(team, n): (Team, u32)| (team.rank(), team.n_ranks() + n);
    for n in 0..10 {
        let team = world
            .team()
            .reorder(world.n_ranks() - world.rank().number())?;
        let asked = (0..team.n_ranks()).map(|member| team.rpc(member, seat, (team.clone(), n)));
        let seats = when_all(asked.collect::<Result<Vec<_>>>()?).wait()?;
        let expected = (0..team.n_ranks()).map(|member| (member, world.n_ranks() + n));
        assert!(seats.into_iter().eq(expected));
        assert_eq!(
            team.member_before(team.member_after(team.rank())),
            team.rank()
        );
        world.barrier()?;
    }
    let alone = world
        .team()
        .split(Some(world.rank().number()), 0)?
        .expect("a colour");
    let next = neighbour(world, 1);
    let asked = world.rpc(next, seat, (alone.clone(), 0))?.wait();
    let object = DistObject::new(&alone, 7_u32)?;
    let value = world.rpc(next, |object: DistObject<u32>| *object, object.clone())?;
    let weak = |object: WeakObject<u32>| object.upgrade().map(|object| *object);
    let weak = world.rpc(next, weak, object.downgrade())?.wait();
    if next == world.rank() {
        assert_eq!((asked?, value.wait()?, weak?), ((0, 1), 7, Some(7)));
        weak_objects_that_are_kept_keep_nothing(world, object)?;
    } else {
        let refused = [asked.map(drop), value.wait().map(drop), weak.map(drop)];
        for refused in refused.map(|asked| asked.expect_err("it is no member").to_string()) {
            assert!(refused.contains("is no member of team"), "{refused}");
        }
    }
    world.barrier()
}

/// Each call brings a weak handle to its target, which keeps it.
fn weak_objects_that_are_kept_keep_nothing(world: &World, object: DistObject<u32>) -> Result<()> {
    type Kept = DistObject<Mutex<Vec<WeakObject<u32>>>>;
    let kept = Kept::new(
        &world
            .team()
            .split(Some(world.rank().number()), 0)?
            .expect("a colour"),
        Mutex::default(),
    )?;
    let keep = |(kept, weak): (Kept, WeakObject<u32>)| kept.lock().expect("no panic").push(weak);
    let args = (kept.clone(), object.downgrade());
    world.rpc(world.rank(), keep, args)?.wait()?;
    let weak = kept.lock().expect("no panic").pop().expect("it was called");
    assert_eq!(weak.upgrade().map(|object| *object), Some(7));
    drop(object);
    assert!(weak.upgrade().is_none());
    Ok(())
}

/// The call waits at a member for the object, and the member drops its team without building it.
fn a_call_that_waits_for_an_object_fails_when_its_target_drops_the_team(
    world: &World,
) -> Result<()> {
    attach(world)?;
    let team = world.team().reorder(0)?;
    // One that builds the object never, and the others.
    let builds = world.rank() != Rank::ZERO;
    let asked = builds
        .then(|| -> Result<_> {
            let object = DistObject::new(&team, 7_u32)?;
            let value = |object: DistObject<u32>| *object;
            let asked = world.rpc(Rank::ZERO, value, object.clone())?;
            let weak = |object: WeakObject<u32>| object.upgrade().map(|object| *object);
            let weak = world.rpc(Rank::ZERO, weak, object.downgrade())?;
            Ok((object, asked, weak))
        })
        .transpose()?;
    // The calls are there when the barrier is over, or come when the team is gone.
    world.barrier()?;
    drop(team);
    if let Some((_object, asked, weak)) = asked {
        for refused in [asked.wait().map(drop), weak.wait().map(drop)] {
            let refused = refused.expect_err("it is never built").to_string();
            let text = "has dropped its handles on it";
            assert!(refused.contains(text), "{refused}");
        }
    }
    world.barrier()
}
