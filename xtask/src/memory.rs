//! The checkers of memory and interleavings: loom, AddressSanitizer, miri. Each has a target folder of its own, because each
//! builds the dependencies with flags of its own.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{self, Outcome, command};

/// The packages whose lock-free parts have models: unit tests with `loom` in their path.
const WITH_MODELS: &[&str] = &["pgas-smp", "pgas-containers", "pgas-am"];

/// Every model, with the atomics replaced by loom's. A package without any is an error: nothing would have been checked.
pub(crate) fn loom() -> Result<Outcome> {
    for package in WITH_MODELS {
        process::run(&mut loom_cargo(package))?;
        let mut list = loom_cargo(package);
        let models = process::output(list.args(["--", "--list"])).unwrap_or_default();
        let n_models = models
            .lines()
            .filter(|line| line.ends_with(": test"))
            .count();
        if n_models == 0 {
            bail!("{package} has no test with `loom` in its path");
        }
        println!("{package}: {n_models} models hold in every interleaving that was tried");
    }
    Ok(Outcome::Passed)
}

fn loom_cargo(package: &str) -> Command {
    let mut cargo = command(
        "cargo",
        ["test", "--release", "--lib", "-p", package, "loom"],
    );
    cargo.env("CARGO_TARGET_DIR", "target/loom");
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo.env("RUSTFLAGS", "--cfg loom");
    cargo.env("LOOM_MAX_PREEMPTIONS", "2");
    cargo
}

/// The packages that hold unsafe code or are one call away from it, and the test programs of theirs that move data. Tests of
/// deadlines and jobs of processes are left out: the sanitizer makes processes start and end late. So are those of transports
/// with collectives that end early, whose buffers are leaked on purpose, and that of forgotten futures, which keep their worlds.
#[rustfmt::skip]
const SANITIZED: &[&str] = &[
    "-p", "pgas-core", "-p", "pgas-smp", "-p", "pgas-containers", "-p", "pgas-testkit",
    "--lib", "--test", "suite", "--test", "loopback", "--test", "mailbox_processes",
    "--", "--skip", "processes::", "--skip", "processes, no direct path::",
    "--skip", "collective::tests::native::", "--skip", "futures_that_are_dropped_or_forgotten",
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
    cargo.env("CARGO_TARGET_DIR", "target/asan");
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
    cargo.env("CARGO_TARGET_DIR", "target/miri");
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
    fn the_host_has_a_triple() {
        let triple = super::host_triple().unwrap();
        assert!(triple.split('-').count() >= 3, "{triple}");
    }
}
