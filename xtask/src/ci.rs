//! The test command: a table of steps, run in order, each timed, stopping at the first that fails.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::process::{self, Outcome, cargo, command};
use crate::{memory, mpi};
use crate::{setup, tidy};

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Result<Outcome>,
}

const fn step(name: &'static str, about: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step { name, about, run }
}

/// Lints, tests and documentation are of the library with its bridge to tokio: it only adds items, so that one build of
/// each serves for both.
const WITH_TOKIO: [&str; 2] = ["--features", "pgas/tokio,pgas-am/tokio"];

/// The steps of `cargo xtask test`, cheapest first. A new one is a new row. Cargo's commands without a package are about the
/// workspace's default members: all but the MPI backend, which has steps of its own.
#[rustfmt::skip]
pub(crate) const STEPS: &[Step] = &[
    step("setup", "system packages and cargo-deny", setup::run),
    step("fmt", "formatting", || cargo(["fmt", "--all", "--check"])),
    step("clippy", "lints, as errors", || cargo(["clippy", "--all-targets", WITH_TOKIO[0], WITH_TOKIO[1], "--", "-D", "warnings"])),
    step("tidy", "rules of the house", tidy::run),
    step("tests", "unit, integration and doc tests", || cargo(["test", WITH_TOKIO[0], WITH_TOKIO[1]])),
    step("main-job", "k-mers of a bacterial genome, every k and number of ranks, against jellyfish, and its contigs", || process::run(&mut optimized(&["test", "--release", "--test", "kmer_count", "--test", "contig_gen"]))),
    step("doc", "documentation, with warnings as errors", || doc(false)),
    step("deny", "licences, duplicate versions and sources of the dependencies", deny),
    step("loom", "interleavings of the lock-free parts", memory::loom),
    step("mpi-lint", "lints and documentation of the MPI backend", mpi::lint),
    step("open-mpi", "the MPI backend with Open MPI", mpi::open_mpi),
    step("mpich", "the MPI backend with MPICH", mpi::mpich),
    step("bench-smoke", "every bench, once", bench_smoke),
    step("asan", "unit tests and conformance suite under AddressSanitizer, if nightly is installed", memory::asan),
];

/// Every criterion bench; what follows goes to criterion.
pub(crate) const BENCH: &[&str] = &["bench", "--bench", "*", "--"];

/// Every bench, once, in the build of the tests: nothing is measured.
fn bench_smoke() -> Result<Outcome> {
    cargo([
        "test",
        "--bench",
        "*",
        WITH_TOKIO[0],
        WITH_TOKIO[1],
        "--",
        "--test",
    ])
}

/// Cargo for optimized programs that are not measured, without what costs a build more than it gains a test.
fn optimized(args: &[&str]) -> Command {
    let mut cargo = command("cargo", args);
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    cargo
}

/// Runs the named steps, or all, in the order of the table.
pub(crate) fn run(names: &[String]) -> Result<Outcome> {
    let steps = select(names)?;
    let start = Instant::now();
    let mut summary = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        println!(
            "\n=== [{}/{}] {}: {}",
            i + 1,
            steps.len(),
            step.name,
            step.about
        );
        let start = Instant::now();
        let outcome = (step.run)().with_context(|| {
            format!(
                "step {} failed after {}; repeat it with `cargo xtask test {}`",
                step.name,
                seconds(start.elapsed()),
                step.name
            )
        })?;
        let what = match outcome {
            Outcome::Passed => "passed".to_owned(),
            Outcome::NotRun(why) => format!("NOT RUN: {why}"),
        };
        let line = format!("{:<12} {:>8}  {what}", step.name, seconds(start.elapsed()));
        println!("=== {line}");
        summary.push(line);
    }
    println!("\n{}", summary.join("\n"));
    println!("{:<12} {:>8}", "all", seconds(start.elapsed()));
    Ok(Outcome::Passed)
}

/// Prints the table.
pub(crate) fn list() {
    for step in STEPS {
        println!("{:<12} {}", step.name, step.about);
    }
}

/// Builds the documentation of the workspace's default members.
pub(crate) fn doc(open: bool) -> Result<Outcome> {
    let mut cargo = command("cargo", ["doc", "--no-deps"]);
    cargo.args(WITH_TOKIO);
    cargo.args(open.then_some("--open"));
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    process::run(&mut cargo)
}

/// Checks the dependencies against `deny.toml`. Advisories need a network, so they are not part of it.
pub(crate) fn deny() -> Result<Outcome> {
    let mut cargo = command(
        "cargo",
        ["deny", "--workspace", "check", "--hide-inclusion-graph"],
    );
    process::run(cargo.args(["licenses", "bans", "sources"]))
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

    use super::{STEPS, select};
    use crate::process::root;

    fn names(steps: &[&super::Step]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name).collect()
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
