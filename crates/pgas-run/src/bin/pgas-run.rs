//! `pgas-run -n 4 PROGRAM ARGS...`: starts the ranks of a program on this host, or on several.

use std::process::ExitCode;

fn main() -> ExitCode {
    pgas_run::run()
}
