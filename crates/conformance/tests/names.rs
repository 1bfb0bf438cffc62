//! The names of the cases, which select them on a command line; and the lines that traces of the
//! cases name, which are lines of the program.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use pgas_conformance::SUITE;
use pgas_conformance::runner::over_threads;
use pgas_core::backend::loopback;

#[test]
fn no_two_cases_have_one_name() {
    let names: HashSet<_> = SUITE.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), SUITE.len());
}

/// The names in the traces of a directory that say where something was: `what@file:line`.
fn places(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the traces of a case");
    let names = entries
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|it| it == "names"));
    let texts = names.map(|path| fs::read_to_string(path).expect("names are text"));
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    lines
        .filter_map(|line| line.split_once('\t').map(|(_, name)| name.to_owned()))
        .filter(|name| name.contains('@'))
        .collect()
}

/// Files of the library whose lines may be there, and why.
const OF_THE_LIBRARY: &[(&str, &str)] = &[
    (
        "crates/am/src/serve.rs",
        "answers of calls, which no line of the program sends",
    ),
    (
        "crates/am/src/outbox.rs",
        "kept messages, which are sent later",
    ),
];

/// Reports of long waits and statistics have their lines from where traces have theirs.
#[test]
fn waits_and_messages_of_all_operations_are_at_lines_of_the_program() {
    let directory = std::env::temp_dir().join(format!("pgas-lines-{}", std::process::id()));
    let mut wrong = BTreeMap::<String, Vec<&str>>::new();
    let mut n_right = 0;
    for case in SUITE {
        let at = directory.join(case.name);
        let ran = over_threads(case, |config| {
            let mut config = config.clone();
            config.trace = Some(at.display().to_string());
            loopback::worlds(3, &config)
        });
        assert!(ran.is_ok(), "{}: {ran:?}", case.name);
        for place in places(&at) {
            let (_, at) = place.split_once('@').expect("a place");
            if at.starts_with("crates/conformance/src/cases/") {
                n_right += 1;
            } else if !OF_THE_LIBRARY.iter().any(|(file, _)| at.starts_with(file)) {
                wrong.entry(place).or_default().push(case.name);
            }
        }
        fs::remove_dir_all(&at).expect("the traces of a case");
    }
    fs::remove_dir_all(directory).expect("an empty directory");
    assert!(n_right > 1000, "{n_right} lines in all");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
