//! A job whose processes are stopped together and go on later, as by Ctrl-Z or a batch system: that
//! time counts for no limit of a wait.

use std::thread;
use std::time::Duration;

use libtest_mimic::Trial;
use pgas::{Rank, World};
use pgas_testkit::job::say;
use rustix::process::{Pid, Signal, kill_process};

use crate::jobs::{Way, assert_well, start};
use crate::trial;

const N_RANKS: u32 = 3;
/// The rank that the others wait for, for a second of its own.
const LATE: Rank = Rank::new(1);
/// The limits of waits, in seconds. The job is stopped for longer.
const SETTINGS: [(&str, &str); 3] = [
    ("PGAS_TIMEOUT", "5"),
    ("PGAS_STALL", "5"),
    ("PGAS_STALL_END", "1"),
];
const STOPPED: Duration = Duration::from_secs(8);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (way, wait) in [(Way::Launched, "barrier"), (Way::SelfLaunched, "quiet")] {
        let name = format!("suspended::goes_on::{wait}");
        trials.push(trial(name, move || a_stopped_job_goes_on(way, wait)));
    }
    trials
}

pub(crate) fn rank_that_waits(world: &World, wait: &str) {
    world.barrier().unwrap();
    say("begins to wait");
    if world.rank() == LATE {
        (0..10).for_each(|_| thread::sleep(Duration::from_millis(100)));
    }
    match wait {
        "quiet" => pgas::quiet(world).unwrap(),
        _ => world.barrier().unwrap(),
    }
}

fn a_stopped_job_goes_on(way: Way, wait: &str) {
    let mut job = start(way, N_RANKS, &["suspended", wait], &SETTINGS);
    job.job.lines(N_RANKS as usize);
    // The others sleep in their waits by then.
    thread::sleep(Duration::from_millis(300));
    let processes = job.job.processes();
    let tell = |signal| {
        for pid in &processes {
            let pid = Pid::from_raw(pid.cast_signed()).unwrap();
            kill_process(pid, signal).unwrap();
        }
    };
    tell(Signal::STOP);
    thread::sleep(STOPPED);
    tell(Signal::CONT);
    assert_well(&job.end());
}
