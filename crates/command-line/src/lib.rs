#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod files;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;

pub use files::{overwritten, place};

/// The exit code for a command line that makes no sense.
const USAGE: u8 = 2;

/// Letters of an argument that are shown of it at most.
const LONGEST: usize = 200;

/// Reads the arguments of this process. `program` is the name that begins its messages.
///
/// # Errors
///
/// The code to exit with, after the process has answered a question, such as `--help`, on standard
/// output, or has told a mistake on standard error, in one line that names the argument and its
/// value.
///
/// # Examples
///
/// ```
/// use std::process::ExitCode;
///
/// use clap::Parser;
///
/// #[derive(Parser)]
/// struct Arguments {
///     /// How many ranks to start.
///     #[arg(long, default_value_t = 1)]
///     ranks: u32,
/// }
///
/// fn main() -> ExitCode {
///     let arguments: Arguments = match pgas_command_line::parse("program") {
///         Ok(arguments) => arguments,
///         Err(code) => return code,
///     };
///     assert_eq!(arguments.ranks, 1);
///     ExitCode::SUCCESS
/// }
/// ```
pub fn parse<T: Parser>(program: &str) -> Result<T, ExitCode> {
    refused(std::env::args_os().collect()).map_err(|error| {
        if !error.use_stderr() {
            return match error.print() {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => {
                    writeln!(io::stderr(), "{program}: standard output: {why}").ok();
                    ExitCode::FAILURE
                }
            };
        }
        let line = line(&error);
        // There is nobody left to tell about a failure of this.
        let text = format!("{program}: {line} (try --help)\n");
        io::stderr().write_all(text.as_bytes()).ok();
        ExitCode::from(USAGE)
    })
}

fn refused<T: Parser>(words: Vec<OsString>) -> Result<T, clap::Error> {
    let shown: Vec<_> = words.iter().map(|word| shown(word)).collect();
    T::try_parse_from(words).map_err(|error| {
        // Clap leaves out what no terminal shows, and names no argument that is not UTF-8.
        let again = error.use_stderr().then(|| T::try_parse_from(shown).err());
        again
            .flatten()
            .filter(clap::Error::use_stderr)
            .unwrap_or(error)
    })
}

/// An argument in a form that can be printed: one line of at most 200 letters, in which nothing
/// steers a terminal.
///
/// # Examples
///
/// ```
/// let word = std::ffi::OsStr::new("a\nb");
/// assert_eq!(pgas_command_line::shown(word), "a\\nb");
/// ```
#[must_use]
pub fn shown(word: &OsStr) -> String {
    let mut shown = String::new();
    let mut n_letters = 0;
    for chunk in word.as_encoded_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            n_letters += 1;
            match letter {
                _ if n_letters > LONGEST => {}
                _ => push_printable(&mut shown, letter),
            }
        }
        for byte in chunk.invalid() {
            n_letters += 1;
            if n_letters <= LONGEST {
                write!(shown, "\\x{byte:02x}").expect("a text takes everything");
            }
        }
    }
    if n_letters > LONGEST {
        shown.push_str("...");
    }
    shown
}

/// Adds a letter to a line, escaped if it ends lines, steers a terminal or turns the direction of
/// writing.
fn push_printable(line: &mut String, letter: char) {
    let turns = matches!(
        letter,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    if letter.is_control() || turns || matches!(letter, '\u{2028}' | '\u{2029}') {
        line.extend(letter.escape_default());
    } else {
        line.push(letter);
    }
}

/// A text of any length as one line in which nothing steers a terminal: names of files, and what
/// files hold, may be in it.
///
/// # Examples
///
/// ```
/// assert_eq!(pgas_command_line::one_line("cannot read a\tb"), "cannot read a\\tb");
/// ```
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    text.chars()
        .for_each(|letter| push_printable(&mut line, letter));
    line
}

/// What clap says, without its advice.
fn line(error: &clap::Error) -> String {
    let text = error.to_string();
    // The lines behind the first name what is missing, if anything, then the usage.
    let lines = text.lines().map(str::trim);
    let told: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    told.join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[arg(long)]
        number: Option<u8>,
        #[arg(long)]
        text: Option<String>,
    }

    fn refusal(words: &[OsString]) -> String {
        let words = [&["program".into()], words].concat();
        line(&refused::<Arguments>(words).unwrap_err())
    }

    #[test]
    fn a_refusal_shows_the_value_whatever_it_is_made_of() {
        for (value, expected) in [
            ("\u{1b}[2J\n\npgas: x", "'\\u{1b}[2J\\n\\npgas: x'"),
            ("-1", "'-1'"),
            ("", "''"),
        ] {
            let line = refusal(&[format!("--number={value}").into()]);
            assert!(
                line.contains(expected) && line.contains("--number"),
                "{line}"
            );
        }
        let line = refusal(&["--number".into(), "9".repeat(100_000).into()]);
        assert!(line.contains("999...'") && line.len() < 400, "{line}");
    }

    #[cfg(unix)]
    #[test]
    fn an_argument_that_is_not_utf_8_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let value = OsString::from_vec(b"1\xff2".to_vec());
        let line = refusal(&["--number".into(), value.clone()]);
        assert!(line.contains("'1\\xff2' for '--number"), "{line}");
        // Shown it would be a text.
        assert!(refusal(&["--text".into(), value]).contains("UTF-8"));
    }
}
