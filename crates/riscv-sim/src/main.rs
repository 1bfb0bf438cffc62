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
        eprintln!("rae: {}", told(&why.to_string()));
        ExitCode::from(cli::TROUBLE)
    })
}

/// The text, whose indented lines stay lines: a fault tells the registers in a table. All else is on
/// one line, whatever the names of files and symbols hold.
fn told(text: &str) -> String {
    const INDENTED: &str = "\n  ";
    let lines = text.split(INDENTED).map(pgas_command_line::one_line);
    lines.collect::<Vec<_>>().join(INDENTED)
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn indented_lines_stay_and_no_other_begins() {
        assert_eq!(told("a fault\n  ra=1\n  tp=2"), "a fault\n  ra=1\n  tp=2");
        assert_eq!(
            told("a name\nrae: all is well\r"),
            "a name\\nrae: all is well\\r"
        );
    }
}
