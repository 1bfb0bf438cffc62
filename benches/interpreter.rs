//! The speed of guests without a timing model, in simulated instructions a second, compared with
//! two interpreters of ckb-vm in the same process: the one in assembly, and the one in Rust with a
//! trace cache. Times are processor times, so that other load counts less. On one machine Spike ran
//! 309 million instructions a second, and ckb-vm's assembly 490.

use std::hint::black_box;
use std::time::Duration;

use ckb_vm::memory::{FLAG_EXECUTABLE, FLAG_FREEZED};
use ckb_vm::{
    Bytes, DefaultCoreMachine, DefaultMachineBuilder, DefaultMachineRunner, Memory, Register,
    SparseMemory, SupportMachine, TraceMachine, WXorXMemory,
};
use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};
use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::machine::MAX_QUANTUM;
use pgas_riscv_sim::memory::RAM_BASE;
use pgas_riscv_sim::{Image, Machine, MachineConfig, Outcome, asm};
use rustix::time::{ClockId, clock_gettime};

/// ckb-vm's memory starts at 0. The guests use relative addresses only, so they run there as well.
const CKB_BASE: u64 = 0x1_0000;
const PAGE: u64 = 4096;

fn guest(name: &str) -> Image {
    let path = format!(
        "{}/../crates/riscv-sim/guest/asm/{name}.s",
        env!("CARGO_MANIFEST_DIR")
    );
    let source = std::fs::read_to_string(path).expect("the guest is there");
    asm::assemble(&source, Profile::Rae2020).expect("the guest is assembly")
}

fn ours(image: &Image, n_nodes: usize) -> u64 {
    let config = MachineConfig {
        n_nodes,
        ram_bytes: 1 << 20,
        quantum: if n_nodes == 1 { MAX_QUANTUM } else { 1000 },
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(&config, image).expect("the guest fits");
    assert_eq!(machine.run(u64::MAX).ok(), Some(Outcome::Success));
    machine.n_instructions()
}

/// Loads the guest into a machine of ckb-vm, with text and data on separate pages.
fn load<M: SupportMachine>(machine: &mut M, image: &Image) {
    for (k, segment) in image.segments.iter().enumerate() {
        let flags = if k == 0 {
            FLAG_EXECUTABLE | FLAG_FREEZED
        } else {
            0
        };
        let address = segment.address - RAM_BASE + CKB_BASE;
        assert_eq!(address % PAGE, 0, "text and data share no page");
        let (size, bytes) = (
            segment.n_bytes.next_multiple_of(PAGE),
            segment.bytes.clone(),
        );
        machine
            .memory_mut()
            .init_pages(address, size, flags, Some(Bytes::from(bytes)), 0)
            .expect("the guest fits");
    }
    machine.update_pc(M::REG::from_u64(image.entry - RAM_BASE + CKB_BASE));
    machine.commit_pc();
}

fn ckb_assembly(image: &Image) -> u64 {
    use ckb_vm::machine::asm::{AsmCoreMachine, AsmMachine};
    let core = <Box<AsmCoreMachine> as SupportMachine>::new(
        ckb_vm::ISA_IMC,
        ckb_vm::machine::VERSION2,
        u64::MAX,
    );
    let core = DefaultMachineBuilder::new(core)
        .instruction_cycle_func(Box::new(|_| 1))
        .build();
    let mut machine = AsmMachine::new(core);
    load(&mut machine.machine, image);
    assert_eq!(machine.run().ok(), Some(0));
    machine.machine.cycles()
}

fn ckb_trace(image: &Image) -> u64 {
    let core = DefaultCoreMachine::<u64, WXorXMemory<SparseMemory<u64>>>::new(
        ckb_vm::ISA_IMC,
        ckb_vm::machine::VERSION2,
        u64::MAX,
    );
    let core = DefaultMachineBuilder::new(core)
        .instruction_cycle_func(Box::new(|_| 1))
        .build();
    let mut machine = TraceMachine::new(core);
    load(&mut machine.machine, image);
    assert_eq!(machine.run().ok(), Some(0));
    machine.machine.cycles()
}

/// Measures the processor time of this thread for each run.
fn timed(bencher: &mut Bencher<'_>, mut run: impl FnMut() -> u64) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(time).expect("a thread's time is not negative")
    };
    bencher.iter_custom(|n_runs| {
        let start = now();
        for _ in 0..n_runs {
            black_box(run());
        }
        now() - start
    });
}

fn heap_sort(c: &mut Criterion) {
    let image = guest("heap_sort");
    let n_instructions = ours(&image, 1);
    let theirs = ckb_assembly(&image);
    assert!(theirs.abs_diff(n_instructions) <= 1, "both ran the same");
    let mut group = c.benchmark_group("interpreter/heap_sort");
    group.throughput(Throughput::Elements(n_instructions));
    group.sample_size(10);
    let image = black_box(&image);
    group.bench_function("this", |b| timed(b, || ours(image, 1)));
    group.bench_function("ckb-vm assembly", |b| timed(b, || ckb_assembly(image)));
    group.bench_function("ckb-vm trace", |b| timed(b, || ckb_trace(image)));
    group.finish();
}

fn nodes(c: &mut Criterion) {
    let image = guest("heap_sort");
    let mut group = c.benchmark_group("interpreter/nodes");
    group.sample_size(10);
    for n in [1, 6, 64] {
        group.throughput(Throughput::Elements(ours(&image, n)));
        group.bench_function(n.to_string(), |b| timed(b, || ours(&image, n)));
    }
    group.finish();
}

/// A thousand remote atomics of each of six nodes on one word; the throughput counts atomics.
fn remote_atomics(c: &mut Criterion) {
    let image = guest("hammer");
    let mut group = c.benchmark_group("interpreter/remote_atomics");
    group.throughput(Throughput::Elements(6 * 1000));
    group.sample_size(20);
    group.bench_function("6 nodes", |b| timed(b, || ours(&image, 6)));
    group.finish();
}

criterion_group!(benches, heap_sort, nodes, remote_atomics);
criterion_main!(benches);
