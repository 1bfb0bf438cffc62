//! The checkers of memory and interleavings: loom, AddressSanitizer, Miri. Loom and Miri have
//! target folders of their own, because they build the dependencies with flags of their own.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{self, Outcome, command, root};
use crate::toolchains;

/// The package with the lock-free structures and their models: unit tests whose names begin with
/// `loom_`. Loom builds nothing else of ours.
pub(crate) const WITH_MODELS: &str = "pgas-lockfree";

/// The common part of all models' names.
pub(crate) const ALL_MODELS: &str = "loom_";

/// Every model, with the atomics replaced by loom's. None at all is an error: nothing would have
/// been checked.
pub(crate) fn loom() -> Result<Outcome> {
    process::run(&mut loom_cargo(ALL_MODELS))?;
    let listed = process::output(loom_cargo(ALL_MODELS).args(["--", "--list"])).unwrap_or_default();
    match models(&listed) {
        None | Some(0) => bail!("{WITH_MODELS} has no tests named `loom_...`"),
        Some(n) => println!("{n} models hold in every interleaving that was tried"),
    }
    Ok(Outcome::Passed)
}

/// The number of tests in a program's list.
fn models(listed: &str) -> Option<usize> {
    let total = |line: &str| {
        line.strip_suffix(" benchmarks")?
            .split(' ')
            .next()?
            .parse()
            .ok()
    };
    listed.lines().find_map(total)
}

/// Runs the models with `filter` in their names.
pub(crate) fn loom_cargo(filter: &str) -> Command {
    let test = [
        "test",
        "--profile",
        "models",
        "--lib",
        "-p",
        WITH_MODELS,
        filter,
    ];
    let mut cargo = process::patient("cargo", test);
    process::use_own_target(&mut cargo, "target/loom");
    cargo.env("RUSTFLAGS", "--cfg loom");
    cargo.env("LOOM_MAX_PREEMPTIONS", "2");
    cargo
}

/// The packages that hold unsafe code or are one call away from it, and the test programs of theirs
/// that move data. Tests of deadlines and jobs of processes are left out: the sanitizer makes
/// processes start and end late. So are tests that leak buffers on purpose: of collectives of the
/// transport that end early, and of operations that are never over.
#[rustfmt::skip]
const SANITIZED: &[&str] = &[
    "-p", "pgas-core", "-p", "pgas-smp", "-p", "pgas-containers", "-p", "pgas-test-features",
    "--lib", "--test", "suite", "--test", "mailbox_processes",
];

/// The suite over the reference transport. By itself: `--lib` would build the suite twice.
const SANITIZED_SUITE: &[&str] = &[
    "-p",
    "pgas-conformance",
    "-p",
    "pgas-test-features",
    "--test",
    "loopback",
];

/// The tests to run of both.
#[rustfmt::skip]
const SANITIZED_TESTS: &[&str] = &[
    "--", "--skip", "processes::", "--skip", "processes, no direct path::",
    "--skip", "collective::tests::native::", "--skip", "flight::tests::buffers_of_what_is_not_over",
    // Many ranks make no other access than a few, and half of what the suite takes.
    "--skip", "::7",
];

/// Unit tests and the conformance suite under AddressSanitizer. Only the packages of the workspace
/// are built with it, by `xtask/rustc-asan`: what they depend on is there, and its generic code is
/// checked where they use it.
pub(crate) fn asan() -> Result<Outcome> {
    process::run_all(&mut sanitized_tests())
}

pub(crate) fn sanitized_tests() -> [Command; 2] {
    [SANITIZED, SANITIZED_SUITE].map(sanitized)
}

/// Tests under AddressSanitizer.
fn sanitized(selection: &[&str]) -> Command {
    let mut cargo = command("cargo", ["test"]);
    cargo.args(selection).args(SANITIZED_TESTS);
    cargo.env("RUSTC_WORKSPACE_WRAPPER", root().join("xtask/rustc-asan"));
    // Each of the thousands of threads gets a store for frames that are over: a small one will do.
    let options = "malloc_context_size=4:max_uar_stack_size_log=16";
    cargo.env("ASAN_OPTIONS", options);
    // The sanitizer checks accesses, which hardly depend on the order of deliveries; many orders
    // are tried without it.
    cargo.env("PGAS_TEST_ORDERS", "1");
    cargo.env("PGAS_TEST_SEEDS", "100");
    cargo
}

/// What Miri interprets, by package: the unit tests that go through unsafe code, and take it
/// seconds. Its threads' segments are small, and what is assembly or a call of the system elsewhere
/// is its portable twin. Each package has a run of its own, since Miri interprets the search for
/// names, too: one list of all names would take half as long as the tests.
const INTERPRETED: [(&str, &[&str]); 3] = [
    (
        "pgas-containers",
        &[
            "queue::tests::sequential::a_push_of_more_than_the_capacity",
            "array::tests::refused::an_element_that_is_not_there",
        ],
    ),
    (
        "pgas-am",
        &[
            "function::",
            "pieces::",
            "future::cell",
            "layer::",
            "serve::",
        ],
    ),
    (
        "pgas-core",
        &[
            "raw::",
            "rma::words::",
            "rma::fragments::",
            "a_put_elsewhere_is_visible_after_a_flush",
            "a_source_is_free_before_the_operation_is_complete",
            "later_operations_overtake",
            "a_handler_that_panics_while_a_scope_ends",
        ],
    ),
];

/// Whether each access is within bounds, initialized, aligned, by a pointer that may, and no data
/// race: for the tests in
/// [`INTERPRETED`]. Foreign calls are not interpreted, so that ranks are threads.
pub(crate) fn miri() -> Result<Outcome> {
    if !has_miri() {
        let why = format!("Miri is missing; {}", toolchains::ADVICE);
        return Ok(Outcome::NotRun(why));
    }
    process::run_all(&mut INTERPRETED.map(interpreted))
}

fn interpreted((package, tests): (&str, &[&str])) -> Command {
    let mut cargo = nightly_cargo();
    cargo.args([
        "miri",
        "test",
        "--no-fail-fast",
        "-p",
        package,
        "--lib",
        "--",
    ]);
    cargo.args(tests);
    process::use_own_target(&mut cargo, "target/miri");
    cargo.env("RUSTFLAGS", "--cfg pgas_portable -Awarnings");
    // Clocks and the number of processors are the system's, and the thread that watches over
    // handlers outlives the tests.
    let flags = "-Zmiri-disable-isolation -Zmiri-ignore-leaks";
    cargo.env("MIRIFLAGS", flags);
    // Miri is the wrapper itself.
    cargo.env_remove("RUSTC_WRAPPER");
    // Interpreting what finds the lines of a panic takes minutes.
    cargo.env("RUST_BACKTRACE", "0");
    cargo
}

/// Whether nightly Rust has Miri, and the sources of the standard library, which Miri builds for
/// itself.
pub(crate) fn has_miri() -> bool {
    let listed = ["component", "list", "--toolchain", "nightly", "--installed"];
    let listed = process::output(&mut command("rustup", listed)).unwrap_or_default();
    has_components(&listed)
}

fn has_components(listed: &str) -> bool {
    let is_there = |name: &str| listed.lines().any(|line| line.starts_with(name));
    is_there("miri") && is_there("rust-src")
}

fn nightly_cargo() -> Command {
    process::patient("rustup", ["run", "nightly", "cargo"])
}

#[cfg(test)]
mod tests {
    use crate::test_names;

    #[test]
    fn what_is_interpreted_is_there() {
        for (package, filters) in super::INTERPRETED {
            let names = test_names::functions(package, None);
            for filter in filters {
                let is_there = names.iter().any(|name| name.contains(filter));
                assert!(is_there, "no test of {package} is called {filter}");
            }
        }
    }

    #[test]
    fn models_are_counted() {
        let listed = "a::loom::x: test\na::loom::y: test\n\n2 tests, 0 benchmarks\n";
        assert_eq!(super::models(listed), Some(2));
        assert_eq!(
            super::models("loom: test\n\n1 test, 0 benchmarks\n"),
            Some(1)
        );
        assert_eq!(super::models("error"), None);
    }

    #[test]
    fn miri_needs_the_sources_of_the_standard_library() {
        let with = |more: &str| {
            format!("cargo-x86_64-unknown-linux-gnu\nmiri-x86_64-unknown-linux-gnu\n{more}")
        };
        assert!(super::has_components(&with("rust-src\n")));
        assert!(!super::has_components(&with(
            "rust-std-x86_64-unknown-linux-gnu\n"
        )));
        assert!(!super::has_components("rust-src\n"));
        assert!(
            !super::has_components(""),
            "without rustup nothing is listed"
        );
    }
}
