//! Every collective against what its definition says, on several teams.

use std::fmt::Debug;

use pgas_core::collective::{ReduceOp, op};
use pgas_core::{Pod, Result, Team, World};

use super::case;
use super::teams::some_teams;
use crate::support::{assert_panics, random_values};
use crate::{Case, rng};

pub(super) const CASES: &[Case] = &[
    case!(1, a_broadcast_from_every_root_reaches_all),
    case!(1, a_reduce_to_every_root_combines_all),
    case!(1, an_allreduce_combines_all_for_all),
    case!(
        1,
        reductions_keep_the_order_of_operators_that_do_not_commute
    ),
    case!(1, every_built_in_operator_follows_its_definition),
    case!(
        1,
        sums_of_floats_are_the_same_bits_everywhere_and_every_time
    ),
    case!(1, a_gather_to_every_root_keeps_the_order),
    case!(1, an_allgather_keeps_the_order),
    case!(1, gathers_of_varying_lengths),
    case!(1, an_all_to_all_transposes),
    case!(1, an_all_to_all_of_varying_lengths_transposes),
    case!(1, scans_combine_what_stands_before),
    case!(1, collectives_of_nothing),
    case!(1, collectives_of_values_without_size),
    case!(1, the_methods_of_the_world_are_those_of_its_team),
    case!(1, arguments_that_no_member_can_have_panic),
];

/// Lengths at which algorithms change: nothing, one, odd, a message, and beyond what one carries.
const LENGTHS: [usize; 7] = [0, 1, 3, 64, 513, 5000, 20_011];

/// What a member contributes; everybody can tell.
fn given<T: Pod>(salt: u64, member: u32, len: usize) -> Vec<T> {
    random_values(&mut rng((salt << 32) + u64::from(member)), len)
}

/// What all members contribute.
fn all_given<T: Pod>(salt: u64, team: &Team, len: usize) -> Vec<Vec<T>> {
    (0..team.n_ranks())
        .map(|member| given(salt, member, len))
        .collect()
}

/// The elements of all members combined place by place, in the order of the members.
fn folded<T: Pod>(all: &[Vec<T>], op: &impl ReduceOp<T>) -> Vec<T> {
    let mut folded = all[0].clone();
    for values in &all[1..] {
        for (sum, value) in folded.iter_mut().zip(values) {
            *sum = op.combine(*sum, *value);
        }
    }
    folded
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

fn a_reduce_to_every_root_combines_all(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        for root in 0..team.n_ranks() {
            let here = team.rank() == root;
            let sum = (0..u64::from(team.n_ranks())).sum::<u64>();
            let seen = team.reduce(root, u64::from(team.rank()), op::Sum)?;
            assert_eq!(seen, here.then_some(sum));
            let seen = team
                .reduce_nb(root, u64::from(team.rank()), op::Sum)
                .wait()?;
            assert_eq!(seen, here.then_some(sum));
            for len in LENGTHS {
                let expected = folded(&all_given::<u32>(3, &team, len), &op::Sum);
                let mine: Vec<u32> = given(3, team.rank(), len);
                let seen = team.reduce_slice(root, &mine, op::Sum)?;
                assert!(
                    seen == here.then(|| expected.clone()),
                    "{len} elements to {root}"
                );
                let seen = team.reduce_slice_nb(root, mine, op::Sum).wait()?;
                assert!(
                    seen == here.then_some(expected),
                    "_nb: {len} elements to {root}"
                );
            }
        }
    }
    world.barrier()
}

fn an_allreduce_combines_all_for_all(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let most = team.allreduce(team.rank(), op::Max)?;
        assert_eq!(most, team.n_ranks() - 1);
        for len in LENGTHS {
            let expected = folded(&all_given::<u64>(4, &team, len), &op::Sum);
            let mut values: Vec<u64> = given(4, team.rank(), len);
            let event = team.allreduce_slice_nb(values.clone(), op::Sum);
            team.allreduce_slice(&mut values, op::Sum)?;
            assert!(values == expected, "{len} elements");
            assert!(event.wait()? == expected, "_nb: {len} elements");
        }
    }
    world.barrier()
}

/// Composition of maps `x -> a * x + b` modulo 2^64: associative, and it does not commute.
type Map = [u64; 2];

fn then(first: Map, second: Map) -> Map {
    [
        first[0].wrapping_mul(second[0]),
        second[0].wrapping_mul(first[1]).wrapping_add(second[1]),
    ]
}

fn reductions_keep_the_order_of_operators_that_do_not_commute(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        for len in [1, 5, 700, 5000] {
            let all = all_given::<Map>(5, &team, len);
            let mine = &all[team.rank() as usize];
            let expected = folded(&all, &then);
            let mut values = mine.clone();
            team.allreduce_slice(&mut values, then)?;
            assert!(values == expected, "allreduce of {len}");
            for root in [0, team.n_ranks() - 1, team.n_ranks() / 2] {
                let seen = team.reduce_slice(root, mine, then)?;
                assert!(
                    seen.is_none_or(|seen| seen == expected),
                    "reduce of {len} to {root}"
                );
            }
            let before = &all[..team.rank() as usize];
            let mut values = mine.clone();
            team.scan_inclusive_slice(&mut values, then)?;
            assert!(values == folded(&all[..=team.rank() as usize], &then));
            let mut values = mine.clone();
            let first: Map = [1, 0];
            team.scan_exclusive_slice(&mut values, first, then)?;
            let expected = if before.is_empty() {
                vec![first; len]
            } else {
                folded(before, &then)
            };
            assert!(values == expected, "exclusive scan of {len}");
        }
    }
    world.barrier()
}

fn check_op<T, O>(team: &Team, op: O, plain: impl Fn(T, T) -> T) -> Result<()>
where
    T: Pod + PartialEq + Debug,
    O: ReduceOp<T> + Copy + Send + 'static,
{
    let all = all_given::<T>(6, team, 33);
    let mut values = all[team.rank() as usize].clone();
    team.allreduce_slice(&mut values, op)?;
    assert_eq!(
        values,
        folded(&all, &plain),
        "{}",
        std::any::type_name::<O>()
    );
    Ok(())
}

fn every_built_in_operator_follows_its_definition(world: &World) -> Result<()> {
    let team = world.team();
    check_op::<u8, _>(&team, op::Sum, u8::wrapping_add)?;
    check_op::<i16, _>(&team, op::Product, i16::wrapping_mul)?;
    check_op::<u32, _>(&team, op::Min, Ord::min)?;
    check_op::<i64, _>(&team, op::Max, Ord::max)?;
    check_op::<i8, _>(&team, op::Min, Ord::min)?;
    check_op::<u64, _>(&team, op::BitAnd, |a, b| a & b)?;
    check_op::<u16, _>(&team, op::BitOr, |a, b| a | b)?;
    check_op::<i32, _>(&team, op::BitXor, |a, b| a ^ b)?;
    let truth = |value: bool| u32::from(value);
    for case in 0..8 {
        // Zero on some members, two on others: and, or are of truth, not of bits.
        let mine = 2 * (case >> (team.rank() % 3) & 1);
        let of = |member: u32| case >> (member % 3) & 1 == 1;
        let all = (0..team.n_ranks()).all(of);
        let any = (0..team.n_ranks()).any(of);
        let (and, or) = (
            team.allreduce(mine, op::And)?,
            team.allreduce(mine, op::Or)?,
        );
        if team.n_ranks() > 1 {
            assert_eq!((and, or), (truth(all), truth(any)), "case {case}");
        }
    }
    let floats = [2.5_f64, -1.0, f64::NAN, 7.0];
    let mine = floats[team.rank() as usize % 4];
    let given = &floats[..floats.len().min(team.n_ranks() as usize)];
    let least = given.iter().copied().fold(f64::NAN, f64::min);
    let most = given.iter().copied().fold(f64::NAN, f64::max);
    assert_eq!(team.allreduce(mine, op::Min)?.to_bits(), least.to_bits());
    assert_eq!(team.allreduce(mine, op::Max)?.to_bits(), most.to_bits());
    world.barrier()
}

fn sums_of_floats_are_the_same_bits_everywhere_and_every_time(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        for len in [1, 100, 9000] {
            let mut own = rng(u64::from(team.rank()));
            let mine: Vec<f64> = (0..len).map(|_| own.f64() * 1e10 - 5e9).collect();
            let mut first = mine.clone();
            team.allreduce_slice(&mut first, op::Sum)?;
            let bits =
                |values: &[f64]| -> Vec<u64> { values.iter().map(|v| v.to_bits()).collect() };
            let mut roots = bits(&first);
            team.broadcast_slice(0, &mut roots)?;
            assert!(roots == bits(&first), "all members have the same bits");
            for _ in 0..3 {
                let mut again = mine.clone();
                team.allreduce_slice(&mut again, op::Sum)?;
                assert!(bits(&again) == roots, "and have them again");
            }
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

fn scans_combine_what_stands_before(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let me = u64::from(team.rank());
        let before: u64 = (0..me).map(|member| member + 10).sum();
        assert_eq!(team.scan_exclusive(me + 10, 0, op::Sum)?, before);
        assert_eq!(team.scan_inclusive(me + 10, op::Sum)?, before + me + 10);
        // The first member's value is given, and is no part of the others'.
        let seen = team.scan_exclusive_nb(me + 10, 1_000_000, op::Sum).wait()?;
        assert_eq!(seen, if me == 0 { 1_000_000 } else { before });
        assert_eq!(
            team.scan_inclusive_nb(me + 10, op::Sum).wait()?,
            before + me + 10
        );
        for len in LENGTHS {
            let all = all_given::<u32>(11, &team, len);
            let mut values = all[team.rank() as usize].clone();
            team.scan_inclusive_slice(&mut values, op::Sum)?;
            let expected = folded(&all[..=team.rank() as usize], &op::Sum);
            assert!(values == expected, "{len} elements");
        }
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
        assert_panics("", || {
            team.all_to_all_varying(&vec![vec![1]; n as usize + 1])
        });
        assert_panics("", || team.world_rank(n));
        if n > 1 {
            assert_panics("", || team.all_to_all(&vec![1_u8; n as usize + 1]));
        }
        // Nothing was begun: the team still works.
        assert_eq!(team.allreduce(1, op::Sum)?, n);
    }
    world.barrier()
}
