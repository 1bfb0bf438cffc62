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

#[test]
fn signals_go_to_the_process_itself_and_there_is_no_other() {
    // kill, tkill, tgkill: numbers of the call and arguments.
    for (call, arguments) in [
        (129, [2, 9, 0]),
        (129, [4711, 0, 0]),
        (129, [-2, 9, 0]),
        (130, [2, 9, 0]),
        (131, [2, 1, 9]),
        (131, [1, 2, 9]),
    ] {
        let [a, b, c] = arguments;
        let source = format!(
            "bnez s0, end\n li a0, {a}\n li a1, {b}\n li a2, {c}\n li a7, {call}\n ecall
             addi a0, a0, 3\n li a7, 93\n ecall\n"
        );
        let ends = run(2, &source, false);
        assert_eq!(ends.unwrap(), Outcome::Success, "{call} {arguments:?}");
    }
    for (call, arguments) in [
        (129, [1, 9, 0]),
        (129, [-1, 9, 0]),
        (129, [0, 9, 0]),
        (130, [1, 9, 0]),
        (131, [1, 1, 9]),
    ] {
        let [a, b, c] = arguments;
        let source =
            format!("li a0, {a}\n li a1, {b}\n li a2, {c}\n li a7, {call}\n ecall\n j end\n");
        let killed = Outcome::Failure { node: 0, code: 137 };
        assert_eq!(
            run(1, &source, false).unwrap(),
            killed,
            "{call} {arguments:?}"
        );
    }
}

#[test]
fn a_node_tells_how_much_of_its_memory_is_free() {
    let source =
        "addi sp, sp, -128\n mv a0, sp\n li a7, 179\n ecall\n ld t0, 32(sp)\n ld t1, 40(sp)
        sltu a0, t1, t0\n snez t1, t1\n and a0, a0, t1\n xori a0, a0, 1\n li a7, 93\n ecall\n";
    assert_eq!(run(1, source, false).unwrap(), Outcome::Success);
}

/// What a process has its clock told: the time of the clock whose number is in `a0`, in `a0`.
const CLOCK: &str =
    "\n addi sp, sp, -16\n mv a1, sp\n li a7, 113\n ecall\n ld a0, 8(sp)\n addi sp, sp, 16\n";

const MILLISECOND: &str = "\n.data\n .balign 8\n span: .dword 0, 1000000\n .text\n";

/// The last call's deadline is not the next one's.
#[test]
fn a_poll_that_another_node_ends_leaves_the_next_sleep_its_time() {
    let write = "bnez s0, 1f\n j 2f\n 1: la t0, polled\n eaddie e5, zero, 1\n li t1, 99
        esd t1, 0(t0)\n j end\n 2:";
    let poll =
        "la a0, polled\n li a1, 1\n la a2, span\n li a3, 0\n li a7, 73\n ecall\n mv s3, a0\n";
    let sleep = "la a0, span\n li a1, 0\n li a7, 101\n ecall\n";
    let clock = format!("li a0, 1 {CLOCK}");
    let source = format!(
        "{write} {poll} {clock} mv s1, a0\n {sleep} {clock} sub s1, a0, s1
         li t0, 1000000\n sltu a0, s1, t0\n xori s3, s3, 1\n or a0, a0, s3\n li a7, 93\n ecall
         {MILLISECOND} .data\n polled: .dword 0xffffffff\n .text\n"
    );
    for is_timed in [false, true] {
        assert_eq!(
            run(2, &source, is_timed).unwrap(),
            Outcome::Success,
            "{is_timed}"
        );
    }
}

#[test]
fn a_process_that_sleeps_uses_no_time_of_its_core() {
    let sleep = "la a0, span\n li a1, 0\n li a7, 101\n ecall\n";
    let usage = "addi sp, sp, -144\n li a0, 0\n mv a1, sp\n li a7, 165\n ecall\n ld a0, 8(sp)
        li t0, 1000\n mul a0, a0, t0\n";
    let clock = |number| format!("li a0, {number} {CLOCK}");
    for (time, passes) in [
        (clock(1), true),
        (clock(2), false),
        (clock(3), false),
        (usage.to_owned(), false),
    ] {
        let source = format!(
            "{sleep} {time} li t0, 1000000\n sltu a0, a0, t0\n xori a0, a0, {}\n li a7, 93\n ecall\n{MILLISECOND}",
            u8::from(!passes)
        );
        for is_timed in [false, true] {
            let ends = run(1, &source, is_timed);
            assert_eq!(ends.unwrap(), Outcome::Success, "{time} {is_timed}");
        }
    }
}

#[test]
fn memory_that_is_no_page_has_no_room() {
    for ram_bytes in [0, 1, 1000, 4095, 4096, 8191] {
        for segment_bytes in [0, 1, 4096, 1 << 40] {
            let image = asm::assemble("_start: ecall", Profile::Rae2020).unwrap();
            let config = MachineConfig {
                ram_bytes,
                linux: Some(LinuxConfig {
                    segment_bytes,
                    ..LinuxConfig::default()
                }),
                ..MachineConfig::default()
            };
            // The program, which lies elsewhere, does not fit either.
            let made = Machine::new(&config, &image);
            assert!(made.is_err(), "{ram_bytes} {segment_bytes}");
        }
    }
}

/// Its own time passes only while it runs.
#[test]
fn a_process_does_not_sleep_by_its_own_time() {
    let sleep = |flags, time| {
        format!(
            "li a0, 2\n li a1, {flags}\n la a2, time\n li a3, 0\n li a7, 115\n ecall\n j end
             .data\n .balign 8\n time: .dword 0, {time}\n .text\n"
        )
    };
    assert_eq!(run(1, &sleep(1, 0), false).unwrap(), Outcome::Success);
    for (flags, time) in [(0, 1), (1, 1_000_000)] {
        for is_timed in [false, true] {
            let ends = run(1, &sleep(flags, time), is_timed);
            assert!(matches!(ends, Err(Error::Process(_))), "{ends:?}");
        }
    }
}

/// Also where a cycle is no whole number of picoseconds.
#[test]
fn the_clock_of_a_process_is_that_of_the_machine() {
    let source = format!(
        "li t0, 500000\n 1: addi t0, t0, -1\n bnez t0, 1b\n li a0, 1 {CLOCK} mv s2, a0 {EXIT}"
    );
    for clock_mhz in [2000, 3000, 60_000] {
        let mut config = TimedConfig::default();
        config.core.clock_mhz = clock_mhz;
        let mut simulation = Simulation::new(machine(1, &source), &config).unwrap();
        assert_eq!(simulation.run(10_000_000).unwrap(), Outcome::Success);
        let shown = simulation.machine().nodes()[0].hart().x(18);
        let passed = simulation.stats().machine.simulated_ps / 1000;
        assert!(
            passed.abs_diff(shown) < 100,
            "{clock_mhz}: {shown} {passed}"
        );
    }
}
