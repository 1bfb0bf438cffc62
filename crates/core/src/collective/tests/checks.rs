//! Ranks that disagree get an error with `PGAS_CHECK=1`, all of them.

use super::{kinds, on};
use crate::backend::loopback::{self, Options};
use crate::collective::{Kind, op};
use crate::{Config, Error, Result, Team, World};

fn checking() -> Config {
    Config {
        check: true,
        ..Config::default()
    }
}

/// Runs `body`, in which the ranks disagree, and returns the text that all of them get, whoever
/// performs the collectives.
fn disagreement(n_ranks: u32, body: impl Fn(&World, &Team) -> Result<()> + Sync) -> String {
    let [plain, native] = kinds().map(|options| disagreement_over(&options, n_ranks, &body));
    assert_eq!(plain, native);
    plain
}

fn disagreement_over(
    options: &Options,
    n_ranks: u32,
    body: impl Fn(&World, &Team) -> Result<()> + Sync,
) -> String {
    let texts = loopback::run_over(options, n_ranks, &checking(), |world| {
        let team = world.team();
        let error = body(&world, &team).unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        // The team is still in step.
        assert_eq!(team.allreduce(1, op::Sum).unwrap(), n_ranks);
        error.to_string()
    });
    for text in &texts {
        assert_eq!(text, &texts[0]);
    }
    texts[0].clone()
}

#[test]
fn different_collectives_are_named() {
    let text = disagreement(3, |world, team| match world.rank().number() {
        1 => world.barrier(),
        _ => team.broadcast(0, 1).map(drop),
    });
    assert!(
        text.contains(
            "the collective that they call: rank 1 has a barrier, rank 0 has a broadcast"
        ),
        "{text}"
    );
}

#[test]
fn different_roots_are_named() {
    let text = disagreement(7, |_, team| {
        let root = if team.rank() == 4 { 6 } else { 2 };
        team.reduce(root, 1, op::Sum).map(drop)
    });
    assert!(
        text.contains("the root of a reduce: rank 0 has 2, rank 4 has 6"),
        "{text}"
    );
}

#[test]
fn different_lengths_and_element_sizes_are_named() {
    let text = disagreement(4, |world, team| {
        team.allgather(&vec![0_u8; world.rank().index() + 1])
            .map(drop)
    });
    assert!(
        text.contains("the length of an allgather: rank 0 has 1, rank 3 has 4"),
        "{text}"
    );
    let text = disagreement(2, |_, team| match team.rank() {
        0 => team.broadcast(0, 1_u32).map(drop),
        _ => team.broadcast(0, 1_u64).map(drop),
    });
    assert!(
        text.contains("the element size of a broadcast: rank 0 has 4, rank 1 has 8"),
        "{text}"
    );
}

#[test]
fn different_operators_are_named() {
    let text = disagreement(2, |_, team| match team.rank() {
        0 => team.allreduce(1, op::Sum).map(drop),
        _ => team.allreduce_nb(1, op::Max).wait().map(drop),
    });
    assert!(
        text.contains("the operator of an allreduce: rank 0 has Sum, rank 1 has Max"),
        "{text}"
    );
    let text = disagreement(2, |_, team| match team.rank() {
        0 => team.allreduce(1, op::Sum).map(drop),
        _ => team.allreduce(1, |a: i32, b: i32| a + b).map(drop),
    });
    assert!(
        text.contains("rank 1 has one of its own, rank 0 has Sum"),
        "{text}"
    );
}

#[test]
fn different_element_types_of_one_size_are_named() {
    let text = disagreement(2, |_, team| match team.rank() {
        0 => team.allreduce(1_u32, op::Max).map(drop),
        _ => team.allreduce(1_i32, op::Max).map(drop),
    });
    assert!(
        text.contains("the element type of an allreduce: rank 0 has u32, rank 1 has i32"),
        "{text}"
    );
    let text = disagreement(3, |_, team| match team.rank() {
        2 => team.allreduce_nb(1.0, op::Sum).wait().map(drop),
        _ => team.allreduce(1_i64, op::Sum).map(drop),
    });
    assert!(
        text.contains("rank 2 has no integer up to 64 bits, rank 0 has i64"),
        "{text}"
    );
}

#[test]
fn different_values_to_agree_on_are_named() {
    let text = disagreement(3, |world, team| {
        team.agree(
            "the capacity of a table",
            100 + u64::from(world.rank().number() / 2),
        )
    });
    assert!(
        text.contains("the capacity of a table: rank 0 has 100, rank 2 has 101"),
        "{text}"
    );
}

#[test]
fn different_sizes_of_a_symmetric_allocation_are_named() {
    let text = disagreement(3, |world, _| {
        world
            .alloc_symmetric::<u32>(world.rank().index() + 1)
            .map(drop)
    });
    assert!(
        text.contains("the bytes of a symmetric allocation: rank 0 has 4, rank 2 has 12"),
        "{text}"
    );
}

#[test]
fn ranks_that_agree_notice_nothing() {
    on(7, &checking(), |world| {
        let team = world.team();
        let half = team.split(Some(team.rank() % 2), 0)?.unwrap();
        half.agree("their number", half.n_ranks().into())?;
        assert_eq!(half.broadcast(1, half.rank())?, 1);
        assert_eq!(
            team.gather_varying(0, &vec![0; world.rank().index()])?
                .is_some(),
            team.rank() == 0
        );
        world.barrier()?;
        half.barrier()
    });
}

#[test]
fn without_checks_nothing_is_compared() {
    on(2, &Config::default(), |world| {
        world
            .team()
            .agree("something", world.rank().number().into())
    });
}

#[test]
fn a_message_of_another_length_is_an_error_without_checks_too() {
    loopback::run(2, |world| {
        let team = world.team();
        let result = team.broadcast_slice(0, &mut vec![0_u8; world.rank().index() + 1]);
        if team.rank() == 1 {
            let text = result.unwrap_err().to_string();
            assert!(
                text.contains("a message of a broadcast: rank 1 has 2, rank 0 has 1"),
                "{text}"
            );
        } else {
            result.unwrap();
        }
    });
}

#[test]
fn kinds_are_listed_at_their_numbers() {
    for (i, kind) in (0..).zip(Kind::ALL) {
        assert_eq!(kind as u64, i);
    }
}
