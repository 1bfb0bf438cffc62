//! Ranks of this library that fail in every way while the others wait for them in a barrier. Every
//! other kind of wait is in the whole library's tests.

use crate::job::{Ended, start};
use crate::self_launch::{PART, variable};
use pgas_core::Config;
use pgas_testkit::fault::{Fault, STALL, assert_blamed, assert_known, give_up};
use pgas_testkit::job::exit;
use pgas_testkit::soon::tried;
use std::process::Command;

/// The rank that fails; odd, and neither the first nor the last.
const FAILING: u32 = 1;

/// Runs in the ranks that the tests below start. Elsewhere it does nothing.
#[test]
fn rank_of_a_failing_job() {
    let Some(part) = variable(PART).and_then(|part| Some(part.strip_prefix("fault ")?.to_owned()))
    else {
        return;
    };
    let world = pgas_smp::init(&Config::from_env().unwrap()).unwrap();
    let rank = world.rank();
    let is_failing = rank.number() == FAILING;
    // A rank that is slow to leave the first barrier hears of the failure there.
    let waited = world.barrier();
    if part == "all leave" || part == "one leaves" && is_failing {
        drop(world);
        exit(4);
    }
    let waited = waited.and_then(|()| match Fault::named(&part) {
        Some(fault) if is_failing => fault.strike(world),
        _ => world.barrier(),
    });
    match waited {
        Ok(()) => exit(0),
        Err(error) => give_up(rank, &error),
    }
}

/// Runs the job with `pgas-run`, and by itself.
fn both_ways(part: &str) -> [Ended; 2] {
    let program = std::env::current_exe().unwrap();
    let mut with_launcher = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
    with_launcher.args(["-n", "4"]).arg(&program);
    let mut alone = Command::new(&program);
    alone.env("PGAS_RANKS", "4");
    [with_launcher, alone].map(|mut command| {
        command.args(["--exact", "faults::rank_of_a_failing_job", "--nocapture"]);
        command
            .env(PART, format!("fault {part}"))
            .env("PGAS_SEGMENT", "16M")
            .env(STALL.0, STALL.1);
        start(command).end()
    })
}

#[test]
fn a_job_without_a_fault_ends_well() {
    for ended in both_ways("none") {
        assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
    }
}

#[test]
fn a_rank_that_fails_ends_the_job_and_is_named() {
    for fault in Fault::ALL {
        tried(|| {
            for ended in both_ways(fault.name()) {
                assert_blamed(&ended, fault, FAILING);
                assert_known(&ended, FAILING, 3);
            }
        });
    }
}

#[test]
fn a_panic_and_an_abort_say_why() {
    for (fault, text) in [
        (Fault::Panic, "this rank panics"),
        (Fault::AbortJob, "no way on"),
    ] {
        for ended in both_ways(fault.name()) {
            assert!(ended.stderr.contains(text), "{ended:?}");
        }
    }
}

#[test]
fn ranks_that_leave_before_they_exit_speak_for_themselves() {
    for ended in both_ways("all leave") {
        assert_eq!((ended.code(), ended.stderr.as_str()), (4, ""), "{ended:?}");
        assert!(ended.left.is_empty(), "{ended:?}");
    }
}

#[test]
fn a_rank_that_leaves_others_waiting_and_fails_ends_the_job() {
    tried(|| {
        for ended in both_ways("one leaves") {
            assert_eq!(ended.code(), 4, "{ended:?}");
            // The launcher says nothing more if the others noticed the rank's end and said so.
            let named = format!("pgas: rank {FAILING} (pid ");
            let told = ended.stderr.as_str();
            assert!(told.is_empty() || told.starts_with(&named), "{ended:?}");
            assert_known(&ended, FAILING, 3);
        }
    });
}
