//! The timed machine: instructions a second of one node (baseline: Spike with cache models, 35
//! million), remote atomics between nodes, and the event queue compared with a binary heap.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot build its machine ends there"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use criterion::{
    BatchSize, BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::queue::EventQueue;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::timed::time::Time;
use pgas_riscv_sim::{Image, Machine, MachineConfig, Outcome, asm};

/// Repeatedly mixes the words of an array of 32 KiB, twice the size of the first-level cache.
const COMPUTE: &str = "
        li   s0, 20
 outer: la   t0, array
        li   t1, 4096
 inner: ld   t2, 0(t0)
        slli t3, t2, 13
        xor  t2, t2, t3
        srli t3, t2, 7
        xor  t2, t2, t3
        addi t2, t2, 1
        sd   t2, 0(t0)
        addi t0, t0, 8
        addi t1, t1, -1
        bnez t1, inner
        addi s0, s0, -1
        bnez s0, outer
        li   a0, 0
        li   a7, 93
        ecall
        .bss
 array: .zero 32768
";

/// Each node adds to words of its right neighbour in a random order within 256 KiB, like RAND of
/// CircusTent.
const EXCHANGE: &str = "
        eaddi     s1, e10, 1
        eaddi     s2, e11, 0
        remu      s1, s1, s2
        la        s3, array
        li        s4, 2000
        li        s5, 0x9e3779b1
        li        s6, 0x3fff8
        mv        t0, s1
        li        a1, 1
  loop: mul       t0, t0, s5
        addi      t0, t0, 13
        srli      t1, t0, 9
        and       t1, t1, s6
        add       a0, s3, t1
        eaddie    e10, s1, 1
        eamoadd.d a2, a0, a1
        addi      s4, s4, -1
        bnez      s4, loop
        li        a0, 0
        li        a7, 93
        ecall
        .bss
 array: .zero 262144
";

/// Remote atomics without other work: seven instructions for each atomic.
const TIGHT: &str = "
        eaddi     s1, e10, 1
        eaddi     s2, e11, 0
        remu      s1, s1, s2
        la        s3, array
        li        s4, 2000
        li        s5, 0x9e3779b1
        li        s6, 0x3fff8
        addi      t0, s1, 77
        li        a1, 1
        eaddie    e10, s1, 1
  loop: mul       t0, t0, s5
        addi      t0, t0, 13
        and       t1, t0, s6
        add       a0, s3, t1
        eamoadd.d a2, a0, a1
        addi      s4, s4, -1
        bnez      s4, loop
        li        a0, 0
        li        a7, 93
        ecall
        .bss
 array: .zero 262144
";

fn guest(source: &str) -> Image {
    asm::assemble(source, Profile::Rae2020).unwrap()
}

fn simulation(image: &Image, n_nodes: usize, cores_per_node: usize) -> Simulation {
    let config = MachineConfig {
        n_nodes,
        cores_per_node,
        ram_bytes: 1 << 20,
        ..MachineConfig::default()
    };
    let machine = Machine::new(&config, image).unwrap();
    Simulation::new(machine, &TimedConfig::default()).unwrap()
}

fn run(mut simulation: Simulation) -> Simulation {
    assert_eq!(simulation.run(u64::MAX).unwrap(), Outcome::Success);
    simulation
}

/// The unit of the rate.
#[derive(Clone, Copy)]
enum Count {
    Instructions,
    RemoteAtomics,
}

/// One guest on some nodes with some cores, in instructions or remote atomics a second of all nodes
/// together.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    source: &str,
    (n_nodes, n_cores): (usize, usize),
    count: Count,
) {
    let image = guest(source);
    let stats = run(simulation(&image, n_nodes, n_cores)).stats();
    let nodes = stats.guests.nodes.iter();
    let n_elements = match count {
        Count::Instructions => stats.machine.instructions,
        Count::RemoteAtomics => nodes.map(|node| node.remote_atomics).sum(),
    };
    group.throughput(Throughput::Elements(n_elements));
    group.bench_function(BenchmarkId::from_parameter(n_nodes * n_cores), |bencher| {
        let make = || simulation(&image, n_nodes, n_cores);
        bencher.iter_batched(make, run, BatchSize::PerIteration);
    });
}

fn instructions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("timed/compute");
    group.sample_size(10);
    for n_nodes in [1, 6] {
        measure(&mut group, COMPUTE, (n_nodes, 1), Count::Instructions);
    }
    group.finish();
    // Every core does the whole work on the same array, so cache lines move between cores.
    let mut group = criterion.benchmark_group("timed/cores_of_a_node");
    group.sample_size(10);
    measure(&mut group, COMPUTE, (1, 4), Count::Instructions);
    group.finish();
    let mut group = criterion.benchmark_group("timed/remote_atomics");
    group.sample_size(10);
    for n_nodes in [2, 6, 64] {
        measure(&mut group, EXCHANGE, (n_nodes, 1), Count::Instructions);
    }
    group.finish();
    let mut group = criterion.benchmark_group("timed/remote_atomics_alone");
    group.sample_size(10);
    measure(&mut group, TIGHT, (6, 1), Count::Instructions);
    group.finish();
    let mut group = criterion.benchmark_group("timed/cost_of_a_remote_atomic");
    group.sample_size(10);
    for n_nodes in [2, 6, 64] {
        measure(&mut group, TIGHT, (n_nodes, 1), Count::RemoteAtomics);
    }
    group.finish();
}

/// Steps of one iteration of the queue's bench.
const STEPS: u64 = 4096;

/// An event causes others a few cycles later; one in ten waits for memory.
fn gaps() -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(1);
    let gap = |_| match random.u32(0..10) {
        0 => 28_000 + random.u64(0..20_000),
        1..4 => 500 * random.u64(1..4),
        _ => 1500 + 500 * random.u64(0..6),
    };
    (0..STEPS).map(gap).collect()
}

fn event_queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("timed/event_queue");
    group.throughput(Throughput::Elements(STEPS));
    let gaps = gaps();
    for n_waiting in [16_u64, 512, 16_384] {
        let mut queue = EventQueue::new();
        let mut heap = BinaryHeap::new();
        for order in 0..n_waiting {
            queue.push(Time::from_ps(order * 37), order, [order; 2]);
            heap.push(Reverse((order * 37, order, [order; 2])));
        }
        let mut order = n_waiting;
        group.bench_function(BenchmarkId::new("wheel", n_waiting), |bencher| {
            bencher.iter(|| {
                for &gap in &gaps {
                    let (at, event) = queue.pop().unwrap();
                    order += 1;
                    queue.push(at + Time::from_ps(gap), order, black_box(event));
                }
            });
        });
        group.bench_function(BenchmarkId::new("binary_heap", n_waiting), |bencher| {
            bencher.iter(|| {
                for &gap in &gaps {
                    let Reverse((at, _, event)) = heap.pop().unwrap();
                    order += 1;
                    heap.push(Reverse((at + gap, order, black_box(event))));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, instructions, event_queue);
criterion_main!(benches);
