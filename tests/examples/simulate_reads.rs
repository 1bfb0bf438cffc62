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
    let too_much = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    for (code, words, why) in [
        (
            1,
            "--genome g.fa --out ./g.fa",
            "./g.fa: the output is the same file as g.fa",
        ),
        (
            1,
            "--genome g.fa --genome-out g.fa",
            "the same file as g.fa",
        ),
        (1, "--genome-out new --out ./new", "the same file as new"),
        (
            1,
            "--genome-length 99999999999999",
            "--genome-length 99999999999999: memory",
        ),
        (2, "--reads=-1", "'-1' for '--reads"),
        (2, "--errors x", "'x' for '--errors"),
        (
            2,
            "--seed 1 --seed 2",
            "'--seed <N>' cannot be used multiple times",
        ),
        (1, "--genome g.fa --out no/new", "no/new: No such file"),
        (
            1,
            "--genome g.fa --out new --genome-out g2.fa",
            " new: File too large",
        ),
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", too_much]).arg(&program);
        let command = command.args(["--length", "10"]).args(words.split(' '));
        let output = command.current_dir(folder.path()).output().unwrap();
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {line}");
        assert!(
            line.contains(why) && line.lines().count() == 1,
            "{words}: {line}"
        );
        assert_eq!(fs::read_to_string(path("g.fa")).unwrap(), GENOME);
        // Nothing new, and no part of it.
        let entries = fs::read_dir(folder.path()).unwrap();
        assert_eq!(entries.count(), 1, "{words}");
    }
}
