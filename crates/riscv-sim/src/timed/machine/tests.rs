//! The machine driven by scripts instead of instructions: arithmetic by hand, and rules that hold for every script.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::timed::cache::State;
use crate::timed::config::{CacheConfig, InstructionCacheConfig, LinePolicy};
use crate::timed::core::Class;
use crate::timed::directory::{Agent, Right};
use crate::timed::nic::mshr::Phase;
use crate::timed::packet::{Operation, Request};

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

/// The example of the paper's figure 5: a core of node 1 executes `eamoadd.d x31, x20, x21` on a word of node 0 that holds 0,
/// with `e21` naming node 0 and 1 in `x20`.
#[test]
fn figure_five_step_by_step_with_its_cycles_by_hand() {
    const ADDRESS: u64 = 0x8000_1000;
    let line = ADDRESS / 64;
    let request = remote(0, Operation::Add, ADDRESS, 1);
    let mut script = vec![Vec::new(); 6];
    script[1] = vec![Step::Remote(request)];
    let mut scripts = Scripts::new(script);
    let mut machine = machine(&TimedConfig::default(), 6);

    // Object lookup 1, packet 3; then head, two of address and two of operand through two routers: 2 * 3 + 4.
    // The NIC takes it apart in 3, looks the operation up in 1: it is at the NIC's core in cycle 18, and an entry is made.
    machine.run(&mut scripts, cycles(18) - Time::from_ps(1));
    assert_eq!(machine.nodes[0].nic.mshrs().n_used(), 0);
    machine.run(&mut scripts, cycles(18));
    let entry = machine.nodes[0].nic.mshrs().entry(0);
    assert_eq!(
        (entry.line, entry.phase, entry.writes),
        (line, Phase::Fetching, true)
    );
    assert_eq!(machine.nodes[0].nic.mshrs().n_waiting(0), 1);
    assert_eq!(machine.fabric.mesh.stats().flits, 5);
    assert_eq!(machine.fabric.mesh.stats().hops, 1);

    // Cache lookup 2, directory 2: in cycle 22 the memory opens a row and reads, 15 + 15 + 4 of its cycles.
    let filled = cycles(22) + Time::from_ps(12_500 + 12_500 + 3334);
    machine.run(&mut scripts, filled - Time::from_ps(1));
    assert_eq!(scripts.memory[0].get(&ADDRESS), None);
    machine.run(&mut scripts, filled);
    assert_eq!(scripts.memory[0][&ADDRESS], 1);
    assert_eq!(
        machine.nodes[0].directory.copy(Agent::Nic, line),
        Some(Right::Exclusive)
    );
    assert_eq!(machine.nodes[0].nic.mshrs().entry(0).phase, Phase::Present);

    // One access of 2 cycles; then nothing is pending, and the line is written back and its entries are freed.
    machine.run(&mut scripts, filled + cycles(2));
    assert_eq!(machine.nodes[0].nic.mshrs().n_used(), 0);
    assert_eq!(machine.nodes[0].directory.n_entries(), 0);
    assert_eq!(machine.nodes[0].dram.stats.writes, 1);

    // The reply: packet 3, head and two of data through two routers 2 * 3 + 2, taken apart in 3.
    let replied = filled + cycles(2 + 3 + 8 + 3);
    // Its last hop begins 6 cycles before, from where on nothing but this reply can come to the waiting core.
    machine.run(&mut scripts, replied - cycles(6) - Time::from_ps(1));
    assert!(scripts.results[1].is_empty());
    assert_eq!(machine.run(&mut scripts, Time::NEVER), Ended::Halted);
    assert_eq!(scripts.results[1], [0]);
    let stats = machine.stats();
    assert_eq!(stats.nodes[1].core.remote_latency_ps, replied.ps());
    assert_eq!(replied, Time::from_ps(47_334));
    // The core goes on at its next edge.
    assert_eq!(stats.nodes[1].cycles, 95);
    assert_eq!(
        (stats.mesh.packets, stats.mesh.flits, stats.mesh.hops),
        (2, 8, 2)
    );
}

#[test]
fn a_local_miss_a_second_level_hit_and_a_hit_cost_what_the_configuration_says() {
    let mut scripts = Scripts::new(vec![vec![Step::Load(0), Step::Load(8), Step::Compute(5)]]);
    let mut machine = machine(&TimedConfig::default(), 1);
    assert_eq!(machine.run(&mut scripts, Time::NEVER), Ended::Halted);
    // 4 + 8 for two lookups, 2 for the directory, then the memory; the second load and the rest take one cycle each.
    let filled = cycles(4 + 8 + 2) + Time::from_ps(28_334);
    assert_eq!(
        machine.stats().nodes[0].cycles,
        filled.ps().div_ceil(500) + 1 + 5 + 1
    );
    let caches = machine.stats().nodes[0].caches;
    assert_eq!(
        (caches.l1.misses, caches.l1.hits, caches.l2.misses),
        (1, 1, 1)
    );
}

#[test]
fn a_remote_atomic_takes_a_line_that_the_core_has_written_over_the_bus() {
    let mut scripts = Scripts::new(vec![
        vec![Step::Store(64, 5), Step::Compute(2000), Step::Load(64)],
        vec![
            Step::Compute(1000),
            Step::Remote(remote(0, Operation::Add, 64, 1)),
            Step::Remote(remote(0, Operation::Load, 64, 0)),
        ],
    ]);
    let mut machine = machine(&TimedConfig::default(), 2);
    assert_eq!(machine.run(&mut scripts, Time::NEVER), Ended::Halted);
    assert_eq!(scripts.results[1], [5, 6]);
    let stats = machine.stats();
    assert_eq!(stats.nodes[0].directory.core_invalidations, 1);
    // The core's store, the NIC's second request and the core's load; the first came over the bus.
    assert_eq!(stats.nodes[0].dram.reads, 3);
    assert_eq!(stats.nodes[0].caches.l2.misses, 2);
}

#[test]
fn requests_of_many_nodes_for_one_word_merge_and_invalidate_the_core_once() {
    let n_nodes = 16;
    let mut script = vec![vec![Step::Remote(remote(0, Operation::Add, 64, 1))]; n_nodes];
    script[0] = vec![Step::Store(64, 0)];
    let mut scripts = Scripts::new(script);
    let mut machine = machine(&TimedConfig::default(), 16);
    assert_eq!(machine.run(&mut scripts, Time::NEVER), Ended::Halted);
    assert_eq!(scripts.memory[0][&64], 15);
    let stats = machine.stats().nodes[0];
    assert_eq!(stats.nic.requests, 15);
    assert_eq!(stats.nic.misses + stats.nic.merged + stats.nic.hits, 15);
    assert!(stats.nic.merged >= 8, "{:?}", stats.nic);
    assert!(stats.directory.core_invalidations <= 1);
}

#[test]
fn several_outstanding_operations_take_less_time_than_one_after_the_other() {
    let steps: Vec<_> = (0..32)
        .map(|at| Request {
            register: Some(10 + at % 16),
            ..remote(1, Operation::Add, u64::from(at) * 4096, 1)
        })
        .map(Step::Remote)
        .collect();
    let mut times = Vec::new();
    for outstanding_remote in [1, 16] {
        let mut config = TimedConfig::default();
        config.core.outstanding_remote = outstanding_remote;
        let mut machine = machine(&config, 2);
        let mut scripts = Scripts::new(vec![steps.clone(), Vec::new()]);
        assert_eq!(machine.run(&mut scripts, Time::NEVER), Ended::Halted);
        assert_eq!(scripts.n_executed[1], 32);
        times.push(machine.stats().nodes[0].cycles);
    }
    assert!(times[0] > 4 * times[1], "{times:?}");
}

#[test]
fn a_directory_that_is_busy_keeps_the_next_request_waiting() {
    for (busy_cycles, waits) in [(0, 0), (10, 10)] {
        let mut config = TimedConfig::default();
        config.directory.busy_cycles = busy_cycles;
        let mut machine = Machine::with_cores(&config, 1, 2).unwrap();
        let script = vec![vec![Step::Load(0)], vec![Step::Load(4096)]];
        let mut scripts = Scripts::with_cores(script, 2);
        assert_eq!(machine.run(&mut scripts, Time::NEVER), Ended::Halted);
        let stats = machine.stats().nodes[0];
        assert_eq!(stats.directory.core_requests, 2);
        assert_eq!(stats.directory.busy_wait_ps, cycles(waits).ps());
    }
}

#[test]
fn a_packetizer_that_is_busy_keeps_the_next_packet_waiting() {
    let add = |at: u8| Request {
        register: Some(10 + at),
        ..remote(1, Operation::Add, u64::from(at) * 4096, 1)
    };
    let steps: Vec<_> = (0..3).map(add).map(Step::Remote).collect();
    let end = |packet_cycles| {
        let mut config = TimedConfig::default();
        config.core.outstanding_remote = 16;
        config.nic.packet_cycles = packet_cycles;
        let mut machine = machine(&config, 2);
        let mut scripts = Scripts::new(vec![steps.clone(), Vec::new()]);
        assert_eq!(machine.run(&mut scripts, Time::NEVER), Ended::Halted);
        machine.stats().nodes[0].cycles
    };
    // The third leaves two turns later; without any it leaves two cycles after the first, and waits
    // for the links and the memory behind it.
    let later = end(100) - end(0);
    assert!((150..200).contains(&later), "{later}");
    // Fewer cycles than a packet has flits change nothing.
    assert_eq!(end(1), end(0));
}

/// Parts that a model has as options.
#[derive(Clone, Copy, Debug)]
struct Options {
    has_fetches: bool,
    directory_busy: u32,
    packet_cycles: u32,
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), 0_u32..5, 0_u32..9).prop_map(|(has_fetches, directory_busy, packet_cycles)| {
        Options {
            has_fetches,
            directory_busy,
            packet_cycles,
        }
    })
}

/// As [`cramped`], with these parts.
fn cramped_with(options: Options, policy: LinePolicy, outstanding_remote: u32) -> TimedConfig {
    let mut config = cramped(policy, outstanding_remote);
    let tiny = InstructionCacheConfig {
        bytes: 128,
        ways: 1,
    };
    config.l1i = options.has_fetches.then_some(tiny);
    config.directory.busy_cycles = options.directory_busy;
    config.nic.packet_cycles = options.packet_cycles;
    config
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

const N_WORDS: u64 = 6 * 8;

fn step(n_nodes: u16) -> impl Strategy<Value = Step> {
    let address = (0..N_WORDS).prop_map(|word| word * 8);
    prop_oneof![
        1 => (0_u32..60).prop_map(Step::Compute),
        2 => address.clone().prop_map(Step::Load),
        1 => Just(Step::Fence),
        2 => address.clone().prop_map(|address| Step::AddHere(address, 1)),
        4 => (0..n_nodes, address.clone())
            .prop_map(|(target, address)| Step::Remote(remote(target, Operation::Add, address, 1))),
        2 => (0..n_nodes, address)
            .prop_map(|(target, address)| Step::Remote(remote(target, Operation::Load, address, 0))),
    ]
}

/// How many cores a node has, and what each hart does.
fn scripts() -> impl Strategy<Value = (u16, Vec<Vec<Step>>)> {
    (1_u16..6, prop_oneof![2 => Just(1), 1 => 2_u16..4]).prop_flat_map(|(n_nodes, n_cores)| {
        let script = proptest::collection::vec(step(n_nodes), 0..60);
        let all = proptest::collection::vec(script, usize::from(n_nodes * n_cores));
        (Just(n_cores), all)
    })
}

/// No line has a writer beside another copy, and the directory knows what the caches hold.
fn check_coherence(machine: &Machine) {
    for node in &machine.nodes {
        for line in 0..N_WORDS / 8 {
            let core = node.caches.state(line);
            let nic = node.nic.right(line);
            assert!(
                core.is_none()
                    || nic.is_none()
                    || (core == Some(State::Shared) && nic == Some(Right::Shared)),
                "line {line}: {core:?} beside {nic:?}"
            );
            let known = node.directory.copy(Agent::Nic, line);
            assert_eq!(known, nic, "line {line} of the NIC");
            let known = node.directory.copy(Agent::Core, line);
            let core = core.map(|state| match state {
                State::Shared => Right::Shared,
                State::Exclusive | State::Modified => Right::Exclusive,
            });
            assert_eq!(known, core, "line {line} of the core");
        }
    }
}

fn policy(retain: bool) -> LinePolicy {
    if retain {
        LinePolicy::Retain
    } else {
        LinePolicy::InvalidateWhenIdle
    }
}

proptest! {
    /// Every addition counts once, every request is answered once, the caches are coherent at every step of the way, and at
    /// the end nothing is left under way.
    #[test]
    fn nothing_is_lost_or_done_twice_and_lines_stay_coherent(
        (n_cores, script) in scripts(),
        retain in any::<bool>(),
        outstanding_remote in 1_u32..5,
        options in options(),
    ) {
        let each = usize::from(n_cores);
        let n_nodes = u16::try_from(script.len()).unwrap() / n_cores;
        let config = cramped_with(options, policy(retain), outstanding_remote);
        let mut machine = Machine::with_cores(&config, n_nodes, n_cores).unwrap();
        let mut scripts = Scripts::with_cores(script.clone(), each);
        let mut until = Time::ZERO;
        while machine.run(&mut scripts, until) == Ended::TimeLimit {
            check_coherence(&machine);
            until += cycles(7);
        }
        check_coherence(&machine);
        prop_assert_eq!(machine.run(&mut scripts, Time::NEVER), Ended::Halted);
        let mut expected = vec![HashMap::<u64, u64>::new(); usize::from(n_nodes)];
        for (hart, steps) in script.iter().enumerate() {
            let mut n_remote = 0;
            for step in steps {
                match *step {
                    Step::AddHere(address, value) => {
                        *expected[hart / each].entry(address).or_default() += value;
                    }
                    Step::Remote(request) => {
                        n_remote += 1;
                        let memory = &mut expected[usize::from(request.target)];
                        *memory.entry(request.address).or_default() += request.operand;
                    }
                    _ => {}
                }
            }
            prop_assert_eq!(scripts.results[hart].len(), n_remote);
        }
        for (memory, expected) in scripts.memory.iter().zip(&expected) {
            for (address, value) in expected {
                prop_assert_eq!(memory.get(address), Some(value));
            }
        }
        prop_assert_eq!(machine.fabric.mesh.in_flight(), 0);
        for (node, stats) in machine.nodes.iter().zip(machine.stats().nodes) {
            prop_assert_eq!(node.nic.mshrs().n_used(), 0);
            prop_assert_eq!(stats.nic.hits + stats.nic.misses + stats.nic.merged, stats.nic.requests);
        }
    }

    /// What a core may run ahead is chosen so that it changes nothing; and neither does where a run is interrupted.
    #[test]
    fn the_result_does_not_depend_on_how_far_cores_run_ahead(
        (n_cores, script) in scripts(),
        retain in any::<bool>(),
        outstanding_remote in 1_u32..5,
        options in options(),
        slice in 1_u64..100,
    ) {
        let each = usize::from(n_cores);
        let n_nodes = u16::try_from(script.len()).unwrap() / n_cores;
        let config = cramped_with(options, policy(retain), outstanding_remote);
        let machine = || Machine::with_cores(&config, n_nodes, n_cores).unwrap();
        let mut machines: Vec<_> = (0..3).map(|_| machine()).collect();
        let mut all: Vec<_> = (0..3).map(|_| Scripts::with_cores(script.clone(), each)).collect();
        machines[1].lookahead = Time::from_ps(1);
        machines[1].arrival = Time::ZERO;
        for (machine, scripts) in machines.iter_mut().zip(&mut all).take(2) {
            machine.run(scripts, Time::NEVER);
        }
        let mut until = Time::ZERO;
        while machines[2].run(&mut all[2], until) == Ended::TimeLimit {
            until += cycles(slice);
        }
        for other in 1..3 {
            prop_assert_eq!(&all[0].results, &all[other].results);
            prop_assert_eq!(&all[0].memory, &all[other].memory);
            // How many events a machine needs is its own affair.
            let stats = machines[other].stats();
            let events = machines[0].stats().events;
            prop_assert_eq!(machines[0].stats(), MachineStats { events, ..stats });
        }
    }
}

/// Cores of four nodes: a remote addition is `A`, with node and address, a remote load `L`, a local
/// addition `a`, a load `l`, a computation `C`, a fence `F`.
fn parsed(text: &str) -> Vec<Vec<Step>> {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let step = |text: &str| {
        let (kind, rest) = text.split_at(1);
        let far = |operation, operand| {
            let (target, address) = rest.split_once('@').unwrap();
            let target = target.parse().unwrap();
            Step::Remote(remote(target, operation, number(address), operand))
        };
        match kind {
            "F" => Step::Fence,
            "C" => Step::Compute(rest.parse().unwrap()),
            "a" => Step::AddHere(number(rest), 1),
            "l" => Step::Load(number(rest)),
            "A" => far(Operation::Add, 1),
            _ => far(Operation::Load, 0),
        }
    };
    let hart = |text: &str| text.split_terminator(',').map(step).collect();
    text.split('|').map(hart).collect()
}

/// Two packets are ready to leave a router at the same time, and one of them was handed over ahead
/// of time: to an empty queue, or behind another packet, as far as its core has run.
#[test]
fn packets_that_are_ready_at_once_leave_in_one_order_however_far_cores_run_ahead() {
    let script = parsed(
        "A0@320,L3@0,A3@256,F,C22,A2@0,A0@0||a192,l320,C56,L2@0,A1@256|\
         C6,a0,A1@192,C0,L1@320,a128,F,a64,A2@0,A2@0|A0@256,F,A0@320,A0@128,A1@0,a256,l64,a64,C10,A2@0|\
         L2@128,A1@64,a256,L0@256,A0@128,F,L0@0,C0|l192,A1@64,F,A3@0,A0@192,A2@64,L0@0,C4,C0|\
         a192,L0@64,F,A0@192,a64,l0,F,C0|A3@64,A0@0,A2@0,L1@128|F,A1@64,A0@64,F,A0@64|\
         C52,A3@0,A2@64,A0@192,L2@0|A0@320,A1@320,A2@64,A0@128",
    );
    let ends = [false, true].map(|runs_ahead| {
        let mut machine = Machine::with_cores(&cramped(policy(true), 3), 4, 3).unwrap();
        if !runs_ahead {
            machine.arrival = Time::ZERO;
        }
        let mut scripts = Scripts::with_cores(script.clone(), 3);
        assert_eq!(machine.run(&mut scripts, Time::NEVER), Ended::Halted);
        let events = 0;
        (
            scripts.results,
            MachineStats {
                events,
                ..machine.stats()
            },
        )
    });
    assert_eq!(ends[0], ends[1]);
}
