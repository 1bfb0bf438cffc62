//! Programs of this repository on the simulated machine: built for its processor, and run on its
//! nodes.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{self, Outcome, command, root};

const TARGET: &str = crate::toolchains::SIMULATED;

/// MiB of a node's memory, and of its segment; and turns so long that the host's caches serve a
/// node more than once. A rank that waits sleeps, and does not use its turn up.
const MACHINE: [&str; 3] = ["--memory=512", "--segment=256", "--quantum=20000"];

/// What the ranks' environment has. A wait of a minute of simulated time is a deadlock: the job
/// then ends, and says who waits for what.
const ENVIRONMENT: [&str; 4] = ["--env", "PGAS_BACKEND=sim", "--env", "PGAS_STALL_END=1"];

/// The cases of the conformance suite that start threads, of which a simulated node has one.
const WITH_THREADS: [&str; 5] = [
    "prepared_buffers_arrive_as_they_were_filled",
    "threads_of_a_rank_call_together",
    "threads_of_a_rank_take_a_lock_in_turn",
    "threads_of_a_rank_send_and_serve_together",
    "threads_of_a_rank_share_its_world",
];

/// Runs an example on so many nodes. It may read what lies in the repository and in these folders,
/// and write to the current one.
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
    run.arg("run").args(MACHINE).arg(format!("--nodes={nodes}"));
    run.args(ENVIRONMENT);
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
        run.arg("run")
            .args(MACHINE)
            .arg("--quiet")
            .args(ENVIRONMENT);
        run.arg(format!("--nodes={nodes}")).arg(&program);
        run.args(["--", case]).output()
    };
    let list = run(1, "--list")?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let cases = cases(&list)?;
    for absent in WITH_THREADS {
        if !cases.iter().any(|(case, _)| *case == absent) {
            bail!("the suite has no case {absent}");
        }
    }
    let (mut n_passed, mut failed) = (0, Vec::new());
    for (case, least) in cases {
        if least > nodes || WITH_THREADS.contains(&case) {
            continue;
        }
        let ended = run(nodes, case)?;
        if ended.status.success() {
            n_passed += 1;
        } else {
            let said = String::from_utf8_lossy(&ended.stderr);
            println!("{case}: {}\n{said}", ended.status);
            failed.push(case);
        }
    }
    println!("{nodes} nodes: {n_passed} cases passed; those with threads were left out");
    if n_passed == 0 || !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(Outcome::Passed)
}

/// The cases of a list, each with the fewest nodes that it takes.
fn cases(list: &str) -> Result<Vec<(&str, u32)>> {
    let case = |line| {
        let Some((case, least)) = str::split_once(line, ' ') else {
            bail!("the list of cases has a line {line:?}");
        };
        Ok((case, least.parse()?))
    };
    list.lines().map(case).collect()
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

#[cfg(test)]
mod tests {
    use super::cases;

    #[test]
    fn a_list_of_cases_is_read_whole_or_refused() {
        let read = cases("a_case 1\nanother 3\n").expect("a list");
        assert_eq!(read, [("a_case", 1), ("another", 3)]);
        assert!(cases("a_case\n").is_err());
        assert!(cases("a_case one\n").is_err());
    }
}
