//! A program that starts its own ranks, and what the owner of the job's memory tells the
//! supervisor.
//!
//! A supervisor adopts all orphans of its process, so it must not run among other tests: each of
//! these tests starts this test program again, with the supervisor's part as the only test.

use crate::job::{END_OF_JOB, Ended, end_after, eventually, start};
use pgas_core::config::launch::Launcher;
use pgas_smp::launcher::{self, Failure, JobHooks, NoHooks, Part, SuperviseOptions};
use pgas_testkit::job::{exit, say};
use pgas_testkit::soon::{assert_soon, assert_timely, tried};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The variable that names the part that [`supervisor`] plays.
pub(crate) const PART: &str = "LAUNCHER_TEST_PART";

#[expect(
    clippy::disallowed_methods,
    reason = "a test reads what another test set"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn play(part: &str) -> Ended {
    start(player(part)).end()
}

fn player(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "self_launch::supervisor", "--nocapture"])
        .env(PART, part);
    command
}

/// Runs in the processes that [`play`] starts, and in the ranks that these start. Elsewhere it does
/// nothing.
#[test]
fn supervisor() {
    match (
        variable(PART).as_deref(),
        Launcher::detect(&variable).unwrap(),
    ) {
        (
            Some("self launch"),
            Launcher::Own {
                rank,
                n_ranks,
                job_fd,
                ..
            },
        ) => {
            add_to_memory(rank, n_ranks, job_fd);
        }
        (Some("self launch"), _) => launch_myself(),
        (Some("left early"), _) => watch_members(),
        (Some("hooks fail"), _) => fail_to_watch(),
        (Some("for ever"), _) => wait_for_ever(),
        (Some("all exit"), _) => watch_exits(),
        (Some(CULPRIT), _) => watch_culprit("sleep 0.1; exit 6", "exec sleep 60"),
        (Some(GOES_ON), _) => watch_culprit("exec sleep 60", "exit 6"),
        (Some(HAS_LEFT), _) => watch_culprit("sleep 0.1; exit 0", "exec sleep 60"),
        (Some("slow leavers"), _) => watch_leavers_that_cannot_run(),
        _ => {}
    }
}

fn launch_myself() {
    let memory = memfd_create("job", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, 4).unwrap();
    let mut memory = File::from(memory);
    let outcome = launcher::self_launch(4, &memory, &mut NoHooks).unwrap();
    let mut written = Vec::new();
    memory.rewind().unwrap();
    memory.read_to_end(&mut written).unwrap();
    say(&format!("memory {written:?}"));
    exit(outcome.code());
}

fn add_to_memory(rank: u32, n_ranks: u32, job_fd: i32) {
    assert_eq!(n_ranks, 4);
    let number = format!("/proc/self/fd/{job_fd}");
    let memory = File::options().write(true).open(number).unwrap();
    std::os::unix::fs::FileExt::write_all_at(
        &memory,
        &[10 + u8::try_from(rank).unwrap()],
        rank.into(),
    )
    .unwrap();
    say(&format!("rank {rank} was here"));
}

#[test]
fn a_program_starts_itself_as_the_ranks_of_a_job() {
    let ended = play("self launch");
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(
        ended.stdout.contains("memory [10, 11, 12, 13]\n"),
        "{ended:?}"
    );
    for rank in 0..4 {
        assert!(
            ended.stdout.contains(&format!("rank {rank} was here\n")),
            "{ended:?}"
        );
    }
}

/// Counts rank 1 as a member for ever, and as the first to fail.
struct Members;

impl JobHooks for Members {
    fn left_properly(&mut self, rank: u32) -> bool {
        rank != 1
    }

    fn culprit(&mut self) -> Option<(u32, String)> {
        Some((1, "is missed".to_owned()))
    }

    fn on_end(&mut self, failure: Option<&Failure>) {
        let failure = failure.unwrap();
        say(&format!("on_end: rank {} {}", failure.rank, failure.cause));
    }
}

fn supervise_shell(script: &str, hooks: &mut dyn JobHooks) {
    let memory = File::from(memfd_create("job", MemfdFlags::CLOEXEC).unwrap());
    let mut options = SuperviseOptions::new("sh", 3);
    options.args = vec!["-c".into(), script.into()];
    let outcome = launcher::supervise(&options, &memory, hooks).unwrap();
    exit(outcome.code());
}

/// Gives the ranks all the time that there is, once to end by themselves and once after SIGTERM.
fn wait_for_ever() {
    let memory = File::from(memfd_create("job", MemfdFlags::CLOEXEC).unwrap());
    let (ever, moment) = (Duration::MAX, Duration::from_millis(10));
    let in_time = "sleep 0.2";
    let when_asked = "trap 'exit 0' TERM; while :; do sleep 0.02; done";
    for (grace, kill_after, rest) in [(ever, ever, in_time), (moment, ever, when_asked)] {
        let mut options = SuperviseOptions::new("sh", 3);
        (options.grace, options.kill_after) = (grace, kill_after);
        let script = format!("test $PGAS_RANK = 0 && exit 5; {rest}");
        options.args = vec!["-c".into(), script.into()];
        let outcome = launcher::supervise(&options, &memory, &mut NoHooks).unwrap();
        say(&outcome.code().to_string());
    }
    exit(0);
}

#[test]
fn ranks_may_have_all_the_time_that_there_is_to_end() {
    let ended = play("for ever");
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.stdout.contains("5\n5\n"), "{ended:?}");
}

fn watch_members() {
    let script = "case $PGAS_RANK in 0) sleep 0.2; exit 5;; 1) exit 0;; 2) exec sleep 60;; esac";
    supervise_shell(script, &mut Members);
}

#[test]
fn a_member_that_exits_with_code_zero_is_blamed_when_another_fails_for_it() {
    tried(|| {
        let ended = play("left early");
        assert_eq!(ended.code(), 1, "{ended:?}");
        assert!(ended.stderr.starts_with("pgas: rank 1 (pid "), "{ended:?}");
        let after = end_after(&ended.stderr, " exited with code 0 without leaving the job");
        // The time of its own end, not of rank 0's.
        assert_soon(after, Duration::from_millis(200), &ended);
        let expected = "on_end: rank 1 exited with code 0 without leaving the job\n";
        assert!(ended.stdout.contains(expected), "{ended:?}");
        assert_soon(ended.took, END_OF_JOB, &ended);
        assert!(ended.left.is_empty(), "{ended:?}");
    });
}

/// Cannot go on, as soon as each rank has started a process.
struct Failing(File);

impl JobHooks for Failing {
    fn started(&mut self, _: Vec<UnixStream>) -> io::Result<()> {
        eventually("each rank has started a process", || {
            self.0.metadata().unwrap().len() == 6
        });
        Err(io::Error::other("on purpose"))
    }
}

fn fail_to_watch() {
    let memory = File::from(memfd_create("job", MemfdFlags::CLOEXEC).unwrap());
    let mut options = SuperviseOptions::new("sh", 3);
    let script = "setsid sleep 60 > /dev/null 2>&1 & \
                  echo 1 >> /proc/self/fd/$PGAS_JOB_FD; exec sleep 60";
    options.args = vec!["-c".into(), script.into()];
    let mut hooks = Failing(memory.try_clone().unwrap());
    let error = launcher::supervise(&options, &memory, &mut hooks).unwrap_err();
    say(&error.to_string());
    exit(0);
}

#[test]
fn a_job_that_cannot_be_watched_leaves_no_process_behind() {
    let ended = play("hooks fail");
    assert_eq!(ended.code(), 0, "{ended:?}");
    let expected = "cannot supervise the job: on purpose\n";
    assert!(ended.stdout.contains(expected), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

fn watch_exits() {
    supervise_shell("exit 0", &mut Members);
}

#[test]
fn members_may_all_exit_with_code_zero() {
    let ended = play("all exit");
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
}

/// Takes each rank for one that has left, and has said itself what was wrong.
struct Leavers;

impl JobHooks for Leavers {
    fn left_before(&mut self, _: u32) -> bool {
        true
    }
}

fn watch_leavers_that_cannot_run() {
    // Twice the time that the others have to end. Hardly any of it is spent on a processor.
    let waits = "while read -r _ waited _ < /proc/self/schedstat && [ $waited -lt 600000000 ]; \
                 do :; done; exit 1";
    let script = format!("[ $PGAS_RANK = 0 ] && exit 1; exec nice -n 6 sh -c '{waits}'");
    supervise_shell(&script, &mut Leavers);
}

/// Keeps all processors busy while it lives.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn new() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let n_cores = thread::available_parallelism().unwrap().get();
        for _ in 0..2 * n_cores {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || while !is_over.load(Ordering::Relaxed) {});
        }
        Self(is_over)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_busy_machine_adds_nothing_to_what_ranks_say_that_leave_before_they_fail() {
    tried(|| {
        let _busy = Busy::new();
        let ended = play("slow leavers");
        assert_eq!(ended.code(), 1, "{ended:?}");
        assert_timely(ended.stderr.is_empty(), &ended);
        assert!(ended.left.is_empty(), "{ended:?}");
    });
}

/// Knows from the job's memory that rank 2 failed first.
struct Culprit;

impl JobHooks for Culprit {
    fn culprit(&mut self) -> Option<(u32, String)> {
        Some((2, "is to blame".to_owned()))
    }
}

/// The ends of a rank that is to blame.
const CULPRIT: &str = "culprit";
const GOES_ON: &str = "culprit goes on";
const HAS_LEFT: &str = "culprit has left";

/// The variable that makes the ranks of [`watch_culprit`] a part of a job.
const IS_PART: &str = "LAUNCHER_TEST_IS_PART";

/// Supervises the rank that is to blame and two others. Rank 0 fails at once.
fn watch_culprit(of_culprit: &str, of_other: &str) {
    let script = format!("0) exit 5;; 1) {of_other};; 2) {of_culprit};;");
    if variable(IS_PART).is_none() {
        supervise_shell(&format!("case $PGAS_RANK in {script} esac"), &mut Culprit);
        return;
    }
    let mut options = SuperviseOptions::new("sh", 3);
    options.args = vec![
        "-c".into(),
        format!("case $PMI_RANK in {script} esac").into(),
    ];
    let part = Part {
        first_rank: 0,
        n_ranks: 3,
    };
    let outcome = launcher::supervise_part(&options, part, &mut Culprit).unwrap();
    // It prints nothing itself.
    let line = format!("pgas: {outcome}; ending the job\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
    exit(outcome.code());
}

/// Plays the part in a whole job and in a part of one. One line blames rank 2.
fn blames_the_culprit(part: &str, code: i32, cause: &str) {
    for is_part in [false, true] {
        let mut command = player(part);
        if is_part {
            command.env(IS_PART, "1");
        }
        let ended = start(command).end();
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(ended.stderr.starts_with("pgas: rank 2 (pid "), "{ended:?}");
        end_after(&ended.stderr, cause);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(ended.took < END_OF_JOB && ended.left.is_empty());
    }
}

#[test]
fn the_rank_that_failed_first_is_blamed_although_it_ends_later() {
    blames_the_culprit(CULPRIT, 6, " exited with code 6");
}

#[test]
fn a_rank_that_the_others_blame_is_named_although_it_does_not_end() {
    blames_the_culprit(GOES_ON, 1, ") is to blame");
}

#[test]
fn a_rank_that_the_others_blame_is_named_although_it_ended_well() {
    blames_the_culprit(HAS_LEFT, 1, ") is to blame");
}
