//! The workloads of the RAE paper as guests: kernels of CircusTent and of the GAP benchmark suite,
//! spread over nodes. Each run checks what lies in the nodes' memories against a sequential run on
//! the host.
//!
//! A kernel in `guest/paper` says `amo.add` where it wants an operation at another node; what that
//! becomes is the [`Variant`]: an instruction of RAE, or the software path that a library takes
//! without it, executed by the same cores, network and memory.
//!
//! ```
//! use pgas_riscv_sim::workload::{Variant, circustent::{self, Kernel, Shape}};
//!
//! let shape = Shape { n_nodes: 3, n_iterations: 20, n_words: 512, seed: 1 };
//! let workload = circustent::workload(Kernel::Scatter, circustent::Atomic::Add, &shape);
//! let by_hardware = workload.run(Variant::Hardware, None)?;
//! let by_software = workload.run(Variant::Nic { path: None }, None)?;
//! assert!(by_hardware.instructions < by_software.instructions);
//! # Ok::<(), pgas_riscv_sim::workload::Failure>(())
//! ```

pub mod additions;
pub mod circustent;
pub mod gap;
pub mod graph;
mod path;
pub mod stores;

pub use path::Variant;

use crate::error::Error;
use crate::hart::CompareSwapForm;
use crate::isa::Profile;
use crate::machine::{Machine, MachineConfig, NodeStats, Outcome};
use crate::memory::RAM_BASE;
use crate::timed::config::TimedConfig;
use crate::timed::simulation::{Simulation, SimulationStats};

/// Where the data of all workloads begin.
const DATA: u64 = RAM_BASE + (1 << 20);

/// More instructions than any workload takes that ends.
const MOST_INSTRUCTIONS: u64 = 40_000_000_000;

/// Why a run counts for nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The simulator says why.
    #[error("{workload}: {why}")]
    Simulator {
        /// The workload's name.
        workload: Box<str>,
        /// What it said.
        why: Box<Error>,
    },
    /// The guest ended with a code other than 0.
    #[error("{workload}: node {node} ended with code {code}")]
    Code {
        /// The workload's name.
        workload: Box<str>,
        /// The first node that did.
        node: usize,
        /// Its code.
        code: u64,
    },
    /// A word differs from the sequential run's.
    #[error("{workload}: {word}")]
    Wrong {
        /// The workload's name.
        workload: Box<str>,
        /// The word.
        word: Box<WrongWord>,
    },
}

/// A word that a workload got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node} has {found:#x} at {address:#x}, and a sequential run has {expected:#x}")]
pub struct WrongWord {
    /// The node.
    pub node: usize,
    /// The word's address.
    pub address: u64,
    /// What lies there.
    pub found: u64,
    /// What should.
    pub expected: u64,
}

/// Words at a place of a node.
#[derive(Clone, Debug)]
struct Words {
    node: usize,
    address: u64,
    words: Vec<u64>,
}

/// A kernel, its data on each node, and what a sequential run makes of them.
#[derive(Clone, Debug)]
pub struct Workload {
    name: String,
    /// The kernel's assembly.
    kernel: String,
    n_nodes: usize,
    /// What each node's kernel is told.
    params: Vec<Vec<u64>>,
    before: Vec<Words>,
    after: Vec<Words>,
    /// What the word `outcome` of node 0 holds at the end.
    outcome: u64,
}

/// What a run of a workload counted between the barriers around its kernel.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Instructions of all nodes' first cores.
    pub instructions: u64,
    /// Cycles of the node that took the most; without a clock, its instructions.
    pub cycles: u64,
    /// Instructions of the initiator on the way of one operation, that look once for its
    /// completion.
    pub path: u64,
    /// What each node's guest did between the barriers, second cores included.
    pub regions: Vec<NodeStats>,
    /// What the timed machine counted from start to end.
    pub timed: Option<SimulationStats>,
}

impl Measured {
    /// Remote loads, stores and atomics of all nodes between the barriers.
    #[must_use]
    pub fn remote_operations(&self) -> u64 {
        let regions = self.regions.iter().filter_map(|node| node.region.as_ref());
        regions
            .map(|it| it.remote_loads + it.remote_stores + it.remote_atomics)
            .sum()
    }

    /// Remote stores of all nodes between the barriers.
    #[must_use]
    pub fn remote_stores(&self) -> u64 {
        let regions = self.regions.iter().filter_map(|node| node.region.as_ref());
        regions.map(|it| it.remote_stores).sum()
    }

    /// Atomics of all nodes between the barriers, local ones among them.
    #[must_use]
    pub fn atomics(&self) -> u64 {
        let regions = self.regions.iter().filter_map(|node| node.region.as_ref());
        regions.map(|it| it.local_atomics + it.remote_atomics).sum()
    }

    /// Requests that found no line in the NICs' caches, and all requests, of a timed run.
    #[must_use]
    pub fn nic_misses(&self) -> (u64, u64) {
        let nodes = self.timed.iter().flat_map(|it| &it.machine.nodes);
        nodes.fold((0, 0), |(misses, all), node| {
            (misses + node.nic.misses, all + node.nic.requests)
        })
    }

    /// The mean time of a remote operation in a timed run, in ns.
    #[must_use]
    pub fn mean_latency_ns(&self) -> f64 {
        let nodes = self.timed.iter().flat_map(|it| &it.machine.nodes);
        let (ps, n) = nodes.fold((0, 0), |(ps, n), node| {
            (
                ps + node.core.remote_latency_ps,
                n + node.core.remote_operations,
            )
        });
        ratio(ps, n) / 1000.0
    }
}

/// `a / b`, and 0 of nothing.
#[expect(
    clippy::cast_precision_loss,
    reason = "a share for people; counts are far below 2^53"
)]
pub(crate) fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

impl Workload {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many nodes it is spread over.
    #[must_use]
    pub const fn n_nodes(&self) -> usize {
        self.n_nodes
    }

    /// Runs it, timed if there is a configuration of the clock, and checks the result.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be run, or its result is another one than a sequential run's.
    pub fn run(&self, variant: Variant, timed: Option<&TimedConfig>) -> Result<Measured, Failure> {
        let simulator = |why| Failure::Simulator {
            workload: self.name.as_str().into(),
            why: Box::new(why),
        };
        let (image, path) = variant.guest(&self.kernel).map_err(simulator)?;
        let end = self.before.iter().chain(&self.after);
        let end = end.map(|it| it.address + 8 * it.words.len() as u64).max();
        let n_bytes = end.unwrap_or(DATA).next_multiple_of(1 << 16) - RAM_BASE;
        let config = MachineConfig {
            n_nodes: self.n_nodes,
            cores_per_node: variant.cores(),
            ram_bytes: usize::try_from(n_bytes).unwrap_or(usize::MAX),
            compare_swap: CompareSwapForm::Registers,
            profile: Profile::Rae2020,
            quantum: 200,
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(&config, &image).map_err(simulator)?;
        let of = |name: &str| image.address_of(name).unwrap_or(RAM_BASE);
        for (node, params) in self.params.iter().enumerate() {
            write(&mut machine, node, of("params"), params);
        }
        for it in &self.before {
            write(&mut machine, it.node, it.address, &it.words);
        }
        let (outcome, timed, machine) = match timed {
            None => {
                let outcome = machine.run(MOST_INSTRUCTIONS);
                (outcome, None, machine)
            }
            Some(config) => {
                let mut simulation = Simulation::new(machine, config).map_err(simulator)?;
                let outcome = simulation.run(MOST_INSTRUCTIONS);
                let stats = simulation.stats();
                (outcome, Some(stats), simulation.into_machine())
            }
        };
        if let Outcome::Failure { node, code } = outcome.map_err(simulator)? {
            let workload = self.name.as_str().into();
            return Err(Failure::Code {
                workload,
                node,
                code,
            });
        }
        self.check(&machine, of("outcome"))?;
        let began = |node: usize, offset: u64| {
            let ram = machine.nodes()[node].ram();
            ram.read(of("began") + offset, 8).unwrap_or_default()
        };
        Ok(Measured {
            instructions: (0..self.n_nodes).map(|node| began(node, 0)).sum(),
            cycles: (0..self.n_nodes)
                .map(|node| began(node, 8))
                .max()
                .unwrap_or(0),
            path,
            regions: machine.stats().nodes,
            timed,
        })
    }

    fn check(&self, machine: &Machine, outcome: u64) -> Result<(), Failure> {
        let outcome = Words {
            node: 0,
            address: outcome,
            words: vec![self.outcome],
        };
        for it in self.after.iter().chain([&outcome]) {
            let ram = machine.nodes()[it.node].ram();
            for (address, &expected) in (it.address..).step_by(8).zip(&it.words) {
                let found = ram.read(address, 8).unwrap_or_default();
                if found != expected {
                    return Err(Failure::Wrong {
                        workload: self.name.as_str().into(),
                        word: Box::new(WrongWord {
                            node: it.node,
                            address,
                            found,
                            expected,
                        }),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Puts words into a node's memory, which was made large enough for all.
fn write(machine: &mut Machine, node: usize, address: u64, words: &[u64]) {
    let ram = machine.node_mut(node).ram_mut();
    for (address, &word) in (address..).step_by(8).zip(words) {
        let written = ram.write(address, 8, word);
        debug_assert!(written, "{address:#x} lies in memory");
    }
}

/// The place of a word as the kernels have it: the node's object, and how far from the start of its
/// array it lies.
const fn packed(node: usize, index: usize) -> u64 {
    ((node as u64 + 1) << 32) | (index as u64 * 8)
}

#[cfg(test)]
mod tests {
    use super::circustent::{self, Atomic, Kernel, Shape};
    use super::{Failure, Variant};

    #[test]
    fn a_result_that_no_sequential_run_has_is_found() {
        let shape = Shape {
            n_nodes: 2,
            n_iterations: 20,
            n_words: 64,
            seed: 3,
        };
        let mut workload = circustent::workload(Kernel::Stride1, Atomic::Add, &shape);
        // One node's rounds are one fewer.
        workload.params[1][0] -= 1;
        let result = workload.run(Variant::Hardware, None);
        assert!(matches!(result, Err(Failure::Wrong { word, .. }) if word.node == 0));
    }
}
