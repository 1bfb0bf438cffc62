//! `rae paper`: the figures of the RAE paper from runs of its workloads, beside the paper's numbers. All parameters are the
//! timed machine's defaults, which are the paper's table and the assumptions listed there; none is chosen to hit a number.

mod figures;
mod runs;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use pgas_riscv_sim::timed::config::{LinePolicy, TimedConfig};
use pgas_riscv_sim::workload::circustent::{self, Atomic, Kernel, Shape};
use pgas_riscv_sim::workload::graph::{Graph, Kind};
use pgas_riscv_sim::workload::{Variant, gap, stores};

use super::report::{self, Figure, Page};
use super::{Trouble, jobs};
use runs::{Job, Row, Shared, shared};

#[derive(Debug, Args)]
pub(super) struct Paper {
    /// Smaller workloads: under a minute.
    #[arg(long)]
    quick: bool,
    /// Write paper.json, report.html and the plots into this folder, which is made.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Say nothing on the way, and print no tables.
    #[arg(long)]
    quiet: bool,
}

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
        }
    }
}

/// All jobs, and which of them a figure is made of.
#[derive(Default)]
struct Plan {
    jobs: Vec<Job>,
}

/// A workload by hardware, and by each software path asked for.
struct Compared {
    name: String,
    hardware: usize,
    software: Vec<usize>,
}

/// One row of the sensitivity table.
struct Sensitive {
    what: String,
    compared: Vec<Compared>,
}

impl Plan {
    fn add(&mut self, workload: &Shared, variant: Variant, config: Option<&TimedConfig>) -> usize {
        self.jobs.push(Job {
            workload: Arc::clone(workload),
            variant,
            config: config.cloned(),
        });
        self.jobs.len() - 1
    }

    fn compare(
        &mut self,
        name: &str,
        workload: &Shared,
        variants: &[Variant],
        config: &TimedConfig,
    ) -> Compared {
        let hardware = self.add(workload, Variant::Hardware, Some(config));
        let software = variants.iter();
        Compared {
            name: name.to_owned(),
            hardware,
            software: software
                .map(|it| self.add(workload, *it, Some(config)))
                .collect(),
        }
    }

    /// Kernels of CircusTent with additions, by hardware and by the baseline.
    fn all_kernels(
        &mut self,
        kernels: &[Kernel],
        shape: &Shape,
        config: &TimedConfig,
    ) -> Vec<Compared> {
        let kernels = kernels.iter();
        kernels
            .map(|kernel| {
                let workload = kernel_of(*kernel, Atomic::Add, shape);
                self.compare(
                    kernel.name(),
                    &workload,
                    &SOFTWARE[BASELINE..=BASELINE],
                    config,
                )
            })
            .collect()
    }
}

/// Everything that is run, by figure.
struct Experiments {
    gap: Vec<Compared>,
    /// The same on one node, which waits for nobody.
    alone: Vec<usize>,
    circustent: Vec<Compared>,
    stores: Vec<(usize, usize)>,
    /// Kernel, policy, words of an array, job.
    caches: Vec<(Kernel, LinePolicy, usize, usize)>,
    links: Vec<Vec<Compared>>,
    sensitive: Vec<Sensitive>,
}

fn experiments(plan: &mut Plan, sizes: &Sizes) -> Experiments {
    let config = TimedConfig::default();
    let shape = &sizes.shape;
    let mut gap = Vec::new();
    let mut alone = Vec::new();
    for (kind, kind_name) in [(Kind::Kronecker, "Kronecker"), (Kind::Uniform, "uniform")] {
        let graph = Arc::new(Graph::new(kind, sizes.scale, sizes.degree, shape.seed));
        for &kernel in sizes.gap_kernels {
            let on = |n_nodes| {
                let graph = Arc::clone(&graph);
                shared(move || gap::workload(kernel, &graph, n_nodes))
            };
            let name = format!("{} {kind_name}", kernel.name());
            gap.push(plan.compare(&name, &on(NODES), &SOFTWARE, &config));
            alone.push(plan.add(&on(1), Variant::Hardware, None));
        }
    }
    let mut circustent = Vec::new();
    for &kernel in sizes.kernels {
        for (atomic, how) in [(Atomic::Add, "add"), (Atomic::Cas, "cas")] {
            let workload = kernel_of(kernel, atomic, shape);
            let name = format!("{} {how}", kernel.name());
            circustent.push(plan.compare(&name, &workload, &SOFTWARE, &config));
        }
    }
    let stores = [1, 2, 4, 8, 16, 32, 64].map(|n_nodes| {
        let (n_each, seed) = (sizes.n_stores / n_nodes, shape.seed);
        let workload = shared(move || stores::workload(n_nodes, n_each, 512, seed));
        (n_nodes, plan.add(&workload, Variant::Hardware, None))
    });
    Experiments {
        gap,
        alone,
        circustent,
        stores: stores.to_vec(),
        caches: caches(plan, sizes),
        links: LINKS
            .map(|cycles| plan.all_kernels(sizes.kernels, shape, &with_links(cycles)))
            .into(),
        sensitive: sensitive(plan, sizes),
    }
}

fn kernel_of(kernel: Kernel, atomic: Atomic, shape: &Shape) -> Shared {
    let shape = *shape;
    shared(move || circustent::workload(kernel, atomic, &shape))
}

fn with_links(cycles: u32) -> TimedConfig {
    let mut config = TimedConfig::default();
    config.mesh.link_cycles = cycles;
    config
}

fn caches(plan: &mut Plan, sizes: &Sizes) -> Vec<(Kernel, LinePolicy, usize, usize)> {
    let mut caches = Vec::new();
    for policy in [LinePolicy::InvalidateWhenIdle, LinePolicy::Retain] {
        for &kernel in sizes.kernels {
            // What fits the NIC's cache, what does not, and what is far larger than it.
            for n_words in [1 << 12, 1 << 16, 1 << 17] {
                let shape = Shape {
                    n_words,
                    n_iterations: sizes.n_cached,
                    ..sizes.shape
                };
                let mut config = TimedConfig::default();
                config.nic.policy = policy;
                let workload = kernel_of(kernel, Atomic::Add, &shape);
                let job = plan.add(&workload, Variant::Hardware, Some(&config));
                caches.push((kernel, policy, n_words, job));
            }
        }
    }
    caches
}

fn sensitive(plan: &mut Plan, sizes: &Sizes) -> Vec<Sensitive> {
    let shape = &sizes.shape;
    type Change = (&'static str, fn(&mut TimedConfig));
    const CHANGES: [Change; 12] = [
        ("as in the paper's table", |_| {}),
        ("link of 20 cycles", |it| it.mesh.link_cycles = 20),
        ("link of 200 cycles", |it| it.mesh.link_cycles = 200),
        ("1 MSHR entry", |it| it.nic.mshr_entries = 1),
        ("8 MSHR entries", |it| it.nic.mshr_entries = 8),
        ("1 MSHR subentry: nothing merges", |it| {
            it.nic.mshr_subentries = 1;
        }),
        ("NIC cache of 16 KiB", |it| it.nic.cache_bytes = 16 << 10),
        ("NIC cache of 1 MiB", |it| it.nic.cache_bytes = 1 << 20),
        ("NIC retains idle lines", |it| {
            it.nic.policy = LinePolicy::Retain;
        }),
        ("lines of 32 bytes", |it| it.line_bytes = 32),
        ("lines of 128 bytes", |it| it.line_bytes = 128),
        ("16 outstanding operations", |it| {
            it.core.outstanding_remote = 16;
        }),
    ];
    let mut rows = Vec::new();
    for (what, change) in CHANGES {
        let mut config = TimedConfig::default();
        change(&mut config);
        rows.push(Sensitive {
            what: what.to_owned(),
            compared: plan.all_kernels(sizes.kernels, shape, &config),
        });
    }
    for &n_nodes in sizes.n_nodes {
        // As many operations of all nodes together.
        let n_iterations = (shape.n_iterations * NODES / n_nodes).max(10);
        let shape = Shape {
            n_nodes,
            n_iterations,
            n_words: 1 << 12,
            ..*shape
        };
        rows.push(Sensitive {
            what: format!("{n_nodes} nodes, arrays of 32 KiB"),
            compared: plan.all_kernels(sizes.kernels, &shape, &TimedConfig::default()),
        });
    }
    rows
}

/// Runs everything and makes the figures.
fn measured(sizes: &Sizes, quiet: bool) -> Result<(Vec<Figure>, Vec<Row>), Trouble> {
    let mut plan = Plan::default();
    let experiments = experiments(&mut plan, sizes);
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
    report::make(arguments.out.as_ref())?;
    let sizes = Sizes::new(arguments.quick);
    let (figures, rows) = measured(&sizes, arguments.quiet)?;
    let facts = format!(
        "{} runs on simulated nodes, {NODES} unless said, each of whose results equals a sequential run's. Software paths are \
         guest instructions on the same cores, network and memory; a padded one has a loop more, so that the initiator's path \
         is as long as what was measured of OpenSHMEM (354 instructions an operation), of UCX over TCP without its spinning \
         (about 1,000) and of the first call with Open MPI (2,803). Gain is (T0 - T1) / T0, T0 with software. A band is what \
         other paths and the parameters of the last table give.",
        rows.len()
    );
    if let Some(folder) = &arguments.out {
        write(folder, &figures, &rows, &facts)?;
    }
    if !arguments.quiet {
        report::print(&figures);
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
    report::write(folder, ("paper.json", &json(figures, rows)), &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_again_is_the_same_to_the_byte() {
        let sizes = Sizes {
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
        };
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
        assert_eq!(texts.len(), 2 + 7);
        let page = &texts[1];
        assert!(!page.contains("src=") && !page.contains("href=\"http"));
        for number in ["17.46", "98.44", "89.71", "17.61", "23.35", "85.05", "0.11"] {
            assert!(page.contains(number), "{number} is the paper's");
        }
        let all: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
        assert_eq!(all["figures"].as_array().unwrap().len(), 8);
        assert!(all["runs"].as_array().unwrap().len() > 100);
    }
}
