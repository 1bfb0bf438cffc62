//! Signals to the launcher.

use crate::job::{END_OF_JOB, eventually, pgas_run, start, state_of};
use pgas_testkit::Deadline;
use pgas_testkit::job::JOB_LIMIT;
use pgas_testkit::soon::{Moment, assert_timely, tried};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn a_request_to_end_reaches_the_ranks() {
    for (signal, name, number) in [
        (Signal::TERM, "SIGTERM", 15),
        (Signal::INT, "SIGINT", 2),
        (Signal::HUP, "SIGHUP", 1),
    ] {
        let mut job = start(pgas_run(3, &[], "echo ready; exec sleep 60"));
        job.lines(3);
        let sent = Moment::now();
        job.signal(signal);
        let ended = job.end();
        assert!(sent.elapsed() < END_OF_JOB, "{ended:?}");
        assert_eq!(ended.code(), 128 + number, "{ended:?}");
        assert!(
            ended
                .stderr
                .starts_with(&format!("pgas: {name} ended the job after ")),
            "{ended:?}"
        );
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(ended.left.is_empty(), "{ended:?}");
    }
}

#[test]
fn ranks_may_end_in_their_own_way_when_asked() {
    let script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut job = start(pgas_run(2, &[], script));
    job.lines(2);
    job.signal(Signal::TERM);
    let ended = job.end();
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (0, "saved\nsaved\n"),
        "{ended:?}"
    );
}

#[test]
fn a_second_request_to_end_kills_the_job() {
    let script = "trap 'echo no' INT; echo ready; while :; do sleep 0.02; done";
    let mut job = start(pgas_run(2, &[], script));
    job.lines(2);
    job.signal(Signal::INT);
    assert_eq!(job.lines(2), ["no", "no"]);
    // Requests in quick succession count as one. The ranks say when enough time has passed.
    std::thread::sleep(std::time::Duration::from_millis(250));
    let sent = Moment::now();
    job.signal(Signal::INT);
    let ended = job.end();
    assert!(sent.elapsed() < END_OF_JOB, "{ended:?}");
    assert_eq!(ended.code(), 128 + 2, "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

#[test]
fn requests_to_end_in_quick_succession_reach_the_ranks_once() {
    // Of signals that wait for a shell, or for the launcher, the one with the lower number is first.
    let script = "trap 'echo asked' HUP; trap 'echo over; exit 0' USR1; echo ready; \
                  while :; do sleep 0.02; done";
    tried(|| {
        let mut job = start(pgas_run(2, &[], script));
        job.lines(2);
        job.signal(Signal::HUP);
        assert_eq!(job.lines(2), ["asked", "asked"]);
        job.signal(Signal::HUP);
        job.signal(Signal::USR1);
        let ended = job.end();
        // If too much time has passed, the second is another request, and kills the job.
        assert_timely(ended.code() != 128 + 1, &ended);
        assert_eq!(
            (ended.code(), ended.stdout.as_str()),
            (0, "over\nover\n"),
            "{ended:?}"
        );
    });
}

#[test]
fn other_signals_are_passed_on() {
    let script = "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo ready; while :; do sleep 0.02; done";
    let mut job = start(pgas_run(2, &[], script));
    job.lines(2);
    job.signal(Signal::USR1);
    assert_eq!(job.lines(2), ["one", "one"]);
    job.signal(Signal::USR2);
    let ended = job.end();
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (0, "two\ntwo\n"),
        "{ended:?}"
    );
}

#[test]
fn the_death_of_the_launcher_ends_all_ranks() {
    for options in [&[][..], &["--inherit"]] {
        let mut job = start(pgas_run(
            4,
            options,
            "trap '' TERM HUP; echo ready; exec sleep 60",
        ));
        job.lines(4);
        // A process in the middle of an exec has no variables for a moment.
        eventually("the launcher and its ranks are there", || {
            job.processes().len() == 5
        });
        job.signal(Signal::KILL);
        eventually("no process is left", || job.processes().is_empty());
        let ended = job.end();
        assert_eq!(ended.code(), 128 + 9);
        assert!(ended.left.is_empty(), "{ended:?}");
    }
}

#[test]
fn a_job_stops_and_continues_with_its_launcher() {
    let mut command = pgas_run(2, &[], "echo ready; while :; do sleep 0.02; done");
    // In a process group of its own, as a shell starts a job.
    command.process_group(0);
    let mut job = start(command);
    job.lines(2);
    let launcher = job.child.id();
    let ranks = || {
        let text = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
        text.unwrap()
            .split_ascii_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect::<Vec<u32>>()
    };
    assert_eq!(ranks().len(), 2);
    let all_stopped = || {
        let mut all = ranks();
        all.push(launcher);
        all.into_iter().all(|pid| state_of(pid) == Some('T'))
    };
    job.signal(Signal::TSTP);
    eventually("launcher and ranks are stopped", all_stopped);
    job.signal(Signal::CONT);
    eventually("the ranks go on", || {
        ranks().into_iter().all(|pid| state_of(pid) != Some('T'))
    });
    job.signal(Signal::TERM);
    assert_eq!(job.end().code(), 128 + 15);
}

#[test]
fn a_launcher_stops_also_while_it_waits_for_the_reader_of_the_rest_of_the_output() {
    let _deadline = Deadline::new("a job with a slow reader", JOB_LIMIT);
    let (mut reader, writer) = io::pipe().unwrap();
    // More than the reader's pipe takes, and less than that pipe and the rank's: the rank ends, and
    // the launcher stays.
    let mut command = pgas_run(1, &[], "head -c 100000 /dev/zero");
    command.process_group(0).stdout(writer);
    let mut job = command.spawn().unwrap();
    // It has the writing end.
    drop(command);
    let launcher = job.id();
    let mut begun = [0];
    reader.read_exact(&mut begun).unwrap();
    let children = format!("/proc/{launcher}/task/{launcher}/children");
    eventually("the rank has ended", || {
        std::fs::read_to_string(&children).unwrap().is_empty()
    });
    let signal = |signal| kill_process(Pid::from_child(&job), signal).unwrap();
    signal(Signal::TSTP);
    eventually("it is stopped", || state_of(launcher) == Some('T'));
    signal(Signal::CONT);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 99_999);
    assert_eq!(job.wait().unwrap().code(), Some(0));
}

#[test]
fn a_job_ends_well_although_its_launcher_was_started_with_sigchld_ignored() {
    let run = |program: &[&str]| {
        let mut command = Command::new("env");
        command
            .args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_pgas-run")])
            .args(["-n", "2", "--"])
            .args(program);
        start(command).end()
    };
    // The ranks do not ignore it either. A shell would set it by itself.
    let ended = run(&["grep", "SigIgn", "/proc/self/status"]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 2, "{ended:?}");
    for line in ended.stdout.lines() {
        let ignored = line.rsplit('\t').next().unwrap();
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        assert_eq!(ignored >> (Signal::CHILD.as_raw() - 1) & 1, 0, "{line}");
    }
    let ended = run(&["false"]);
    assert_eq!(ended.code(), 1, "{ended:?}");
}
