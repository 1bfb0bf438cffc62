//! `pgas-top JOB`: shows what the ranks of a running job do.

use std::process::ExitCode;

fn main() -> ExitCode {
    pgas_run::top()
}
