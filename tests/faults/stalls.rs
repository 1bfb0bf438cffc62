//! A job in which somebody waits for long says who waits for what, and goes on, or ends if it was told to.

use std::thread;
use std::time::Duration;

use libtest_mimic::Trial;
use pgas::{Config, Rank, RemoteCalls, World};
use pgas_testkit::job::Ended;

use crate::jobs::{WATCHED, start};
use crate::trial;

const N_RANKS: u32 = 3;
/// Who makes no call for a while.
const ABSENT: Rank = Rank::new(2);
const STALL: (&str, &str) = ("PGAS_STALL", "0.5");
const END: (&str, &str) = ("PGAS_STALL_END", "1");
/// How long the absent rank is absent: until well after the report.
const ABSENCE: Duration = Duration::from_millis(2500);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("stall::reported_and_borne::processes", || {
            for way in WATCHED {
                let ended = start(way, N_RANKS, &["stall"], &[STALL]).end();
                assert_eq!(ended.code(), 0, "{ended:?}");
                assert_reported(&ended);
            }
        }),
        trial("stall::ends_the_job::processes", || {
            for way in WATCHED {
                let ended = start(way, N_RANKS, &["stall"], &[STALL, END]).end();
                assert_ne!(ended.code(), 0, "{ended:?}");
                assert_reported(&ended);
                assert!(ended.stderr.contains("(PGAS_STALL_END)"), "{ended:?}");
            }
        }),
        trial("stall::ends_the_job::threads", || {
            let mut config = Config::default();
            config.stall = Some(Duration::from_millis(500));
            config.stall_ends = true;
            let run = |world: World| rank_that_stalls(&world).unwrap_err().to_string();
            let errors = pgas::threads_with(N_RANKS, &config, run).unwrap();
            for error in errors {
                assert!(error.contains("has waited"), "{error}");
                assert!(error.contains("(PGAS_STALL_END)"), "{error}");
                assert!(error.contains(file!()), "{error}");
            }
        }),
    ]
}

/// Rank 0 waits in a barrier and rank 1 for an answer, while rank 2 makes no call.
pub(crate) fn rank_that_stalls(world: &World) -> pgas_am::Result<()> {
    world.barrier()?;
    if world.rank() == ABSENT {
        thread::sleep(ABSENCE);
    } else if world.rank() == Rank::new(1) {
        world.rpc(ABSENT, |x: u64| x + 1, 1)?.wait()?;
    }
    world.barrier()?;
    Ok(())
}

#[track_caller]
fn assert_reported(ended: &Ended) {
    for text in [
        "has waited",
        "Who waits for what (PGAS_STALL):",
        "pgas:   rank 0 waits ",
        "s for a barrier, number ",
        ", of rank 1, rank 2, at tests/faults/stalls.rs:",
        "pgas:   rank 1 waits ",
        "s for the answer of a remote call, of rank 2, at tests/faults/stalls.rs:",
        "pgas:   rank 2 does not answer: it computes",
    ] {
        assert!(ended.stderr.contains(text), "no {text:?} in {ended:?}");
    }
    let n_reports = ended.stderr.matches("Who waits for what").count();
    assert!(n_reports <= 2, "one rank asks for all: {ended:?}");
}
