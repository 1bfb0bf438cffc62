//! Atomics at another node: what they return, and what they leave.

use pgas_riscv_sim::MachineConfig;
use pgas_riscv_sim::hart::CompareSwapForm;
use pgas_riscv_sim::isa::Profile;

use super::{config, run, word};

/// One atomic of node 0 on node 1's word: what it returns and what is left.
fn atomic(config: &MachineConfig, name: &str, before: u64, operand: u64, local: u64) -> (u64, u64) {
    let body = format!(
        "li t0, 2\n bnez s0, target\n
         la a0, word\n li t1, {local:#x}\n sd t1, 0(a0)
         eaddie e10, t0, 0
         li a1, {operand:#x}\n li a2, 77
     wait: eld t2, 8(a0)\n beqz t2, wait
         {name} a2, a0, a1
         la a3, answer\n sd a2, 0(a3)\n j end
     target: la a0, word\n li t1, {before:#x}\n sd t1, 0(a0)\n li t1, 1\n sd t1, 8(a0)\n j end
     .data\n .balign 64\n word: .dword 0\n ready: .dword 0\n answer: .dword 0\n .text\n"
    );
    let (machine, image) = run(config, &body);
    (
        word(&machine, &image, 0, "answer"),
        word(&machine, &image, 1, "word"),
    )
}

/// What the authors' modified Spike gave, with the two errors of its MPI calls mended: bitwise
/// means bitwise, and the order is signed.
#[test]
fn atomics_give_what_the_authors_simulator_gives() {
    let minus = |n: i64| (-n).cast_unsigned();
    let table = [
        ("eamoadd.d", 10, 5, 10, 15),
        ("eamoadd.d", u64::MAX, 1, u64::MAX, 0),
        ("eamoxor.d", 0xf0f0, 0xff, 0xf0f0, 0xf00f),
        ("eamoand.d", 0xf0f0, 0xff, 0xf0f0, 0xf0),
        ("eamoor.d", 0xf0f0, 0xff, 0xf0f0, 0xf0ff),
        ("eamomin.d", minus(5), 3, minus(5), minus(5)),
        ("eamomax.d", minus(5), 3, minus(5), 3),
        ("eamomin.d", 7, 3, 7, 3),
        ("eamomax.d", 7, 3, 7, 7),
        (
            "eamoadd.w",
            0x8000_0000,
            1,
            0xffff_ffff_8000_0000,
            0x8000_0001,
        ),
        (
            "eamoadd.w",
            0xffff_ffff_0000_000a,
            5,
            0xa,
            0xffff_ffff_0000_000f,
        ),
        (
            "eamomin.w",
            0xffff_fffb,
            3,
            0xffff_ffff_ffff_fffb,
            0xffff_fffb,
        ),
        ("eamomax.w", 0xffff_fffb, 3, 0xffff_ffff_ffff_fffb, 3),
    ];
    for (name, before, operand, returned, after) in table {
        let result = atomic(&config(2), name, before, operand, 0);
        assert_eq!(result, (returned, after), "{name} {before:#x} {operand:#x}");
    }
}

#[test]
fn compare_and_swap_takes_its_new_value_from_the_initiators_word() {
    let config = config(2);
    assert_eq!(atomic(&config, "eamocas.d", 10, 10, 0x1234), (10, 0x1234));
    assert_eq!(atomic(&config, "eamocas.d", 10, 11, 0x1234), (10, 10));
    assert_eq!(
        atomic(&config, "eamocas.w", 0x1_0000_000a, 10, 0x1234),
        (10, 0x1_0000_1234)
    );
}

#[test]
fn compare_and_swap_may_take_its_values_from_registers_as_zacas_does() {
    let config = MachineConfig {
        compare_swap: CompareSwapForm::Registers,
        ..config(2)
    };
    // The destination held 77, which is the value to expect.
    assert_eq!(atomic(&config, "eamocas.d", 77, 5, 0x1234), (77, 5));
    assert_eq!(atomic(&config, "eamocas.d", 78, 5, 0x1234), (78, 78));
}

#[test]
fn the_later_atomics_swap_and_compare_unsigned() {
    let config = MachineConfig {
        profile: Profile::Xbgas2,
        ..config(2)
    };
    let body = "la a0, word\n bnez s0, end\n
         li t0, 2\n eaddie e10, t0, 0\n la t3, answers\n li a1, -1
         eamoswap.d.aqrl t1, a1, (a0)\n sd t1, 0(t3)
         li a1, 3\n eamominu.d t1, a1, (a0)\n sd t1, 8(t3)
         li a1, -2\n eamomaxu.w t1, a1, (a0)\n sd t1, 16(t3)
         elr.d t1, (a0)\n addi t1, t1, 1\n esc.d t2, t1, (a0)\n sd t2, 24(t3)
         esc.d t2, t1, (a0)\n sd t2, 32(t3)\n j end
         .data\n word: .dword 6\n answers: .zero 64\n .text\n";
    let (machine, image) = run(&config, body);
    let answers = image.address_of("answers").unwrap();
    let ram = machine.nodes()[0].ram();
    let answers: Vec<_> = (0..5)
        .map(|k| ram.read(answers + 8 * k, 8).unwrap())
        .collect();
    assert_eq!(answers, [6, u64::MAX, 3, 0, 1]);
    assert_eq!(word(&machine, &image, 1, "word"), 0xffff_ffff);
}
