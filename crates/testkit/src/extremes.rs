//! Runs our programs with extreme numbers and texts for each of their arguments.
//!
//! The arguments come from `--help`, so new ones are tested automatically.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use pgas_core::notice::printable;

use crate::job;

/// The limit of a program's private memory. Larger requests are refused by the system, so an
/// unbounded size ends the program and not the machine.
const MEMORY: u64 = 4 << 30;

/// The maximum length of a refusal in characters, so that a long value does not fill a page.
const LONGEST_LINE: usize = 2000;

/// The exit code for a bad command line.
const USAGE: i32 = 2;

/// The minimum number of characters of a value that a refusal shows.
const SHOWN: usize = 40;

/// Numbers at the ends of types, beyond them, and texts that look like numbers.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "+1",
    "2147483648",
    "4294967295",
    "4294967296",
    "17592186044415",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "0.5",
    "1e-999",
    "1e300",
    "1e999",
    "nan",
    "inf",
    "0x10",
    " 1",
    "\u{661}",
];

/// Texts with a meaning for a shell, a terminal, an option or a system.
const TEXTS: &[&str] = &[
    "",
    "=",
    "a=",
    "=a",
    ":",
    "0:0",
    "ffffffffffffffff:0",
    "0:ffffffffffffffff",
    "-",
    "--",
    "\n\npgas: rank 0 has failed\n",
    "\u{1b}[2J\u{7}\r",
    "\u{202e}x",
    "%s%n",
    "/",
    "/dev/null",
    "/dev/full",
    "/dev/zero",
    "/proc/version",
    "missing/file",
];

/// A program, and arguments with which it has little to do.
#[derive(Debug)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// Words before all arguments: the name of a subcommand.
    pub before: Vec<&'static str>,
    /// Options with values that make it quick, and flags with empty values. A tested option
    /// replaces its entry.
    pub options: Vec<(&'static str, OsString)>,
    /// The positional arguments. A tested value replaces the first one.
    pub operands: Vec<OsString>,
    /// Options that are not tested: the program would wait for another one, or they need one that
    /// is not given.
    pub skipped: &'static [&'static str],
    /// The exit codes of a refusal.
    pub codes: &'static [i32],
}

/// The text before operands that a program passes on.
const REST: &str = "--";

/// An argument, as the program's help names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument {
    /// Empty for a positional argument, and [`REST`] for one that only follows it.
    option: String,
    takes_value: bool,
}

/// The arguments in clap's output of `--help`.
fn declared(help: &str) -> Vec<Argument> {
    let mut section = "";
    let mut found = Vec::new();
    for line in help.lines() {
        if line.ends_with(':') && !line.starts_with(' ') {
            section = line;
        }
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start();
        let spec = words.split("  ").next().unwrap_or_default();
        if section == "Arguments:" && indent == 2 && spec.starts_with(['<', '[']) {
            let is_rest = spec.ends_with("]...") && help.contains("[-- <");
            let option = if is_rest { REST } else { "" };
            found.push(Argument {
                option: option.to_owned(),
                takes_value: true,
            });
        }
        if section != "Options:" || !(2..=6).contains(&indent) || !spec.starts_with('-') {
            continue;
        }
        // `-n, --ranks <RANKS>`
        let names = spec.split(['<', '[', '=']).next().unwrap_or_default();
        let name = names.split(',').map(str::trim).next_back();
        let option = name.unwrap_or_default().to_owned();
        if !["--help", "--version"].contains(&option.as_str()) {
            let takes_value = spec.contains('<');
            found.push(Argument {
                option,
                takes_value,
            });
        }
    }
    found
}

/// The tested values. Bad files are in `folder`.
fn extremes(folder: &Path) -> Vec<OsString> {
    let mut all: Vec<OsString> = NUMBERS.iter().chain(TEXTS).map(OsString::from).collect();
    for letter in ["9", "\u{e9}"] {
        all.push(letter.repeat(60_000).into());
    }
    for bytes in [&b"1\xff"[..], b"a=\xff", b"\xff=a"] {
        all.push(OsString::from_vec(bytes.to_vec()));
    }
    let files: [(&str, &[u8]); 5] = [
        ("empty", b""),
        ("zeros.s", &[0; 4096]),
        (
            "letters",
            b"not what it should be\n\x1b[2Jpgas: rank 0 has failed\n",
        ),
        ("odd\x1b[2J\nname", b"\xff\xfe"),
        (
            "digits.toml",
            b"99999999999999999999999999999999999999999 = 1e99999",
        ),
    ];
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("the folder is the test's own");
        all.push(path.into());
    }
    all.push(folder.into());
    all
}

/// Runs `program` with each extreme for each of its arguments, and with a value for each flag,
/// which takes none.
///
/// The program must always exit by itself. It either accepts the value, or refuses it with one of
/// its codes, in one line of plain characters that names the option and shows the value.
///
/// # Panics
///
/// If it does not, with all findings; or if a program does not end.
pub fn try_extremes(program: &Program) {
    static N_TRIED: AtomicU32 = AtomicU32::new(0);
    let n_tried = N_TRIED.fetch_add(1, Ordering::Relaxed);
    let name = format!("pgas-extremes-{}-{n_tried}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("there is a place for temporary files");
    let mut help = Command::new(&program.path);
    let help = help.args(&program.before).arg("--help").output();
    let help = help.expect("the program can be started").stdout;
    let arguments = declared(&String::from_utf8_lossy(&help));
    assert!(
        !arguments.is_empty(),
        "{}: no arguments",
        program.path.display()
    );
    let values = extremes(&folder);
    let mut wrong = String::new();
    let has_rest = arguments.iter().any(|it| it.option == REST);
    let is_tried = |it: &&Argument| !program.skipped.contains(&it.option.as_str());
    for argument in arguments.iter().filter(is_tried) {
        let values = if argument.takes_value {
            &values[..]
        } else {
            &values[..1]
        };
        for value in values {
            if let Err(why) = try_one(program, argument, value, has_rest, &folder) {
                let shown = cut(&value.to_string_lossy(), SHOWN);
                writeln!(wrong, "{} {shown:?}: {why}", argument.option).expect("a text");
            }
        }
    }
    fs::remove_dir_all(&folder).expect("the folder is the test's own");
    assert!(wrong.is_empty(), "{}:\n{wrong}", program.path.display());
}

fn try_one(
    program: &Program,
    argument: &Argument,
    value: &OsStr,
    has_rest: bool,
    folder: &Path,
) -> Result<(), String> {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -d {}; exec \"$0\" \"$@\"", MEMORY >> 10);
    command.arg("-c").arg(limited).arg(&program.path);
    command.args(&program.before);
    for (option, usual) in &program.options {
        if usual.is_empty() {
            command.arg(option);
        } else if *option != argument.option {
            command.arg(joined(option, usual));
        }
    }
    if argument.option == REST {
        command.args(&program.operands).arg(REST).arg(value);
    } else if argument.option.is_empty() {
        if !has_rest {
            command.arg(REST);
        } else if value.as_encoded_bytes().starts_with(b"-") {
            // It would be an option.
            return Ok(());
        }
        command.arg(value);
        command.args(program.operands.iter().skip(1));
    } else {
        command.arg(joined(&argument.option, value));
        command.args(&program.operands);
    }
    command
        .current_dir(folder)
        .stdin(std::process::Stdio::null());
    let ended = job::start(command).end();
    let code = ended.code();
    let told = cut(&ended.stderr, LONGEST_LINE);
    if ended.stderr.contains("panicked") {
        return Err(format!("it panics: {told}"));
    }
    if code == 0 {
        return Ok(());
    }
    if !program.codes.contains(&code) {
        return Err(format!("exit code {code}: {told}"));
    }
    let line = ended.stderr.strip_suffix('\n').unwrap_or_default();
    if line.is_empty() || printable(line).to_string() != line {
        return Err(format!(
            "exit code {code} without a line of plain letters: {told:?}"
        ));
    }
    let option = argument.option.as_str();
    let shown = value.to_string_lossy();
    let shown = cut(&printable(shown.trim_start_matches('+')).to_string(), SHOWN);
    // Bytes that are not UTF-8 may be shown as replacement characters, or by their numbers.
    let is_shown = line.contains(&shown) || value.to_str().is_none();
    // For a file, its name is enough.
    let is_file = code != USAGE && value.to_str().is_none_or(is_no_number);
    if !is_shown || !(is_file || line.contains(option)) {
        return Err(format!("option or value is not named: {told}"));
    }
    if code == USAGE && line.chars().count() > LONGEST_LINE {
        return Err(format!("nobody reads so much: {told}"));
    }
    Ok(())
}

fn is_no_number(text: &str) -> bool {
    text.len() > 100 || text.parse::<f64>().is_err()
}

fn joined(option: &str, value: &OsStr) -> OsString {
    let mut all = OsString::from(option);
    all.push("=");
    all.push(value);
    all
}

fn cut(text: &str, n: usize) -> String {
    text.chars().take(n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_a_help_are_found() {
        let help = "Does it\n\nUsage: it [OPTIONS] <PLACE>\n\nArguments:\n  <PLACE>  Where\n\n\
                    Options:\n  -k <K>              How long [default: 1]\n  \
                    -n, --ranks <RANKS>  How many\n      --json          -1 is no option\n  \
                    -h, --help          Print help\n";
        let names: Vec<_> = declared(help)
            .into_iter()
            .map(|it| (it.option, it.takes_value))
            .collect();
        let expected = [
            ("", true),
            ("-k", true),
            ("--ranks", true),
            ("--json", false),
        ];
        assert_eq!(
            names,
            expected.map(|(name, takes)| (name.to_owned(), takes))
        );
        for (usage, operand) in [("[FILES]...", ""), ("<IT> [-- <FILES>...]", REST)] {
            let help = format!("Usage: it {usage}\n\nArguments:\n  [FILES]...  Which\n");
            assert_eq!(declared(&help)[0].option, operand, "{usage}");
        }
    }
}
