//! With `PGAS_CHECK=1` all ranks get an error if they disagree.

use std::time::Duration;

use super::{kinds, on};
use crate::backend::loopback::{self, Options};
use crate::collective::op;
use crate::wire::Header;
use crate::{Config, Error, Result, Team, World};

fn checking() -> Config {
    Config {
        check: Some(true),
        ..Config::default()
    }
}

/// Runs `body`, in which the ranks disagree, over a transport with collectives of its own and over
/// one without. Returns the error's text, the same on all ranks and over both.
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
        // The team's next collective still works.
        assert_eq!(team.allreduce(1, op::Sum).unwrap(), n_ranks);
        error.to_string()
    });
    for text in &texts {
        assert_eq!(text, &texts[0]);
    }
    texts[0].clone()
}

/// Whether `text` says what the ranks have, each with a line of this file.
fn tells(text: &str, what: &str, values: [(u32, &str); 2]) -> bool {
    let [a, b] = values.map(|(rank, value)| format!("rank {rank} has {value} at {}:", file!()));
    let mut parts = text.split(", rank ");
    let (Some(first), Some(second)) = (parts.next(), parts.next()) else {
        return false;
    };
    first.contains(&format!("{what}: {a}")) && format!("rank {second}").starts_with(&b)
}

#[test]
fn different_collectives_are_named() {
    let text = disagreement(3, |world, team| match world.rank().number() {
        1 => world.barrier(),
        _ => team.broadcast(0, 1).map(drop),
    });
    let calls = [(0, "a broadcast"), (1, "a barrier")];
    assert!(
        tells(&text, "the collective that they call", calls),
        "{text}"
    );
}

/// The world's barrier is the transport's own, and never meets one by messages.
#[test]
fn a_barrier_and_one_that_is_begun_without_a_wait_are_named() {
    let text = disagreement(3, |world, team| match world.rank().number() {
        0 => world.barrier(),
        _ => team.barrier_nb().wait(),
    });
    let calls = [(0, "a barrier"), (1, "a barrier begun by barrier_nb")];
    assert!(
        tells(&text, "the collective that they call", calls),
        "{text}"
    );
    on(4, &checking(), |world| {
        let half = world.team().split(Some(world.rank().number() % 2), 0)?;
        let half = half.expect("each rank has a colour");
        if half.rank() == 0 {
            half.barrier()
        } else {
            half.barrier_nb().wait()
        }
    });
}

#[test]
fn different_roots_are_named() {
    let text = disagreement(7, |_, team| {
        let root = if team.rank() == 4 { 6 } else { 2 };
        team.reduce(root, 1, op::Sum).map(drop)
    });
    let values = [(0, "2"), (4, "6")];
    assert!(tells(&text, "the root of a reduce", values), "{text}");
}

#[test]
fn different_lengths_and_element_sizes_are_named() {
    let text = disagreement(4, |world, team| {
        team.allgather(&vec![0_u8; world.rank().index() + 1])
            .map(drop)
    });
    let values = [(0, "1"), (3, "4")];
    assert!(tells(&text, "the length of an allgather", values), "{text}");
    let text = disagreement(2, |_, team| match team.rank() {
        0 => team.broadcast(0, 1_u32).map(drop),
        _ => team.broadcast(0, 1_u64).map(drop),
    });
    let values = [(0, "4"), (1, "8")];
    assert!(
        tells(&text, "the element size of a broadcast", values),
        "{text}"
    );
}

#[test]
fn different_operators_are_named() {
    let text = disagreement(2, |_, team| match team.rank() {
        0 => team.allreduce(1, op::Sum).map(drop),
        _ => team.allreduce_nb(1, op::Max).wait().map(drop),
    });
    let values = [(0, "Sum"), (1, "Max")];
    assert!(
        tells(&text, "the operator of an allreduce", values),
        "{text}"
    );
    let text = disagreement(2, |_, team| match team.rank() {
        0 => team.allreduce(1, op::Sum).map(drop),
        _ => team.allreduce(1, |a: i32, b: i32| a + b).map(drop),
    });
    let values = [(0, "Sum"), (1, "one of its own")];
    assert!(
        tells(&text, "the operator of an allreduce", values),
        "{text}"
    );
}

#[test]
fn different_element_types_of_one_size_are_named() {
    let text = disagreement(2, |_, team| match team.rank() {
        0 => team.allreduce(1_u32, op::Max).map(drop),
        _ => team.allreduce(1_i32, op::Max).map(drop),
    });
    let values = [(0, "u32"), (1, "i32")];
    assert!(
        tells(&text, "the element type of an allreduce", values),
        "{text}"
    );
    let text = disagreement(3, |_, team| match team.rank() {
        2 => team.allreduce_nb(1.0, op::Sum).wait().map(drop),
        _ => team.allreduce(1_i64, op::Sum).map(drop),
    });
    let values = [(0, "i64"), (2, "no integer up to 64 bits")];
    assert!(
        tells(&text, "the element type of an allreduce", values),
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
    let values = [(0, "100"), (2, "101")];
    assert!(tells(&text, "the capacity of a table", values), "{text}");
}

#[test]
fn comparisons_of_different_subjects_are_different_calls() {
    let text = disagreement(2, |_, team| match team.rank() {
        0 => team.agree("the capacity of a table", 5),
        _ => team.agree("the host of a queue", 7),
    });
    let calls = [
        (0, "a comparison of the capacity of a table"),
        (1, "a comparison of the host of a queue"),
    ];
    assert!(
        tells(&text, "the collective that they call", calls),
        "{text}"
    );
}

#[test]
fn the_calls_that_collectives_are_parts_of_are_compared() {
    let text = disagreement(3, |world, _| {
        let _waits = match world.rank().number() {
            2 => crate::part_of("a flush"),
            _ => crate::part_of("a resize"),
        };
        world.barrier()
    });
    let calls = [
        (0, "a barrier, as a part of a resize,"),
        (2, "a barrier, as a part of a flush,"),
    ];
    assert!(
        tells(&text, "the collective that they call", calls),
        "{text}"
    );
}

#[test]
fn methods_of_different_objects_are_told_apart() {
    let text = disagreement(4, |world, _| {
        let object = world.rank().number() / 2;
        let _waits = crate::part_of_object("a resize of a map", object.into());
        world.barrier()
    });
    let objects = [(0, "one"), (2, "another one")];
    assert!(
        tells(&text, "the object of a resize of a map", objects),
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
    let values = [(0, "4"), (2, "12")];
    assert!(
        tells(&text, "the bytes of a symmetric allocation", values),
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

/// Calls with values of a given length on each member.
const CALLS: [fn(&Team, usize) -> Result<()>; 7] = [
    |team, n| team.broadcast_slice(0, &mut vec![0_u8; n]),
    |team, n| team.reduce_slice(0, &vec![0_u8; n], op::Sum).map(drop),
    |team, n| team.allreduce_slice(&mut vec![0_u8; n], op::Sum),
    |team, n| team.allgather(&vec![0_u8; n]).map(drop),
    |team, n| {
        let values = vec![0_u8; n * team.n_ranks() as usize];
        team.all_to_all(&values).map(drop)
    },
    |team, n| team.scan_inclusive_slice(&mut vec![0_u8; n], op::Sum),
    |team, n| team.scan_exclusive_slice(&mut vec![0_u8; n], 0, op::Sum),
];

#[test]
fn a_message_of_another_length_is_an_error_without_checks_too() {
    // What one message of the reference transport carries.
    const PIECE: usize = 4096 - size_of::<Header>();
    // Otherwise a member that waits would not end.
    let config = Config {
        timeout: Some(Duration::from_secs(20)),
        ..Config::default()
    };
    // Each beside others that a member may confuse it with.
    let lengths = [1, 0, PIECE, 2 * PIECE, 2 * PIECE + 1, PIECE, 40_000, 257, 1];
    let pairs = lengths
        .windows(2)
        .flat_map(|pair| [[pair[0], pair[1]], [pair[1], pair[0]]]);
    for [usual, other] in pairs {
        for (i, n_ranks) in (0..2 * CALLS.len()).map(|i| (i / 2, [2, 5][i % 2])) {
            let call = CALLS[i];
            let told = loopback::run_with(n_ranks, &config, |world| {
                let team = world.team();
                let is_last = team.rank() + 1 == n_ranks;
                call(&team, if is_last { other } else { usual }).err()
            });
            let is_told = |error: &Error| matches!(error, Error::Mismatch(_));
            assert!(
                told.iter().flatten().any(is_told),
                "call {i} with {usual} and {other} of {n_ranks}: {told:?}"
            );
        }
    }
}

/// A message of the algorithm for long values may be as long as one of that for short ones.
#[test]
fn a_member_with_the_algorithm_of_another_length_is_told_from_the_others() {
    let config = Config {
        timeout: Some(Duration::from_secs(20)),
        ..Config::default()
    };
    let [allreduce, all_to_all] = [CALLS[2], CALLS[4]];
    let cases = [
        (allreduce, 2, [64 << 10, 32 << 10]),
        (allreduce, 3, [64 << 10, 32 << 10]),
        (allreduce, 4, [64 << 10, 16 << 10]),
        (all_to_all, 5, [300, 150]),
        (all_to_all, 8, [300, 75]),
    ];
    for (call, n_ranks, [long, short]) in cases {
        for (usual, other) in [(long, short), (short, long)] {
            let told = loopback::run_with(n_ranks, &config, |world| {
                let team = world.team();
                let len = if team.rank() == 0 { other } else { usual };
                call(&team, len).err()
            });
            // Nobody can have a result.
            assert!(
                told.iter().all(Option::is_some),
                "{usual} {other}: {told:?}"
            );
            let is_told = |error: &&Error| matches!(error, Error::Mismatch(_));
            let text = told.iter().flatten().find(is_told).map(ToString::to_string);
            let name = "ranks disagree on the algorithm of an all";
            assert!(
                text.is_some_and(|text| text.starts_with(name)),
                "{n_ranks} ranks, {usual} and {other}: {told:?}"
            );
        }
    }
}

#[test]
fn different_sizes_and_alignments_of_an_allocation_are_named() {
    let allocation = |n: [usize; 2], align: [usize; 2]| {
        disagreement(2, |world, team| {
            let me = world.rank().index();
            team.alloc_symmetric_aligned::<u64>(n[me], align[me])
                .map(drop)
        })
    };
    let text = allocation([4, 5], [64, 64]);
    let what = "the bytes of a symmetric allocation";
    assert!(tells(&text, what, [(0, "32"), (1, "40")]), "{text}");
    let text = allocation([4, 4], [64, 4096]);
    let what = "the alignment of a symmetric allocation";
    assert!(tells(&text, what, [(0, "64"), (1, "4096")]), "{text}");
}
