//! The processors, systems and Rust versions that published crates promise to build for, besides
//! the toolchain that `rust-toolchain.toml` names. What is missing of them comes from rustup; where
//! rustup is absent, the steps say so and do not run.

use anyhow::Result;

use crate::process::{self, Outcome, command, output, root};
use crate::{memory, mpi, publish, sim};

/// The targets that the facade must compile for: laptops that are not Linux, and Linux on other
/// processors.
const TARGETS: &[&str] = &[MACOS, "aarch64-unknown-linux-gnu", SIMULATED];
/// Those that are only checked, and not built.
const CHECKED: &[&str] = &[MACOS, "aarch64-unknown-linux-gnu"];
const MACOS: &str = "aarch64-apple-darwin";
/// The target of the simulated machine.
pub(crate) const SIMULATED: &str = "riscv64gc-unknown-linux-gnu";

/// The packages whose tests use ranks as threads, and so run on any system.
#[rustfmt::skip]
const WITH_THREADS: &[&str] = &[
    "-p", "pgas-core", "-p", "pgas-lockfree", "-p", "pgas-smp", "-p", "pgas-am", "-p", "pgas-containers",
];

/// Checks the facade for each target, or builds it and runs a part of the suite on simulated nodes;
/// checks the tests for macOS.
pub(crate) fn targets() -> Result<Outcome> {
    let missing = missing_targets();
    if !missing.is_empty() {
        let why = format!("no standard library for {}; {ADVICE}", missing.join(", "));
        return Ok(Outcome::NotRun(why));
    }
    // As users have it, without the bridge to tokio, the step `publish` builds it.
    let mut facade = command("cargo", ["check", "-p", "pgas", "--features", "pgas/tokio"]);
    for target in CHECKED {
        facade.args(["--target", target]);
    }
    process::run(&mut facade)?;
    sim::facade_and_part_of_suite()?;
    let mut tests = command("cargo", ["check", "--tests", "--target", MACOS]);
    process::run(tests.args(WITH_THREADS))
}

/// The shared-memory backend as it is on systems that are not Linux, with its tests and the suite
/// over threads. Only the packages of the workspace are built anew, since only they are given the
/// flag: what they depend on is there.
pub(crate) fn portable() -> Result<Outcome> {
    let mut cargo = command(
        "cargo",
        ["test", "-p", "pgas-smp", "-p", "pgas-test-features"],
    );
    cargo.args(["--lib", "--test", "suite"]);
    cargo.env(
        "RUSTC_WORKSPACE_WRAPPER",
        root().join("xtask/rustc-portable"),
    );
    process::run(&mut cargo)
}

/// Checks the published packages with the oldest Rust that they promise.
pub(crate) fn msrv() -> Result<Outcome> {
    let oldest = oldest_rust();
    if !has_toolchain(&oldest) {
        let why = format!("there is no toolchain {oldest}; {ADVICE}");
        return Ok(Outcome::NotRun(why));
    }
    let mut cargo = command("rustup", ["run", &oldest, "cargo", "check", "--locked"]);
    for (package, _) in publish::published()? {
        cargo.args(["-p", &package]);
    }
    cargo.args(["--features", "pgas/rayon,pgas/tokio"]);
    cargo.env("MPICC", mpi::MPICC);
    process::use_own_target(&mut cargo, "target/msrv");
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "false");
    process::run(&mut cargo)
}

pub(crate) const ADVICE: &str =
    "`cargo xtask setup` installs it by rustup, where there is rustup and a network";

/// Installs what is missing. What cannot be had is said, and the steps that need it will not run.
pub(crate) fn install() {
    if output(&mut command("rustup", ["--version"])).is_none() {
        println!(
            "missing: rustup; the steps `targets`, `msrv` and `miri` will not run, or not whole"
        );
        return;
    }
    let missing = missing_targets();
    if missing.is_empty() {
        println!("present: standard libraries for {}", TARGETS.join(", "));
    } else {
        let add = ["target", "add"].into_iter().chain(missing);
        attempt(&add.collect::<Vec<_>>());
    }
    let oldest = oldest_rust();
    if has_toolchain(&oldest) {
        println!("present: Rust {oldest} (the oldest that published crates promise)");
    } else {
        attempt(&["toolchain", "install", &oldest, "--profile", "minimal"]);
    }
    if memory::has_miri() {
        println!("present: Miri (unsafe code, interpreted)");
    } else {
        if !has_toolchain("nightly") {
            attempt(&["toolchain", "install", "nightly", "--profile", "minimal"]);
        }
        attempt(&[
            "component",
            "add",
            "miri",
            "rust-src",
            "--toolchain",
            "nightly",
        ]);
    }
}

fn attempt(rustup: &[&str]) {
    if let Err(error) = process::run(&mut command("rustup", rustup)) {
        println!("cannot be had: {error:#}");
    }
}

/// The targets whose standard library is not installed for the workspace's toolchain; all of them
/// without rustup.
fn missing_targets() -> Vec<&'static str> {
    let installed = output(&mut command("rustup", ["target", "list", "--installed"]));
    let installed = installed.unwrap_or_default();
    let is_missing = |target: &&&str| !installed.lines().any(|line| line.trim() == **target);
    TARGETS.iter().filter(is_missing).copied().collect()
}

fn has_toolchain(version: &str) -> bool {
    // `rustup run` would install a toolchain that is missing, whole.
    let installed = output(&mut command("rustup", ["toolchain", "list"]));
    let begins = |line: &str| line.strip_prefix(version)?.starts_with('-').then_some(());
    installed.is_some_and(|list| list.lines().any(|line| begins(line).is_some()))
}

/// The `rust-version` of the workspace.
fn oldest_rust() -> String {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap_or_default();
    version_in(&manifest).expect("tidy has seen to it that the manifest names one")
}

fn version_in(manifest: &str) -> Option<String> {
    let value = |line: &str| {
        Some(
            line.strip_prefix("rust-version = \"")?
                .strip_suffix('"')?
                .to_owned(),
        )
    };
    manifest.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::{oldest_rust, version_in};
    use crate::process::root;

    #[test]
    fn the_oldest_rust_is_the_one_of_the_manifest() {
        let manifest = "[workspace.package]\nedition = \"2024\"\nrust-version = \"1.88\"\n";
        assert_eq!(version_in(manifest).as_deref(), Some("1.88"));
        assert_eq!(version_in("rust-version.workspace = true\n"), None);
    }

    #[test]
    fn the_lints_and_the_readme_name_the_same_rust() {
        let oldest = oldest_rust();
        let read = |path| std::fs::read_to_string(root().join(path)).unwrap();
        assert!(read("clippy.toml").contains(&format!("msrv = \"{oldest}\"")));
        assert!(read("README.md").contains(&format!("Rust {oldest} or newer")));
    }
}
