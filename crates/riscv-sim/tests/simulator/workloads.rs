//! The paper's workloads: each run compares all words with a sequential run's.

use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::workload::additions::{self, SPREADS};
use pgas_riscv_sim::workload::circustent::{self, Atomic, Shape};
use pgas_riscv_sim::workload::graph::{Graph, Kind};
use pgas_riscv_sim::workload::{Variant, gap, stores};

const VARIANTS: [Variant; 4] = [
    Variant::Hardware,
    Variant::Nic { path: None },
    Variant::Host { path: None },
    Variant::Nic { path: Some(354) },
];

#[test]
fn kernels_of_circustent_do_what_a_sequential_run_does() {
    for n_nodes in [1, 2, 5] {
        let shape = Shape {
            n_nodes,
            n_iterations: 40,
            n_words: 128,
            seed: n_nodes as u64,
        };
        for kernel in circustent::KERNELS {
            for atomic in [Atomic::Add, Atomic::Cas] {
                let workload = circustent::workload(kernel, atomic, &shape);
                for variant in VARIANTS {
                    let measured = workload.run(variant, None).unwrap();
                    assert!(measured.instructions > 0);
                }
            }
        }
    }
}

#[test]
fn kernels_of_gap_do_what_a_sequential_run_does() {
    for (n_nodes, scale) in [(1, 5), (2, 5), (3, 4), (7, 6)] {
        for kind in [Kind::Kronecker, Kind::Uniform] {
            let graph = Graph::new(kind, scale, 6, 7);
            for kernel in gap::KERNELS {
                let workload = gap::workload(kernel, &graph, n_nodes);
                for variant in VARIANTS {
                    workload.run(variant, None).unwrap();
                }
            }
        }
    }
}

#[test]
fn with_a_clock_they_do_the_same_in_as_many_cycles_again() {
    let shape = Shape {
        n_nodes: 4,
        n_iterations: 20,
        n_words: 64,
        seed: 3,
    };
    let graph = Graph::new(Kind::Kronecker, 4, 6, 1);
    let workloads = [
        circustent::workload(circustent::Kernel::Sg, Atomic::Cas, &shape),
        gap::workload(gap::Kernel::Bc, &graph, 4),
        gap::workload(gap::Kernel::Sssp, &graph, 4),
    ];
    for outstanding_remote in [1, 16] {
        let mut config = TimedConfig::default();
        config.core.outstanding_remote = outstanding_remote;
        for workload in &workloads {
            let cycles = VARIANTS.map(|variant| {
                let one = workload.run(variant, Some(&config)).unwrap();
                let again = workload.run(variant, Some(&config)).unwrap();
                assert_eq!(one.timed, again.timed);
                one.cycles
            });
            assert!(cycles[0] < cycles[1] && cycles[1] < cycles[3]);
        }
    }
}

#[test]
fn a_padded_path_is_as_long_as_it_says() {
    let shape = Shape {
        n_nodes: 2,
        n_iterations: 50,
        n_words: 64,
        seed: 3,
    };
    let workload = circustent::workload(circustent::Kernel::Stride1, Atomic::Add, &shape);
    let config = TimedConfig::default();
    for path in [100, 101, 354, 1000, 2803, 5000] {
        let variant = Variant::Nic { path: Some(path) };
        let padded = workload.run(variant, Some(&config)).unwrap();
        assert_eq!(padded.path, u64::from(path));
        // 2 nodes, and of each operation all but the rounds in which it polls.
        assert!(padded.instructions > 2 * 50 * u64::from(path));
    }
}

#[test]
fn a_call_around_the_instruction_has_as_many_instructions_as_it_says() {
    let shape = Shape {
        n_nodes: 2,
        n_iterations: 50,
        n_words: 64,
        seed: 3,
    };
    for kernel in circustent::KERNELS {
        let workload = circustent::workload(kernel, Atomic::Cas, &shape);
        let bare = workload.run(Variant::Hardware, None).unwrap();
        for path in [2, 3, 102, 282] {
            let called = workload.run(Variant::Call { path }, None).unwrap();
            assert_eq!(called.path, u64::from(path));
            let more = called.instructions.cast_signed() - bare.instructions.cast_signed();
            // Beside the rounds' operations there are two barriers, whose atomics count, too, and
            // rounds of waiting in them that are a few more or fewer.
            let n_operations = 2 * (50 * kernel.n_steps() as u64 + 2);
            let expected = (n_operations * u64::from(path - 2)).cast_signed();
            assert!(more.abs_diff(expected) < 2000, "{more} of {expected}");
            assert_eq!(called.remote_operations(), bare.remote_operations());
        }
    }
}

#[test]
fn additions_without_results_are_all_made_and_several_at_once_take_less_time() {
    for spread in SPREADS {
        for n_nodes in [1, 5] {
            let workload = additions::workload(spread, n_nodes, 40, 64, 3);
            workload.run(Variant::Hardware, None).unwrap();
            let cycles = [1, 8].map(|outstanding_remote| {
                let mut config = TimedConfig::default();
                config.core.outstanding_remote = outstanding_remote;
                let measured = workload.run(Variant::Hardware, Some(&config)).unwrap();
                assert_eq!(measured.atomics(), n_nodes as u64 * (40 + 1));
                measured.cycles
            });
            assert!(cycles[1] < cycles[0], "{spread:?}: {cycles:?}");
        }
    }
}

/// The last node of many comes to a barrier long after the first: without pauses these would
/// execute an instruction nearly every cycle.
#[test]
fn many_nodes_that_wait_long_execute_little() {
    let workload = additions::workload(additions::Spread::OneNode, 256, 12, 64, 3);
    let config = TimedConfig::default();
    let measured = workload.run(Variant::Hardware, Some(&config)).unwrap();
    let cycles = 256 * measured.cycles;
    let instructions = measured.instructions;
    assert!(instructions < cycles / 2, "{instructions} of {cycles}");
}

#[test]
fn stores_go_to_other_nodes_in_the_share_of_what_lies_there() {
    for n_nodes in [1, 2, 16] {
        let n_each = 4096 / n_nodes;
        let workload = stores::workload(n_nodes, n_each, 256, 1);
        let measured = workload.run(Variant::Hardware, None).unwrap();
        // Beside them the barriers' stores, by which nodes let others go.
        let remote = measured.remote_stores() - n_nodes as u64;
        let expected = 4096 - 4096 / n_nodes as u64;
        assert!(remote.abs_diff(expected) < 100, "{remote} of {expected}");
    }
}
