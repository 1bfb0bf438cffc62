//! One operation on so many nodes: a run with it, one without it, and the difference.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use pgas_riscv_sim::linux::LinuxConfig;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::{Simulation, SimulationStats};
use pgas_riscv_sim::{Error, Image, Machine, MachineConfig, Outcome};
use serde::Serialize;

/// MiB of a node's memory, and of its segment.
const MEMORY: usize = 64;
const SEGMENT: u64 = 24;

/// Turns are long, so that the host's caches serve a node more than once: who waits sleeps.
const QUANTUM: u64 = 20_000;

/// More instructions than any run takes that ends.
const MOST_INSTRUCTIONS: u64 = 200_000_000_000;

/// A machine of so many nodes takes 4 GB of the host's memory: two at a time.
const LARGE: usize = 512;
static LARGE_RUNS: LargeRuns = LargeRuns {
    n_more: Mutex::new(2),
    ended: Condvar::new(),
};

/// How many more large machines may run.
struct LargeRuns {
    n_more: Mutex<u32>,
    ended: Condvar,
}

impl LargeRuns {
    /// Does it as soon as another one may run.
    fn run<R>(&self, what: impl FnOnce() -> R) -> R {
        let n_more = self.n_more.lock().unwrap_or_else(PoisonError::into_inner);
        let none = |n_more: &mut u32| *n_more == 0;
        let free = self.ended.wait_while(n_more, none);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        let result = what();
        *self.n_more.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.ended.notify_one();
        result
    }
}

/// Bytes of what a guest says that are shown of it.
const MOST_SAID: usize = 600;

/// Why a run counts for nothing.
#[derive(Debug, thiserror::Error)]
#[error("{run}: {why}")]
pub(super) struct Failure {
    run: Box<str>,
    why: Box<str>,
}

/// An operation, and how it is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) operation: &'static str,
    pub(super) atomics: &'static str,
    pub(super) n_nodes: usize,
    /// Operations of a node.
    pub(super) n: usize,
    pub(super) is_timed: bool,
}

/// What one operation takes, on average.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cost {
    pub(super) operation: &'static str,
    pub(super) atomics: &'static str,
    pub(super) nodes: usize,
    /// Operations of a node.
    pub(super) operations: usize,
    /// Of all nodes.
    pub(super) instructions: f64,
    pub(super) remote_loads: f64,
    pub(super) remote_stores: f64,
    pub(super) remote_atomics: f64,
    pub(super) local_atomics: f64,
    /// What only a clock has.
    pub(super) timed: Option<TimedCost>,
}

/// What one operation takes on the timed machine.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TimedCost {
    /// Of the node that takes the most.
    pub(super) cycles: f64,
    pub(super) packets: f64,
    pub(super) nic_requests: f64,
    pub(super) nic_misses: f64,
    /// Requests that joined an entry of the MSHRs.
    pub(super) merged: f64,
    pub(super) l1_misses: f64,
    pub(super) l2_misses: f64,
}

/// What all nodes counted.
struct Counted {
    /// Instructions, remote loads, stores and atomics, local atomics; in the region of interest.
    region: [u64; 5],
    /// Cycles in the region of interest, of the node with the most.
    cycles: u64,
    /// Packets, requests and misses and merges of NICs, misses of both caches; in the whole run.
    machine: Option<[u64; 6]>,
}

impl Job {
    /// What it is called.
    pub(super) fn name(&self) -> String {
        let Self {
            operation,
            atomics,
            n_nodes,
            ..
        } = self;
        let clock = if self.is_timed { "with" } else { "without" };
        format!("{operation}, atomics by {atomics}, {n_nodes} nodes {clock} a clock")
    }

    /// Runs the guest with the operations and without, and gives what one takes.
    pub(super) fn cost(&self, image: &Image, program: &[u8]) -> Result<Cost, Failure> {
        let with = self.run(image, program, self.n)?;
        let without = self.run(image, program, 0)?;
        let n_all = self.n * self.n_nodes;
        let region = std::array::from_fn(|k| each(with.region[k], without.region[k], n_all));
        let [
            instructions,
            remote_loads,
            remote_stores,
            remote_atomics,
            local_atomics,
        ] = region;
        let timed = with.machine.zip(without.machine).map(|(with_all, none)| {
            let of = |k: usize| each(with_all[k], none[k], n_all);
            TimedCost {
                cycles: each(with.cycles, without.cycles, self.n),
                packets: of(0),
                nic_requests: of(1),
                nic_misses: of(2),
                merged: of(3),
                l1_misses: of(4),
                l2_misses: of(5),
            }
        });
        Ok(Cost {
            operation: self.operation,
            atomics: self.atomics,
            nodes: self.n_nodes,
            operations: self.n,
            instructions,
            remote_loads,
            remote_stores,
            remote_atomics,
            local_atomics,
            timed,
        })
    }

    fn run(&self, image: &Image, program: &[u8], n: usize) -> Result<Counted, Failure> {
        let run = || self.run_now(image, program, n);
        if self.n_nodes >= LARGE {
            LARGE_RUNS.run(run)
        } else {
            run()
        }
    }

    fn run_now(&self, image: &Image, program: &[u8], n: usize) -> Result<Counted, Failure> {
        let said = Rc::new(RefCell::new(Vec::new()));
        let failure = |why: String| Failure {
            run: self.name().into(),
            why: format!("{why} {}", String::from_utf8_lossy(&said.borrow())).into(),
        };
        let config = self.config(program, n);
        let mut machine = Machine::new(&config, image).map_err(|why| failure(why.to_string()))?;
        let heard = Rc::clone(&said);
        machine.set_console(Box::new(move |_, bytes| {
            let mut heard = heard.borrow_mut();
            let left = MOST_SAID.saturating_sub(heard.len());
            heard.extend(bytes.iter().take(left));
        }));
        let counted = if self.is_timed {
            timed(machine)
        } else {
            counted(machine)
        };
        match counted.map_err(|why| failure(why.to_string()))? {
            (Outcome::Success, counted) => Ok(counted),
            (Outcome::Failure { node, code }, _) => {
                Err(failure(format!("node {node} ended with code {code}:")))
            }
        }
    }

    fn config(&self, program: &[u8], n: usize) -> MachineConfig {
        let (size, n) = (self.n.to_string(), n.to_string());
        let mut arguments = vec!["containers", self.operation, self.atomics, &size, &n];
        arguments.extend(self.is_timed.then_some("spin"));
        MachineConfig {
            n_nodes: self.n_nodes,
            ram_bytes: MEMORY << 20,
            quantum: QUANTUM,
            linux: Some(LinuxConfig {
                arguments: arguments.iter().map(|it| it.as_bytes().to_vec()).collect(),
                program: Arc::from(program),
                segment_bytes: SEGMENT << 20,
                ..LinuxConfig::default()
            }),
            ..MachineConfig::default()
        }
    }
}

fn counted(mut machine: Machine) -> Result<(Outcome, Counted), Error> {
    let outcome = machine.run(MOST_INSTRUCTIONS)?;
    let stats = machine.stats();
    let counted = Counted {
        region: region(&stats),
        cycles: 0,
        machine: None,
    };
    Ok((outcome, counted))
}

fn timed(machine: Machine) -> Result<(Outcome, Counted), Error> {
    let mut simulation = Simulation::new(machine, &TimedConfig::default())?;
    let outcome = simulation.run(MOST_INSTRUCTIONS)?;
    let SimulationStats { guests, machine } = simulation.stats();
    let nodes = || machine.nodes.iter();
    let regions = guests.nodes.iter().filter_map(|it| it.region.as_ref());
    let counted = Counted {
        region: region(&guests),
        cycles: regions.filter_map(|it| it.cycles).max().unwrap_or(0),
        machine: Some([
            machine.mesh.packets,
            nodes().map(|it| it.nic.requests).sum(),
            nodes().map(|it| it.nic.misses).sum(),
            nodes().map(|it| it.nic.merged).sum(),
            nodes().map(|it| it.caches.l1.misses).sum(),
            nodes().map(|it| it.caches.l2.misses).sum(),
        ]),
    };
    Ok((outcome, counted))
}

fn region(stats: &pgas_riscv_sim::machine::Stats) -> [u64; 5] {
    let mut sums = [0; 5];
    for it in stats.nodes.iter().filter_map(|it| it.region.as_ref()) {
        let of = [
            it.instructions,
            it.remote_loads,
            it.remote_stores,
            it.remote_atomics,
            it.local_atomics,
        ];
        sums.iter_mut().zip(of).for_each(|(sum, n)| *sum += n);
    }
    sums
}

/// What one of so many takes.
#[expect(
    clippy::cast_precision_loss,
    reason = "a figure for people; counts are far below 2^53"
)]
fn each(with: u64, without: u64, n: usize) -> f64 {
    (with as f64 - without as f64) / n as f64
}

#[cfg(test)]
mod tests {
    use pgas_riscv_sim::asm;
    use pgas_riscv_sim::elf::Segment;
    use pgas_riscv_sim::isa::Profile;
    use pgas_riscv_sim::linux::PROCESS_BASE;

    use super::*;

    /// Adds to a word of the other node eight times, unless its fourth argument says none, and ends
    /// with the code of its third argument's last digit.
    const GUEST: &str = "
        _start: ld t0, 40(sp)
                lbu t0, 0(t0)
                addi t0, t0, -48
                eaddi a0, e13, 0
                eaddi t2, e10, 0
                li t3, 2
                sub t2, t3, t2
                csrwi 0x800, 1
                beqz t0, 2f
                li t1, 8
        1:      eaddi a0, e13, 0
                eaddie e10, t2, 0
                li a1, 1
                eamoadd.d a0, a0, a1
                addi t1, t1, -1
                bnez t1, 1b
        2:      csrwi 0x800, 0
                ld t0, 32(sp)
                lbu a0, 0(t0)
                addi a0, a0, -56
                li a7, 93
                ecall
    ";

    fn cost(n: usize, is_timed: bool) -> Result<Cost, Failure> {
        let assembled = asm::assemble(GUEST, Profile::Rae2020).unwrap();
        let segment = &assembled.segments[0];
        // It knows no address, and so runs anywhere.
        let image = Image {
            entry: PROCESS_BASE,
            segments: vec![Segment {
                address: PROCESS_BASE,
                ..segment.clone()
            }],
            ..Image::default()
        };
        let job = Job {
            operation: "none",
            atomics: "hardware",
            n_nodes: 2,
            n,
            is_timed,
        };
        job.cost(&image, &[])
    }

    #[test]
    fn an_operation_takes_what_a_run_with_it_has_beyond_one_without() {
        let counted = cost(8, false).unwrap();
        let atomics = (counted.remote_atomics, counted.local_atomics);
        assert_eq!((atomics, counted.remote_loads), ((1.0, 0.0), 0.0));
        // Six instructions a round, and one before all of them.
        assert!((counted.instructions - (6.0 + 1.0 / 8.0)).abs() < 1e-9);
        let timed = cost(8, true).unwrap().timed.unwrap();
        assert_eq!((timed.packets, timed.nic_requests), (2.0, 1.0));
        assert!(timed.cycles > 50.0, "a round trip takes {}", timed.cycles);
    }

    #[test]
    fn a_guest_that_fails_is_named_with_its_code() {
        let why = cost(9, false).unwrap_err().to_string();
        assert!(
            why.starts_with("none, atomics by hardware, 2 nodes"),
            "{why}"
        );
        assert!(why.contains("ended with code 1"), "{why}");
    }
}
