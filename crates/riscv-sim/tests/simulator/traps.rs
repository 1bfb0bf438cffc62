//! Traps and what a core asks of the host at their edges: handlers that cannot begin, stores to
//! `tohost` that give something, and what a debugger sets.

use std::process::Command;

use pgas_riscv_sim::hart::{Cause, Hart, HartConfig, Nobody, Stop};
use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::memory::Ram;
use pgas_riscv_sim::remote::Destination;
use pgas_riscv_sim::{Error, Machine, MachineConfig, Outcome, asm};
use pgas_testkit::job;

fn ends(source: &str) {
    let image = asm::assemble(source, Profile::Rae2020).unwrap();
    let config = MachineConfig {
        n_nodes: 1,
        ram_bytes: 1 << 16,
        ..MachineConfig::default()
    };
    let outcome = Machine::new(&config, &image).unwrap().run(1000).unwrap();
    assert_eq!(outcome, Outcome::Success);
}

/// Without and with a clock, in a process of its own, which can be ended.
#[test]
fn a_handler_whose_first_instruction_traps_is_a_fault_and_no_run_without_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("guest.s");
    let start = "_start: la t0, handler\n csrw mtvec, t0\n li a7, 93\n li a0, 0\n li t1, 99\n
        eaddie e11, t1, 0\n .word 0\n .balign 4\n handler: ";
    for (source, why) in [
        (
            "_start: li t0, 0x1000\n csrw mtvec, t0\n .word 0\n".to_owned(),
            "no memory at the instruction address",
        ),
        (format!("{start} .word 0\n"), "illegal instruction"),
        (format!("{start} ebreak\n"), "breakpoint"),
        (
            format!("{start} ecall\n"),
            "environment call in machine mode",
        ),
        (
            format!("{start} eld a0, 0(a1)\n"),
            "load where there is no memory",
        ),
    ] {
        std::fs::write(&guest, &source).unwrap();
        for clock in [&[][..], &["--timed"]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rae"));
            command.args(["run", "--nodes=2", "--max-instructions=1000"]);
            command.args(clock).arg(&guest);
            let ended = job::start(command).end();
            assert_eq!(ended.code(), 125, "{source} {clock:?}: {ended:?}");
            assert!(ended.stderr.contains(why), "{source} {clock:?}: {ended:?}");
        }
    }
}

#[test]
fn an_atomic_on_the_word_of_the_host_gives_its_result() {
    ends(
        "_start: la t0, tohost\n li a1, 0\n li a2, 0
            li a0, 77\n amoswap.d a0, a1, (t0)\n or s0, s0, a0
            li a0, 77\n amoswap.w a0, a1, (t0)\n or s0, s0, a0
            lr.d a2, (t0)\n li a0, 5\n sc.d a0, a1, (t0)\n or s0, s0, a0
            li a0, 9\n eamocas.d a0, t0, a1\n or s0, s0, a0
            mv a0, s0\n li a7, 93\n ecall
            .data\n .balign 64\n tohost: .dword 0\n",
    );
}

#[test]
fn start_up_code_may_clear_what_there_is_none_of() {
    let registers = ["menvcfg", "mhpmcounter3", "mhpmcounter31", "mhpmevent3"];
    let clear = |name: &str| format!("csrwi {name}, 1\n csrr a1, {name}\n or a0, a0, a1\n");
    let source = registers.map(clear).concat();
    ends(&format!("_start: {source} li a7, 93\n ecall\n"));
}

#[test]
fn register_0_stays_0_whoever_sets_it() {
    let mut hart = Hart::new(&HartConfig::default());
    hart.set_x(0, 7);
    hart.set_x(32, 7);
    hart.complete(Destination::Integer(0), 7);
    assert_eq!(hart.x(0), 0);
    hart.complete(Destination::Integer(5), 7);
    assert_eq!(hart.x(5), 7);
}

#[test]
fn a_counter_shows_what_a_debugger_set_it_to() {
    const MCYCLE: u16 = 0xb00;
    const MINSTRET: u16 = 0xb02;
    let mut hart = Hart::new(&HartConfig::default());
    for counter in [MCYCLE, MINSTRET] {
        assert!(hart.set_csr(counter, 5));
        assert_eq!(hart.csr(counter), Some(5));
    }
}

/// An instruction tells its address in half a word.
#[test]
fn there_is_no_code_beyond_8_gib() {
    let nop = 0x0000_0013_u32.to_le_bytes();
    let mut ram = Ram::starting_at((1 << 33) - 4, 4096);
    assert!(ram.store((1 << 33) - 4, nop) && ram.store(1 << 33, nop));
    let mut hart = Hart::new(&HartConfig {
        pc: (1 << 33) - 4,
        ram_start: ram.start(),
        ..HartConfig::default()
    });
    let Stop::Trap(trap) = hart.run(&mut ram, 100, &mut Nobody) else {
        panic!("there is no more code");
    };
    assert_eq!((trap.cause, trap.value), (Cause::FetchFault, 1 << 33));
    assert_eq!(hart.instret(), 1);
}

#[test]
fn a_guest_writes_nothing_from_anywhere() {
    ends("_start: li a0, 1\n li a1, 1\n li a2, 0\n li a7, 64\n ecall\n li a7, 93\n ecall\n");
}

#[test]
fn no_instruction_runs_at_an_odd_address() {
    let mut image = asm::assemble("_start: j _start", Profile::Rae2020).unwrap();
    image.entry += 1;
    let mut machine = Machine::new(&MachineConfig::default(), &image).unwrap();
    match machine.run(1000) {
        Err(Error::Fault(fault)) => {
            assert_eq!(fault.trap.cause, Cause::FetchMisaligned);
            assert_eq!(fault.trap.value, image.entry);
        }
        other => panic!("{other:?}"),
    }
}
