//! `extend_add`.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use pgas_testkit::job;

use crate::program::program;
use crate::run::{json, refuses, run};

#[test]
fn both_ways_give_the_sums_of_one_rank_alone_on_any_number_of_ranks() {
    for (ranks, side) in [
        (1, "6"),
        (2, "9"),
        (3, "7"),
        (4, "8"),
        (7, "6"),
        (2, "1"),
        (2, "2"),
    ] {
        let json = json("extend_add", ranks, &["--side", side, "--rounds", "2"]);
        let side: u64 = side.parse().unwrap();
        assert_eq!(json["unknowns"], side.pow(3));
        assert_eq!(json["additions"].as_u64().unwrap() > 0, side > 3, "{json}");
    }
}

#[test]
fn a_real_matrix_is_there() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/lund_a.mtx");
    let counts = [1, 3].map(|ranks| {
        let json = json("extend_add", ranks, &["--matrix", file, "--rounds", "1"]);
        assert_eq!(json["unknowns"], 147);
        json["additions"].as_u64().unwrap()
    });
    assert!(counts[0] > 0 && counts[0] == counts[1], "{counts:?}");
}

#[test]
fn a_matrix_comes_from_a_file() {
    // An arrow, two separate chains, and an isolated row.
    let mut entries = String::new();
    for i in 2..=60 {
        writeln!(entries, "{i} 1 -1.0").unwrap();
    }
    for i in (62..=110).chain(112..=199) {
        writeln!(entries, "{i} {} 0.5", i - 1).unwrap();
    }
    let n = entries.lines().count();
    let header = "%%MatrixMarket matrix coordinate real symmetric\n% made by a test";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("arrow.mtx");
    fs::write(&file, format!("{header}\n200 200 {n}\n{entries}")).unwrap();
    let path = file.to_str().unwrap();
    let json = json("extend_add", 3, &["--matrix", path, "--rounds", "1"]);
    assert_eq!(json["unknowns"], 200);
    assert!(json["additions"].as_u64().unwrap() > 0);

    // Almost all rows are isolated.
    fs::write(&file, format!("{header}\n40000 40000 1\n2 1 1.0\n")).unwrap();
    let json = self::json("extend_add", 2, &["--matrix", path, "--rounds", "1"]);
    assert_eq!(json["unknowns"], 40_000);

    for (text, reason) in [
        ("hello\n", "no Matrix Market file"),
        (&format!("{header}\n3 4 0\n"), "3 rows and 4 columns"),
        (
            &format!("{header}\n3 3 1\n4 1 1.0\n"),
            "line 4: the matrix has 3 rows",
        ),
        (
            &format!("{header}\n3 3 2\n2 1 1.0\n"),
            "it says 2 entries and has 1",
        ),
        (&format!("{header}\n3 3 2\n2\n"), "line 4 is no entry"),
    ] {
        fs::write(&file, text).unwrap();
        let ended = run("extend_add", &["--ranks", "2", "--matrix", path]);
        assert_eq!(ended.code(), 1);
        assert!(ended.stderr.contains(reason), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn the_report_for_people_says_that_the_sums_are_right() {
    let ended = run("extend_add", &["--ranks", "2", "--side", "5"]);
    assert!(ended.stdout.contains("results: right"), "{ended:?}");
}

#[test]
fn bad_arguments_are_refused() {
    refuses("extend_add", "--side", "0");
    refuses("extend_add", "--rounds", "0");
}

#[test]
fn fronts_that_memory_does_not_hold_are_refused_before_the_ranks_start() {
    let mut command = Command::new("sh");
    let within = "ulimit -v 600000; exec \"$0\" --side 30 --ranks 1";
    command.args(["-c", within]).arg(program("extend_add"));
    let ended = job::start(command).end();
    assert_eq!(ended.code(), 2, "{ended:?}");
    let told = "extend_add: --side 30: numbers in fronts: ";
    assert!(ended.stderr.starts_with(told), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
}
