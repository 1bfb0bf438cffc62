//! `rae`: runs guests on a simulated machine, and turns assembly into guests and back.

#![forbid(unsafe_code)]

mod cli;

use std::error::Error;
use std::process::ExitCode;

use pgas_command_line::one_line;

fn main() -> ExitCode {
    let asked: cli::Cli = match pgas_command_line::parse("rae") {
        Ok(asked) => asked,
        Err(code) => return code,
    };
    asked.execute().unwrap_or_else(|why| {
        cli::tell(told(&*why));
        ExitCode::from(cli::TROUBLE)
    })
}

/// A text on one line, whatever the names of files and symbols hold. But a fault tells the state of
/// its processor in indented lines.
fn told(why: &(dyn Error + 'static)) -> String {
    const INDENTED: &str = "\n  ";
    let text = why.to_string();
    let is_fault = matches!(why.downcast_ref(), Some(pgas_riscv_sim::Error::Fault(_)));
    if !is_fault {
        return one_line(&text);
    }
    let lines = text.split(INDENTED).map(one_line);
    lines.collect::<Vec<_>>().join(INDENTED)
}
