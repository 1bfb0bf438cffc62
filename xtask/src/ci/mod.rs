//! The test command: a table of steps, each timed. A step that fails lets the others run.

mod hung;
mod run;
#[cfg(test)]
mod shared_builds;
mod summary;

use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{self, Outcome, cargo, command};
use crate::{dependencies, memory, mpi, publish};
use crate::{setup, tidy, toolchains};

pub(crate) use run::{run, run_quick};

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Result<Outcome>,
    lane: Lane,
}

/// What a step runs beside. The steps of a lane run one after the other, beside those of the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    /// These steps share a folder.
    Shared,
    /// These begin when [`BUILD`] is over: they build in the shared folder, too, or begin with a
    /// copy of it, and only one at a time builds there. When the steps of [`Lane::Shared`] are
    /// over, both lanes take the next of these, until none is left.
    Own,
    /// These compile and compute in folders of their own, at the least priority: they take what the
    /// tests of the other lanes leave.
    Patient,
}

const fn step(name: &'static str, about: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step {
        name,
        about,
        run,
        lane: Lane::Shared,
    }
}

const fn own(name: &'static str, about: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step {
        lane: Lane::Own,
        ..step(name, about, run)
    }
}

const fn patient(name: &'static str, about: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step {
        lane: Lane::Patient,
        ..step(name, about, run)
    }
}

/// The optional features that need no foreign library. They only add items, so one build with them
/// serves for both.
pub(crate) const FEATURES: [&str; 2] = [
    "--features",
    "pgas/ofi,pgas/rayon,pgas/tokio,pgas/tracing,pgas-am/tokio,pgas-examples/ofi,pgas-examples/tokio",
];

/// Tells tests that the examples are built already, with the same choice of packages, so that
/// nothing is rebuilt.
pub(crate) const EXAMPLES_BUILT: &str = "PGAS_TEST_EXAMPLES_BUILT";

/// Tells tests to take the optimized examples.
const OPTIMIZED: &str = "PGAS_TEST_OPTIMIZED";

/// The step that builds what most others take from its folder.
const BUILD: &str = "build";

/// The steps of `cargo xtask test`, lane by lane. A new step is a new row. The MPI and libfabric
/// backends and the hosts of their tests have steps of their own; [`EXCLUDED`] names them.
/// `publish` replaces programs in the shared folder, so it runs behind the steps that start them.
/// `asan` and `targets` build there for minutes: the one while `tests` does not, the other when
/// `asan` is over. `open-mpi` waits more than it computes, so it comes while other lanes compute.
/// Two lanes run tests, not more: the more programs run, the longer ranks poll in vain that wait by
/// MPI.
#[rustfmt::skip]
pub(crate) const STEPS: &[Step] = &[
    step("setup", "system packages, and components of rustup", setup::run),
    step("fmt", "formatting", || cargo(["fmt", "--all", "--check"])),
    step("tidy", "rules of the house", tidy::run),
    step("dependencies", "licences, versions and sources of the dependencies", dependencies::run),
    step("clippy", "lints of the whole workspace, as errors", clippy),
    step(BUILD, "what the step tests runs", || process::run(all_tests()[0].arg("--no-run"))),
    step("tests", "unit, integration and doc tests", tests),
    step("ofi", "the libfabric backend, and its bindings compared with the headers", ofi),
    step("bench-smoke", "every bench, once", bench_smoke),
    step("main-job", "k-mers of a bacterial genome compared with jellyfish, for every k and number of ranks, and its contigs", main_job),
    step("doc", "documentation of the whole workspace, with warnings as errors", || doc(false)),
    step("targets", "the facade for macOS and other processors, and a part of the suite on simulated nodes", toolchains::targets),
    step("publish", "packs the published crates, and builds and runs a new crate that uses them", publish::run),
    patient("msrv", "published crates with the oldest supported Rust", toolchains::msrv),
    patient("loom", "the lock-free structures in all interleavings, under loom", memory::loom),
    patient("miri", "unit tests of unsafe code under Miri, if nightly has it", memory::miri),
    own("asan", "unit tests and conformance suite under AddressSanitizer", memory::asan),
    own("open-mpi", "the MPI backend with Open MPI", mpi::open_mpi),
    own("mpich", "the MPI backend with MPICH", mpi::mpich),
    own("portable", "the suite over the portable twins of Linux code", toolchains::portable),
];

/// The inner loop: what needs neither root nor anything installed.
#[rustfmt::skip]
const QUICK: &[Step] = &[
    step("fmt", "formatting", || cargo(["fmt", "--all", "--check"])),
    step("tidy", "rules of the house", tidy::run),
    step("quick-tests", "unit and doc tests of the library, and the conformance suite over shared memory", quick_tests),
];

#[rustfmt::skip]
const OFI: &[&str] = &["-p", "pgas-libfabric-sys", "-p", "pgas-ofi", "-p", "pgas-test-features"];

/// Tests of the libfabric backend. They use the features of the step `tests`, so that little is
/// rebuilt, and the backend's examples.
fn ofi() -> Result<Outcome> {
    // The launcher of ranks on hosts, and the programs that they run, as `tests` builds both.
    #[rustfmt::skip]
    let launcher = [
        "build", "-p", "pgas-run", "-p", "pgas", "-p", "pgas-examples", "--bins", "--examples",
    ];
    process::run(command("cargo", launcher).args(OFI).args(FEATURES))?;
    process::run(&mut ofi_tests())
}

fn ofi_tests() -> Command {
    #[rustfmt::skip]
    const TESTS: &[&str] = &[
        "-p", "pgas", "-p", "pgas-examples", "--test", "handlers", "--test", "headers", "--test", "hosts",
        "--test", "jobs", "--test", "ofi", "--test", "suite",
    ];
    let mut tests = command("cargo", ["test", "--no-fail-fast", "--lib"]);
    tests.args(OFI).args(TESTS).args(FEATURES);
    tests.env(EXAMPLES_BUILT, "1");
    tests
}

/// Lints, with the MPI backend: Open MPI's headers and MPICH's differ too little to do it twice.
fn clippy() -> Result<Outcome> {
    let mut cargo = mpi::for_lints(&["clippy", "--workspace", "--all-targets"]);
    cargo.args(FEATURES).args(mpi::FEATURES);
    // The launcher may be built without its default feature.
    #[rustfmt::skip]
    let args = [
        "clippy", "-p", "pgas-run", "-p", "pgas-test-features", "--no-default-features",
    ];
    let mut commands = [cargo, command("cargo", args)];
    for command in &mut commands {
        command.args(["--", "-D", "warnings"]);
    }
    process::run_all(&mut commands)
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

/// Every criterion bench; further arguments go to criterion.
pub(crate) fn bench() -> Command {
    let mut cargo = without_foreign_libraries(&["bench", "--bench", "*"]);
    cargo.arg("--");
    cargo
}

/// Every bench, once, in the build of the tests: nothing is measured.
fn bench_smoke() -> Result<Outcome> {
    let mut cargo = without_foreign_libraries(&["test", "--bench", "*"]);
    process::run(cargo.args(FEATURES).args(["--", "--test"]))
}

/// Cargo, for all packages but [`EXCLUDED`].
fn without_foreign_libraries(args: &[&str]) -> Command {
    let mut cargo = command("cargo", args);
    cargo.arg("--workspace");
    for package in EXCLUDED {
        cargo.args(["--exclude", package]);
    }
    cargo
}

/// All tests of these packages. This builds their examples, too. The unit tests of core are
/// built separately and not optimized: the optimization takes more time than it saves.
fn tests() -> Result<Outcome> {
    process::run_all(&mut all_tests())
}

fn all_tests() -> [Command; 3] {
    let mut tests = without_foreign_libraries(&["test", "--no-fail-fast"]);
    tests.args(["--exclude", CORE]);
    tests.args(FEATURES).env(EXAMPLES_BUILT, "1");
    #[rustfmt::skip]
    let core = [
        "test", "-p", CORE, "-p", "pgas-test-features", "--features", "pgas-core/tracing",
    ];
    let mut units = command("cargo", core);
    units.args(["--lib", "--config", CORE_AS_WRITTEN]);
    let mut docs = command("cargo", core);
    docs.arg("--doc");
    [tests, units, docs]
}

const CORE: &str = "pgas-core";

/// See the profiles in the workspace's manifest.
const CORE_AS_WRITTEN: &str = "profile.dev.package.pgas-core.opt-level=0";

/// The packages whose tests need an MPI library, libfabric or root.
const EXCLUDED: [&str; 4] = [
    "pgas-libfabric-sys",
    "pgas-mpi",
    "pgas-ofi",
    "pgas-test-hosts",
];

/// The tests of two examples once more, with these optimized, which makes the tests try more.
fn main_job() -> Result<Outcome> {
    const EXAMPLES: [&str; 2] = ["kmer_count", "contig_gen"];
    let mut build = command("cargo", ["build", "--release", "-p", "pgas-examples"]);
    process::run(build.args(EXAMPLES.iter().flat_map(|name| ["--example", name])))?;
    // As `tests` has built them.
    let mut tests = without_foreign_libraries(&["test", "--test", "examples"]);
    tests.args(FEATURES).arg("--").args(EXAMPLES);
    tests.env(EXAMPLES_BUILT, "1").env(OPTIMIZED, "1");
    process::run(&mut tests)
}

/// Prints the table.
pub(crate) fn list() {
    for step in STEPS {
        println!("{:<12} {}", step.name, step.about);
    }
}

/// Builds the documentation of the workspace.
pub(crate) fn doc(open: bool) -> Result<Outcome> {
    let mut cargo = mpi::for_lints(&["doc", "--no-deps", "--workspace"]);
    cargo.args(FEATURES).args(mpi::FEATURES);
    cargo.args(open.then_some("--open"));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::{EXCLUDED, Lane, STEPS, Step, ofi_tests, select};
    use crate::mpi;
    use crate::process::root;

    fn names(steps: &[&Step]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn what_installs_the_others_needs_shares_their_folder() {
        assert_eq!(STEPS[0].lane, Lane::Shared);
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
    fn what_the_tests_leave_out_other_steps_test() {
        for package in EXCLUDED {
            let of_step = |step: &Command| step.get_args().any(|arg| arg == package);
            assert!(
                [ofi_tests(), mpi::MPICH.tests()].iter().any(of_step),
                "{package} has no tests"
            );
        }
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
