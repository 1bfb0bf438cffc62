//! `rae`: runs guests on a simulated machine, and turns assembly into guests and back.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a program for people and scripts")]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    let asked: cli::Cli = match cli::usage::parse("rae") {
        Ok(asked) => asked,
        Err(code) => return code,
    };
    asked.execute().unwrap_or_else(|why| {
        eprintln!("rae: {}", line(&why.to_string()));
        ExitCode::from(cli::TROUBLE)
    })
}

/// A reason as one line in which nothing steers a terminal: file names and what files hold may be in it.
fn line(why: &str) -> String {
    let mut line = String::new();
    why.chars()
        .for_each(|letter| cli::usage::push_printable(&mut line, letter));
    line
}
