//! Teams: their members, and their independence.

use std::collections::HashSet;

use pgas_core::collective::op;
use pgas_core::{Error, Rank, Result, Team, World};

use super::{case, checked_case};
use crate::Case;
use pgas_testkit::rng;

pub(super) const CASES: &[Case] = &[
    case!(1, the_team_of_the_world_has_all_ranks_in_order),
    case!(1, a_split_puts_each_colour_into_a_team_of_its_own),
    case!(1, keys_decide_the_order_of_a_team),
    case!(1, who_gives_no_colour_joins_no_team),
    case!(1, random_splits_follow_the_model),
    case!(1, splits_of_splits),
    case!(
        1,
        numbers_in_a_team_and_in_the_world_translate_into_each_other
    ),
    case!(1, teams_that_exist_together_have_different_ids),
    case!(1, the_team_of_a_node_has_this_rank),
    case!(1, the_barrier_of_a_team_separates_its_phases),
    case!(3, the_barrier_of_a_team_does_not_wait_for_others),
    case!(1, teams_that_overlap_work_side_by_side),
    checked_case!(1, what_fails_on_one_member_is_told_to_all),
];

/// The teams on which collectives are tested: all ranks, all in reverse order, every second rank,
/// and one rank alone.
pub(super) fn some_teams(world: &World) -> Result<Vec<Team>> {
    let me = world.rank().number();
    let n = world.n_ranks();
    let all = world.team();
    let split =
        |colour, key| -> Result<Team> { Ok(all.split(Some(colour), key)?.expect("a colour")) };
    let reversed = split(0, n - me)?;
    let alternate = split(me % 2, me * 7 % 5)?;
    let alone = split(me, 0)?;
    Ok(vec![world.team(), reversed, alternate, alone])
}

fn members(team: &Team) -> Vec<u32> {
    team.ranks().map(Rank::number).collect()
}

fn the_team_of_the_world_has_all_ranks_in_order(world: &World) -> Result<()> {
    let team = world.team();
    assert!(team.is_world());
    assert_eq!(
        (team.rank(), team.n_ranks()),
        (world.rank().number(), world.n_ranks())
    );
    assert!(team.ranks().eq(world.ranks()));
    assert_eq!(team.id(), world.team().id());
    assert_eq!(team.world().rank(), world.rank());
    world.barrier()
}

fn a_split_puts_each_colour_into_a_team_of_its_own(world: &World) -> Result<()> {
    let me = world.rank().number();
    for colours in 1..=world.n_ranks() + 1 {
        let team = world
            .team()
            .split(Some(me % colours), 0)?
            .expect("a colour");
        let expected: Vec<u32> = (me % colours..world.n_ranks())
            .step_by(colours as usize)
            .collect();
        assert_eq!(members(&team), expected, "{colours} colours");
        assert_eq!(team.world_rank(team.rank()), world.rank());
        let sum = team.allreduce(me, op::Sum)?;
        assert_eq!(sum, expected.iter().sum::<u32>());
    }
    world.barrier()
}

fn keys_decide_the_order_of_a_team(world: &World) -> Result<()> {
    let n = world.n_ranks();
    let me = world.rank().number();
    let reversed = world
        .team()
        .split(Some(u32::MAX), n - me)?
        .expect("a colour");
    assert_eq!(members(&reversed), (0..n).rev().collect::<Vec<_>>());
    assert_eq!(reversed.rank(), n - 1 - me);
    assert!(!reversed.is_world());
    // Equal keys keep the order of the team that is split.
    let same = reversed.split(Some(0), 5)?.expect("a colour");
    assert_eq!(members(&same), members(&reversed));
    let odd_first = world.team().split(Some(0), 1 - me % 2)?.expect("a colour");
    let expected: Vec<u32> = (0..n)
        .filter(|r| r % 2 == 1)
        .chain((0..n).filter(|r| r % 2 == 0))
        .collect();
    assert_eq!(members(&odd_first), expected);
    assert_eq!(odd_first.allgather(&[me])?, expected);
    world.barrier()
}

fn who_gives_no_colour_joins_no_team(world: &World) -> Result<()> {
    let me = world.rank().number();
    let last = world.n_ranks() - 1;
    let team = world.team().split((me != last).then_some(9), 0)?;
    assert_eq!(team.is_some(), me != last);
    if let Some(team) = team {
        assert_eq!(team.n_ranks(), last);
        assert_eq!(team.team_rank(Rank::new(last)), None);
        team.barrier()?;
    }
    assert!(world.team().split(None, 0)?.is_none());
    world.barrier()
}

fn random_splits_follow_the_model(world: &World) -> Result<()> {
    let mut shared = rng(100);
    for _ in 0..20 {
        let choices: Vec<(Option<u32>, u32)> = world
            .ranks()
            .map(|_| {
                let joins = shared.u8(..5) > 0;
                let (colour, key) = (shared.u32(..3), shared.u32(..3));
                (joins.then_some(colour), key)
            })
            .collect();
        let (colour, key) = choices[world.rank().index()];
        let team = world.team().split(colour, key)?;
        let mut expected: Vec<u32> = (0..world.n_ranks())
            .filter(|r| colour.is_some() && choices[*r as usize].0 == colour)
            .collect();
        expected.sort_by_key(|r| choices[*r as usize].1);
        assert_eq!(
            team.as_ref().map(members),
            (!expected.is_empty()).then_some(expected)
        );
    }
    world.barrier()
}

fn splits_of_splits(world: &World) -> Result<()> {
    let mut team = world.team();
    let mut expected = members(&team);
    // Halves of halves, down to one.
    while team.n_ranks() > 1 {
        let half = team.n_ranks().div_ceil(2);
        let upper = team.rank() >= half;
        expected = if upper {
            expected.split_off(half as usize)
        } else {
            expected[..half as usize].to_vec()
        };
        expected.reverse();
        team = team
            .split(Some(upper.into()), u32::MAX - team.rank())?
            .expect("a colour");
        assert_eq!(members(&team), expected);
        let sum = team.allreduce(world.rank().number() + 1, op::Sum)?;
        assert_eq!(sum, expected.iter().map(|r| r + 1).sum::<u32>());
    }
    assert_eq!(expected, [world.rank().number()]);
    world.barrier()
}

fn numbers_in_a_team_and_in_the_world_translate_into_each_other(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let listed: Vec<Rank> = team.ranks().collect();
        assert_eq!(listed.len(), team.n_ranks() as usize);
        for (i, rank) in (0..).zip(&listed) {
            assert_eq!(team.world_rank(i), *rank);
            assert_eq!(team.team_rank(*rank), Some(i));
        }
        for rank in world.ranks().filter(|rank| !listed.contains(rank)) {
            assert_eq!(team.team_rank(rank), None);
        }
        assert_eq!(team.team_rank(world.rank()), Some(team.rank()));
        assert_eq!(team.team_rank(Rank::new(world.n_ranks())), None);
    }
    world.barrier()
}

fn teams_that_exist_together_have_different_ids(world: &World) -> Result<()> {
    let teams = some_teams(world)?;
    let ids: HashSet<_> = teams.iter().map(Team::id).collect();
    assert_eq!(ids.len(), teams.len());
    world.barrier()
}

fn the_team_of_a_node_has_this_rank(world: &World) -> Result<()> {
    let node = world.team().split_host()?;
    assert_eq!(node.world_rank(node.rank()), world.rank());
    for rank in node.ranks() {
        assert!(rank == world.rank() || world.is_direct(rank) || !world.config().direct);
    }
    let sizes = world.allgather(&[node.n_ranks()])?;
    for rank in node.ranks() {
        assert_eq!(sizes[rank.index()], node.n_ranks(), "both sides agree");
    }
    world.barrier()
}

fn the_barrier_of_a_team_separates_its_phases(world: &World) -> Result<()> {
    let slots = world.alloc_symmetric::<u64>(world.n_ranks() as usize)?;
    let me = world.rank().index();
    for (turn, team) in (0..).zip(some_teams(world)?) {
        for round in 1..=20 {
            let mark = turn * 100 + round;
            for rank in team.ranks() {
                slots.on(rank).add(me).put(world, mark)?;
            }
            team.barrier()?;
            for rank in team.ranks() {
                let seen = slots.here().add(rank.index()).get(world)?;
                assert_eq!(seen, mark, "from rank {rank}");
            }
            if round % 2 == 0 {
                team.barrier()?;
            } else {
                team.barrier_nb().wait()?;
            }
        }
        world.barrier()?;
    }
    Ok(())
}

fn the_barrier_of_a_team_does_not_wait_for_others(world: &World) -> Result<()> {
    let flag = world.alloc_symmetric::<u64>(1)?;
    let last = Rank::new(world.n_ranks() - 1);
    let colour = u32::from(world.rank() == last);
    let team = world.team().split(Some(colour), 0)?.expect("a colour");
    if world.rank() == last {
        // Comes only after the others have passed all of their barriers.
        flag.here().wait_until(world, |seen| seen == 1)?;
    } else {
        for _ in 0..100 {
            team.barrier()?;
        }
        if team.rank() == 0 {
            flag.on(last).atomic_store(world, 1)?;
            world.flush(last)?;
        }
    }
    world.barrier()
}

/// Each rank is in the teams of its column and of its row.
fn teams_that_overlap_work_side_by_side(world: &World) -> Result<()> {
    const WIDTH: u32 = 3;
    let me = world.rank().number();
    let row = world.team().split(Some(me / WIDTH), me)?.expect("a colour");
    let column = world.team().split(Some(me % WIDTH), me)?.expect("a colour");
    for round in 0..50_u32 {
        let (a, b) = if (round + me).is_multiple_of(2) {
            let a = row.allreduce_nb(me + round, op::Sum);
            (a, column.allreduce_nb(me * round, op::Sum))
        } else {
            let b = column.allreduce_nb(me * round, op::Sum);
            (row.allreduce_nb(me + round, op::Sum), b)
        };
        let (of_column, of_row) = (b.wait()?, a.wait()?);
        let sum = |team: &Team, value: fn(u32, u32) -> u32| -> u32 {
            team.ranks().map(|rank| value(rank.number(), round)).sum()
        };
        assert_eq!(of_row, sum(&row, |rank, round| rank + round));
        assert_eq!(of_column, sum(&column, |rank, round| rank * round));
    }
    world.barrier()
}

fn what_fails_on_one_member_is_told_to_all(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let last = team.n_ranks() - 1;
        let step = |fails: bool| -> Result<u32> {
            if fails {
                return Err(Error::Argument("as the case wants".into()));
            }
            Ok(team.rank())
        };
        assert_eq!(team.all_try("a step", || step(false))?, team.rank());
        assert_eq!(team.all_succeeded("a step", step(false))?, team.rank());
        let failed = team.all_try("a step", || step(team.rank() == last));
        assert!(failed.is_err(), "{failed:?}");
        let failed = team.all_succeeded("a step", step(team.rank() == last));
        assert!(failed.is_err(), "{failed:?}");
        let sum = team.all_try_reduce("a step", || step(false), op::Sum)?;
        assert_eq!(sum, (0..=last).sum::<u32>());
        let failed = team.all_try_reduce("a step", || step(team.rank() == last), op::Sum);
        let text = failed.expect_err("the last one fails").to_string();
        assert!(text.contains("as the case wants"), "{text}");
        team.agree("a number", 7)?;
        team.agree_on("a choice", &["one", "another"], 1)?;
        team.agree_nb("a number", 8).wait()?;
        if last > 0 {
            let differ = team.agree("a number", u64::from(team.rank()));
            assert!(matches!(differ, Err(Error::Mismatch(_))), "{differ:?}");
            let choice = usize::from(team.rank() == last);
            let differ = team.agree_on("a choice", &["one", "another"], choice);
            let text = differ.expect_err("one is another").to_string();
            assert!(text.contains("\"another\""), "{text}");
        }
        // The team goes on.
        assert_eq!(team.allreduce(1, op::Sum)?, last + 1);
    }
    world.barrier()
}
