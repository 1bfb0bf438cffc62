//! The names of the cases, which select them on a command line.

use std::collections::HashSet;

use pgas_conformance::SUITE;

#[test]
fn no_two_cases_have_one_name() {
    let names: HashSet<_> = SUITE.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), SUITE.len());
}
