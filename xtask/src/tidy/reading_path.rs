//! The path on which a newcomer follows one operation: the files exist, each says in its module docs where on the path it
//! stands, and together they stay short enough to be read.

use super::Finding;
use super::docs;
use super::sizes;
use super::source::Source;

const PATH: &[&str] = &[
    "crates/core/src/world.rs",
    "crates/core/src/segment/mod.rs",
    "crates/core/src/global_ptr.rs",
    "crates/containers/src/hash_map/mod.rs",
    "crates/backend-smp/src/rma.rs",
];

/// How the paragraph begins that says what comes before and after a file.
const OPENING: &str = "On the path of an operation";

/// Lines of code of all files together, tests left out. More is reported.
const BUDGET: usize = 1200;

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in PATH {
        match find(sources, path) {
            None => findings.push(Finding::in_file(
                path,
                "is on the reading path and does not exist",
            )),
            Some(source) if !docs::module_docs(source).contains(OPENING) => {
                let message = format!("has no paragraph `{OPENING} ...` in its module docs");
                findings.push(Finding::in_file(path, message));
            }
            Some(_) => {}
        }
    }
    findings
}

/// How long the path is, and whether that is too long.
pub(super) fn length(sources: &[Source]) -> String {
    let lines: usize = PATH
        .iter()
        .filter_map(|stop| find(sources, stop))
        .map(sizes::code_lines)
        .sum();
    let verdict = if lines > BUDGET {
        "more than"
    } else {
        "of at most"
    };
    format!("the reading path has {lines} lines of code, {verdict} {BUDGET}")
}

fn find<'a>(sources: &'a [Source], path: &str) -> Option<&'a Source> {
    sources.iter().find(|source| source.path == path)
}

#[cfg(test)]
mod tests {
    use super::{OPENING, PATH, check, length};
    use crate::tidy::source::Source;

    fn whole_path() -> Vec<Source> {
        let text = format!("//! {OPENING} this file comes next.\nfn f() {{}}\n");
        PATH.iter()
            .map(|path| Source::parse(path, &text).unwrap())
            .collect()
    }

    #[test]
    fn a_path_whose_files_say_where_they_stand_is_in_order() {
        assert_eq!(check(&whole_path()), []);
        assert_eq!(
            length(&whole_path()),
            "the reading path has 5 lines of code, of at most 1200"
        );
    }

    #[test]
    fn an_absent_file_is_found() {
        let mut sources = whole_path();
        sources.remove(1);
        let found = check(&sources);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, PATH[1]);
    }

    #[test]
    fn a_file_that_does_not_say_where_it_stands_is_found() {
        let mut sources = whole_path();
        sources[0] = Source::parse(PATH[0], "//! Alone.\n").unwrap();
        let found = check(&sources);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, PATH[0]);
    }
}
