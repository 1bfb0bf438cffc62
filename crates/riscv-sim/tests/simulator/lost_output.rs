//! Outputs that nobody reads, or that have no room.

use std::fs::{self, OpenOptions};
use std::process::{Command, Output, Stdio};

/// Writes a line for ever.
const WRITER: &str = "
 _start: li a0, 1
         la a1, text
         li a2, 3
         li a7, 64
         ecall
         j  _start
         .data
   text: .ascii \"hi\\n\"
";

/// Writes a word, and ends.
const WORD: &str = "
 _start: li a0, 1
         la a1, text
         li a2, 2
         li a7, 64
         ecall
         li a0, 0
         li a7, 93
         ecall
         .data
   text: .ascii \"hi\"
";

fn rae(words: &str, stdout: Stdio, stderr: Stdio) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("writer.s"), WRITER).unwrap();
    fs::write(folder.path().join("word.s"), WORD).unwrap();
    let mut rae = Command::new(env!("CARGO_BIN_EXE_rae"));
    let rae = rae.current_dir(folder.path()).args(words.split(' '));
    rae.stdout(stdout).stderr(stderr).output().unwrap()
}

fn full() -> Stdio {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    full.into()
}

/// A pipe that nobody reads.
fn unread() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

const COMMANDS: [&str; 5] = [
    "run writer.s --nodes 2",
    "run writer.s --nodes 2 --timed",
    "run word.s --nodes 1",
    "disasm word.s",
    "disasm 13",
];

#[test]
fn a_standard_output_that_is_lost_ends_the_program_with_a_line() {
    for words in COMMANDS {
        for (output, why) in [(full(), "No space left"), (unread(), "Broken pipe")] {
            let ended = rae(words, output, Stdio::piped());
            let line = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(125), "{words}: {line}");
            let expected = format!("rae: standard output: {why}");
            assert!(line.starts_with(&expected), "{words}: {line}");
            assert_eq!(line.lines().count(), 1, "{words}: {line}");
        }
    }
}

#[test]
fn help_that_is_lost_is_told() {
    let ended = rae("--help", full(), Stdio::piped());
    let line = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{line}");
    assert!(
        line.starts_with("rae: standard output: No space left"),
        "{line}"
    );
}

#[test]
fn a_standard_error_that_is_lost_changes_no_exit_code() {
    for (words, code) in [
        ("run none.s", 125),
        ("disasm", 2),
        ("run word.s --nodes 1", 0),
    ] {
        let ended = rae(words, Stdio::piped(), full());
        assert_eq!(ended.status.code(), Some(code), "{words}");
    }
}
