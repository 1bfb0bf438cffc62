//! `rae`: runs guests on a simulated machine, and turns assembly into guests and back.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a program for people and scripts")]

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match cli::Cli::parse().execute() {
        Ok(code) => code,
        Err(why) => {
            eprintln!("rae: {why}");
            ExitCode::from(cli::TROUBLE)
        }
    }
}
