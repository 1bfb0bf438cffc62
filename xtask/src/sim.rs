//! Programs of this repository on the simulated machine: built for its processor, and run on its nodes.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{self, Outcome, command, root};

const TARGET: &str = crate::toolchains::SIMULATED;

/// MiB of a node's memory, and of its segment.
const MEMORY: [&str; 2] = ["--memory=512", "--segment=256"];

/// What a case of the conformance suite says that needs threads, of which a simulated node has one.
const ONE_THREAD: &str = "asked for a thread";

/// Runs an example on so many nodes. It may read what lies in the repository and in these folders, and write to the current one.
pub(crate) fn example(
    nodes: u32,
    name: &str,
    files: &[PathBuf],
    arguments: &[String],
) -> Result<Outcome> {
    let features = ["--features", "pgas/sim", "-p", "pgas-examples"];
    let program = guest(&features, name)?;
    let here = std::env::current_dir()?;
    let mut run = Command::new(rae()?);
    run.arg("run").args(MEMORY).arg(format!("--nodes={nodes}"));
    run.args(["--env", "PGAS_BACKEND=sim"]);
    run.arg("--files").arg(root()).arg("--files-rw").arg(here);
    for folder in files {
        run.arg("--files").arg(folder);
    }
    process::run(run.arg(program).arg("--").args(arguments))
}

/// Runs the conformance suite on so many nodes, all cases but those that need threads.
pub(crate) fn suite(nodes: u32) -> Result<Outcome> {
    let program = guest(&["-p", "pgas-sim"], "conformance")?;
    let rae = rae()?;
    let run = |nodes: u32, case: &str| {
        let mut run = Command::new(&rae);
        run.arg("run").args(MEMORY).arg("--quiet");
        run.arg(format!("--nodes={nodes}")).arg(&program);
        run.args(["--", case]).output()
    };
    let list = run(1, "--list")?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let (mut n_passed, mut n_threads, mut failed) = (0, 0, Vec::new());
    for line in list.lines() {
        let Some((case, least)) = line.split_once(' ') else {
            bail!("the list of cases has a line {line:?}");
        };
        if least.parse::<u32>()? > nodes {
            continue;
        }
        let ended = run(nodes, case)?;
        let said = String::from_utf8_lossy(&ended.stderr);
        if ended.status.success() {
            n_passed += 1;
        } else if said.contains(ONE_THREAD) {
            n_threads += 1;
        } else {
            println!("{case}: {}\n{said}", ended.status);
            failed.push(case);
        }
    }
    println!("{nodes} nodes: {n_passed} cases passed, {n_threads} need threads");
    if n_passed == 0 || !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(Outcome::Passed)
}

/// Builds an example for the simulated processor; gives where it is.
fn guest(options: &[&str], name: &str) -> Result<PathBuf> {
    let mut build = command("cargo", ["build", "--release", "--target", TARGET]);
    build.args(options).args(["--example", name]);
    build.env(
        "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER",
        "riscv64-linux-gnu-gcc",
    );
    build.env(
        "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUSTFLAGS",
        "-C target-feature=+crt-static",
    );
    process::run(&mut build)?;
    let built = root().join("target").join(TARGET);
    Ok(built.join("release/examples").join(name))
}

/// Builds the simulator; gives where it is.
fn rae() -> Result<PathBuf> {
    process::run(&mut command(
        "cargo",
        ["build", "--release", "-p", "pgas-riscv-sim"],
    ))?;
    Ok(root().join("target/release/rae"))
}
