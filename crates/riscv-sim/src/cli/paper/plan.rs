//! Which workloads are run with which parameters, and what a figure is made of.

use std::sync::Arc;

use pgas_riscv_sim::timed::config::{InstructionCacheConfig, LinePolicy, TimedConfig};
use pgas_riscv_sim::workload::circustent::{self, Atomic, Kernel, Shape};
use pgas_riscv_sim::workload::graph::{Graph, Kind};
use pgas_riscv_sim::workload::{Variant, gap, stores};

use super::beyond::Beyond;
use super::runs::{Job, Shared, shared};
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
    /// With the hardware's instructions in [`CALLS`], and with the software of each, if they are asked
    /// for.
    pub(super) calls: Vec<(usize, usize)>,
}

/// One row of the sensitivity table.
pub(super) struct Sensitive {
    pub(super) what: String,
    pub(super) compared: Vec<Compared>,
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
    /// Kernel, policy, words of an array, job.
    pub(super) caches: Vec<(Kernel, LinePolicy, usize, usize)>,
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

/// A cache of instructions that no kernel with a software path fits.
const SMALL_INSTRUCTION_CACHE: InstructionCacheConfig = InstructionCacheConfig {
    bytes: 256,
    ways: 2,
};

/// What a row of the sensitivity table is called, and what it changes.
type Change = (&'static str, fn(&mut TimedConfig));
const CHANGES: [Change; 18] = [
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
    ("instructions through a cache of 16 KiB", |it| {
        it.l1i = Some(InstructionCacheConfig::default());
    }),
    ("instructions through a cache of 256 bytes", |it| {
        it.l1i = Some(SMALL_INSTRUCTION_CACHE);
    }),
    ("directory busy 2 cycles with a request", |it| {
        it.directory.busy_cycles = 2;
    }),
    ("directory busy 16 cycles with a request", |it| {
        it.directory.busy_cycles = 16;
    }),
    ("packetizer busy 3 cycles with a packet", |it| {
        it.nic.packet_cycles = 3;
    }),
    ("packetizer busy 24 cycles with a packet", |it| {
        it.nic.packet_cycles = 24;
    }),
];

fn sensitive(plan: &mut Plan, sizes: &Sizes) -> Vec<Sensitive> {
    let shape = &sizes.shape;
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
