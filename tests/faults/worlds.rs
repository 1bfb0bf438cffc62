//! One job for each process: a process that asks for the world again gets the same one, and cannot
//! return after it has left. Ranks as threads belong to separate jobs.

use std::process::Command;
use std::sync::Barrier;
use std::thread;

use libtest_mimic::Trial;
use pgas::Config;
use pgas::config::launch::Launcher;
use pgas::prelude::*;
use pgas_core::Error;

use crate::jobs::{Way, assert_well, start};
use crate::parts::RANK;
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for way in [Way::Launched, Way::SelfLaunched, Way::Foreign] {
        for progress in ["poll", "thread"] {
            let name = format!("worlds::asked_for_again::{way:?}::{progress}");
            trials.push(trial(name, move || {
                let settings = [("PGAS_PROGRESS", progress)];
                assert_well(&start(way, 3, &["nested"], &settings).end());
            }));
        }
    }
    let of_threads: [(&str, fn()); 4] = [
        (
            "of_a_thread",
            init_on_a_rank_that_is_a_thread_gives_its_world,
        ),
        ("within_threads", threads_within_ranks_that_are_threads),
        ("side_by_side", jobs_of_threads_side_by_side),
        ("one_after_another", jobs_of_threads_one_after_another),
    ];
    let of_threads = of_threads
        .into_iter()
        .map(|(name, body)| trial(format!("worlds::{name}"), body));
    trials.extend(of_threads);
    trials
}

/// The part of a rank that is a process.
pub(crate) fn nested(world: World) {
    let again = pgas::init().unwrap();
    shared_by(&world, &again);
    // Threads of a library may ask at any time.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let third = pgas::init_with(&Config::default()).unwrap();
                assert_eq!(third.config().segment_bytes, world.config().segment_bytes);
                third.alloc::<u64>(1).unwrap().put(&third, 1).unwrap();
            });
        }
    });
    let answer = world
        .rpc(
            next(&world),
            |n: u64| n + u64::from(pgas::init().unwrap().rank().number()),
            40,
        )
        .unwrap();
    let expected = 40 + u64::from(next(&again).number());
    assert_eq!(answer.wait().unwrap(), expected);
    again.barrier().unwrap();
    if let Launcher::Own { .. } = world.config().launcher {
        a_program_that_a_rank_starts_is_told_that_it_is_none();
    }
    // A job of threads within a rank is separate, and does not affect this one.
    let ranks = pgas::threads(2, |inner| {
        let same = pgas::init().unwrap();
        inner.barrier().unwrap();
        (same.rank().number(), same.n_ranks())
    });
    assert_eq!(ranks.unwrap(), [(0, 2), (1, 2)]);
    drop(world);
    // One handle keeps the rank in the job.
    again.barrier().unwrap();
    assert_eq!(pgas::init().unwrap().n_ranks(), again.n_ranks());
    drop(again);
    refused(pgas::init(), "this process has left its job");
    refused(
        pgas::init_with(&Config::default()),
        "this process has left its job",
    );
}

/// It has the rank's environment, but not the job's memory.
fn a_program_that_a_rank_starts_is_told_that_it_is_none() {
    let mut program = Command::new(std::env::current_exe().unwrap());
    let ended = program.args([RANK, "stay"]).output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{text}");
    for part in [
        "PGAS_JOB_FD=",
        "a program that a rank starts",
        "PGAS_JOB_ID",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

fn next(world: &World) -> Rank {
    Rank::new((world.rank().number() + 1) % world.n_ranks())
}

#[track_caller]
fn refused(result: Result<World, Error>, text: &str) {
    let error = result.map(drop).unwrap_err();
    assert!(matches!(error, Error::CannotRejoin { .. }), "{error:?}");
    assert!(error.to_string().contains(text), "{error}");
}

/// Two handles of one rank allocate in one segment, and their collectives are those of one team.
fn shared_by(first: &World, second: &World) {
    assert_eq!(first.rank(), second.rank());
    assert_eq!(first.n_ranks(), second.n_ranks());
    let cells: Vec<_> = (0..8)
        .map(|i| [first, second][i % 2].alloc::<u64>(3).unwrap())
        .collect();
    for (i, cell) in cells.iter().enumerate() {
        cell.put_slice(first, &[i as u64; 3]).unwrap();
    }
    for (i, cell) in cells.iter().enumerate() {
        assert_eq!(cell.get_vec(second, 3).unwrap(), [i as u64; 3]);
    }
    let one = HashMap::<u64, u64>::with_capacity(first, 1000).unwrap();
    let other = HashMap::<u64, u64>::with_capacity(second, 1000).unwrap();
    let own = u64::from(first.rank().number());
    let n = usize::try_from(first.n_ranks()).unwrap();
    for key in (own..300).step_by(n) {
        one.insert(&key, key).unwrap();
        other.insert(&key, key + 1000).unwrap();
    }
    first.barrier().unwrap();
    for key in 0..300 {
        assert_eq!(one.find(&key).unwrap(), Some(key));
        assert_eq!(other.find(&key).unwrap(), Some(key + 1000));
    }
    second.barrier().unwrap();
}

fn init_on_a_rank_that_is_a_thread_gives_its_world() {
    let results = pgas::threads(3, |world| {
        let again = pgas::init().unwrap();
        shared_by(&world, &again);
        drop(world);
        again.barrier().unwrap();
        drop(again);
        refused(pgas::init(), "this thread has left its job");
    });
    results.unwrap();
    // Ranks as threads do not affect the process's own job.
    let results = pgas::threads(2, |world| pgas::init().unwrap().rank() == world.rank());
    assert_eq!(results.unwrap(), [true, true]);
}

fn threads_within_ranks_that_are_threads() {
    let sums = pgas::threads(2, |outer| {
        let sums = pgas::threads(3, |inner| {
            let world = pgas::init().unwrap();
            assert_eq!((world.rank(), world.n_ranks()), (inner.rank(), 3));
            world.allreduce(1_u32, |a, b| a + b).unwrap()
        });
        assert_eq!(sums.unwrap(), [3; 3]);
        let again = pgas::init().unwrap();
        assert_eq!(again.rank(), outer.rank());
        again.allreduce(1_u32, |a, b| a + b).unwrap()
    });
    assert_eq!(sums.unwrap(), [2; 2]);
}

fn jobs_of_threads_side_by_side() {
    let all_run = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let results = pgas::threads(2, |world| {
                    if world.rank() == Rank::ZERO {
                        all_run.wait();
                    }
                    shared_by(&world, &pgas::init().unwrap());
                });
                results.unwrap();
            });
        }
    });
}

fn jobs_of_threads_one_after_another() {
    for n_ranks in [1, 2, 3, 2, 1] {
        let results = pgas::threads(n_ranks, |world| {
            shared_by(&world, &pgas::init().unwrap());
        });
        results.unwrap();
    }
}
