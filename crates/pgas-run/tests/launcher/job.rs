//! Running `pgas-run`.

use std::process::Command;

pub(crate) use pgas_testkit::job::{END_OF_JOB, Ended, eventually, start, state_of};

/// Runs a shell script as every rank, to its end.
pub(crate) fn run(n_ranks: u32, options: &[&str], script: &str) -> Ended {
    start(pgas_run(n_ranks, options, script)).end()
}

/// `pgas-run` with a shell script as the program.
///
/// Signals that whoever runs the tests ignores (`nohup`, a shell's background job) would be ignored by
/// all of the job: each has its default again.
pub(crate) fn pgas_run(n_ranks: u32, options: &[&str], script: &str) -> Command {
    let mut command = Command::new("env");
    command
        .args(["--default-signal", env!("CARGO_BIN_EXE_pgas-run")])
        .args(["-n", &n_ranks.to_string()])
        .args(options)
        .args(["--", "sh", "-c", script]);
    command
}
