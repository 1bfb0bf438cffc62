//! The end of a job of processes when one rank or its launcher fails.

use std::thread;

use libtest_mimic::Trial;
use pgas::World;
use pgas_testkit::fault::{Fault, assert_blamed, assert_known, assert_over, give_up};
use pgas_testkit::job::{END_OF_JOB, JOB_LIMIT, eventually, exit, say};
use pgas_testkit::soon::{Moment, assert_soon};

use crate::jobs::{WATCHED, Way, start};
use crate::trial;
use crate::waits::{FAILING, Part, WAITS, Wait, assert_told_again};

/// Enough ranks for one that fails between others.
const N_RANKS: u32 = 4;
const N_OTHERS: usize = 3;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for wait in WAITS {
        for fault in Fault::ALL {
            if fault == Fault::Leave && !wait.misses_who_left {
                continue;
            }
            let name = format!("{}::{}", wait.name, fault.name());
            trials.push(trial(name, move || {
                for way in WATCHED {
                    the_others_fail_and_the_rank_is_named(way, wait, fault);
                }
            }));
        }
        // Without help from the launcher, the ranks' own liveness checks end them.
        for fault in [Fault::Kill, Fault::Exit(0), Fault::Stop] {
            let name = format!("{}::{}::without_a_watcher", wait.name, fault.name());
            trials.push(trial(name, move || {
                the_others_notice_by_themselves(wait, fault);
            }));
        }
    }
    trials.push(trial("full_mailbox::leave", || {
        the_others_are_told_that_nobody_receives();
    }));
    trials.push(trial("death_of_the_launcher", || {
        the_death_of_what_started_the_ranks_ends_them();
    }));
    trials
}

/// The arguments are a wait and a fault.
pub(crate) fn rank_that_waits(world: World, words: &[String]) -> ! {
    let fault = Fault::named(&words[1]).unwrap();
    let rank = world.rank();
    match Wait::named(&words[0]).play(&world) {
        Ok(Part::Fail) => fault.strike(world),
        Ok(Part::Failed(error)) => {
            assert_told_again(&world);
            // Like a `main` that returns the error.
            drop(world);
            give_up(rank, &error)
        }
        Err(error) => panic!("before the failure: {error}"),
    }
}

fn the_others_fail_and_the_rank_is_named(way: Way, wait: &Wait, fault: Fault) {
    let ended = start(way, N_RANKS, &["wait", wait.name, fault.name()], &[]).end();
    assert_blamed(&ended, fault, FAILING.number());
    assert_known(&ended, FAILING.number(), N_OTHERS);
}

fn the_others_notice_by_themselves(wait: &Wait, fault: Fault) {
    let words = ["wait", wait.name, fault.name()];
    let ended = start(Way::Foreign, N_RANKS, &words, &[]).end();
    assert_over(&ended, fault);
    assert_known(&ended, FAILING.number(), N_OTHERS);
}

/// A rank that has left normally is not blamed for a message that it does not read. The sender gets
/// an error.
fn the_others_are_told_that_nobody_receives() {
    for way in WATCHED {
        let ended = start(way, N_RANKS, &["wait", "full_mailbox", "leave"], &[]).end();
        assert_over(&ended, Fault::Leave);
        assert_eq!(ended.code(), 1, "{ended:?}");
        // So does a send that finds the mailbox full.
        let told = "waited: rank 1 has left the job";
        assert!(ended.stdout.contains(told), "{ended:?}");
    }
}

/// Prints a line and then waits until it is killed, at a point where it notices nothing.
pub(crate) fn rank_that_stays(world: &World) -> ! {
    world.barrier().unwrap();
    say(&format!("rank {} stays", world.rank()));
    if world.rank() == FAILING {
        thread::sleep(JOB_LIMIT);
    }
    let ended = world.barrier();
    say(&format!("rank {} went on: {ended:?}", world.rank()));
    exit(1)
}

fn the_death_of_what_started_the_ranks_ends_them() {
    for way in [Way::Launched, Way::SelfLaunched, Way::Foreign] {
        let mut job = start(way, N_RANKS, &["stay"], &[]);
        job.job.lines(usize::try_from(N_RANKS).unwrap());
        let n_processes = usize::try_from(N_RANKS).unwrap() + 1;
        assert_eq!(job.job.processes().len(), n_processes);
        let killed = Moment::now();
        job.job.child.kill().unwrap();
        eventually("no process is left", || job.job.processes().is_empty());
        assert_soon(killed.elapsed(), END_OF_JOB, &way);
        let ended = job.end();
        assert_eq!((ended.code(), ended.stdout.as_str()), (128 + 9, ""));
    }
}
