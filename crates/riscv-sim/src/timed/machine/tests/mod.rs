//! The machine driven by scripts instead of instructions: arithmetic by hand, and rules that hold
//! for every script.

mod by_hand;
mod every_script;

use std::collections::HashMap;

use super::*;
use crate::timed::config::{CacheConfig, LinePolicy};
use crate::timed::core::Class;
use crate::timed::packet::{Operation, Request};

/// The words that scripts of random steps use: six lines.
const N_WORDS: u64 = 6 * 8;

#[derive(Clone, Copy, Debug)]
enum Step {
    Compute(u32),
    Load(u64),
    Store(u64, u64),
    /// A local atomic addition.
    AddHere(u64, u64),
    Remote(Request),
    Fence,
}

fn remote(target: u16, operation: Operation, address: u64, operand: u64) -> Request {
    Request {
        target,
        operation,
        bytes: 8,
        address,
        operand,
        replacement: 0,
        register: Some(31),
        into_memory: false,
        tag: 0,
    }
}

/// Harts that each follow a script, and memories that are maps.
#[derive(Debug, Default)]
struct Scripts {
    n_cores: usize,
    steps: Vec<Vec<Step>>,
    at: Vec<usize>,
    memory: Vec<HashMap<u64, u64>>,
    /// What came back to each node, in order.
    results: Vec<Vec<u64>>,
    /// How many operations each NIC executed.
    n_executed: Vec<u64>,
}

impl Scripts {
    fn new(steps: Vec<Vec<Step>>) -> Self {
        Self::with_cores(steps, 1)
    }

    /// The scripts are those of the harts, node after node.
    fn with_cores(steps: Vec<Vec<Step>>, n_cores: usize) -> Self {
        let n_harts = steps.len();
        Self {
            n_cores,
            steps,
            at: vec![0; n_harts],
            memory: vec![HashMap::new(); n_harts / n_cores],
            results: vec![Vec::new(); n_harts],
            n_executed: vec![0; n_harts / n_cores],
        }
    }

    fn word(&mut self, node: usize, address: u64) -> &mut u64 {
        self.memory[node].entry(address).or_default()
    }
}

impl Processor for Scripts {
    fn run(&mut self, hart: u16, core: &mut CorePort<'_>) {
        let hart = usize::from(hart);
        let node = hart / self.n_cores;
        loop {
            let Some(&step) = self.steps[hart].get(self.at[hart]) else {
                if core.may_start(0) && core.drained() {
                    core.halt();
                }
                return;
            };
            let uses = if matches!(step, Step::Remote(_)) {
                1 << 31
            } else {
                0
            };
            if !core.may_start(uses) {
                return;
            }
            // The instructions lie where the data do.
            let code = 8 * self.at[hart] as u64 % (8 * N_WORDS);
            if core.has_fetches() && !core.fetch(code, 4) {
                return;
            }
            match step {
                Step::Compute(0) | Step::Fence => {
                    if matches!(step, Step::Fence) && !core.drained() {
                        return;
                    }
                    core.retire(Class::Integer, 0);
                }
                Step::Compute(n) => {
                    self.steps[hart][self.at[hart]] = Step::Compute(n - 1);
                    core.retire(Class::Integer, 0);
                    continue;
                }
                Step::Load(address) => core.load(address, 8, 1 << 5),
                Step::Store(address, value) => {
                    *self.word(node, address) = value;
                    core.store(address, 8, 0);
                }
                Step::AddHere(address, value) => {
                    *self.word(node, address) += value;
                    core.store(address, 8, 1 << 6);
                }
                Step::Remote(request) => core.remote(request),
            }
            self.at[hart] += 1;
        }
    }

    fn execute(&mut self, _hart: u16, request: &Request) -> u64 {
        let target = usize::from(request.target);
        self.n_executed[target] += 1;
        let word = self.word(target, request.address);
        let old = *word;
        match request.operation {
            Operation::Load => {}
            Operation::Store => *word = request.operand,
            Operation::Add => *word = old.wrapping_add(request.operand),
            other => panic!("the scripts do not use {other:?}"),
        }
        old
    }

    fn complete(&mut self, hart: u16, _request: &Request, value: u64) {
        self.results[usize::from(hart)].push(value);
    }
}

fn cycles(n: u64) -> Time {
    Time::from_ps(n * 500)
}

fn machine(config: &TimedConfig, n_nodes: u16) -> Machine {
    Machine::new(config, n_nodes).unwrap()
}

/// Caches so small that lines are evicted all the time.
fn cramped(policy: LinePolicy, outstanding_remote: u32) -> TimedConfig {
    let mut config = TimedConfig {
        l1: CacheConfig {
            bytes: 128,
            ways: 1,
            hit_cycles: 4,
        },
        l2: CacheConfig {
            bytes: 256,
            ways: 2,
            hit_cycles: 8,
        },
        ..TimedConfig::default()
    };
    config.core.outstanding_remote = outstanding_remote;
    config.nic.cache_bytes = 128;
    config.nic.mshr_entries = 3;
    config.nic.mshr_subentries = 2;
    config.nic.input_packets = 1;
    config.nic.policy = policy;
    config.mesh.buffer_packets = 1;
    config
}
