//! Programs of Linux of a few instructions, which make one call.

use std::sync::mpsc;
use std::thread;

use pgas_riscv_sim::hart::Cause;
use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::linux::{LinuxConfig, PROCESS_BASE};
use pgas_riscv_sim::memory::RAM_BASE;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Error, Machine, MachineConfig, Outcome, Result, asm};
use pgas_testkit::job::JOB_LIMIT;

/// The node's number is in `s0` at the start.
fn machine(n_nodes: usize, source: &str) -> Machine {
    let source = format!("_start: eaddi s0, e10, 0\n {source}");
    let mut image = asm::assemble(&source, Profile::Rae2020).unwrap();
    // It lies where a program does, and refers to itself by distances.
    let lower = RAM_BASE - PROCESS_BASE;
    image.entry -= lower;
    for segment in &mut image.segments {
        segment.address -= lower;
    }
    let config = MachineConfig {
        n_nodes,
        ram_bytes: 1 << 20,
        linux: Some(LinuxConfig {
            arguments: vec![b"small".to_vec()],
            ..LinuxConfig::default()
        }),
        ..MachineConfig::default()
    };
    Machine::new(&config, &image).unwrap()
}

const EXIT: &str = "\nend: li a0, 0\n li a7, 93\n ecall\n";

/// Runs it apart, for it might never end: without a clock, or with one.
fn run(n_nodes: usize, source: &str, is_timed: bool) -> Result<Outcome> {
    const MOST: u64 = 1_000_000;
    let source = format!("{source}{EXIT}");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut machine = machine(n_nodes, &source);
        let outcome = match is_timed {
            false => machine.run(MOST),
            true => {
                let simulation = Simulation::new(machine, &TimedConfig::default());
                simulation.and_then(|mut it| it.run(MOST))
            }
        };
        sender.send(outcome).unwrap();
    });
    receiver.recv_timeout(JOB_LIMIT).unwrap()
}

#[test]
fn a_sleep_for_ever_does_not_end_and_stops_no_clock() {
    let time =
        "\n.data\n .balign 8\n time: .dword 0x7fffffffffffffff, 0\n soon: .dword 0, 1000\n .text\n";
    let sleep = "la a0, time\n li a1, 0\n li a7, 101\n ecall\n";
    let by_clock = "li a0, 1\n li a1, 0\n la a2, time\n li a3, 0\n li a7, 115\n ecall\n";
    for call in [sleep, by_clock] {
        let ends = run(1, &format!("{call} j end{time}"), false);
        assert!(matches!(ends, Err(Error::AllWait)), "{ends:?}");
        // Others go on, and look at the time; who waits for the sleeper waits for ever.
        let others = "3: li s1, 100\n 1: la a0, soon\n li a1, 0\n li a7, 101\n ecall\n addi s1, s1, -1\n bnez s1, 1b
            2: li a0, 0\n li a1, 2000000\n li a7, 4096\n ecall\n beqz s2, 2b\n";
        let ends = run(
            3,
            &format!("bnez s0, 3f\n {call} j end\n {others} j end{time}"),
            false,
        );
        assert!(matches!(ends, Err(Error::AllWait)), "{ends:?}");
    }
}

#[test]
fn ranks_that_only_wait_end_the_run_with_a_clock_too() {
    let for_ever = "li a0, 0\n li a1, -1\n li a7, 4096\n ecall\n";
    for is_timed in [false, true] {
        let ends = run(2, for_ever, is_timed);
        assert!(matches!(ends, Err(Error::AllWait)), "{ends:?}");
    }
    let days = "la a0, time\n li a1, 0\n li a7, 101\n ecall\n j end\n.data\n .balign 8\n time: .dword 1000000, 0\n .text\n";
    assert_eq!(run(1, days, false).unwrap(), Outcome::Success);
    let ends = run(1, days, true);
    assert!(matches!(ends, Err(Error::NoEnd(_))), "{ends:?}");
}

#[test]
fn a_program_runs_in_user_mode() {
    let counters = "rdcycle a0\n rdtime a0\n rdinstret a0\n j end\n";
    assert_eq!(run(1, counters, false).unwrap(), Outcome::Success);
    for instruction in ["csrr a0, mhartid", "csrw mtvec, a0", "wfi", "mret"] {
        match run(1, instruction, false) {
            Err(Error::Fault(fault)) => assert_eq!(fault.trap.cause, Cause::IllegalInstruction),
            other => panic!("{instruction}: {other:?}"),
        }
    }
}

/// Its fifth argument is whatever was there.
#[test]
fn there_is_no_renameat() {
    let call = "li a0, 0\n li a1, 0\n li a7, 38\n ecall\n addi a0, a0, 38\n li a7, 93\n ecall\n";
    assert_eq!(run(1, call, false).unwrap(), Outcome::Success);
}
