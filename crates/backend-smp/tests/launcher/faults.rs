//! Ranks of this library that fail in every way while the others wait for them in a barrier.

use crate::job::{END_OF_JOB, Ended, start};
use crate::self_launch::{PART, finish, variable};
use pgas_core::{Config, World};
use std::process::Command;

/// The rank that fails; odd, and neither the first nor the last.
const FAILING: u32 = 1;

/// Runs in the ranks that the tests below start; elsewhere it has nothing to do.
#[test]
fn rank_of_a_failing_job() {
    let Some(fault) = variable(PART).and_then(|part| Some(part.strip_prefix("fault ")?.to_owned()))
    else {
        return;
    };
    let world = pgas_smp::init(&Config::from_env().unwrap()).unwrap();
    // A rank that is slow to leave the first barrier hears of the failure there.
    let waited = world.barrier();
    let leaves = match fault.as_str() {
        "one leaves" => world.rank().number() == FAILING,
        "all leave" => true,
        _ => false,
    };
    if leaves {
        drop(world);
        finish(4);
        return;
    }
    let waited = waited.and_then(|()| {
        if world.rank().number() == FAILING {
            fail(&fault, &world);
        }
        world.barrier()
    });
    match waited {
        Ok(()) => finish(0),
        Err(error) => {
            crate::self_launch::say(&format!("{} waited: {error}", world.rank()));
            finish(1);
        }
    }
}

fn fail(fault: &str, world: &World) {
    let send = |signal| rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    match fault {
        "none" => {}
        "panic" => panic!("this rank panics"),
        "abort" => std::process::abort(),
        "kill" => send(rustix::process::Signal::KILL),
        "exit 0" => finish(0),
        "exit 3" => finish(3),
        "abort the job" => world.abort(5, "no way on"),
        other => panic!("{other}?"),
    }
}

/// Runs the job with `pgas-run`, and by itself.
fn both_ways(fault: &str) -> [Ended; 2] {
    let program = std::env::current_exe().unwrap();
    let mut with_launcher = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
    with_launcher.args(["-n", "4"]).arg(&program);
    let mut alone = Command::new(&program);
    alone.env("PGAS_RANKS", "4");
    [with_launcher, alone].map(|mut command| {
        command.args(["--exact", "faults::rank_of_a_failing_job", "--nocapture"]);
        command
            .env(PART, format!("fault {fault}"))
            .env("PGAS_SEGMENT", "16M");
        start(command).end()
    })
}

/// Asserts that the job ended in time, named the failing rank once and left nothing.
fn assert_blamed(ended: &Ended, code: i32, cause: &str) {
    assert_eq!(ended.code(), code, "{ended:?}");
    assert!(ended.took < END_OF_JOB, "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
    let verdicts: Vec<_> = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("pgas: rank "))
        .collect();
    let told = |line: &&&str| line.contains("(pid ");
    let [verdict] = verdicts.iter().filter(told).collect::<Vec<_>>()[..] else {
        panic!("{ended:?}")
    };
    assert!(
        verdict.starts_with(&format!("pgas: rank {FAILING} (pid ")),
        "{ended:?}"
    );
    assert!(verdict.contains(cause), "{ended:?}");
}

/// Asserts that each of the other ranks was told by its barrier.
fn assert_others_know(ended: &Ended) {
    let expected = format!("waited: rank {FAILING} ");
    let waited = ended
        .stdout
        .lines()
        .filter(|line| line.contains(&expected))
        .count();
    assert_eq!(waited, 3, "{ended:?}");
}

#[test]
fn a_job_without_a_fault_ends_well() {
    for ended in both_ways("none") {
        assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
    }
}

#[test]
fn a_panic_ends_the_job() {
    for ended in both_ways("panic") {
        assert!(ended.stderr.contains("this rank panics"), "{ended:?}");
        assert_blamed(&ended, 101, "exited with code 101");
        assert_others_know(&ended);
    }
}

#[test]
fn an_abort_ends_the_job() {
    for ended in both_ways("abort") {
        assert_blamed(&ended, 128 + 6, "was killed by signal 6 (SIGABRT");
        assert_others_know(&ended);
    }
}

#[test]
fn a_kill_ends_the_job() {
    for ended in both_ways("kill") {
        assert_blamed(&ended, 128 + 9, "was killed by signal 9 (SIGKILL)");
        assert_others_know(&ended);
    }
}

#[test]
fn an_exit_ends_the_job() {
    for ended in both_ways("exit 3") {
        assert_blamed(&ended, 3, "exited with code 3");
        assert_others_know(&ended);
    }
}

#[test]
fn an_exit_that_looks_well_ends_the_job() {
    for ended in both_ways("exit 0") {
        assert_blamed(&ended, 1, "exited with code 0 without leaving the job");
        assert_others_know(&ended);
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
fn a_rank_that_leaves_others_waiting_ends_the_job() {
    for ended in both_ways("one leaves") {
        assert!([1, 4].contains(&ended.code()), "{ended:?}");
        assert!(ended.stderr.starts_with("pgas: rank "), "{ended:?}");
        // Some hear of the rank that left, some of one that failed for it.
        assert_eq!(
            ended.stdout.matches(" waited: rank ").count(),
            3,
            "{ended:?}"
        );
    }
}

#[test]
fn a_rank_may_abort_the_job() {
    for ended in both_ways("abort the job") {
        assert!(ended.stderr.contains("no way on"), "{ended:?}");
        assert_blamed(&ended, 5, "exited with code 5");
        assert_others_know(&ended);
    }
}
