//! Collectives that move values, compared with their definitions, on several teams.

use pgas_core::collective::op;
use pgas_core::{Pod, Result, Team, World};

use super::case;
use super::teams::some_teams;
use crate::Case;
use crate::support::{assert_panics, random_values};
use pgas_testkit::rng;

pub(super) const CASES: &[Case] = &[
    case!(1, a_broadcast_from_every_root_reaches_all),
    case!(1, a_gather_to_every_root_keeps_the_order),
    case!(1, an_allgather_keeps_the_order),
    case!(1, gathers_of_varying_lengths),
    case!(1, a_scatter_from_every_root_reaches_all),
    case!(1, an_all_to_all_transposes),
    case!(1, an_all_to_all_of_varying_lengths_transposes),
    case!(1, collectives_of_nothing),
    case!(1, collectives_of_values_without_size),
    case!(1, the_methods_of_the_world_are_those_of_its_team),
    case!(1, what_the_world_begins_is_what_its_team_does),
    case!(1, arguments_that_no_member_can_have_panic),
];

/// Lengths at which algorithms change: nothing, one, odd, one message, and more than one message.
pub(super) const LENGTHS: [usize; 7] = [0, 1, 3, 64, 513, 5000, 20_011];

/// The contribution of a member, which every rank can compute.
pub(super) fn given<T: Pod>(salt: u64, member: u32, len: usize) -> Vec<T> {
    random_values(&mut rng((salt << 32) + u64::from(member)), len)
}

/// The contributions of all members.
pub(super) fn all_given<T: Pod>(salt: u64, team: &Team, len: usize) -> Vec<Vec<T>> {
    (0..team.n_ranks())
        .map(|member| given(salt, member, len))
        .collect()
}

fn a_broadcast_from_every_root_reaches_all(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        for root in 0..team.n_ranks() {
            let value = team.broadcast(root, [team.rank(), 7, root])?;
            assert_eq!(value, [root, 7, root]);
            for len in LENGTHS {
                let expected: Vec<[u8; 3]> = given(1, root, len);
                let mut values: Vec<[u8; 3]> = given(1, team.rank(), len);
                team.broadcast_slice(root, &mut values)?;
                assert!(values == expected, "{len} elements from {root}");
            }
            let expected: Vec<u64> = given(2, root, 700);
            let event = team.broadcast_slice_nb(root, given::<u64>(2, team.rank(), 700));
            assert!(event.wait()? == expected);
            assert_eq!(team.broadcast_nb(root, team.rank()).wait()?, root);
        }
    }
    world.barrier()
}

fn a_gather_to_every_root_keeps_the_order(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        for root in 0..team.n_ranks() {
            for len in LENGTHS {
                let mine: Vec<u16> = given(7, team.rank(), len);
                let expected = (team.rank() == root).then(|| all_given(7, &team, len).concat());
                assert!(
                    team.gather(root, &mine)? == expected,
                    "{len} elements to {root}"
                );
                assert!(team.gather_nb(root, mine).wait()? == expected);
            }
        }
    }
    world.barrier()
}

fn an_allgather_keeps_the_order(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        for len in LENGTHS {
            let mine: Vec<[u8; 5]> = given(8, team.rank(), len);
            let expected = all_given::<[u8; 5]>(8, &team, len).concat();
            assert!(team.allgather(&mine)? == expected, "{len} elements");
            assert!(
                team.allgather_nb(mine).wait()? == expected,
                "_nb: {len} elements"
            );
        }
    }
    world.barrier()
}

/// A length for each pair of members, often none.
fn varying(from: u32, to: u32) -> usize {
    [0, 3, 0, 1, 700, 17, 5000][(from * 5 + to * 3) as usize % 7]
}

fn gathers_of_varying_lengths(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        for salt in 0..5 {
            let of = |member: u32| given::<u64>(9, member, varying(member, salt));
            let mine = of(team.rank());
            let expected: Vec<Vec<u64>> = (0..team.n_ranks()).map(of).collect();
            assert!(team.allgather_varying(&mine)? == expected);
            assert!(team.allgather_varying_nb(mine.clone()).wait()? == expected);
            let root = salt % team.n_ranks();
            let expected = (team.rank() == root).then_some(expected);
            assert!(team.gather_varying(root, &mine)? == expected);
            assert!(team.gather_varying_nb(root, mine).wait()? == expected);
        }
    }
    world.barrier()
}

fn a_scatter_from_every_root_reaches_all(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let n = team.n_ranks();
        for root in 0..n {
            let is_root = team.rank() == root;
            for len in [0, 1, 64, 3000] {
                let part = |to: u32| given::<u32>(11 + u64::from(root), to, len);
                let all = if is_root {
                    (0..n).flat_map(part).collect()
                } else {
                    Vec::new()
                };
                assert!(team.scatter(root, &all)? == part(team.rank()), "{len} each");
                assert!(team.scatter_nb(root, all).wait()? == part(team.rank()));
            }
            let part = |to: u32| given::<u16>(12, to, varying(root, to));
            let all = if is_root {
                (0..n).map(part).collect()
            } else {
                Vec::new()
            };
            assert!(team.scatter_varying(root, &all)? == part(team.rank()));
            assert!(team.scatter_varying_nb(root, all).wait()? == part(team.rank()));
        }
    }
    world.barrier()
}

fn an_all_to_all_transposes(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        for len in [0, 1, 3, 64, 700, 3000] {
            let block = |from: u32, to: u32| given::<u32>(10 + u64::from(from), to, len);
            let members = 0..team.n_ranks();
            let sent: Vec<Vec<u32>> = members.clone().map(|to| block(team.rank(), to)).collect();
            let expected: Vec<Vec<u32>> = members.map(|from| block(from, team.rank())).collect();
            let (sent, expected) = (sent.concat(), expected.concat());
            assert!(
                team.all_to_all(&sent)? == expected,
                "{len} elements a member"
            );
            assert!(team.all_to_all_nb(sent).wait()? == expected);
        }
    }
    world.barrier()
}

fn an_all_to_all_of_varying_lengths_transposes(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let block = |from: u32, to: u32| given::<[u8; 3]>(u64::from(from), to, varying(from, to));
        let members = 0..team.n_ranks();
        let sent: Vec<_> = members.clone().map(|to| block(team.rank(), to)).collect();
        let expected: Vec<_> = members.map(|from| block(from, team.rank())).collect();
        assert!(team.all_to_all_varying(&sent)? == expected);
        assert!(team.all_to_all_varying_nb(sent).wait()? == expected);
    }
    world.barrier()
}

fn collectives_of_nothing(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let none: [u64; 0] = [];
        let here = team.rank() == 0;
        team.broadcast_slice::<u64>(0, &mut [])?;
        team.allreduce_slice::<u64>(&mut [], op::Sum)?;
        assert_eq!(team.reduce_slice(0, &none, op::Sum)?, here.then(Vec::new));
        assert_eq!(team.gather(0, &none)?, here.then(Vec::new));
        assert_eq!(team.allgather(&none)?, none);
        assert_eq!(team.all_to_all(&none)?, none);
        assert_eq!(team.scatter(0, &none)?, none);
        team.scan_inclusive_slice::<u64>(&mut [], op::Sum)?;
        let nothing = vec![Vec::new(); team.n_ranks() as usize];
        assert_eq!(team.allgather_varying(&none)?, nothing);
        assert_eq!(team.all_to_all_varying(&nothing)?, nothing);
        assert_eq!(team.gather_varying(0, &none)?, here.then_some(nothing));
    }
    world.barrier()
}

fn collectives_of_values_without_size(world: &World) -> Result<()> {
    type Empty = [u32; 0];
    for team in some_teams(world)? {
        let n = team.n_ranks() as usize;
        assert_eq!(team.broadcast::<Empty>(0, [])?, [0; 0]);
        assert_eq!(team.allgather::<Empty>(&[[], []])?.len(), 2 * n);
        assert_eq!(team.all_to_all::<Empty>(&vec![[]; 3 * n])?.len(), 3 * n);
        assert_eq!(
            team.allreduce(Empty::default(), |a: Empty, _: Empty| a)?,
            [0; 0]
        );
        assert_eq!(team.scatter::<Empty>(0, &vec![[]; 3 * n])?.len(), 3);
        let mine = vec![Empty::default(); team.rank() as usize];
        let seen = team.allgather_varying(&mine)?;
        assert!(seen.iter().enumerate().all(|(i, list)| list.len() == i));
    }
    world.barrier()
}

fn the_methods_of_the_world_are_those_of_its_team(world: &World) -> Result<()> {
    let me = world.rank().number();
    let n = world.n_ranks();
    let last = world.ranks().last().expect("a rank");
    assert_eq!(world.broadcast(last, me)?, n - 1);
    let mut list = [me, 5];
    world.broadcast_slice(last, &mut list)?;
    assert_eq!(list, [n - 1, 5]);
    let sum = n * (n - 1) / 2;
    assert_eq!(world.allreduce(me, op::Sum)?, sum);
    assert_eq!(
        world.reduce(last, me, op::Sum)?,
        (world.rank() == last).then_some(sum)
    );
    let mut sums = [me, 1];
    world.allreduce_slice(&mut sums, op::Sum)?;
    assert_eq!(sums, [sum, n]);
    let everybody: Vec<u32> = (0..n).collect();
    assert_eq!(world.allgather(&[me])?, everybody);
    assert_eq!(
        world.gather(last, &[me])?,
        (world.rank() == last).then(|| everybody.clone())
    );
    assert_eq!(world.all_to_all(&everybody)?, vec![me; n as usize]);
    assert_eq!(world.scan_inclusive(1, op::Sum)?, me + 1);
    assert_eq!(world.scan_exclusive(1, 0, op::Sum)?, me);
    let mut sums = [1, 10];
    world.scan_inclusive_slice(&mut sums, op::Sum)?;
    assert_eq!(sums, [me + 1, 10 * (me + 1)]);
    let mut starts = [1, 10];
    world.scan_exclusive_slice(&mut starts, 0, op::Sum)?;
    assert_eq!(starts, [me, 10 * me]);
    let at_last = world.rank() == last;
    let reduced = world.reduce_slice(last, &[me, 1], op::Sum)?;
    assert_eq!(reduced, at_last.then(|| vec![sum, n]));
    let of = |member: u32| vec![member; member as usize];
    let lists: Vec<_> = (0..n).map(of).collect();
    assert_eq!(world.allgather_varying(&of(me))?, lists);
    let gathered = world.gather_varying(last, &of(me))?;
    assert_eq!(gathered, at_last.then(|| lists.clone()));
    let transposed = world.all_to_all_varying(&lists)?;
    assert_eq!(transposed, vec![of(me); n as usize]);
    assert_eq!(world.scatter(last, &everybody)?, [me]);
    assert_eq!(world.scatter_varying(last, &lists)?, of(me));
    let half = world.split(Some(me % 2), 0)?.expect("a colour");
    assert_eq!(
        (half.rank(), half.world_rank(half.rank())),
        (me / 2, world.rank())
    );
    assert_eq!(world.split(None, 0)?.map(|team| team.rank()), None);
    assert_eq!(world.reorder(n - me)?.rank(), n - 1 - me);
    assert!(world.split_host()?.team_rank(world.rank()).is_some());
    world.barrier()
}

fn what_the_world_begins_is_what_its_team_does(world: &World) -> Result<()> {
    let me = world.rank().number();
    let n = world.n_ranks();
    let last = world.ranks().last().expect("a rank");
    let sum = n * (n - 1) / 2;
    let everybody: Vec<u32> = (0..n).collect();
    let at_last = world.rank() == last;
    // All in flight together.
    let one = world.broadcast_nb(last, me);
    let list = world.broadcast_slice_nb(last, vec![me, 5]);
    let reduced = world.reduce_nb(last, me, op::Sum);
    let met = world.barrier_nb();
    let sums = (
        world.allreduce_nb(me, op::Sum),
        world.allreduce_slice_nb(vec![me, 1], op::Sum),
    );
    let gathered = world.gather_nb(last, vec![me]);
    let all = world.allgather_nb(vec![me]);
    let transposed = world.all_to_all_nb(everybody.clone());
    let scans = (
        world.scan_inclusive_nb(1, op::Sum),
        world.scan_exclusive_nb(1, 0, op::Sum),
        world.scan_inclusive_slice_nb(vec![1, 10], op::Sum),
        world.scan_exclusive_slice_nb(vec![1, 10], 0, op::Sum),
    );
    let scattered = world.scatter_nb(last, everybody.clone());
    let of = |member: u32| vec![member; member as usize];
    let lists: Vec<_> = (0..n).map(of).collect();
    let varying = (
        world.reduce_slice_nb(last, vec![me, 1], op::Sum),
        world.gather_varying_nb(last, of(me)),
        world.allgather_varying_nb(of(me)),
        world.all_to_all_varying_nb(lists.clone()),
        world.scatter_varying_nb(last, lists.clone()),
    );
    assert_eq!(varying.4.wait()?, of(me));
    assert_eq!(varying.3.wait()?, vec![of(me); n as usize]);
    assert_eq!(varying.2.wait()?, lists);
    assert_eq!(varying.1.wait()?, at_last.then_some(lists));
    assert_eq!(varying.0.wait()?, at_last.then(|| vec![sum, n]));
    assert_eq!((scans.0.wait()?, scans.1.wait()?), (me + 1, me));
    assert_eq!(scans.2.wait()?, [me + 1, 10 * (me + 1)]);
    assert_eq!(scans.3.wait()?, [me, 10 * me]);
    assert_eq!(scattered.wait()?, [me]);
    assert_eq!(transposed.wait()?, vec![me; n as usize]);
    assert_eq!(all.wait()?, everybody);
    assert_eq!(gathered.wait()?, at_last.then_some(everybody));
    assert_eq!((sums.0.wait()?, sums.1.wait()?), (sum, vec![sum, n]));
    met.wait()?;
    assert_eq!(reduced.wait()?, at_last.then_some(sum));
    assert_eq!(list.wait()?, [n - 1, 5]);
    assert_eq!(one.wait()?, n - 1);
    world.barrier()
}

fn arguments_that_no_member_can_have_panic(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let n = team.n_ranks();
        let none: [u64; 0] = [];
        assert_panics("", || team.broadcast(n, 1));
        assert_panics("", || team.reduce(n, 1, op::Sum));
        assert_panics("", || team.gather(u32::MAX, &none));
        assert_panics("", || team.gather_varying(n, &none));
        assert_panics("", || team.scatter(n, &none));
        assert_panics("", || team.scatter_varying(n, &[vec![1]]));
        let entries = vec![vec![1]; n as usize + 1];
        assert_panics("entries", || team.scatter_varying(team.rank(), &entries));
        if n > 1 {
            let odd = vec![1_u8; n as usize + 1];
            assert_panics("divided", || team.scatter(team.rank(), &odd));
        }
        assert_panics("", || {
            team.all_to_all_varying(&vec![vec![1]; n as usize + 1])
        });
        assert_panics("", || team.world_rank(n));
        if n > 1 {
            assert_panics("", || team.all_to_all(&vec![1_u8; n as usize + 1]));
        }
        // Nothing has begun: the team still works.
        assert_eq!(team.allreduce(1, op::Sum)?, n);
    }
    world.barrier()
}
