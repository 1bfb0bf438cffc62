//! Mutants of the code that ranks and threads share words by, and of what completes operations: a
//! line of it, changed for the worse, that a model or a test has to notice.
//!
//! A row names the tests that are run, so that each mutant takes seconds; a row without any says
//! why nobody can tell the mutant from the code, or why no test of ours does.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::process::Outcome;

mod copy;
mod report;
mod table;
mod tests_run;
mod trial;

use self::report::{Fate, Report};
use self::tests_run::Ending;
use self::trial::{Trial, Tried};

/// The tests that must notice the mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum By {
    /// Models with this in their names.
    Models(&'static str),
    /// Unit tests with this in their names.
    Tests(&'static str),
    /// Unit tests with this in their names, of optimized code. In unoptimized code there are so
    /// many stores between two lines that none of an earlier line is still in the store buffer.
    Optimized(&'static str),
    /// Tests of the first test program, with the second text in their names.
    Program(&'static str, &'static str),
    /// None: the mutant is equivalent, for this reason.
    Nobody(&'static str),
    /// No test of ours, for this reason.
    NoTest(&'static str),
}

/// A mutant.
#[derive(Clone, Copy, Debug)]
struct Mutant {
    /// Below its table's folder.
    file: &'static str,
    /// The text to replace, and the number of its occurrence in the file, from 0.
    from: (&'static str, usize),
    to: &'static str,
    by: By,
}

/// Mutants that the tests of one package notice.
#[derive(Clone, Copy, Debug)]
struct Table {
    /// The package with the tests.
    package: &'static str,
    /// The folder of the sources, below the root of the workspace.
    folder: &'static str,
    mutants: &'static [Mutant],
}

impl By {
    /// The filter of test names.
    const fn filter(self) -> &'static str {
        match self {
            Self::Models(filter)
            | Self::Tests(filter)
            | Self::Optimized(filter)
            | Self::Program(_, filter) => filter,
            Self::Nobody(_) | Self::NoTest(_) => "",
        }
    }

    /// The program that has them, with all of its tests.
    const fn program(self) -> Self {
        match self {
            Self::Models(_) => Self::Models(""),
            Self::Tests(_) => Self::Tests(""),
            Self::Optimized(_) => Self::Optimized(""),
            Self::Program(name, _) => Self::Program(name, ""),
            Self::Nobody(_) | Self::NoTest(_) => self,
        }
    }
}

/// A file with a mutant.
struct Change {
    /// Below the root of the workspace.
    path: PathBuf,
    before: String,
    after: String,
    /// The number of the line that is changed.
    line: usize,
}

impl Mutant {
    /// The change of the workspace that is at `root`.
    fn change(&self, root: &Path, folder: &str) -> Result<Change> {
        let path = Path::new(folder).join(self.file);
        let before = fs::read_to_string(root.join(&path))?;
        let (from, nth) = self.from;
        let places: Vec<_> = before.match_indices(from).collect();
        let Some((at, _)) = places.get(nth) else {
            let (file, n) = (self.file, places.len());
            bail!("{file}: `{from}` is there {n} times, not {}", nth + 1);
        };
        let (above, rest) = before.split_at(*at);
        let after = [above, self.to, &rest[from.len()..]].concat();
        // A text that begins with a line end is reported with the next line.
        let line_breaks = above.matches('\n').count() + usize::from(from.starts_with('\n'));
        Ok(Change {
            path,
            after,
            line: line_breaks + 1,
            before,
        })
    }
}

/// Tries every mutant whose path or text contains one of `filters`, or all if there are none, and
/// lists those that were not noticed.
pub(crate) fn run(filters: &[String]) -> Result<Outcome> {
    let mut trial = Trial::begin()?;
    let mut report = Report::default();
    for table in table::TABLES {
        for mutant in table.mutants {
            let change = mutant.change(trial.root(), table.folder)?;
            let path = change.path.display().to_string();
            let is_in = |filter: &String| path.contains(filter) || mutant.from.0.contains(filter);
            if !filters.is_empty() && !filters.iter().any(is_in) {
                continue;
            }
            let (fate, details) = match mutant.by {
                By::Nobody(why) => (Fate::Equivalent, why.to_owned()),
                By::NoTest(why) => (Fate::Untested, why.to_owned()),
                by => match trial.try_one(table.package, &change, by) {
                    Ok(tried) => fate(by, &tried),
                    Err(error) => (Fate::Broken, format!("{error:#}")),
                },
            };
            let (from, to) = (mutant.from.0.trim(), mutant.to.trim());
            let name = format!("{path}:{}: `{from}` -> `{to}`", change.line);
            println!("{:10}  {name}: {details}", fate.name());
            report.add(&path, fate, name);
        }
    }
    ensure!(!report.is_empty(), "no mutant has any of {filters:?} in it");
    println!("\n{report}");
    report.verdict()?;
    Ok(Outcome::Passed)
}

/// The fate of a mutant that was tried, and its description.
fn fate(by: By, tried: &Tried) -> (Fate, String) {
    let Tried {
        ending,
        building,
        running,
    } = tried;
    let took = format!("{running:.1?} after a build of {building:.1?}");
    match ending {
        Ending::Passed => (Fate::Survives, format!("{by:?} passes, {took}")),
        Ending::Failed(Some(test)) => (Fate::Noticed, format!("by {test}, {took}")),
        Ending::Failed(None) => (Fate::Noticed, format!("{by:?} ends, {took}")),
        Ending::Hung => (Fate::Noticed, format!("{by:?} hangs, {took}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{process, test_names};

    #[test]
    fn every_mutant_changes_a_place_that_is_there() {
        let mut lost = Vec::new();
        for table in table::TABLES {
            for mutant in table.mutants {
                match mutant.change(process::root(), table.folder) {
                    Ok(change) => assert_ne!(change.after, change.before, "{mutant:?}"),
                    Err(error) => lost.push(error.to_string()),
                }
            }
        }
        assert!(lost.is_empty(), "{}", lost.join("\n"));
    }

    #[test]
    fn every_mutant_has_tests_that_are_there() {
        for table in table::TABLES {
            let library = test_names::functions(table.package, None);
            for Mutant { file, by, .. } in table.mutants {
                let program = match by {
                    By::Program(name, _) => test_names::functions(table.package, Some(name)),
                    _ => library.clone(),
                };
                let filter = by.filter();
                let is_there = program.iter().any(|name| name.contains(filter));
                assert!(
                    is_there,
                    "{file}: no test of {} is called {filter}",
                    table.package
                );
            }
        }
    }

    #[test]
    fn no_mutant_is_there_twice() {
        for table in table::TABLES {
            let mut seen = HashSet::new();
            for Mutant { file, from, to, .. } in table.mutants {
                assert!(seen.insert((file, from, to)), "{file}: {from:?} -> {to}");
            }
        }
    }

    /// Orderings stronger than relaxed.
    const STRONG: [&str; 5] = ["Acquire", "Release", "AcqRel", "SeqCst", "fence("];

    /// The files of a folder and of those in it, but for tests and models, and for what stands in
    /// for Linux's on other systems.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let is_no_code_of_ours =
                ["tests", "models", "futex_model", "litmus", "sync"].contains(&stem);
            if is_no_code_of_ours || stem.ends_with("_portable") {
                continue;
            }
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    /// Whether a line of code asks for an order.
    fn is_strong(line: &str) -> bool {
        let code = line.split("//").next().unwrap_or_default();
        let is_declared = ["use ", "fn ", "Ordering::{"]
            .iter()
            .any(|it| code.contains(it));
        !is_declared && STRONG.iter().any(|word| code.contains(word))
    }

    #[test]
    fn every_ordering_and_fence_has_a_mutant() {
        let mut missing = Vec::new();
        let folders: HashSet<_> = table::TABLES.iter().map(|table| table.folder).collect();
        for folder in folders {
            let mut files = Vec::new();
            let root = process::root().join(folder);
            sources(&root, &mut files);
            for path in files {
                let text = fs::read_to_string(&path).unwrap();
                let file = path.strip_prefix(&root).unwrap().to_str().unwrap();
                let tables = table::TABLES.iter().filter(|table| table.folder == folder);
                let rows = tables.flat_map(|table| table.mutants);
                let covered: Vec<_> = rows
                    .filter(|row| row.file == file)
                    .filter_map(|row| {
                        let (from, nth) = row.from;
                        let (at, _) = text.match_indices(from).nth(nth)?;
                        Some(at..at + from.len())
                    })
                    .collect();
                let code = text.split("mod tests {").next().unwrap_or_default();
                let mut start = 0;
                for (i, line) in code.split_inclusive('\n').enumerate() {
                    let end = start + line.len();
                    let is_there =
                        |row: &std::ops::Range<usize>| row.start < end && start < row.end;
                    if is_strong(line) && !covered.iter().any(is_there) {
                        missing.push(format!("{folder}/{file}:{}: {}", i + 1, line.trim()));
                    }
                    start = end;
                }
            }
        }
        assert!(missing.is_empty(), "without a row:\n{}", missing.join("\n"));
    }
}
