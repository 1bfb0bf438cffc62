//! Guests on the timed machine: the same results as without a clock, and the cycles that the blocks' arithmetic says.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot build its machine fails there"
)]

use pgas_riscv_sim::elf::Segment;
use pgas_riscv_sim::memory::RAM_BASE;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::{Simulation, SimulationStats};
use pgas_riscv_sim::{Error, Image, Machine, MachineConfig, Outcome};

const X0: u32 = 0;
const A0: u32 = 10;
const A1: u32 = 11;
const A7: u32 = 17;
const T0: u32 = 5;
const S4: u32 = 20;
const S5: u32 = 21;
const T6: u32 = 31;

const fn i_type(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    (imm.cast_unsigned() & 0xfff) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

const fn addi(rd: u32, rs1: u32, imm: i32) -> u32 {
    i_type(0x13, 0, rd, rs1, imm)
}

const fn slli(rd: u32, rs1: u32, shift: i32) -> u32 {
    i_type(0x13, 1, rd, rs1, shift)
}

const fn ld(rd: u32, rs1: u32, imm: i32) -> u32 {
    i_type(0x03, 3, rd, rs1, imm)
}

const fn sd(rs2: u32, rs1: u32, imm: i32) -> u32 {
    let imm = imm.cast_unsigned();
    (imm >> 5 & 0x7f) << 25 | rs2 << 20 | rs1 << 15 | 3 << 12 | (imm & 31) << 7 | 0x23
}

/// Extended register `ed` gets `x[rs1] + imm`.
const fn eaddie(ed: u32, rs1: u32, imm: i32) -> u32 {
    i_type(0x7b, 7, ed, rs1, imm)
}

/// `rd = e[es1] + imm`.
const fn eaddi(rd: u32, es1: u32, imm: i32) -> u32 {
    i_type(0x7b, 6, rd, es1, imm)
}

const fn eamoadd_d(rd: u32, rs1: u32, rs2: u32) -> u32 {
    7 << 25 | rs2 << 20 | rs1 << 15 | 7 << 12 | rd << 7 | 0x6b
}

const fn eld(rd: u32, rs1: u32, imm: i32) -> u32 {
    i_type(0x77, 3, rd, rs1, imm)
}

const fn fence() -> u32 {
    0x0ff0_000f
}

const fn rdcycle(rd: u32) -> u32 {
    i_type(0x73, 2, rd, X0, 0xc00_u32.cast_signed())
}

const fn branch(funct3: u32, rs1: u32, rs2: u32, offset: i32) -> u32 {
    let imm = offset.cast_unsigned();
    (imm >> 12 & 1) << 31
        | (imm >> 5 & 63) << 25
        | rs2 << 20
        | rs1 << 15
        | funct3 << 12
        | (imm >> 1 & 15) << 8
        | (imm >> 11 & 1) << 7
        | 0x63
}

const fn bne(rs1: u32, rs2: u32, offset: i32) -> u32 {
    branch(1, rs1, rs2, offset)
}

const ECALL: u32 = 0x73;

fn image(code: &[u32]) -> Image {
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let n_bytes = bytes.len() as u64;
    Image {
        entry: RAM_BASE,
        segments: vec![Segment {
            address: RAM_BASE,
            bytes,
            n_bytes,
        }],
        symbols: Vec::new(),
    }
}

/// Ends with the code in `a0`.
const EXIT: [u32; 2] = [addi(A7, X0, 93), ECALL];

fn config(n_nodes: usize) -> MachineConfig {
    MachineConfig {
        n_nodes,
        ram_bytes: 4 << 20,
        ..MachineConfig::default()
    }
}

fn simulation(n_nodes: usize, code: &[u32], timed: &TimedConfig) -> Simulation {
    let machine = Machine::new(&config(n_nodes), &image(code)).unwrap();
    Simulation::new(machine, timed).unwrap()
}

/// `s5` points at a word 2 MiB into memory.
const POINT: [u32; 3] = [addi(S5, X0, 0x401), slli(S5, S5, 16), slli(S5, S5, 5)];

const WORD: u64 = 0x401 << 21;

#[test]
fn figure_five_is_executed_by_a_guest() {
    // Node 1 adds 1 to the word of node 0, object 1; all others end at once.
    let mut code = vec![eaddi(T0, 10, -1), bne(T0, X0, 4 * 8)];
    code.extend(POINT);
    code.extend([
        addi(S4, X0, 1),
        eaddie(S5, X0, 1),
        eamoadd_d(T6, S5, S4),
        addi(A1, T6, 7),
    ]);
    code.extend([addi(A0, X0, 0)]);
    code.extend(EXIT);
    let mut simulation = simulation(6, &code, &TimedConfig::default());
    assert_eq!(simulation.run(1000).unwrap(), Outcome::Success);
    let nodes = simulation.machine().nodes();
    assert_eq!(nodes[0].ram().read(WORD, 8), Some(1));
    assert_eq!(nodes[1].hart().x(31), 0);
    assert_eq!(nodes[1].hart().x(11), 7);
    let stats = simulation.stats();
    assert_eq!(stats.guests.nodes[1].remote_atomics, 1);
    assert_eq!(stats.guests.nodes[0].served, 1);
    let machine = &stats.machine;
    assert_eq!(
        (machine.mesh.packets, machine.mesh.flits, machine.mesh.hops),
        (2, 8, 2)
    );
    assert_eq!(
        (machine.nodes[0].nic.misses, machine.nodes[0].nic.requests),
        (1, 1)
    );
    // Seven instructions before it, a quarter of a DRAM cycle off an edge: 95 cycles from its issue to the next instruction.
    assert_eq!(machine.nodes[1].core.remote_operations, 1);
    assert_eq!(machine.nodes[1].cycles, 7 + 95 + 4);
}

/// Every node adds its number plus one to a word of node 0 and to its right neighbour's, many times; then all is checked.
fn everybody_adds(n_rounds: i32) -> Vec<u32> {
    let mut code = POINT.to_vec();
    code.extend([
        eaddi(S4, 10, 1),
        addi(T0, X0, n_rounds),
        // The loop.
        eaddie(S5, X0, 1),
        eamoadd_d(T6, S5, S4),
        eld(A1, S5, 8),
        addi(S5, S5, 64),
        eaddie(S5, X0, 2),
        eamoadd_d(A1, S5, S4),
        addi(S5, S5, -64),
        addi(T0, T0, -1),
        bne(T0, X0, -4 * 8),
        fence(),
        addi(A0, X0, 0),
    ]);
    code.extend(EXIT);
    code
}

fn run_everybody(n_nodes: usize, outstanding_remote: u32) -> SimulationStats {
    let mut timed = TimedConfig::default();
    timed.core.outstanding_remote = outstanding_remote;
    let mut simulation = simulation(n_nodes, &everybody_adds(50), &timed);
    assert_eq!(simulation.run(1_000_000).unwrap(), Outcome::Success);
    let sum = 50 * (1..=n_nodes as u64).sum::<u64>();
    let nodes = simulation.machine().nodes();
    assert_eq!(nodes[0].ram().read(WORD, 8), Some(sum));
    assert_eq!(nodes[1].ram().read(WORD + 64, 8), Some(sum));
    simulation.stats()
}

#[test]
fn no_addition_is_lost_however_many_are_under_way() {
    for n_nodes in [2, 6, 7, 64] {
        let one = run_everybody(n_nodes, 1);
        let many = run_everybody(n_nodes, 16);
        assert_eq!(one.machine.nodes[0].nic.requests, 50 * 2 * n_nodes as u64);
        assert!(many.machine.simulated_ps < one.machine.simulated_ps);
    }
}

#[test]
fn the_same_guest_takes_the_same_cycles_again() {
    assert_eq!(run_everybody(6, 4), run_everybody(6, 4));
}

#[test]
fn a_timed_run_does_what_a_functional_one_does() {
    let code = everybody_adds(20);
    let mut functional = Machine::new(&config(5), &image(&code)).unwrap();
    assert_eq!(functional.run(1_000_000).unwrap(), Outcome::Success);
    let mut timed = simulation(5, &code, &TimedConfig::default());
    assert_eq!(timed.run(1_000_000).unwrap(), Outcome::Success);
    assert_eq!(timed.machine().stats(), functional.stats());
    let instructions = timed.stats().machine.instructions;
    // An instruction that traps into the host is counted by both.
    assert_eq!(instructions, functional.n_instructions());
    for (one, other) in timed.machine().nodes().iter().zip(functional.nodes()) {
        assert_eq!(one.ram().read(WORD, 8), other.ram().read(WORD, 8));
    }
}

#[test]
fn a_guest_reads_the_cycles_of_its_core() {
    let mut code = vec![
        rdcycle(T0),
        addi(A1, X0, 1),
        addi(A1, A1, 1),
        rdcycle(T6),
        addi(A0, X0, 0),
    ];
    code.extend(EXIT);
    let mut simulation = simulation(1, &code, &TimedConfig::default());
    simulation.run(100).unwrap();
    let hart = simulation.machine().nodes()[0].hart();
    assert_eq!((hart.x(5), hart.x(31)), (0, 3));
}

#[test]
fn a_result_under_way_is_waited_for_and_a_load_delays_its_user() {
    let mut code = POINT.to_vec();
    code.extend([
        sd(S5, S5, 0),
        ld(T0, S5, 0),
        addi(A1, T0, 0),
        addi(A0, X0, 0),
    ]);
    code.extend(EXIT);
    let mut simulation = simulation(1, &code, &TimedConfig::default());
    simulation.run(100).unwrap();
    let stats = simulation.stats().machine;
    assert_eq!(simulation.machine().nodes()[0].hart().x(11), WORD);
    // A hit in the first level takes 4 cycles, of which the next instruction waits for 3.
    assert_eq!(stats.nodes[0].core.register_wait_ps, 3 * 500);
}

#[test]
fn an_address_outside_of_the_shared_segment_is_a_fault_of_the_guest() {
    let code = [eaddie(T0, X0, 2), addi(T0, X0, 64), eld(A0, T0, 0)];
    let mut simulation = simulation(2, &code, &TimedConfig::default());
    let error = simulation.run(100).unwrap_err();
    let Error::Fault(fault) = &error else {
        panic!("{error}");
    };
    assert_eq!(fault.trap.value, 64);
    assert!(error.to_string().contains("eld"), "{error}");
}

#[test]
fn a_failing_node_ends_the_run_with_its_code() {
    let mut code = vec![eaddi(A0, 10, 0), bne(A0, X0, 8), 0x0000_006f];
    code.extend(EXIT);
    let mut simulation = simulation(3, &code, &TimedConfig::default());
    let outcome = simulation.run(1_000_000).unwrap();
    assert_eq!(outcome, Outcome::Failure { node: 1, code: 1 });
}

#[test]
fn a_guest_without_end_is_ended() {
    let mut simulation = simulation(2, &[0x0000_006f], &TimedConfig::default());
    assert!(matches!(simulation.run(10_000), Err(Error::NoEnd(10_000))));
}

#[test]
fn a_machine_of_several_cores_a_node_is_refused() {
    let config = MachineConfig {
        cores_per_node: 2,
        ..config(2)
    };
    let machine = Machine::new(&config, &image(&[ECALL])).unwrap();
    let error = Simulation::new(machine, &TimedConfig::default()).unwrap_err();
    assert!(error.to_string().contains("one core"), "{error}");
}
