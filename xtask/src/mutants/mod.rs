//! Mutants of the code that ranks and threads share words by, and of what completes operations: a
//! line of it, changed for the worse, that a model or a test has to notice.
//!
//! A row names the tests that are run, so that each mutant takes seconds; a row without any says
//! why nobody can tell the mutant from the code, or why no test of ours does.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::memory;
use crate::process::{self, Outcome};

mod copy;
mod table;

use self::copy::Copy;

/// Who notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum By {
    /// Models with this in their names.
    Models(&'static str),
    /// Unit tests with this in their names.
    Tests(&'static str),
    /// Of the test program with the first name, tests with the second in theirs.
    Program(&'static str, &'static str),
    /// Nobody, since the program does the same, for this reason.
    Nobody(&'static str),
    /// No test of ours, for this reason.
    NoTest(&'static str),
}

/// A mutant.
#[derive(Clone, Copy, Debug)]
struct Mutant {
    /// Below its table's folder.
    file: &'static str,
    /// The text that is replaced, and which of its places in the file, from 0.
    from: (&'static str, usize),
    to: &'static str,
    by: By,
}

/// Mutants that the tests of one package notice.
#[derive(Clone, Copy, Debug)]
struct Table {
    /// That with the tests.
    package: &'static str,
    /// Of the sources, below the root of the workspace.
    folder: &'static str,
    mutants: &'static [Mutant],
}

impl Mutant {
    /// The file with the change, and the number of the line that it is in.
    fn apply(&self, text: &str) -> Result<(String, usize)> {
        let (from, nth) = self.from;
        let places: Vec<_> = text.match_indices(from).collect();
        let Some((at, _)) = places.get(nth) else {
            let n = places.len();
            bail!(
                "{}: `{from}` is there {n} times, not {}",
                self.file,
                nth + 1
            );
        };
        let (before, rest) = text.split_at(*at);
        let changed = [before, self.to, &rest[from.len()..]].concat();
        // A text that begins with the end of a line is told by the next one.
        let line_breaks = before.matches('\n').count() + usize::from(from.starts_with('\n'));
        Ok((changed, line_breaks + 1))
    }
}

/// How long the tests may take with nothing changed.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// How long they may take with a mutant, where they take so long without: what does not end is
/// noticed, and what only takes long is not, on a busy machine either.
fn limit(unchanged: Duration) -> Duration {
    Duration::from_secs(60) + 10 * unchanged
}

/// In percent, of the mutants that are not equivalent.
const LEAST_NOTICED: usize = 95;

/// Makes every mutant whose path or text has `filter` in it, and lists those that nobody has noticed.
pub(crate) fn run(filter: &str) -> Result<Outcome> {
    let mut trial = Trial::begin()?;
    let (mut counts, mut survivors) = (Counts::default(), Vec::new());
    for table in table::TABLES {
        for mutant in table.mutants {
            let path = Path::new(table.folder).join(mutant.file);
            let path = path.display().to_string();
            if !path.contains(filter) && !mutant.from.0.contains(filter) {
                continue;
            }
            let start = Instant::now();
            let (line, ending) = trial.try_one(table, mutant)?;
            let (from, to) = (mutant.from.0.trim(), mutant.to.trim());
            let name = format!("{path}:{line}: `{from}` -> `{to}`");
            let seconds = start.elapsed().as_secs();
            let by = mutant.by;
            counts.n += 1;
            match (by, ending) {
                (By::Nobody(why), _) => {
                    counts.n_equivalent += 1;
                    println!("equivalent  {name}: {why}");
                }
                (By::NoTest(why), _) => println!("no test     {name}: {why}"),
                (_, Ending::Noticed) => {
                    counts.n_noticed += 1;
                    println!("noticed     {name}: {by:?}, {seconds} s");
                }
                (_, Ending::Passed) => {
                    println!("SURVIVES    {name}: {by:?}, {seconds} s");
                    survivors.push(name);
                }
            }
        }
    }
    let Counts {
        n,
        n_equivalent,
        n_noticed,
    } = counts;
    ensure!(n > 0, "no mutant has `{filter}` in it");
    let n_others = n - n_equivalent;
    println!(
        "{n} mutants: {n_equivalent} equivalent; of {n_others} others {n_noticed} noticed, {:.1} %",
        counts.percent()
    );
    if !survivors.is_empty() {
        bail!("nobody notices:\n{}", survivors.join("\n"));
    }
    let is_enough = n_noticed * 100 >= n_others * LEAST_NOTICED;
    // A few of them say nothing of the rate.
    ensure!(
        is_enough || !filter.is_empty(),
        "less than {LEAST_NOTICED} % are noticed"
    );
    Ok(Outcome::Passed)
}

#[derive(Default)]
struct Counts {
    n: usize,
    n_equivalent: usize,
    n_noticed: usize,
}

impl Counts {
    #[expect(clippy::cast_precision_loss, reason = "some hundred")]
    fn percent(&self) -> f64 {
        let n_others = (self.n - self.n_equivalent).max(1);
        self.n_noticed as f64 * 100.0 / n_others as f64
    }
}

/// How the tests of a mutant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Passed,
    Noticed,
}

/// Mutants that are tried one after the other.
struct Trial {
    copy: Copy,
    /// Which tests are known to be there and to pass as long as nothing is changed, and how long they
    /// take then.
    known: HashMap<(&'static str, By), Duration>,
}

impl Trial {
    fn begin() -> Result<Self> {
        Ok(Self {
            copy: Copy::make()?,
            known: HashMap::new(),
        })
    }

    /// In which line the mutant is, and how its tests end, if it has some.
    fn try_one(&mut self, table: &Table, mutant: &Mutant) -> Result<(usize, Ending)> {
        let path = Path::new(table.folder).join(mutant.file);
        let text = fs::read_to_string(process::root().join(&path))?;
        let (changed, line) = mutant.apply(&text)?;
        if matches!(mutant.by, By::Nobody(_) | By::NoTest(_)) {
            return Ok((line, Ending::Passed));
        }
        let unchanged = self.check_unchanged(table, mutant.by)?;
        let file = self.copy.root().join(path);
        fs::write(&file, changed)?;
        let ended = self.test(table, mutant.by, limit(unchanged));
        fs::write(&file, text)?;
        let ended = ended.with_context(|| format!("{mutant:?}"))?;
        Ok((line, ended))
    }

    /// Nothing is learnt from a test that fails anyway, or is not there.
    fn check_unchanged(&mut self, table: &Table, by: By) -> Result<Duration> {
        if let Some(time) = self.known.get(&(table.package, by)) {
            return Ok(*time);
        }
        let program = self.build(table.package, by)?;
        let listed = process::output(self.tests(table, &program, by).arg("--list"));
        let is_there = listed.is_some_and(|listed| listed.contains(": test\n"));
        ensure!(is_there, "{} has no such test: {by:?}", table.package);
        let start = Instant::now();
        let ended = self.test(table, by, LIMIT)?;
        ensure!(
            ended == Ending::Passed,
            "fail although nothing is changed: {by:?} of {}",
            table.package
        );
        let time = start.elapsed();
        self.known.insert((table.package, by), time);
        Ok(time)
    }

    /// Builds the tests, and runs them for at most `limit`.
    fn test(&self, table: &Table, by: By, limit: Duration) -> Result<Ending> {
        let program = self.build(table.package, by)?;
        let mut child = self
            .tests(table, &program, by)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the tests")?;
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some(status) = child.try_wait()? {
                let has_passed = status.success();
                return Ok(if has_passed {
                    Ending::Passed
                } else {
                    Ending::Noticed
                });
            }
            thread::sleep(Duration::from_millis(20));
        }
        child.kill()?;
        child.wait()?;
        Ok(Ending::Noticed)
    }

    /// The program with the tests, which is started without cargo, so that it can be ended.
    fn build(&self, package: &str, by: By) -> Result<PathBuf> {
        let mut cargo = match by {
            By::Models(_) => {
                let mut cargo = memory::loom_cargo(memory::ALL_MODELS);
                // Mutants are built more than they are run.
                let package = "profile.release.package.pgas-lockfree.opt-level=1";
                cargo.args(["--config", package]);
                cargo.env("CARGO_INCREMENTAL", "1");
                cargo
            }
            By::Tests(_) => process::command("cargo", ["test", "--lib", "-p", package]),
            By::Program(name, _) => {
                process::command("cargo", ["test", "--test", name, "-p", package])
            }
            By::Nobody(_) | By::NoTest(_) => bail!("nothing to be built"),
        };
        let target = match by {
            By::Models(_) => "loom",
            _ => "tests",
        };
        cargo.args(["--no-run", "--message-format=json"]);
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.env("CARGO_TARGET_DIR", self.copy.target(target));
        cargo.current_dir(self.copy.root());
        let messages = process::output(&mut cargo).context("does not compile")?;
        let program = messages.lines().filter_map(program_of).next_back();
        program.context("cargo names no program")
    }

    /// The program on the tests that should notice, as cargo starts it.
    fn tests(&self, table: &Table, program: &Path, by: By) -> Command {
        let mut tests = Command::new(program);
        match by {
            By::Models(filter) | By::Tests(filter) | By::Program(_, filter) => tests.arg(filter),
            By::Nobody(_) | By::NoTest(_) => &mut tests,
        };
        for (key, value) in memory::loom_cargo("").get_envs() {
            if let (By::Models(_), Some(value)) = (by, value) {
                tests.env(key, value);
            }
        }
        let folder = table.package.trim_start_matches("pgas-");
        tests.current_dir(self.copy.root().join("crates").join(folder));
        // As few orders of delivery as tell these mutants.
        tests.env("PGAS_TEST_SEEDS", "150");
        tests
    }
}

/// The program that a line of cargo's messages tells to have been made of tests.
fn program_of(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let program = message["executable"].as_str()?;
    is_test.then(|| PathBuf::from(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_changes_a_place_that_is_there() {
        for table in table::TABLES {
            for mutant in table.mutants {
                let path = Path::new(table.folder).join(mutant.file);
                let text = fs::read_to_string(process::root().join(path)).unwrap();
                let (changed, _) = mutant.apply(&text).unwrap();
                assert_ne!(changed, text, "{mutant:?}");
            }
        }
    }

    #[test]
    fn no_mutant_is_there_twice() {
        for table in table::TABLES {
            let mut seen = std::collections::HashSet::new();
            for Mutant { file, from, to, .. } in table.mutants {
                assert!(seen.insert((file, from, to)), "{file}: {from:?} -> {to}");
            }
        }
    }

    #[test]
    fn the_program_of_tests_is_found_in_what_cargo_tells() {
        let line = r#"{"reason":"compiler-artifact","profile":{"test":true},"executable":"/x/y"}"#;
        assert_eq!(program_of(line), Some(PathBuf::from("/x/y")));
        let library =
            r#"{"reason":"compiler-artifact","profile":{"test":false},"executable":null}"#;
        assert_eq!(program_of(library), None);
        assert_eq!(program_of("not json"), None);
    }
}
