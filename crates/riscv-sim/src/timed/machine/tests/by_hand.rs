//! Scripts whose cycles and counts are known by hand.

use super::*;
use crate::timed::directory::{Agent, Right};
use crate::timed::nic::mshr::Phase;

/// The example of the paper's figure 5: a core of node 1 executes `eamoadd.d x31, x20, x21` on a
/// word of node 0 that holds 0, with `e21` naming node 0 and 1 in `x20`.
#[test]
fn figure_five_step_by_step_with_its_cycles_by_hand() {
    const ADDRESS: u64 = 0x8000_1000;
    let line = ADDRESS / 64;
    let request = remote(0, Operation::Add, ADDRESS, 1);
    let mut script = vec![Vec::new(); 6];
    script[1] = vec![Step::Remote(request)];
    let mut scripts = Scripts::new(script);
    let mut machine = machine(&TimedConfig::default(), 6);

    // Object lookup 1, packet 3; then head, two of address and two of operand through two routers:
    // 2 * 3 + 4. The NIC takes it apart in 3, looks the operation up in 1: it is at the NIC's core
    // in cycle 18, and an entry is made.
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

    // Cache lookup 2, directory 2: in cycle 22 the memory opens a row and reads, 15 + 15 + 4 of its
    // cycles.
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

    // One access of 2 cycles; then nothing is pending, and the line is written back and its entries
    // are freed.
    machine.run(&mut scripts, filled + cycles(2));
    assert_eq!(machine.nodes[0].nic.mshrs().n_used(), 0);
    assert_eq!(machine.nodes[0].directory.n_entries(), 0);
    assert_eq!(machine.nodes[0].dram.stats.writes, 1);

    // The reply: packet 3, head and two of data through two routers 2 * 3 + 2, taken apart in 3.
    let replied = filled + cycles(2 + 3 + 8 + 3);
    // Its last hop begins 6 cycles before, from where on nothing but this reply can come to the
    // waiting core.
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
    // 4 + 8 for two lookups, 2 for the directory, then the memory; the second load and the rest
    // take one cycle each.
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
