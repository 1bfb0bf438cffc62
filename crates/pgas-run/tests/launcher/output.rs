//! The input and output of the ranks.

use crate::job::{END_OF_JOB, eventually, pgas_run, run, start};
use pgas_testkit::Deadline;
use pgas_testkit::job::JOB_LIMIT;
use pgas_testkit::soon::Moment;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

#[test]
fn lines_of_different_ranks_never_mix() {
    let script = "i=0; while [ $i -lt 500 ]; do printf '%s %s ' $PGAS_RANK $i; echo abcdefghij; i=$((i+1)); done";
    let ended = run(4, &[], script);
    let mut next = [0; 4];
    for line in ended.stdout.lines() {
        let [rank, i, "abcdefghij"] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("torn line {line:?}")
        };
        let rank: usize = rank.parse().unwrap();
        assert_eq!(i.parse(), Ok(next[rank]), "lines of one rank stay in order");
        next[rank] += 1;
    }
    assert_eq!(next, [500; 4]);
}

#[test]
fn the_prefix_names_the_rank_on_both_streams() {
    let ended = run(
        2,
        &["--prefix"],
        "echo out $PGAS_RANK; echo err $PGAS_RANK >&2",
    );
    for rank in 0..2 {
        assert!(
            ended.stdout.contains(&format!("[{rank}] out {rank}\n")),
            "{ended:?}"
        );
        assert!(
            ended.stderr.contains(&format!("[{rank}] err {rank}\n")),
            "{ended:?}"
        );
    }
}

#[test]
fn an_unterminated_last_line_is_not_lost() {
    let ended = run(1, &["--prefix"], "printf 'a\\nno end'");
    assert_eq!(ended.stdout, "[0] a\n[0] no end");
}

#[test]
fn the_last_line_of_a_killed_rank_is_not_lost() {
    let ended = run(1, &[], "printf 'before the end'; kill -9 $$");
    assert_eq!(ended.stdout, "before the end");
}

#[test]
fn a_line_without_end_passes_whole() {
    let ended = run(1, &[], "head -c 3000000 /dev/zero | tr '\\0' x");
    assert_eq!(ended.stdout.len(), 3_000_000);
    assert!(ended.stdout.bytes().all(|byte| byte == b'x'));
}

#[test]
fn output_waits_for_its_reader_although_its_pipe_does_not_wait() {
    let _deadline = Deadline::new("a job with a slow reader", JOB_LIMIT);
    let (mut reader, writer) = io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
    command.args(["-n", "1", "--", "seq", "1", "100000"]);
    let mut job = command.stdout(writer.try_clone().unwrap()).spawn().unwrap();
    drop(command);
    eventually("the pipe is full", || {
        let mut room = [PollFd::new(&writer, PollFlags::OUT)];
        poll(&mut room, Some(&Timespec::default())).unwrap() == 0
    });
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 100_000);
    assert_eq!(job.wait().unwrap().code(), Some(0));
}

#[test]
fn rank_zero_has_standard_input_and_the_others_have_none() {
    let mut command = pgas_run(3, &["--prefix"], "cat; echo end");
    command.stdin(Stdio::piped());
    let mut job = start(command);
    job.child
        .stdin
        .take()
        .unwrap()
        .write_all(b"from the keyboard\n")
        .unwrap();
    let ended = job.end();
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["[0] end", "[0] from the keyboard", "[1] end", "[2] end"]
    );
}

#[test]
fn a_reader_that_goes_away_ends_the_job_instead_of_hanging_it() {
    let mut job = start(pgas_run(2, &[], "exec yes"));
    assert_eq!(job.lines(1), ["y"]);
    job.stop_reading();
    let ended = job.end();
    assert_eq!(ended.code(), 128 + 13, "{ended:?}");
    assert!(
        ended.stderr.contains("was killed by signal 13 (SIGPIPE)"),
        "{ended:?}"
    );
    assert!(ended.left.is_empty(), "{ended:?}");
}

#[test]
fn nobody_fails_because_its_diagnostics_are_not_read() {
    let script = "exec 3>&1; i=0; while [ $i -lt 200 ]; do echo $i >&2 || exit 9; i=$((i+1)); done";
    let command = env!("CARGO_BIN_EXE_pgas-run");
    let pipeline =
        format!("{{ {command} -n 2 -- sh -c '{script}'; echo code $?; }} 2>&1 >&4 4>&- | true");
    let ended = start({
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{{ {pipeline}; }} 4>&1")]);
        shell
    })
    .end();
    assert_eq!(ended.stdout, "code 0\n", "{ended:?}");
}

#[test]
fn a_failed_job_does_not_wait_for_a_reader_that_never_reads() {
    let script = "test $PGAS_RANK = 0 && { sleep 0.3; kill -9 $$; }; exec yes";
    let mut job = start(pgas_run(2, &[], script));
    let (started, began) = (std::time::Instant::now(), Moment::now());
    // Nobody reads the job's output while it ends.
    let status = loop {
        if let Some(status) = job.child.try_wait().unwrap() {
            break status;
        }
        assert!(started.elapsed() < JOB_LIMIT, "the job hangs");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(128 + 9));
    assert!(began.elapsed() < END_OF_JOB + std::time::Duration::from_millis(500));
    assert!(job.processes().is_empty());
}

#[test]
fn inherited_output_is_that_of_the_launcher() {
    let script = "readlink /proc/self/fd/1";
    let ended = run(2, &["--inherit"], script);
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert_eq!(lines[0], lines[1], "both ranks write to the same pipe");
    let forwarded = run(2, &[], script);
    let lines: Vec<_> = forwarded.stdout.lines().collect();
    assert_ne!(lines[0], lines[1], "each rank has a pipe of its own");
}
