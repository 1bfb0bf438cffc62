//! Programs of this repository on the simulated machine: built for its processor, and run on its
//! nodes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Result, bail};

use crate::process::{self, Outcome, command, root};

const TARGET: &str = crate::toolchains::SIMULATED;

/// Static programs, whose unwinder finds a frame in the linker's table. The start files of the
/// linker's package would have it sort a list of all frames at the first panic, for hundreds of
/// millions of instructions.
const RUSTFLAGS: &str = "-C target-feature=+crt-static -C link-arg=-Wl,\
                         --defsym=__register_frame_info=0,--defsym=__deregister_frame_info=0";

/// MiB of a node's memory, and of its segment; and turns so long that the host's caches serve a
/// node more than once. A rank that waits sleeps, and does not use its turn up.
const MACHINE: [&str; 3] = ["--memory=512", "--segment=256", "--quantum=20000"];

/// What the ranks' environment has. A wait of a minute of simulated time is a deadlock: the job
/// then ends, and says who waits for what.
const ENVIRONMENT: [&str; 4] = ["--env", "PGAS_BACKEND=sim", "--env", "PGAS_STALL_END=1"];

/// The cases of the conformance suite that start threads, of which a simulated node has one.
const WITH_THREADS: [&str; 12] = [
    "a_rank_that_waits_says_for_what",
    "each_rank_has_its_elements_as_a_slice_in_the_local_phase",
    "entries_of_a_rank_are_visited_by_many_threads",
    "handlers_and_threads_share_what_a_mutex_guards",
    "matrices_are_computed_with_as_wholes",
    "prepared_buffers_arrive_as_they_were_filled",
    "threads_of_a_rank_call_together",
    "threads_of_a_rank_take_a_lock_in_turn",
    "threads_of_a_rank_send_and_serve_together",
    "threads_of_a_rank_share_its_world",
    "threads_of_a_rank_split_teams_of_their_own",
    "transfers_of_several_threads_are_whole",
];

/// What the simulator says of a node that wants a second thread, which the library may not.
const REFUSED: &str = "asked for a thread";

/// The test command runs one case in so many: a number that has no factor in common with how many
/// [`PARTS`] there are.
const ONE_CASE_IN: usize = 11;

/// A case that takes more than all others together, and is left out there.
const LONGEST: &str = "freed_memory_is_used_again";

/// Nodes, how atomics are done, and whether there is a clock.
const PARTS: [(u32, &str, bool); 4] = [
    (2, "hardware", false),
    (7, "hardware", false),
    (2, "hardware", true),
    (3, "software", false),
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
    let program = guest(Build::Release, &features, name)?;
    let here = std::env::current_dir()?;
    let mut run = Command::new(rae(Build::Release)?);
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
    let suite = Suite {
        program: guest(Build::Release, &["-p", "pgas-sim"], "conformance")?,
        rae: rae(Build::Release)?,
    };
    let list = suite.list()?;
    let mut cases = cases(&list)?;
    cases.retain(|(_, least)| *least <= nodes);
    let run = |(case, _)| Run {
        nodes,
        case,
        atomics: "hardware",
        is_timed: false,
    };
    let runs: Vec<_> = cases.into_iter().map(run).collect();
    let n_passed = suite.pass(&runs)?;
    println!("{nodes} nodes: {n_passed} cases passed; those with threads were left out");
    Ok(Outcome::Passed)
}

/// Builds the facade with this backend, and runs a part of the suite, for the test command: a case
/// in so many, each with other nodes and atomics than the one before.
pub(crate) fn facade_and_part_of_suite() -> Result<Outcome> {
    // At once, so that what they share is built with one choice of features.
    let mut all = for_nodes(Build::Test);
    all.args([
        "-p",
        "pgas",
        "-p",
        "pgas-sim",
        "--features",
        "pgas/sim",
        "--lib",
    ]);
    all.args(["--example", "conformance", "--example", "containers"]);
    process::run(&mut all)?;
    let suite = Suite {
        program: built(Build::Test, "conformance"),
        rae: rae(Build::Test)?,
    };
    let list = suite.list()?;
    let mut cases = cases(&list)?;
    cases.retain(|(case, _)| *case != LONGEST);
    let chosen = cases.iter().step_by(ONE_CASE_IN);
    let runs = chosen.zip(PARTS.iter().cycle()).map(|(case, part)| {
        let ((case, least), (nodes, atomics, is_timed)) = (*case, *part);
        Run {
            nodes: nodes.max(least),
            case,
            atomics,
            is_timed,
        }
    });
    let n_passed = suite.pass(&runs.collect::<Vec<_>>())?;
    println!("{n_passed} cases of the suite passed on simulated nodes");
    operations(&suite.rae)
}

/// Shows what containers' operations take: `rae containers` with these options.
pub(crate) fn containers(options: &[String]) -> Result<Outcome> {
    let guest = guest(Build::Release, &["-p", "pgas-sim"], "containers")?;
    let mut containers = Command::new(rae(Build::Release)?);
    process::run(containers.arg("containers").arg(guest).args(options))
}

/// Runs each operation of the guest of `rae containers` a few times; it checks the result itself.
fn operations(rae: &Path) -> Result<Outcome> {
    const OPERATIONS: [&str; 8] = [
        "insert",
        "find",
        "fetch_add",
        "push",
        "pop",
        "bloom",
        "histogram",
        "sort",
    ];
    let guest = built(Build::Test, "containers");
    let ways = ["hardware", "messages"].iter().cycle();
    for (operation, atomics) in OPERATIONS.iter().zip(ways) {
        let mut run = Command::new(rae);
        run.args(["run", "--quiet", "--nodes=3", "--segment=24"])
            .arg(&guest);
        process::run(run.args(["--", operation, atomics, "20", "20"]))?;
    }
    Ok(Outcome::Passed)
}

/// The conformance suite, built for the simulated machine.
struct Suite {
    program: PathBuf,
    rae: PathBuf,
}

/// A case on so many nodes.
struct Run<'a> {
    nodes: u32,
    case: &'a str,
    /// How atomics are done, as in `pgas_sim::Atomics`.
    atomics: &'a str,
    /// Whether the machine has a clock.
    is_timed: bool,
}

impl Suite {
    /// The names of all cases, with the fewest nodes that each takes.
    fn list(&self) -> Result<String> {
        let list = self.run(1, false, &["--list"])?;
        Ok(String::from_utf8(list.stdout)?)
    }

    fn run(&self, nodes: u32, is_timed: bool, arguments: &[&str]) -> Result<Output> {
        let mut run = Command::new(&self.rae);
        run.arg("run")
            .args(MACHINE)
            .arg("--quiet")
            .args(ENVIRONMENT);
        run.args(is_timed.then_some("--timed"));
        run.arg(format!("--nodes={nodes}")).arg(&self.program);
        Ok(run.arg("--").args(arguments).output()?)
    }

    /// Runs cases, and gives how many there were.
    fn pass(&self, runs: &[Run<'_>]) -> Result<usize> {
        let (mut n_passed, mut failed) = (0, Vec::new());
        for run in runs {
            let Run {
                nodes,
                case,
                atomics,
                is_timed,
            } = *run;
            let ended = self.run(nodes, is_timed, &[case, atomics])?;
            let said = String::from_utf8_lossy(&ended.stderr);
            if ended.status.success() && !said.contains(REFUSED) {
                n_passed += 1;
            } else {
                let status = ended.status;
                let clock = if is_timed { "with" } else { "without" };
                println!(
                    "{case}, {nodes} nodes {clock} a clock, atomics by {atomics}: {status}\n{said}"
                );
                failed.push(case);
            }
        }
        if n_passed == 0 || !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(n_passed)
    }
}

/// The cases of a list, each with the fewest nodes that it takes, but those that need threads.
fn cases(list: &str) -> Result<Vec<(&str, u32)>> {
    let case = |line| {
        let Some((case, least)) = str::split_once(line, ' ') else {
            bail!("the list of cases has a line {line:?}");
        };
        Ok((case, least.parse()?))
    };
    let mut cases: Vec<_> = list.lines().map(case).collect::<Result<_>>()?;
    let is_there = |name: &&str| cases.iter().any(|(case, _)| case == name);
    if let Some(absent) = WITH_THREADS.iter().find(|name| !is_there(name)) {
        bail!("the suite has no case {absent}");
    }
    cases.retain(|(case, _)| !WITH_THREADS.contains(case));
    Ok(cases)
}

/// How programs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    /// To run for long.
    Release,
    /// As the tests are, which have built the simulator.
    Test,
}

impl Build {
    /// What cargo is told, and the folder where it leaves what it builds.
    const fn options(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Release => (&["--release"], "release"),
            Self::Test => (&[], "debug"),
        }
    }
}

/// Builds an example for the simulated processor; gives where it is.
fn guest(build: Build, package: &[&str], name: &str) -> Result<PathBuf> {
    let mut cargo = for_nodes(build);
    process::run(cargo.args(package).args(["--example", name]))?;
    Ok(built(build, name))
}

/// Where cargo leaves an example for the simulated processor.
fn built(build: Build, name: &str) -> PathBuf {
    let (_, folder) = build.options();
    let built = root().join("target").join(TARGET).join(folder);
    built.join("examples").join(name)
}

/// Cargo, to build something for the simulated processor.
fn for_nodes(build: Build) -> Command {
    let (options, _) = build.options();
    let mut cargo = command("cargo", ["build", "--target", TARGET]);
    cargo.args(options);
    cargo.env(
        "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER",
        "riscv64-linux-gnu-gcc",
    );
    cargo.env(
        "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUSTFLAGS",
        RUSTFLAGS,
    );
    cargo
}

/// Builds the simulator; gives where it is.
fn rae(build: Build) -> Result<PathBuf> {
    let (options, folder) = build.options();
    let mut cargo = command("cargo", ["build", "-p", "pgas-riscv-sim"]);
    if build == Build::Test {
        // With its features of dependencies, as `tests` has built it.
        cargo.args(["-p", "pgas-test-features"]);
    }
    process::run(cargo.args(options))?;
    Ok(root().join("target").join(folder).join("rae"))
}

#[cfg(test)]
mod tests {
    use super::{WITH_THREADS, cases};
    use crate::process::root;

    /// What starts threads, in the source of a case.
    const STARTS: [&str; 3] = ["scope.spawn(", "thread::spawn(", ".par_"];

    #[test]
    fn the_cases_that_start_threads_are_known() {
        let mut n_found = 0;
        for file in root()
            .join("crates/conformance/src/cases")
            .read_dir()
            .unwrap()
        {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let squeezed: String = text.split_whitespace().collect();
            let is_case =
                |name: &str| (1..8).any(|n| squeezed.contains(&format!("case!({n},{name})")));
            let mut function = "";
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("fn ") {
                    function = rest.split(['(', '<']).next().unwrap();
                }
                if STARTS.iter().any(|start| line.contains(start)) {
                    // What a case calls is not looked for.
                    let is_known = WITH_THREADS.contains(&function) || !is_case(function);
                    assert!(is_known, "{function} starts threads");
                    n_found += 1;
                }
            }
        }
        assert!(n_found >= 10, "{n_found} places start threads");
    }

    #[test]
    fn a_list_of_cases_is_read_whole_or_refused() {
        let threads: String = WITH_THREADS.iter().map(|it| format!("{it} 1\n")).collect();
        let list = format!("a_case 1\n{threads}another 3\n");
        let read = cases(&list).expect("a list");
        assert_eq!(read, [("a_case", 1), ("another", 3)]);
        for wrong in ["a_case\n", "a_case one\n"] {
            assert!(cases(&(threads.clone() + wrong)).is_err());
        }
        // One that is left out by name has to be there.
        assert!(cases("a_case 1\n").is_err());
    }
}
