//! How jobs end.

use crate::job::{END_OF_JOB, Ended, end_after, run, start};
use pgas_testkit::soon::{assert_timely, tried};
use std::process::Command;

/// Asserts that a failed rank ended the job quickly and left nothing behind. Returns the one line
/// of the job.
fn one_line(ended: &Ended) -> &str {
    assert!(ended.took < END_OF_JOB, "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
    let lines: Vec<_> = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("pgas"))
        .collect();
    let [line] = lines[..] else {
        panic!("{ended:?}")
    };
    line
}

#[test]
fn every_rank_learns_its_number_and_the_size_of_the_job() {
    let ended = run(3, &[], "echo $PGAS_RANK of $PGAS_RANKS");
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 3", "1 of 3", "2 of 3"]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
}

#[test]
fn every_rank_inherits_the_same_memory() {
    let ended = run(3, &[], "stat -L -c %d.%i /proc/self/fd/$PGAS_JOB_FD");
    let files: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(files.len(), 3, "{ended:?}");
    assert!(files.windows(2).all(|pair| pair[0] == pair[1]), "{ended:?}");
}

#[test]
fn the_first_failing_exit_code_is_that_of_the_job() {
    let ended = run(4, &[], "test $PGAS_RANK = 2 && exit 3; exec sleep 60");
    assert_eq!(ended.code(), 3);
    let line = one_line(&ended);
    assert!(line.starts_with("pgas: rank 2 (pid "), "{line}");
    end_after(line, ") exited with code 3");
    assert!(line.ends_with(" s; ending the job"), "{line}");
}

#[test]
fn a_killed_rank_ends_the_job_and_is_named() {
    let ended = run(4, &[], "test $PGAS_RANK = 1 && kill -9 $$; exec sleep 60");
    assert_eq!(ended.code(), 128 + 9);
    let line = one_line(&ended);
    assert!(line.starts_with("pgas: rank 1 (pid "), "{line}");
    assert!(
        line.contains(") was killed by signal 9 (SIGKILL) after "),
        "{line}"
    );
}

#[test]
fn an_aborted_rank_ends_the_job_and_is_named() {
    let ended = run(
        2,
        &[],
        "ulimit -c 0; test $PGAS_RANK = 0 && kill -ABRT $$; exec sleep 60",
    );
    assert_eq!(ended.code(), 128 + 6);
    let line = one_line(&ended);
    assert!(
        line.contains(") was killed by signal 6 (SIGABRT) after "),
        "{line}"
    );
}

#[test]
fn a_job_of_one_rank_that_fails_ends_nobody_else() {
    let ended = run(1, &[], "exit 7");
    assert_eq!(ended.code(), 7);
    assert!(one_line(&ended).ends_with(" s"), "{ended:?}");
}

#[test]
fn ranks_that_ignore_the_request_to_end_are_killed() {
    let script = "trap '' TERM; test $PGAS_RANK = 0 && exit 3; while :; do sleep 0.02; done";
    let ended = run(3, &[], script);
    assert_eq!(ended.code(), 3);
    one_line(&ended);
}

#[test]
fn stopped_ranks_are_killed() {
    let ended = run(
        3,
        &[],
        "test $PGAS_RANK = 0 && { sleep 0.1; exit 3; }; kill -STOP $$",
    );
    assert_eq!(ended.code(), 3);
    one_line(&ended);
}

#[test]
fn the_others_may_say_their_last_words() {
    tried(|| {
        let script = "test $PGAS_RANK = 0 && exit 3; sleep 0.1; echo last words";
        let ended = run(2, &[], script);
        assert_eq!(ended.code(), 3, "{ended:?}");
        assert_timely(ended.stdout == "last words\n", &ended);
    });
}

#[test]
fn what_the_ranks_started_ends_with_the_job() {
    let script = "setsid sleep 61 & exec setsid -f sleep 62 > /dev/null 2>&1";
    let ended = run(2, &[], script);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
    assert!(ended.took < END_OF_JOB, "{ended:?}");
}

#[test]
fn a_process_that_a_rank_leaves_behind_is_found_although_its_name_is_no_text() {
    // The system cuts names off after 15 bytes, here within a letter. The process that is left
    // behind has the name of the shell that begins it.
    let script = "printf 'abcdefghijklmn\\303\\244' > /proc/self/comm; \
                  (sleep 63; :) > /dev/null 2>&1 & exit 0";
    let ended = run(1, &[], script);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

#[test]
fn a_job_out_of_time_is_ended() {
    let ended = run(2, &["--timeout", "0.2"], "exec sleep 60");
    assert_eq!(ended.code(), 124);
    assert_eq!(
        one_line(&ended),
        "pgas: the job did not end within 0.2 s; ending the job"
    );
}

#[test]
fn variables_reach_the_ranks() {
    let ended = run(1, &["--env", "A=b=c", "-e", "D="], "echo $A${D-unset}");
    assert_eq!(ended.stdout, "b=c\n");
}

#[test]
fn sixty_four_ranks_start_and_end() {
    let ended = run(64, &["--prefix"], "echo $PGAS_RANK");
    let mut lines: Vec<_> = ended.stdout.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let mut expected: Vec<_> = (0..64).map(|rank| format!("[{rank}] {rank}")).collect();
    expected.sort_unstable();
    assert_eq!((ended.code(), lines), (0, expected));
}

#[test]
fn a_job_may_need_more_descriptors_than_its_ranks_are_allowed() {
    let pgas_run = env!("CARGO_BIN_EXE_pgas-run");
    let script = format!("ulimit -S -n 50; exec {pgas_run} -n 40 sh -c 'ulimit -S -n'");
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let ended = start(command).end();
    assert_eq!(
        (ended.code(), ended.stdout),
        (0, "50\n".repeat(40)),
        "{}",
        ended.stderr
    );
}

#[test]
fn who_may_not_have_enough_descriptors_is_told_of_the_limit() {
    let pgas_run = env!("CARGO_BIN_EXE_pgas-run");
    let script = format!("ulimit -n 50; exec {pgas_run} -n 40 sleep 60");
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let ended = start(command).end();
    assert_eq!(ended.code(), 126, "{}", ended.stderr);
    let line = one_line(&ended);
    assert!(line.contains("Too many open files"), "{line}");
    assert!(line.contains("raise `ulimit -Hn`"), "{line}");
}

#[test]
fn sixty_four_ranks_end_when_one_fails() {
    let ended = run(
        64,
        &[],
        "test $PGAS_RANK = 40 && { read x; kill -9 $$; }; exec sleep 60",
    );
    assert_eq!(ended.code(), 128 + 9);
    let line = one_line(&ended);
    assert!(line.starts_with("pgas: rank 40 (pid "), "{line}");
}

#[test]
fn a_command_line_that_makes_no_sense_gets_one_line() {
    for (arguments, code, message) in [
        (
            &["-n", "2", "no-such-program-here"][..],
            127,
            "cannot start \"no-such-program-here\"",
        ),
        (
            &["-n", "2", "/etc/passwd"],
            126,
            "cannot start \"/etc/passwd\": Permission denied",
        ),
        (&["-n", "0", "true"], 2, "a job has 1 to 16777216 ranks"),
        (&["-n", "x", "true"], 2, "a job has 1 to 16777216 ranks"),
        (
            &["true"],
            2,
            "required arguments were not provided: --ranks <RANKS>",
        ),
        (
            &["-n", "2"],
            2,
            "required arguments were not provided: <PROGRAM>...",
        ),
        (
            &["-n", "2", "--timeout", "-1", "true"],
            2,
            "unexpected argument '-1'",
        ),
        (
            &["-n", "2", "--timeout", "0", "true"],
            2,
            "a number of seconds above 0",
        ),
        (
            &["-n", "2", "--env", "=3", "true"],
            2,
            "it has to be KEY=VALUE",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
        command.args(arguments);
        let ended = start(command).end();
        assert_eq!(ended.code(), code, "{arguments:?}: {ended:?}");
        assert!(ended.stderr.starts_with("pgas-run: "), "{ended:?}");
        assert!(ended.stderr.contains(message), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    }
}

#[test]
fn help_goes_to_standard_output() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
    command.arg("--help");
    let ended = start(command).end();
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
    assert!(
        ended
            .stdout
            .contains("Usage: pgas-run [OPTIONS] --ranks <RANKS> <PROGRAM>...")
    );
}
