//! The program that makes reads for the others.

use std::fs;
use std::process::Command;

/// The package of the program.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/genomics");

#[test]
fn bad_arguments_and_files_that_would_be_lost_are_refused_with_one_line() {
    const GENOME: &str = ">a\nACGTTGCATGACCATGATTACGGATTCACTGGCCGTCG\n";
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("g.fa"), GENOME).unwrap();
    let program = pgas_testkit::example(PACKAGE, "simulate_reads", &[]);
    for (words, why) in [
        (
            "--genome g.fa --out ./g.fa",
            "./g.fa: the output is the same file as g.fa",
        ),
        ("--genome g.fa --genome-out g.fa", "the same file as g.fa"),
        ("--genome-out new --out ./new", "the same file as new"),
        (
            "--genome-length 99999999999999",
            "--genome-length 99999999999999: memory",
        ),
        ("--reads -1", "--reads -1: invalid digit"),
        ("--errors x", "--errors x: invalid float"),
        ("--genome g.fa --out /dev/full", "/dev/full: No space left"),
    ] {
        let mut command = Command::new(&program);
        let command = command.args(["--length", "10"]).args(words.split(' '));
        let output = command.current_dir(folder.path()).output().unwrap();
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {line}");
        assert!(
            line.contains(why) && line.lines().count() == 1,
            "{words}: {line}"
        );
        assert_eq!(fs::read_to_string(path("g.fa")).unwrap(), GENOME);
        assert!(!path("new").exists(), "{words}");
    }
}
