//! Running a program of tests until it is known whether one fails.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// The result of a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Passed,
    /// The first failed test, if the program printed it before it ended.
    Failed(Option<String>),
    /// The tests exceeded their time limit.
    Hung,
}

/// The time between two checks.
const TICK: Duration = Duration::from_millis(20);

/// Runs `tests` until they are over, one of them has failed, or they have taken `limit`.
pub(super) fn run(mut tests: Command, limit: Duration) -> Result<Ending> {
    let mut child = tests
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start the tests")?;
    let stdout = child.stdout.take().context("a pipe was asked for")?;
    let (send, failures) = mpsc::channel();
    // The thread ends with the program, or with processes that it has started.
    thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let failed = lines.filter_map(|line| failed(&line).map(str::to_owned));
        failed
            .take_while(|name| send.send(name.clone()).is_ok())
            .for_each(drop);
    });
    let start = Instant::now();
    let ending = loop {
        if let Some(status) = child.try_wait()? {
            // Its output was read by now, or soon will be.
            return Ok(if status.success() {
                Ending::Passed
            } else {
                Ending::Failed(failures.recv_timeout(50 * TICK).ok())
            });
        }
        match failures.recv_timeout(TICK) {
            Ok(name) => break Ending::Failed(Some(name)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
        }
        if start.elapsed() >= limit {
            break Ending::Hung;
        }
    };
    child.kill()?;
    child.wait()?;
    Ok(ending)
}

/// The failed test that a line names.
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn shell(text: &str, limit: Duration) -> Ending {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        run(command, limit).unwrap()
    }

    #[test]
    fn the_first_failure_ends_the_tests() {
        let text = "echo test a ... ok; echo 'test b::c ... FAILED'; exec sleep 600";
        let start = Instant::now();
        assert_eq!(shell(text, LONG), Ending::Failed(Some("b::c".to_owned())));
        assert!(start.elapsed() < LONG / 2);
    }

    #[test]
    fn tests_pass_fail_or_take_too_long() {
        assert_eq!(shell("echo test a ... ok", LONG), Ending::Passed);
        assert_eq!(shell("kill -ABRT $$", LONG), Ending::Failed(None));
        let failed = Ending::Failed(Some("a".to_owned()));
        assert_eq!(shell("echo 'test a ... FAILED'; exit 101", LONG), failed);
        let short = Duration::from_millis(100);
        assert_eq!(shell("exec sleep 600", short), Ending::Hung);
    }
}
