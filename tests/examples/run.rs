//! Running an example with a deadline.

use std::fs::OpenOptions;
use std::process::Command;

use pgas_testkit::job::{self, Ended};
use serde_json::Value;

use crate::program::program;

/// Runs the example `name` to its end.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program(name));
    command.args(arguments);
    job::start(command).end()
}

/// The line of JSON that the example prints on `ranks` ranks, which must say that its results are
/// right.
pub(crate) fn json(name: &str, ranks: u32, arguments: &[&str]) -> Value {
    let ranks = ranks.to_string();
    let all = [arguments, &["--ranks", &ranks, "--json"]].concat();
    let ended = run(name, &all);
    assert!(ended.status.success(), "{name} {all:?}: {}", ended.stderr);
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(json["verified"], true, "{name} {all:?}");
    assert_eq!(json["ranks"].to_string(), ranks);
    json
}

/// Checks that the example fails with a line if its results cannot be written.
pub(crate) fn fails_on_a_full_disk(name: &str, arguments: &[&str]) {
    // One process writes to it itself. The launcher of several tells that it cannot pass on their
    // output, and each of them what it notices, such as that nobody reads any more.
    for (ranks, told, most_lines) in [
        ("1", "standard output: No space left", 1),
        ("2", "No space left", 4),
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(program(name));
        command.args(arguments).env("PGAS_RANKS", ranks);
        let output = command.stdout(full).output().unwrap();
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {line}");
        assert!(line.contains(told), "{name}: {line}");
        assert!(line.lines().count() <= most_lines, "{name}: {line}");
        assert!(!line.contains("panicked"), "{name}: {line}");
    }
}

/// Checks that bad arguments are refused in a line that names the option.
pub(crate) fn refuses(name: &str, option: &str, value: &str) {
    let ended = run(name, &[option, value]);
    assert_eq!(ended.code(), 2, "{name} {option} {value}");
    assert!(ended.stderr.contains(option), "{}", ended.stderr);
}

/// Checks that sizes for which no machine has memory are refused in a line that names the option.
pub(crate) fn refuses_sizes(name: &str, option: &str) {
    for value in [usize::MAX, usize::MAX / 4] {
        let ended = run(name, &[option, &value.to_string()]);
        assert_eq!(ended.code(), 2, "{name} {option} {value}: {ended:?}");
        assert!(ended.stderr.contains(option), "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    }
}
