//! What holds for every script, and scripts for which it did not.

use proptest::prelude::*;

use super::*;
use crate::timed::cache::State;
use crate::timed::config::InstructionCacheConfig;
use crate::timed::directory::{Agent, Right};

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
    /// Every addition counts once, every request is answered once, the caches are coherent at every
    /// step of the way, and at the end nothing is left under way.
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

    /// What a core may run ahead is chosen so that it changes nothing; and neither does where a run
    /// is interrupted.
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
