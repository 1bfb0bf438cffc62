//! `rae containers`: what operations of containers take with atomics by hardware and by software.
//! The guest is a program of Linux that does one operation many times in its region of interest;
//! what it takes is the difference between a run with these operations and one without any.

mod figures;
mod runs;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pgas_riscv_sim::Image;
use pgas_riscv_sim::timed::config::TimedConfig;

use super::report::{self, Page};
use super::{Trouble, jobs};
use runs::Job;

#[derive(Debug, Args)]
pub(super) struct Containers {
    /// The guest, which `cargo xtask sim --containers` builds:
    /// crates/backend-sim/examples/containers of pgas.
    guest: PathBuf,
    #[command(flatten)]
    report: report::Options,
}

/// The file with all figures and costs.
const JSON: &str = "containers.json";

/// The operations, by the guest's names.
const OPERATIONS: [&str; 6] = ["insert", "find", "fetch_add", "push", "pop", "bloom"];

/// Programs whose nodes all do as much, however many there are.
const SCALED: [&str; 3] = ["histogram", "insert", "sort"];

/// How atomics are done, by the guest's names.
const ATOMICS: [&str; 3] = ["hardware", "software", "messages"];

/// A run on more nodes than these takes a processor half a minute to two minutes.
const MANY: usize = 128;

/// Operations on the one queue of all nodes, and how many of a node there are by software on more
/// than [`MANY`] nodes: each fails once for every other node that tries, so that what all take
/// grows with the square of the nodes.
const OF_ONE_QUEUE: [&str; 2] = ["push", "pop"];
const N_CROWDED: usize = 4;

/// How much is done.
struct Sizes {
    /// Operations of a node, [`N_CROWDED`] where that would take hours.
    n: usize,
    /// Nodes without a clock. Beyond [`MANY`] atomics are by hardware and by software alone.
    counted: &'static [usize],
    /// Nodes with one, which takes the host fifty times as long.
    timed: &'static [usize],
    /// Nodes of the programs whose nodes all do as much.
    scaled: &'static [usize],
}

impl Sizes {
    const fn new(quick: bool) -> Self {
        if quick {
            return Self {
                n: 32,
                counted: &[2, 8],
                timed: &[2],
                scaled: &[2, 8],
            };
        }
        Self {
            n: 128,
            counted: &[2, 8, 32, 128, 1024],
            timed: &[2, 8, 32],
            scaled: &[2, 4, 16, 64, 256, 1024],
        }
    }
}

pub(super) fn containers(arguments: &Containers) -> Result<ExitCode, Trouble> {
    let options = &arguments.report;
    report::make(options, JSON)?;
    let name = arguments.guest.display();
    let bytes = super::read(&arguments.guest).map_err(|why| format!("{name}: {why}"))?;
    let image = Image::from_elf(&bytes).map_err(|why| format!("{name}: {why}"))?;
    if !image.is_linux() {
        return Err(format!("{name} is no program of Linux").into());
    }
    let sizes = Sizes::new(options.quick);
    let jobs = experiments(&sizes);
    let costs = jobs::all(jobs, options.quiet, |job| job.cost(&image, &bytes))?;
    let figures = figures::figures(&costs)?;
    if let Some(folder) = &options.out {
        let page = Page {
            title: "What hardware atomics buy containers",
            facts: &facts(&sizes),
            figures: &figures,
        };
        let json = serde_json::json!({
            "parameters": TimedConfig::default(), "costs": costs, "figures": figures,
        });
        report::write(folder, (JSON, &json), &page)?;
    }
    if !options.quiet {
        report::print(&figures)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything that is run.
fn experiments(sizes: &Sizes) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut add = |operation, atomics: &[&'static str], nodes: &[usize], is_timed| {
        for &n_nodes in nodes {
            let is_crowded = n_nodes > MANY && OF_ONE_QUEUE.contains(&operation);
            jobs.extend(atomics.iter().map(|&atomics| Job {
                operation,
                atomics,
                n_nodes,
                n: if is_crowded && atomics == "software" {
                    N_CROWDED.min(sizes.n)
                } else {
                    sizes.n
                },
                is_timed,
            }));
        }
    };
    for operation in OPERATIONS {
        let n_few = sizes.counted.partition_point(|&n| n <= MANY);
        let (few, many) = sizes.counted.split_at(n_few);
        add(operation, &ATOMICS, few, false);
        add(operation, &ATOMICS[..2], many, false);
        add(operation, &ATOMICS, sizes.timed, true);
    }
    for operation in SCALED {
        // `insert` is among the operations: no run is made twice.
        let (counted, timed) = match OPERATIONS.contains(&operation) {
            true => (sizes.counted, sizes.timed),
            false => (&[][..], &[][..]),
        };
        let rest = |nodes: &[usize], done: &[usize]| -> Vec<usize> {
            let rest = nodes.iter().filter(|n| !done.contains(n));
            rest.copied().collect()
        };
        add(
            operation,
            &ATOMICS[..2],
            &rest(sizes.scaled, counted),
            false,
        );
        add(operation, &ATOMICS[..2], &rest(sizes.timed, timed), true);
    }
    // The largest first, so that no processor is left with one of them at the end.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.n_nodes * if job.is_timed { 50 } else { 1 }));
    jobs
}

fn facts(sizes: &Sizes) -> String {
    format!(
        "{} operations a node, and {N_CROWDED} of pushes and pops by software on more than {MANY} \
         nodes: they take turns at one queue, and fail the more often the more nodes there are. \
         Each figure is the difference between a run with the operations and \
         one without any, divided by their number; runs without a clock check the result. \
         Hardware: every atomic on another node's word is an instruction. Software: it is an order \
         in the memory of that node, whose processor executes it when it waits for something \
         itself, and an answer; containers do the same as with hardware. Messages: the same, and \
         containers know, and send what belongs together as one message, whose room they find by \
         the hardware's atomics; on up to {MANY} nodes. Instructions contain what a node executes \
         for others. With a clock nodes look while they wait, which takes the host most of its \
         time: there are {} at most.",
        sizes.n,
        sizes.timed.iter().max().unwrap_or(&0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_is_made_twice_and_none_is_missing() {
        for quick in [true, false] {
            let sizes = Sizes::new(quick);
            let jobs = experiments(&sizes);
            let mut all: Vec<_> = jobs.iter().map(Job::name).collect();
            all.sort_unstable();
            let n = all.len();
            all.dedup();
            assert_eq!(all.len(), n);
            for operation in SCALED {
                for &n_nodes in sizes.scaled {
                    let is_there = |job: &Job| {
                        (job.operation, job.n_nodes, job.is_timed) == (operation, n_nodes, false)
                    };
                    assert!(jobs.iter().any(is_there), "{operation} on {n_nodes} nodes");
                }
            }
        }
    }
}
