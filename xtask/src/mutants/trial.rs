//! Trying mutants: building the tests with a changed line, and running them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::copy::Copy;
use super::tests_run::{self, Ending};
use super::{By, Change};
use crate::memory;
use crate::process;

/// The time limit of the tests without a mutant.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The time limit with a mutant, if they take `unchanged` without one: a run that does not end
/// counts as noticed.
fn limit(unchanged: Duration) -> Duration {
    Duration::from_secs(5) + 4 * unchanged
}

/// The result of a mutant's run.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) ending: Ending,
    pub(super) building: Duration,
    /// The tests, until one failed.
    pub(super) running: Duration,
}

/// The results of tests without a mutant.
#[derive(Clone, Debug)]
struct Known {
    /// A copy of their program, which outlives the builds with mutants.
    program: PathBuf,
    takes: Duration,
}

/// Mutants that are tried one after the other.
pub(super) struct Trial {
    copy: Copy,
    /// The tests that have been run with nothing changed, and why they tell nothing if they do not.
    known: HashMap<(&'static str, By), Result<Known, String>>,
    /// The programs that were built with nothing changed, whichever of their tests are run.
    programs: HashMap<(&'static str, By), PathBuf>,
}

impl Trial {
    pub(super) fn begin() -> Result<Self> {
        Ok(Self {
            copy: Copy::make()?,
            known: HashMap::new(),
            programs: HashMap::new(),
        })
    }

    /// The copy of the workspace, which stays as it was when the trial began.
    pub(super) fn root(&self) -> &Path {
        self.copy.root()
    }

    /// Runs the tests of a mutant.
    pub(super) fn try_one(
        &mut self,
        package: &'static str,
        change: &Change,
        by: By,
    ) -> Result<Tried> {
        let known = self.unchanged(package, by)?;
        let file = self.copy.root().join(&change.path);
        fs::write(&file, &change.after)?;
        let start = Instant::now();
        let built = self.build(package, by);
        let building = start.elapsed();
        fs::write(&file, &change.before)?;
        let start = Instant::now();
        let ending = self.end_of(package, by, &built?, known)?;
        Ok(Tried {
            ending,
            building,
            running: start.elapsed(),
        })
    }

    /// Runs the tests in `program`. Tests that take too long hang only if the machine has not
    /// become slower meanwhile: otherwise they get more time.
    fn end_of(
        &mut self,
        package: &'static str,
        by: By,
        program: &Path,
        mut known: Known,
    ) -> Result<Ending> {
        loop {
            let ending = tests_run::run(self.tests(package, program, by), limit(known.takes))?;
            if ending != Ending::Hung {
                return Ok(ending);
            }
            let takes = self.time(package, by, &known.program)?;
            if takes < 2 * known.takes.max(Duration::from_secs(1)) {
                return Ok(ending);
            }
            known.takes = takes;
            let key = (package, by);
            self.known.insert(key, Ok(known.clone()));
        }
    }

    /// Runs the tests without a mutant: a test that fails anyway, or does not exist, shows nothing.
    fn unchanged(&mut self, package: &'static str, by: By) -> Result<Known> {
        let key = (package, by);
        if !self.known.contains_key(&key) {
            let known = self.find_out(package, by);
            let known = known.map_err(|error| format!("{error:#}"));
            self.known.insert(key, known);
        }
        self.known[&key].clone().map_err(|why| anyhow!(why))
    }

    fn find_out(&mut self, package: &'static str, by: By) -> Result<Known> {
        let program = self.program(package, by)?;
        let listed = process::output(self.tests(package, &program, by).arg("--list"));
        let is_there = listed.is_some_and(|listed| listed.contains(": test\n"));
        ensure!(is_there, "{} has no such test: {by:?}", package);
        let takes = self.time(package, by, &program)?;
        Ok(Known { program, takes })
    }

    /// The program of the tests with nothing changed.
    fn program(&mut self, package: &'static str, by: By) -> Result<PathBuf> {
        let key = (package, by.program());
        if let Some(program) = self.programs.get(&key) {
            return Ok(program.clone());
        }
        let built = self.build(package, by)?;
        let name = built.file_name().context("a program has a name")?;
        let program = self.copy.unchanged(name)?;
        fs::copy(&built, &program)?;
        self.programs.insert(key, program.clone());
        Ok(program)
    }

    /// The time of the tests without a mutant.
    fn time(&self, package: &'static str, by: By, program: &Path) -> Result<Duration> {
        let start = Instant::now();
        let ending = tests_run::run(self.tests(package, program, by), LIMIT)?;
        ensure!(
            ending == Ending::Passed,
            "{} of {}: {ending:?} although nothing is changed",
            by.filter(),
            package
        );
        Ok(start.elapsed())
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
            By::Tests(_) | By::Optimized(_) => {
                process::command("cargo", ["test", "--lib", "-p", package])
            }
            By::Program(name, _) => {
                process::command("cargo", ["test", "--test", name, "-p", package])
            }
            By::Nobody(_) | By::NoTest(_) => bail!("nothing to be built"),
        };
        let target = match by {
            By::Models(_) => "loom",
            By::Optimized(_) => "optimized",
            _ => "tests",
        };
        if let By::Optimized(_) = by {
            cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        }
        cargo.args(["--no-run", "--message-format=json"]);
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.env("CARGO_TARGET_DIR", self.copy.target(target));
        cargo.current_dir(self.copy.root());
        let messages = process::output(&mut cargo).context("does not compile")?;
        let program = messages.lines().filter_map(program_of).next_back();
        program.context("cargo names no program")
    }

    /// The program on the tests that should notice, as cargo starts it.
    fn tests(&self, package: &str, program: &Path, by: By) -> Command {
        let mut tests = Command::new(program);
        tests.arg(by.filter());
        for (key, value) in memory::loom_cargo("").get_envs() {
            if let (By::Models(_), Some(value)) = (by, value) {
                tests.env(key, value);
            }
        }
        let folder = package.trim_start_matches("pgas-");
        let folder = match folder {
            "smp" => "backend-smp",
            other => other,
        };
        tests.current_dir(self.copy.root().join("crates").join(folder));
        // The output of a failure is not read, and the lines of a backtrace take seconds to find.
        tests.env("RUST_BACKTRACE", "0");
        // As few orders of delivery as tell these mutants.
        tests.env("PGAS_TEST_SEEDS", "150");
        // Two threads rarely meet so closely on a busy machine.
        tests.env("PGAS_TEST_TURNS", "300000");
        tests
    }
}

/// The test program that a line of cargo's messages names.
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
    fn the_program_of_tests_is_found_in_what_cargo_tells() {
        let line = r#"{"reason":"compiler-artifact","profile":{"test":true},"executable":"/x/y"}"#;
        assert_eq!(program_of(line), Some(PathBuf::from("/x/y")));
        let library =
            r#"{"reason":"compiler-artifact","profile":{"test":false},"executable":null}"#;
        assert_eq!(program_of(library), None);
        assert_eq!(program_of("not json"), None);
    }
}
