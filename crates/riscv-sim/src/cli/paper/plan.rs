//! Which workloads are run with which parameters, and what a figure is made of.

use std::sync::Arc;

use pgas_riscv_sim::timed::config::{LinePolicy, TimedConfig};
use pgas_riscv_sim::workload::circustent::{self, Atomic, Kernel, Shape};
use pgas_riscv_sim::workload::graph::{Graph, Kind};
use pgas_riscv_sim::workload::{Variant, gap, stores};

use super::beyond::Beyond;
use super::changes::{NONE, OPTIONS, PARAMETERS};
use super::runs::{Job, Row, Shared, percent, shared};
use super::{BASELINE, CALLS, LINKS, NODES, SOFTWARE, Sizes};

/// All jobs, and which of them a figure is made of.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) jobs: Vec<Job>,
}

/// A workload by hardware, and by each software path asked for.
pub(super) struct Compared {
    pub(super) name: String,
    pub(super) hardware: usize,
    pub(super) software: Vec<usize>,
    /// With the hardware's instructions in [`CALLS`], and with the software of each, if they are
    /// asked for.
    pub(super) calls: Vec<(usize, usize)>,
}

/// One row of the sensitivity table.
pub(super) struct Sensitive {
    pub(super) what: String,
    pub(super) compared: Vec<Compared>,
}

/// A kernel at a NIC's cache, and the same without any round: the difference is what the rounds ask
/// for, without the barriers around them.
pub(super) struct Cached {
    pub(super) kernel: Kernel,
    pub(super) policy: LinePolicy,
    /// Of ARRAY.
    pub(super) n_words: usize,
    job: usize,
    none: usize,
}

impl Cached {
    /// The share of the rounds' requests, in per cent, of which a NIC counted so many.
    pub(super) fn share(&self, rows: &[Row], of: impl Fn(&Row) -> u64) -> f64 {
        let rounds = |of: &dyn Fn(&Row) -> u64| {
            let [all, none] = [self.job, self.none].map(|job| of(&rows[job]));
            all.saturating_sub(none)
        };
        percent(rounds(&of), rounds(&|row| row.nic_requests))
    }
}

impl Plan {
    pub(super) fn add(
        &mut self,
        workload: &Shared,
        variant: Variant,
        config: Option<&TimedConfig>,
    ) -> usize {
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
            calls: Vec::new(),
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
pub(super) struct Experiments {
    pub(super) gap: Vec<Compared>,
    /// The same on one node, which waits for nobody.
    pub(super) alone: Vec<usize>,
    pub(super) circustent: Vec<Compared>,
    pub(super) stores: Vec<(usize, usize)>,
    pub(super) caches: Vec<Cached>,
    pub(super) links: Vec<Vec<Compared>>,
    pub(super) sensitive: Vec<Sensitive>,
    pub(super) beyond: Beyond,
}

pub(super) fn experiments(plan: &mut Plan, sizes: &Sizes) -> Experiments {
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
            alone.push(plan.add(&on(1), Variant::Hardware, Some(&config)));
        }
    }
    let mut circustent = Vec::new();
    for &kernel in sizes.kernels {
        for (atomic, how) in [(Atomic::Add, "add"), (Atomic::Cas, "cas")] {
            let workload = kernel_of(kernel, atomic, shape);
            let name = format!("{} {how}", kernel.name());
            let mut compared = plan.compare(&name, &workload, &SOFTWARE, &config);
            for (call, software) in CALLS {
                let known = SOFTWARE.iter().position(|it| *it == software);
                let software = match known {
                    Some(k) => compared.software[k],
                    None => plan.add(&workload, software, Some(&config)),
                };
                let call = plan.add(&workload, call, Some(&config));
                compared.calls.push((call, software));
            }
            circustent.push(compared);
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
        beyond: Beyond::new(plan, sizes),
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

fn caches(plan: &mut Plan, sizes: &Sizes) -> Vec<Cached> {
    let mut caches = Vec::new();
    for policy in [LinePolicy::InvalidateWhenIdle, LinePolicy::Retain] {
        for &kernel in sizes.kernels {
            // What fits the NIC's cache, what does not, and what is far larger than it.
            for n_words in [1 << 12, 1 << 16, 1 << 17] {
                let mut config = TimedConfig::default();
                config.nic.policy = policy;
                let mut add = |n_iterations| {
                    let shape = Shape {
                        n_words,
                        n_iterations,
                        ..sizes.shape
                    };
                    let workload = kernel_of(kernel, Atomic::Add, &shape);
                    plan.add(&workload, Variant::Hardware, Some(&config))
                };
                caches.push(Cached {
                    kernel,
                    policy,
                    n_words,
                    job: add(sizes.n_cached),
                    none: add(0),
                });
            }
        }
    }
    caches
}

fn sensitive(plan: &mut Plan, sizes: &Sizes) -> Vec<Sensitive> {
    let shape = &sizes.shape;
    let mut rows = Vec::new();
    for change in [NONE].iter().chain(&PARAMETERS).chain(&OPTIONS) {
        let mut config = TimedConfig::default();
        change.make(&mut config);
        rows.push(Sensitive {
            what: change.name.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::super::tests::TINY;
    use super::*;
    use crate::cli::jobs;

    /// Barriers ask for lines, too; they are not among the requests of which a share missed.
    #[test]
    fn a_word_whose_line_is_kept_is_missed_once_a_node() {
        let sizes = Sizes {
            kernels: &[Kernel::Central],
            n_cached: 50,
            ..TINY
        };
        let mut plan = Plan::default();
        let caches = caches(&mut plan, &sizes);
        let rows = jobs::all(plan.jobs, true, Job::run).unwrap();
        for it in &caches {
            let misses = it.share(&rows, |row| row.nic_misses);
            match it.policy {
                LinePolicy::Retain => assert!((misses - 2.0).abs() < 1e-9, "{misses}"),
                // Arrivals at a barrier may merge in one run and not in the other.
                LinePolicy::InvalidateWhenIdle => assert!(misses > 99.0, "{misses}"),
            }
        }
    }
}
