//! Running `pgas-run`.

use std::process::Command;
use std::time::Duration;

pub(crate) use pgas_testkit::job::{END_OF_JOB, Ended, eventually, start, state_of};

/// Runs a shell script as every rank, to its end.
pub(crate) fn run(n_ranks: u32, options: &[&str], script: &str) -> Ended {
    start(pgas_run(n_ranks, options, script)).end()
}

/// `pgas-run` with a shell script as the program.
///
/// The caller of the tests may ignore signals (`nohup`, a shell's background job), and then all of
/// the job would. So each signal has its default again.
pub(crate) fn pgas_run(n_ranks: u32, options: &[&str], script: &str) -> Command {
    let mut command = Command::new("env");
    command
        .args(["--default-signal", env!("CARGO_BIN_EXE_pgas-run")])
        .args(["-n", &n_ranks.to_string()])
        .args(options)
        .args(["--", "sh", "-c", script]);
    command
}

/// The time after which a rank ended: the one behind `what` in `line`.
#[track_caller]
pub(crate) fn end_after(line: &str, what: &str) -> Duration {
    let after = line.split_once(&format!("{what} after "));
    let seconds = after.and_then(|(_, rest)| rest.split_once(" s; ending the job"));
    let seconds = seconds.and_then(|(seconds, _)| seconds.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or_else(|| panic!("no time after {what:?}: {line}")))
}
