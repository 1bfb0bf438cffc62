//! What cannot be reached is a fault of the node that asks for it.

use pgas_riscv_sim::hart::Cause;
use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::{Error, Machine, MachineConfig};

use super::{config, guest, run};

fn fault(config: &MachineConfig, body: &str) -> pgas_riscv_sim::machine::Fault {
    let image = guest(body, config.profile);
    let mut machine = Machine::new(config, &image).unwrap();
    match machine.run(100_000) {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_object_or_address_that_does_not_exist_is_a_fault_of_the_initiator() {
    let cases = [
        (
            "li t0, 9\n eaddie e10, t0, 0\n la a0, _start\n eld a1, 0(a0)",
            Cause::LoadFault,
        ),
        (
            "li t0, 2\n eaddie e10, t0, 0\n li a0, 64\n esd a1, 0(a0)",
            Cause::StoreFault,
        ),
        (
            "li t0, 2\n eaddie e10, t0, 0\n li a0, 0x80010000\n eamoadd.d a1, a0, a0",
            Cause::StoreFault,
        ),
        (
            "li t0, 2\n eaddie e10, t0, 0\n la a0, _start\n eld a1, 4(a0)",
            Cause::LoadMisaligned,
        ),
        (
            "li t0, 2\n eaddie e10, t0, 0\n la a0, _start + 2\n eamoadd.w a1, a0, a0",
            Cause::StoreMisaligned,
        ),
        (
            "li t0, -1\n eaddie e10, t0, 0\n la a0, _start\n esb a1, 0(a0)",
            Cause::StoreFault,
        ),
        (".word 0xffffffff", Cause::IllegalInstruction),
        (".word 0x00002077 | 7 << 12 | 0x80, 0", Cause::LoadFault),
        ("ld a0, -8(zero)", Cause::LoadFault),
        ("jr s0", Cause::FetchFault),
        ("ebreak", Cause::Breakpoint),
        ("li a7, 9999\n ecall", Cause::MachineCall),
    ];
    for (body, cause) in cases {
        assert_eq!(fault(&config(2), body).trap.cause, cause, "{body}");
    }
}

/// Elements are loaded at one of two addresses, and stored at the other one.
#[test]
fn a_misaligned_transfer_is_one_of_the_load_or_of_the_store_that_is() {
    let config = MachineConfig {
        profile: Profile::Xbgas2,
        ..config(2)
    };
    for (transfer, far, near, cause) in [
        ("ebld", 4, 0, Cause::LoadMisaligned),
        ("ebld", 0, 4, Cause::StoreMisaligned),
        ("ebsd", 4, 0, Cause::StoreMisaligned),
        ("ebsd", 0, 4, Cause::LoadMisaligned),
    ] {
        let body = format!(
            "li t0, 2\n eaddie e10, t0, 0\n la a0, word\n addi a1, a0, {near}\n addi a0, a0, {far}
             li a2, 1\n li a3, 1\n {transfer} a1, a0, a2, a3\n j end\n .data\n .balign 8\n word: .zero 32\n .text\n"
        );
        assert_eq!(fault(&config, &body).trap.cause, cause, "{transfer} {far}");
    }
}

#[test]
fn a_fault_says_where_and_what() {
    let fault = fault(
        &config(2),
        "nop\n here: li t0, 9\n eaddie e10, t0, 0\n la a0, _start\n eld a1, 0(a0)",
    );
    let text = fault.to_string();
    for part in [
        "node 0, core 0: load where there is no memory",
        "<here+0x10>",
        "eld a1,0(a0)",
        "asked of object 0x9",
        "t0=0000000000000009",
        "e10=0000000000000009",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_trap_handler_gets_faults_of_remote_operations() {
    let body = "la t0, handler\n csrw mtvec, t0\n li t0, 7\n eaddie e10, t0, 0\n la a0, _start
    here: eamoadd.d a1, a0, a0
    li a0, 1\n li a7, 93\n ecall
    .balign 4
    handler: csrr t0, mcause\n li t1, 7\n bne t0, t1, wrong\n csrr t0, mepc\n la t1, here\n bne t0, t1, wrong
    csrr t0, mtval\n bne t0, a0, wrong\n csrw mtvec, zero\n j end
    wrong: csrw mtvec, zero\n li a0, 2\n li a7, 93\n ecall\n";
    run(&config(2), body);
}

#[test]
fn only_the_shared_segment_is_reached_from_outside() {
    let config = MachineConfig {
        shared: Some(0x8000_8000..0x8000_9000),
        ..config(2)
    };
    let inside = "li t0, 2\n eaddi t1, e13, 0\n eaddi t2, e12, 0\n eaddie e10, t0, 0\n mv a0, t1\n esd t0, 0(a0)\n add a0, a0, t2\n esd t0, -8(a0)\n";
    run(&config, inside);
    let outside = format!("{inside} esd t0, 0(a0)\n");
    assert_eq!(fault(&config, &outside).trap.cause, Cause::StoreFault);
}
