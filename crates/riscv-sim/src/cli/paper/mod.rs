//! `rae paper`: the figures of the RAE paper from runs of its workloads, beside the paper's
//! numbers. All parameters are the timed machine's defaults, which are the paper's table and the
//! assumptions listed there; none is chosen to hit a number.

mod beyond;
mod changes;
mod figures;
mod plan;
mod runs;

use clap::Args;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::workload::circustent::{self, Kernel, Shape};
use pgas_riscv_sim::workload::{Variant, gap};

use super::report::{self, Figure, Page};
use super::{Trouble, jobs};
use plan::Plan;
use runs::{Job, Row};

#[derive(Debug, Args)]
pub(super) struct Paper {
    #[command(flatten)]
    report: report::Options,
}

/// The file with all figures and runs.
const JSON: &str = "paper.json";

/// Variants of the software path whose gain is reported.
const SOFTWARE: [Variant; 5] = [
    Variant::Nic { path: None },
    Variant::Host { path: None },
    Variant::Nic { path: Some(354) },
    Variant::Nic { path: Some(1000) },
    Variant::Nic { path: Some(2803) },
];

/// The variant that is compared where one is: as long as OpenSHMEM's was measured.
const BASELINE: usize = 2;

/// Library calls around the instruction, as long as xbrtime's were measured, and the software that
/// each is compared with: optimised calls for an atomic and for a put, in a steady loop beside
/// OpenSHMEM's, and an unoptimised one beside the first with Open MPI.
const CALLS: [(Variant, Variant); 3] = [
    (Variant::Call { path: 102 }, SOFTWARE[BASELINE]),
    (
        Variant::Call { path: 126 },
        Variant::Nic { path: Some(218) },
    ),
    (Variant::Call { path: 282 }, SOFTWARE[4]),
];

/// The paper's nodes.
const NODES: usize = 6;

/// Cycles along a link, with which the round trip grows to more than a microsecond.
const LINKS: [u32; 7] = [1, 20, 60, 120, 200, 300, 500];

/// How large the workloads are.
struct Sizes {
    /// Of CircusTent.
    shape: Shape,
    /// Rounds where the NIC's cache is looked at.
    n_cached: usize,
    scale: u32,
    degree: usize,
    /// Stores of figure 2, of all nodes.
    n_stores: usize,
    kernels: &'static [Kernel],
    gap_kernels: &'static [gap::Kernel],
    /// Nodes of the sensitivity table beside the paper's.
    n_nodes: &'static [usize],
    /// Additions of a node that needs no results, and the nodes that make them.
    n_additions: usize,
    n_adders: &'static [usize],
}

impl Sizes {
    const fn new(quick: bool) -> Self {
        let n_iterations = if quick { 60 } else { 1000 };
        Self {
            shape: Shape {
                n_nodes: NODES,
                n_iterations,
                n_words: 1 << 16,
                seed: 42,
            },
            n_cached: if quick { 1500 } else { 40_000 },
            scale: if quick { 5 } else { 8 },
            degree: if quick { 8 } else { 16 },
            n_stores: if quick { 1 << 13 } else { 1 << 16 },
            kernels: &circustent::KERNELS,
            gap_kernels: &gap::KERNELS,
            n_nodes: &[2, 16, 64],
            n_additions: if quick { 40 } else { 200 },
            n_adders: if quick {
                &[6, 64]
            } else {
                &[6, 16, 64, 256, 1024]
            },
        }
    }
}

/// Runs everything and makes the figures.
fn measured(sizes: &Sizes, quiet: bool) -> Result<(Vec<Figure>, Vec<Row>), Trouble> {
    let mut plan = Plan::default();
    let experiments = plan::experiments(&mut plan, sizes);
    let rows = jobs::all(plan.jobs, quiet, Job::run)?;
    let figures = figures::figures(&experiments, &rows, sizes)?;
    Ok((figures, rows))
}

/// What is written as JSON.
fn json(figures: &[Figure], rows: &[Row]) -> serde_json::Value {
    let defaults = TimedConfig::default();
    serde_json::json!({ "parameters": defaults, "figures": figures, "runs": rows })
}

pub(super) fn paper(arguments: &Paper) -> Result<std::process::ExitCode, Trouble> {
    let options = &arguments.report;
    report::make(options, JSON)?;
    let sizes = Sizes::new(options.quick);
    let (figures, rows) = measured(&sizes, options.quiet)?;
    let facts = format!(
        "{} runs on simulated nodes, {NODES} unless said, each of whose results equals a \
         sequential run's. Software paths are guest instructions on the same cores, network and \
         memory; a padded one has a loop more, so that the initiator's path is as long as what was \
         measured of OpenSHMEM (354 instructions an operation), of UCX over TCP without its \
         spinning (about 1,000) and of the first call with Open MPI (2,803). Gain is (T0 - T1) / \
         T0, T0 with software. A band is what other paths and the parameters of the last table \
         give.",
        rows.len()
    );
    if let Some(folder) = &options.out {
        write(folder, &figures, &rows, &facts)?;
    }
    if !options.quiet {
        report::print(&figures)?;
    }
    Ok(std::process::ExitCode::SUCCESS)
}

fn write(
    folder: &std::path::Path,
    figures: &[Figure],
    rows: &[Row],
    facts: &str,
) -> Result<(), Trouble> {
    let page = Page {
        title: "The RAE paper's figures, measured",
        facts,
        figures,
    };
    report::write(folder, (JSON, &json(figures, rows)), &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workloads that are over at once.
    pub(super) const TINY: Sizes = Sizes {
        shape: Shape {
            n_nodes: NODES,
            n_iterations: 6,
            n_words: 64,
            seed: 42,
        },
        n_cached: 12,
        scale: 3,
        degree: 4,
        n_stores: 1 << 10,
        kernels: &[Kernel::Stride1, Kernel::Scatter],
        gap_kernels: &[gap::Kernel::Bfs],
        n_nodes: &[2],
        n_additions: 20,
        n_adders: &[6, 9],
    };

    #[test]
    fn the_same_again_is_the_same_to_the_byte() {
        let sizes = TINY;
        let write = || {
            let folder = tempfile::tempdir().unwrap();
            let (figures, rows) = measured(&sizes, true).unwrap();
            write(folder.path(), &figures, &rows, "").unwrap();
            let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
            let svgs = figures.iter().filter(|it| it.svg.is_some());
            let svgs = svgs.map(|it| read(&format!("{}.svg", it.name)));
            let texts = [read("paper.json"), read("report.html")];
            texts.into_iter().chain(svgs).collect::<Vec<_>>()
        };
        let texts = write();
        assert_eq!(texts, write());
        assert_eq!(texts.len(), 2 + 9);
        let page = &texts[1];
        assert!(!page.contains("src=") && !page.contains("href=\"http"));
        for number in ["17.46", "98.44", "89.71", "17.61", "23.35", "85.05", "0.11"] {
            assert!(page.contains(number), "{number} is the paper's");
        }
        let all: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
        assert_eq!(all["figures"].as_array().unwrap().len(), 11);
        assert!(all["runs"].as_array().unwrap().len() > 100);
    }
}
