//! The test command: a table of steps, each timed. A step that fails lets the others run.

use std::io::{Read as _, Seek as _};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::process::{self, Outcome, cargo, command};
use crate::{dependencies, memory, mpi, publish};
use crate::{setup, tidy, toolchains};

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Result<Outcome>,
    /// The steps of one lane run one after the other. Those of [`SHARED`] share a folder.
    lane: usize,
}

const fn step(name: &'static str, about: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step {
        name,
        about,
        run,
        lane: SHARED,
    }
}

/// A step that builds in a folder of its own, and so runs beside others.
const fn beside(
    lane: usize,
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<Outcome>,
) -> Step {
    Step {
        lane,
        ..step(name, about, run)
    }
}

/// The lane of the steps that share a folder.
const SHARED: usize = 0;
/// One lane more than most machines for tests have processors: tests wait as much as they compute.
const N_LANES: usize = 3;

/// The optional features that need no foreign library. They only add items, so one build with them serves for both.
const FEATURES: [&str; 2] = [
    "--features",
    "pgas/rayon,pgas/tokio,pgas-am/tokio,pgas-examples/tokio",
];

/// Tells tests that the examples are built already: with the same choice of packages, so that nothing is built anew.
pub(crate) const EXAMPLES_BUILT: &str = "PGAS_TEST_EXAMPLES_BUILT";

/// The steps of `cargo xtask test`, cheapest first, then those that run beside them, lane by lane. A new
/// one is a new row. Cargo's commands without a package are about the workspace's default members: all
/// but the MPI backend, which has steps of its own, and the hosts of its tests.
#[rustfmt::skip]
pub(crate) const STEPS: &[Step] = &[
    step("setup", "system packages, and what rustup has", setup::run),
    step("fmt", "formatting", || cargo(["fmt", "--all", "--check"])),
    step("tidy", "rules of the house", tidy::run),
    step("dependencies", "licences, versions and sources of the dependencies", dependencies::run),
    step("clippy", "lints of the whole workspace, as errors", clippy),
    step("tests", "unit, integration and doc tests", tests),
    step("bench-smoke", "every bench, once", bench_smoke),
    step("main-job", "k-mers of a bacterial genome, every k and number of ranks, against jellyfish, and its contigs", main_job),
    step("doc", "documentation of the whole workspace, with warnings as errors", || doc(false)),
    step("publish", "the published crates are packed, and a new crate that uses them builds and runs", publish::run),
    step("open-mpi", "the MPI backend with Open MPI", mpi::open_mpi),
    beside(1, "asan", "unit tests and conformance suite under AddressSanitizer, if nightly is installed", memory::asan),
    beside(1, "miri", "unit tests that go through unsafe code, interpreted, if nightly has Miri", memory::miri),
    beside(1, "loom", "interleavings of the lock-free parts", memory::loom),
    beside(2, "msrv", "published crates with the oldest Rust that they promise", toolchains::msrv),
    beside(2, "targets", "the facade for macOS and other processors, and the suite over what replaces Linux there", toolchains::targets),
    beside(2, "mpich", "the MPI backend with MPICH", mpi::mpich),
];

/// The inner loop: what needs neither root nor anything installed.
#[rustfmt::skip]
const QUICK: &[Step] = &[
    step("fmt", "formatting", || cargo(["fmt", "--all", "--check"])),
    step("tidy", "rules of the house", tidy::run),
    step("quick-tests", "unit and doc tests of the library, and the conformance suite over shared memory", quick_tests),
];

/// Lints, with the MPI backend: Open MPI's headers and MPICH's differ too little to do it twice.
fn clippy() -> Result<Outcome> {
    let mut cargo = mpi::for_lints(&["clippy", "--workspace", "--all-targets"]);
    process::run(cargo.args(FEATURES).args([
        "--features",
        "pgas/mpi,pgas-examples/mpi",
        "--",
        "-D",
        "warnings",
    ]))
}

/// Tests of the library alone, whatever the machine lacks.
fn quick_tests() -> Result<Outcome> {
    let library = [
        "-p",
        "pgas",
        "-p",
        "pgas-am",
        "-p",
        "pgas-containers",
        "-p",
        "pgas-core",
        "-p",
        "pgas-lockfree",
        "-p",
        "pgas-smp",
    ];
    let mut tests = command("cargo", ["test", "--lib", "--test", "suite"]);
    process::run(tests.args(library))?;
    process::run(command("cargo", ["test", "--doc"]).args(library))
}

/// Every criterion bench; what follows goes to criterion.
pub(crate) const BENCH: &[&str] = &["bench", "--bench", "*", "--"];

/// Every bench, once, in the build of the tests: nothing is measured.
fn bench_smoke() -> Result<Outcome> {
    cargo([
        "test",
        "--bench",
        "*",
        FEATURES[0],
        FEATURES[1],
        "--",
        "--test",
    ])
}

/// All tests of the default members, which builds their examples, too.
fn tests() -> Result<Outcome> {
    let mut tests = command("cargo", ["test", "--no-fail-fast"]);
    process::run(tests.args(FEATURES).env(EXAMPLES_BUILT, "1"))
}

/// The tests of two examples once more, optimized, which makes them try more.
fn main_job() -> Result<Outcome> {
    const EXAMPLES: [&str; 2] = ["kmer_count", "contig_gen"];
    let packages = ["--release", "-p", "pgas", "-p", "pgas-examples"];
    let mut build = command("cargo", ["build"]);
    build.args(packages);
    process::run(build.args(EXAMPLES.iter().flat_map(|name| ["--example", name])))?;
    let mut tests = command("cargo", ["test", "--test", "examples"]);
    tests.args(packages).arg("--").args(EXAMPLES);
    process::run(tests.env(EXAMPLES_BUILT, "1"))
}

/// Runs the named steps one after the other, or all in lanes.
pub(crate) fn run(names: &[String]) -> Result<Outcome> {
    let steps = select(names)?;
    if names.is_empty() {
        process::build_once();
        return run_in_lanes(&steps);
    }
    run_all(&steps)
}

/// Runs the steps of the inner loop.
pub(crate) fn run_quick() -> Result<Outcome> {
    run_all(&QUICK.iter().collect::<Vec<_>>())
}

/// Runs steps one after the other, whatever becomes of those before, and tells of all of them at the end.
fn run_all(steps: &[&Step]) -> Result<Outcome> {
    let start = Instant::now();
    let mut summary = Summary::default();
    for (i, step) in steps.iter().enumerate() {
        println!(
            "\n=== [{}/{}] {}: {}",
            i + 1,
            steps.len(),
            step.name,
            step.about
        );
        summary.run(step);
    }
    summary.tell(start)
}

/// Runs the first step, then all lanes side by side: the one of the steps that share a folder here,
/// those of the others as processes of their own. What these print comes between the steps that run
/// here, so that nothing mixes.
fn run_in_lanes(steps: &[&'static Step]) -> Result<Outcome> {
    let start = Instant::now();
    let mut summary = Summary::default();
    let Some((first, steps)) = steps.split_first() else {
        return Ok(Outcome::Passed);
    };
    println!("\n=== {}: {}", first.name, first.about);
    summary.run(first);
    let lane = |lane| {
        let steps = steps.iter().copied();
        steps.filter(move |step| step.lane == lane)
    };
    let (over, ended) = mpsc::channel();
    let others = (0..N_LANES).filter(|number| *number != SHARED);
    let others: Vec<_> = others
        .map(|number| {
            let (steps, over) = (lane(number).collect::<Vec<_>>(), over.clone());
            thread::spawn(move || {
                for step in steps {
                    // The receiver stays to the end.
                    over.send((step, by_itself(step))).ok();
                }
            })
        })
        .collect();
    drop(over);
    for step in lane(SHARED) {
        println!("\n=== {}: {}", step.name, step.about);
        summary.run(step);
        ended
            .try_iter()
            .for_each(|(step, text)| summary.add(step, text));
    }
    ended
        .iter()
        .for_each(|(step, text)| summary.add(step, text));
    if others.into_iter().any(|lane| lane.join().is_err()) {
        bail!("a lane of steps that run beside the others panicked");
    }
    summary.tell(start)
}

/// Runs a step as a process of its own, and returns all that it prints.
fn by_itself(step: &Step) -> Result<String> {
    let program = std::env::current_exe()?;
    let mut both = tempfile::tempfile()?;
    let mut command = command("env", [program.as_os_str()]);
    command.args(["test", step.name]).stdin(Stdio::null());
    command.stdout(both.try_clone()?).stderr(both.try_clone()?);
    // Its last lines say how it ended.
    command.status()?;
    let mut text = Vec::new();
    both.rewind()?;
    both.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// How the steps ended.
#[derive(Debug, Default)]
struct Summary {
    lines: Vec<String>,
    failed: Vec<&'static str>,
}

impl Summary {
    /// Runs a step here.
    fn run(&mut self, step: &Step) {
        let start = Instant::now();
        let what = match (step.run)() {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::NotRun(why)) => format!("NOT RUN: {why}"),
            Err(error) => {
                self.failed.push(step.name);
                format!("{FAILED}: {error:#}")
            }
        };
        let line = format!("{:<12} {:>8}  {what}", step.name, seconds(start.elapsed()));
        println!("=== {line}");
        self.lines.push(line);
    }

    /// Prints what a step that ran by itself has printed.
    fn add(&mut self, step: &Step, text: Result<String>) {
        let text = text.unwrap_or_else(|error| format!("{error:#}\n"));
        print!("\n{text}");
        let begin = format!("=== {} ", step.name);
        let lines = text.lines().rev();
        let line = lines
            .filter(|line| line.starts_with(&begin))
            .find_map(|line| line.strip_prefix("=== "));
        let line = line.map_or_else(
            || format!("{:<12} {FAILED}: it did not end", step.name),
            str::to_owned,
        );
        if line.contains(FAILED) {
            self.failed.push(step.name);
        }
        self.lines.push(line);
    }

    /// Prints a line a step. Fails if one did.
    fn tell(self, start: Instant) -> Result<Outcome> {
        println!("\n{}", self.lines.join("\n"));
        println!("{:<12} {:>8}", "all", seconds(start.elapsed()));
        if !self.failed.is_empty() {
            let failed = self.failed.join(" ");
            bail!("failed: {failed}; repeat it with `cargo xtask test {failed}`");
        }
        Ok(Outcome::Passed)
    }
}

/// What the line of a step that failed says.
const FAILED: &str = "FAILED";

/// Prints the table.
pub(crate) fn list() {
    for step in STEPS {
        println!("{:<12} {}", step.name, step.about);
    }
}

/// Builds the documentation of the workspace.
pub(crate) fn doc(open: bool) -> Result<Outcome> {
    let mut cargo = mpi::for_lints(&["doc", "--no-deps", "--workspace"]);
    cargo.args(FEATURES).args(open.then_some("--open"));
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    process::run(&mut cargo)
}

fn select(names: &[String]) -> Result<Vec<&'static Step>> {
    for name in names {
        if !STEPS.iter().any(|step| step.name == name) {
            bail!("no step is called {name}; `cargo xtask test --list` names them");
        }
    }
    let wanted = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(STEPS.iter().filter(wanted).collect())
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{N_LANES, SHARED, STEPS, Step, Summary, run_all, select, step};
    use crate::process::{Outcome, root};

    fn names(steps: &[&Step]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn every_step_has_a_lane_that_is_run() {
        assert!(STEPS.iter().all(|step| step.lane < N_LANES));
        assert_eq!(STEPS[0].lane, SHARED, "what installs the others' needs");
    }

    #[test]
    fn no_names_select_every_step_once() {
        let all = names(&select(&[]).unwrap());
        assert_eq!(all.len(), STEPS.len());
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn named_steps_run_in_the_order_of_the_table() {
        let chosen = select(&["tidy".to_owned(), "fmt".to_owned()]).unwrap();
        assert_eq!(names(&chosen), ["fmt", "tidy"]);
    }

    #[test]
    fn an_unknown_step_is_an_error_that_names_it() {
        let error = select(&["fmt".to_owned(), "typo".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("typo"), "{error}");
    }

    #[test]
    fn steps_behind_one_that_fails_run_and_all_that_failed_are_named() {
        const STEPS: &[Step] = &[
            step("good", "", || Ok(Outcome::Passed)),
            step("bad", "", || anyhow::bail!("no")),
            step("absent", "", || {
                Ok(Outcome::NotRun("it is not here".to_owned()))
            }),
            step("worse", "", || anyhow::bail!("never")),
        ];
        let error = run_all(&STEPS.iter().collect::<Vec<_>>()).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("bad worse"), "{message}");
        assert!(!message.contains("good"), "{message}");
        assert!(!message.contains("absent"), "{message}");
    }

    #[test]
    fn a_step_that_ran_by_itself_failed_if_its_line_says_so_or_is_missing() {
        let mut summary = Summary::default();
        let line = |text: &str| Ok(format!("=== [1/1] {text}\n=== {text}\n\n{text}\n"));
        summary.add(&STEPS[0], line("setup  1.0 s  passed"));
        summary.add(&STEPS[1], line("fmt  1.0 s  FAILED: ugly"));
        summary.add(&STEPS[2], Ok("killed".to_owned()));
        summary.add(&STEPS[3], Err(anyhow::anyhow!("cannot be started")));
        assert_eq!(summary.lines[0], "setup  1.0 s  passed");
        assert_eq!(summary.failed, ["fmt", STEPS[2].name, STEPS[3].name]);
    }

    #[test]
    fn setup_comes_first() {
        assert_eq!(STEPS[0].name, "setup");
    }

    #[test]
    fn the_readme_gives_the_test_command() {
        let page = std::fs::read_to_string(root().join("README.md")).unwrap();
        let gives = |line: &str| {
            line.split('#')
                .next()
                .is_some_and(|line| line.trim() == "cargo xtask test")
        };
        assert!(
            page.lines().any(gives),
            "README.md has no line `cargo xtask test`"
        );
    }

    #[test]
    fn the_ci_script_calls_the_test_command() {
        let script = std::fs::read_to_string(root().join(".ci/run")).unwrap();
        assert!(
            script.lines().any(|line| line.trim() == "cargo xtask test"),
            "{script}"
        );
    }

    #[test]
    fn contributing_names_every_step() {
        let page = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
        for step in STEPS {
            let name = format!("`{}`", step.name);
            assert!(
                page.contains(&name),
                "CONTRIBUTING.md does not mention {name}"
            );
        }
    }
}
