//! The checkers of memory and interleavings: loom, AddressSanitizer, miri. Each has a target folder of its own, because each
//! builds the dependencies with flags of its own.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{self, Outcome, command};

/// The package with the lock-free structures and their models: unit tests whose names begin with `loom_`. Loom builds nothing else of ours.
pub(crate) const WITH_MODELS: &str = "pgas-lockfree";

/// What the names of all models have in them.
pub(crate) const ALL_MODELS: &str = "loom_";

/// Every model, with the atomics replaced by loom's. None at all is an error: nothing would have been checked.
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
    let test = ["test", "--release", "--lib", "-p", WITH_MODELS, filter];
    let mut cargo = command("cargo", test);
    process::apart(&mut cargo, "target/loom");
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    cargo.env("RUSTFLAGS", "--cfg loom");
    cargo.env("LOOM_MAX_PREEMPTIONS", "2");
    cargo
}

/// The packages that hold unsafe code or are one call away from it, and the test programs of theirs that move data. Tests of
/// deadlines and jobs of processes are left out: the sanitizer makes processes start and end late. So are those of transports
/// with collectives that end early, whose buffers are leaked on purpose.
#[rustfmt::skip]
const SANITIZED: &[&str] = &[
    "-p", "pgas-core", "-p", "pgas-smp", "-p", "pgas-containers", "-p", "pgas-testkit",
    "--lib", "--test", "suite", "--test", "loopback", "--test", "mailbox_processes",
    "--", "--skip", "processes::", "--skip", "processes, no direct path::",
    "--skip", "collective::tests::native::",
];

/// Unit tests and the conformance suite under AddressSanitizer, which only a nightly toolchain offers.
pub(crate) fn asan() -> Result<Outcome> {
    if !has_nightly() {
        let why = "AddressSanitizer needs `rustup toolchain install nightly`";
        return Ok(Outcome::NotRun(why.to_owned()));
    }
    let mut cargo = nightly_cargo();
    cargo.args(["test", "--target", &host_triple()?]);
    cargo.args(SANITIZED);
    process::apart(&mut cargo, "target/asan");
    cargo.env("RUSTFLAGS", "-Zsanitizer=address -Awarnings");
    process::run(&mut cargo)
}

/// The core's unit tests under miri.
pub(crate) fn miri() -> Result<Outcome> {
    if !process::succeeds(nightly_cargo().args(["miri", "--version"])) {
        bail!("miri needs `rustup toolchain install nightly --component miri`; nothing was run");
    }
    let mut cargo = nightly_cargo();
    cargo.args(["miri", "test", "-p", "pgas-core", "--lib"]);
    process::apart(&mut cargo, "target/miri");
    process::run(&mut cargo)
}

fn nightly_cargo() -> Command {
    command("rustup", ["run", "nightly", "cargo"])
}

fn has_nightly() -> bool {
    process::succeeds(nightly_cargo().arg("--version"))
}

/// The triple of this machine: with it named, the sanitizer's flags leave build scripts and procedural macros alone.
fn host_triple() -> Result<String> {
    let version = process::output(Command::new("rustc").arg("-vV")).unwrap_or_default();
    match version.lines().find_map(|line| line.strip_prefix("host: ")) {
        Some(triple) => Ok(triple.to_owned()),
        None => bail!("`rustc -vV` names no host"),
    }
}

#[cfg(test)]
mod tests {
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
    fn the_host_has_a_triple() {
        let triple = super::host_triple().unwrap();
        assert!(triple.split('-').count() >= 3, "{triple}");
    }
}
