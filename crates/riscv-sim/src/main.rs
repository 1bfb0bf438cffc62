//! `rae`: runs guests on a simulated machine, and turns assembly into guests and back.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a program for people and scripts")]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    let asked: cli::Cli = match pgas_command_line::parse("rae") {
        Ok(asked) => asked,
        Err(code) => return code,
    };
    asked.execute().unwrap_or_else(|why| {
        eprintln!("rae: {}", pgas_command_line::one_line(&why.to_string()));
        ExitCode::from(cli::TROUBLE)
    })
}
