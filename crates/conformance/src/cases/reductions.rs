//! Collectives that combine values, compared with folds in the order of the members.

use std::fmt::Debug;

use pgas_core::collective::{ReduceOp, op};
use pgas_core::{Pod, Result, Team, World};

use super::case;
use super::collectives::{LENGTHS, all_given, given};
use super::teams::some_teams;
use crate::Case;
use pgas_testkit::rng;

pub(super) const CASES: &[Case] = &[
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
    case!(1, scans_combine_what_stands_before),
];

/// The elements of all members, combined index by index in the order of the members.
fn folded<T: Pod>(all: &[Vec<T>], op: &impl ReduceOp<T>) -> Vec<T> {
    let mut folded = all[0].clone();
    for values in &all[1..] {
        for (sum, value) in folded.iter_mut().zip(values) {
            *sum = op.combine(*sum, *value);
        }
    }
    folded
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

/// Composition of maps `x -> a * x + b` modulo 2^64: associative, but not commutative.
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
        // Zero on some members, two on others: logical *and* and *or*, not bitwise ones.
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

fn scans_combine_what_stands_before(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let me = u64::from(team.rank());
        let before: u64 = (0..me).map(|member| member + 10).sum();
        assert_eq!(team.scan_exclusive(me + 10, 0, op::Sum)?, before);
        assert_eq!(team.scan_inclusive(me + 10, op::Sum)?, before + me + 10);
        // The first member gets the initial value, which is not part of the others' results.
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
