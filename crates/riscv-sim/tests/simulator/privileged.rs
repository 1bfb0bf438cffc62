//! Machine and user mode as the official ISA tests use them: registers that may be missing are
//! tried behind a trap vector, the test runs in user mode, and an environment call brings it back
//! to write its result to `tohost`.

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Machine, MachineConfig, Outcome, asm};

/// The order of start-up of the suite's environment without virtual memory.
const START: &str = "_start: j reset_vector
    .balign 4
    trap_vector: csrr t5, mcause
        li t6, 8\n beq t5, t6, write_tohost
        li t6, 11\n beq t5, t6, write_tohost
        la t5, mtvec_handler\n jr t5
    write_tohost: la t5, tohost\n sw gp, 0(t5)\n sw zero, 4(t5)\n j write_tohost
    reset_vector: csrr a0, mhartid\n 1: bnez a0, 1b
        la t0, 1f\n csrw mtvec, t0\n csrwi 0x744, 8\n .balign 4\n 1:
        la t0, 1f\n csrw mtvec, t0\n csrwi satp, 0\n .balign 4\n 1:
        la t0, 1f\n csrw mtvec, t0\n li t0, -1\n csrw pmpaddr0, t0\n li t0, 31\n csrw pmpcfg0, t0\n .balign 4\n 1:
        csrwi mie, 0\n la t0, 1f\n csrw mtvec, t0\n csrwi medeleg, 0\n csrwi mideleg, 0\n .balign 4\n 1:
        li gp, 0\n la t0, trap_vector\n csrw mtvec, t0
        csrwi mstatus, 0\n li a0, 0x2000\n csrs mstatus, a0\n csrwi fcsr, 0
        la t0, test\n csrw mepc, t0\n csrr a0, mhartid\n mret\n";

const END: &str = "
    pass: fence\n li gp, 1\n li a7, 93\n li a0, 0\n ecall
    fail: fence\n 1: beqz gp, 1b\n slli gp, gp, 1\n ori gp, gp, 1\n li a7, 93\n mv a0, gp\n ecall
    .data\n .balign 64\n tohost: .dword 0\n .balign 64\n fromhost: .dword 0\n";

fn run(test: &str, handler: &str) -> Outcome {
    let source = format!(
        "{START} test: {test}\n j pass\n mtvec_handler: {handler}\n li gp, 1337\n j write_tohost {END}"
    );
    let image = asm::assemble(&source, Profile::Rae2020).unwrap();
    // Other nodes do the same, other cores only wait for the end; and a clock changes nothing.
    let mut outcomes = Vec::new();
    for (n_nodes, cores_per_node) in [(1, 1), (3, 2)] {
        let config = MachineConfig {
            n_nodes,
            cores_per_node,
            ram_bytes: 1 << 16,
            ..MachineConfig::default()
        };
        let machine = || Machine::new(&config, &image).unwrap();
        outcomes.push(machine().run(100_000).unwrap());
        let mut timed = Simulation::new(machine(), &TimedConfig::default()).unwrap();
        outcomes.push(timed.run(100_000).unwrap());
    }
    assert!(outcomes.iter().all(|it| *it == outcomes[0]), "{outcomes:?}");
    outcomes[0]
}

const fn failure(code: u64) -> Outcome {
    Outcome::Failure { node: 0, code }
}

#[test]
fn a_test_that_passes_ends_with_success_and_one_that_fails_with_its_number() {
    assert_eq!(run("nop", ""), Outcome::Success);
    assert_eq!(
        run("li gp, 2\n fadd.s fa0, fa1, fa2\n li gp, 3\n j fail", ""),
        failure(3)
    );
}

/// Skips the instruction that trapped if the cause is the one in `s0`, and counts it in `s1`.
const SKIP: &str = "csrr t5, mcause\n bne t5, s0, 1f\n addi s1, s1, 1\n csrr t5, mepc\n addi t5, t5, 4\n csrw mepc, t5\n mret\n 1:";

#[test]
fn user_mode_may_not_touch_what_belongs_to_machine_mode() {
    let test = "li gp, 2\n li s0, 2\n li s1, 0
        csrr a0, mstatus\n csrw mscratch, a0\n csrr a0, mhartid\n mret\n wfi\n sret\n sfence.vma\n rdcycle a0\n csrw cycle, a0
        li a0, 9\n bne s1, a0, fail";
    assert_eq!(run(test, SKIP), Outcome::Success);
}

#[test]
fn a_trap_tells_its_cause_its_place_and_its_value() {
    // In machine mode: straight from the vector, whose handler checks.
    let handler = "csrr t5, mcause\n li t6, 5\n bne t5, t6, 1f\n csrr t5, mtval\n li t6, 16\n bne t5, t6, 1f
        csrr t5, mepc\n la t6, place\n bne t5, t6, 1f\n csrr t5, mstatus\n li t6, 0x1800\n and t5, t5, t6\n bnez t5, 1f\n j pass\n 1:";
    assert_eq!(
        run("li gp, 2\n place: lw a0, 16(zero)\n j fail", handler),
        Outcome::Success
    );
}

#[test]
fn floating_point_can_be_switched_off() {
    let test = "li gp, 2\n li s0, 2\n li s1, 0\n fadd.d fa0, fa0, fa0\n bnez s1, fail\n j pass";
    assert_eq!(run(test, SKIP), Outcome::Success);
    let off = START
        .replace("li a0, 0x2000", "li a0, 0")
        .replace("csrwi fcsr, 0", "nop");
    let source = format!(
        "{off} test: li gp, 2\n li s0, 2\n li s1, 0\n fadd.d fa0, fa0, fa0\n flw fa0, 0(gp)\n frcsr a0\n li a0, 3\n bne s1, a0, fail\n j pass\n mtvec_handler: {SKIP}\n li gp, 1337\n j write_tohost {END}"
    );
    let image = asm::assemble(&source, Profile::Rae2020).unwrap();
    let config = MachineConfig {
        n_nodes: 1,
        ram_bytes: 1 << 16,
        ..MachineConfig::default()
    };
    let outcome = Machine::new(&config, &image).unwrap().run(10_000).unwrap();
    assert_eq!(outcome, Outcome::Success);
}

#[test]
fn code_that_was_written_runs_after_a_fence() {
    // The instruction at `place` becomes `li a0, 7`, after it ran once as `li a0, 5`.
    let test = "li gp, 2\n li s2, 0
        again: j place\n .balign 4\n place: li a0, 5\n bnez s2, second
        li s2, 1\n la t0, place\n li t1, 0x00700513\n sw t1, 0(t0)\n fence.i\n j again
        second: li t0, 7\n bne a0, t0, fail";
    assert_eq!(run(test, ""), Outcome::Success);
}

#[test]
fn counters_count_every_instruction() {
    let source = "_start: rdinstret a0\n nop\n nop\n rdinstret a1\n sub a1, a1, a0\n addi a0, a1, -3\n
        li t0, 100\n csrw minstret, t0\n csrr a1, minstret\n sub a1, a1, t0\n or a0, a0, a1\n li a7, 93\n ecall\n";
    let image = asm::assemble(source, Profile::Rae2020).unwrap();
    let config = MachineConfig {
        n_nodes: 1,
        ram_bytes: 1 << 16,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(&config, &image).unwrap();
    assert_eq!(machine.run(1000).unwrap(), Outcome::Success);
    assert_eq!(machine.n_instructions(), 13);
}
