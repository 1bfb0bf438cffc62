//! The remote instructions on several nodes: what the authors' simulator measured, atomicity, reservations, faults, determinism.

use pgas_riscv_sim::hart::{Cause, CompareSwapForm};
use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Error, Image, Machine, MachineConfig, Outcome, asm};

/// Puts the number of the node into `s0` and how many there are into `s1`, and ends with code 0 at `end`.
const START: &str = "_start: eaddi s0, e10, 0\n eaddi s1, e11, 0\n";
const END: &str = "\nend: li a0, 0\n li a7, 93\n ecall\n";

fn config(n_nodes: usize) -> MachineConfig {
    MachineConfig {
        n_nodes,
        ram_bytes: 1 << 16,
        ..MachineConfig::default()
    }
}

fn guest(body: &str, profile: Profile) -> Image {
    asm::assemble(&format!("{START}{body}{END}"), profile).unwrap()
}

fn run(config: &MachineConfig, body: &str) -> (Machine, Image) {
    let image = guest(body, config.profile);
    let mut machine = Machine::new(config, &image).unwrap();
    assert_eq!(machine.run(100_000_000).unwrap(), Outcome::Success);
    (machine, image)
}

fn word(machine: &Machine, image: &Image, node: usize, name: &str) -> u64 {
    let address = image.address_of(name).unwrap();
    machine.nodes()[node].ram().read(address, 8).unwrap()
}

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

/// What the authors' modified Spike gave, with the two errors of its MPI calls mended: bitwise means bitwise, and the order is signed.
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

#[test]
fn bulk_transfers_move_elements_both_ways() {
    let config = MachineConfig {
        profile: Profile::Xbgas2,
        ..config(2)
    };
    let body = "bnez s0, end\n la a0, far\n li t0, 2\n eaddie e10, t0, 0
         la a1, near\n li a2, 4\n li a3, 1\n ebld a1, a0, a2, a3
         la a1, sent\n la a0, far + 64\n li a3, 2\n ebsw a1, a0, a2, a3\n j end
         .data\n near: .zero 32\n sent: .word 1, 2, 3, 4, 5, 6, 7, 8\n far: .dword 11, 12, 13, 14\n .zero 32\n .zero 64\n .text\n";
    let (machine, image) = run(&config, body);
    let read = |node: usize, name: &str, k: u64, n: u64| {
        let address = image.address_of(name).unwrap() + k * n;
        machine.nodes()[node].ram().read(address, n).unwrap()
    };
    let near: Vec<_> = (0..4).map(|k| read(0, "near", k, 8)).collect();
    assert_eq!(near, [11, 12, 13, 14]);
    let far: Vec<_> = (16..24).map(|k| read(1, "far", k, 4)).collect();
    assert_eq!(far, [1, 0, 3, 0, 5, 0, 7, 0]);
    assert_eq!(machine.stats().nodes[0].remote_loads, 4);
}

/// By both machines, as all that moves more than a register.
#[test]
fn sixteen_bytes_are_stored_and_a_prefix_makes_one_element_many() {
    let body = "bnez s0, end\n la a0, far\n li t0, 2\n eaddie e10, t0, 0
         li t1, 77\n esq t1, 16(a0)\n li a1, 4\n la a2, sent\n eag a3, a1, a2\n esw t1, 64(a0)
         la a2, near\n eag a3, a1, a2\n elh t2, 64(a0)\n eld t3, 0(a0)\n fence\n j end
         .data\n .balign 16\n near: .zero 32\n sent: .word 1, 2, 3, 4\n .balign 16
         far: .dword -1, -1, -1, -1, -1\n .zero 64\n .text\n";
    let image = guest(body, Profile::Rae2020);
    let check = |machine: &Machine| {
        let read = |node: usize, name: &str, at: u64, n: u64| {
            let address = image.address_of(name).unwrap() + at;
            machine.nodes()[node].ram().read(address, n).unwrap()
        };
        let words: Vec<_> = (0..5).map(|k| read(1, "far", 8 * k, 8)).collect();
        assert_eq!(words, [u64::MAX, u64::MAX, 77, 0, u64::MAX]);
        let sent: Vec<_> = (0..5).map(|k| read(1, "far", 64 + 4 * k, 4)).collect();
        assert_eq!(sent, [1, 2, 3, 4, 0]);
        let near: Vec<_> = (0..5).map(|k| read(0, "near", 2 * k, 2)).collect();
        assert_eq!(near, [1, 0, 2, 0, 0]);
        // The register of a load that moves elements stays as it is; behind it the prefix is used up.
        assert_eq!(machine.nodes()[0].hart().x(28), u64::MAX);
        let stats = &machine.stats().nodes[0];
        assert_eq!((stats.remote_loads, stats.remote_stores), (5, 5));
    };
    let mut functional = Machine::new(&config(2), &image).unwrap();
    assert_eq!(functional.run(1000).unwrap(), Outcome::Success);
    check(&functional);
    for outstanding_remote in [1, 16] {
        let mut timed = TimedConfig::default();
        timed.core.outstanding_remote = outstanding_remote;
        let machine = Machine::new(&config(2), &image).unwrap();
        let mut simulation = Simulation::new(machine, &timed).unwrap();
        assert_eq!(simulation.run(1000).unwrap(), Outcome::Success);
        check(simulation.machine());
    }
}

/// Every width and sign, remote and raw, and the extended registers through memory; e0 can be written; object 0 and the own object
/// reach the own memory.
#[test]
fn loads_and_stores_of_every_kind_arrive() {
    for profile in [Profile::Rae2020, Profile::Xbgas2] {
        let config = MachineConfig {
            profile,
            ..config(3)
        };
        let body = "bnez s0, end\n la t3, answers\n li t0, 3\n eaddie e10, t0, 0\n eaddix e12, e10, 0\n la a0, word
         li t1, 0x8182838485868788\n esd t1, 0(a0)
         elb t2, 0(a0)\n sd t2, 0(t3)\n elbu t2, 0(a0)\n sd t2, 8(t3)
         elh t2, 0(a0)\n sd t2, 16(t3)\n elhu t2, 0(a0)\n sd t2, 24(t3)
         elw t2, 0(a0)\n sd t2, 32(t3)\n erlb t2, a0, e12\n sd t2, 40(t3)
         erlhu t2, a0, e12\n sd t2, 48(t3)\n erld t2, a0, e12\n sd t2, 56(t3)
         li t1, 7\n esb t1, 0(a0)\n esh t1, 2(a0)\n esw t1, 4(a0)\n eld t2, 0(a0)\n sd t2, 64(t3)
         addi a1, a0, 8\n ersd t1, a1, e12\n eld t2, 8(a0)\n sd t2, 72(t3)
         eaddie e0, t1, 2\n eaddi t2, e0, -1\n sd t2, 80(t3)
         la a4, answers\n ese e0, 88(a4)\n ele e20, 80(a4)\n erse e20, a1, e12\n erle e21, a1, e12\n eaddi t2, e21, 0\n sd t2, 96(t3)
         li t0, 1\n eaddie e14, t0, 0\n la a4, word\n esd t0, 0(a4)\n ld t2, 0(a4)\n sd t2, 104(t3)
         eaddie e14, zero, 0\n li t0, 5\n esd t0, 0(a4)\n eld t2, 0(a4)\n sd t2, 112(t3)\n j end
         .data\n .balign 64\n word: .zero 16\n answers: .zero 128\n .text\n";
        let (machine, image) = run(&config, body);
        let start = image.address_of("answers").unwrap();
        let ram = machine.nodes()[0].ram();
        let got: Vec<_> = (0..15)
            .map(|k| ram.read(start + 8 * k, 8).unwrap())
            .collect();
        let sign = 0xffff_ffff_ffff_ff00;
        let expected = [
            sign | 0x88,
            0x88,
            0xffff_ffff_ffff_8788,
            0x8788,
            0xffff_ffff_8586_8788,
            sign | 0x88,
            0x8788,
            0x8182_8384_8586_8788,
            0x0000_0007_0007_8707,
            7,
            8,
            9,
            8,
            1,
            5,
        ];
        assert_eq!(got, expected, "{profile:?}");
    }
}

const HAMMER: &str = "li t0, 1\n eaddie e10, t0, 0\n la a0, word\n li a1, 1\n li a2, 500
    again: eamoadd.d t1, a0, a1\n addi a2, a2, -1\n bnez a2, again\n j end
    .data\n word: .dword 0\n .text\n";

#[test]
fn nothing_is_lost_when_64_nodes_add_to_one_word() {
    let (machine, image) = run(&config(64), HAMMER);
    assert_eq!(word(&machine, &image, 0, "word"), 64 * 500);
    let stats = machine.stats();
    assert_eq!(stats.nodes[0].served, 64 * 500);
    assert!(stats.nodes.iter().all(|node| node.remote_atomics == 500));
}

/// A turn ends anywhere, but for a core that holds a reservation: it may go on to the store.
#[test]
fn nothing_is_lost_when_nodes_and_cores_add_by_reservations() {
    let body = "li t0, 1\n eaddie e10, t0, 0\n la a0, word\n li a2, 100
    again: elr.d t1, (a0)\n addi t1, t1, 1\n esc.d t2, t1, (a0)\n bnez t2, again
    mine: la a3, own\n lr.d t1, (a3)\n addi t1, t1, 1\n sc.d t2, t1, (a3)\n bnez t2, mine
    addi a2, a2, -1\n bnez a2, again\n csrr t0, mhartid\n bnez t0, rest
    la a3, own\n li t1, 200\n full: ld t2, 0(a3)\n bne t2, t1, full\n j end
    rest: j rest\n .data\n .balign 64\n word: .dword 0\n own: .dword 0\n .text\n";
    for quantum in [1, 3, 7, 1000] {
        let config = MachineConfig {
            profile: Profile::Xbgas2,
            cores_per_node: 2,
            quantum,
            ..config(5)
        };
        let image = guest(body, config.profile);
        let mut machine = Machine::new(&config, &image).unwrap();
        assert_eq!(machine.run(2_000_000).unwrap(), Outcome::Success);
        assert_eq!(word(&machine, &image, 0, "own"), 200);
    }
}

#[test]
fn a_run_is_repeated_exactly() {
    let body = "li a2, 200\n la a0, table\n
    again: mul t0, a2, s0\n remu t0, t0, s1\n addi t0, t0, 1\n eaddie e10, t0, 0\n eamoadd.d t1, a0, t0
    add s2, s2, t1\n addi a2, a2, -1\n bnez a2, again\n la a3, sum\n sd s2, 0(a3)\n j end
    .data\n table: .dword 0\n sum: .dword 0\n .text\n";
    let sums = |quantum| {
        let config = MachineConfig {
            quantum,
            ..config(13)
        };
        let (machine, image) = run(&config, body);
        let sums: Vec<_> = (0..13)
            .map(|node| word(&machine, &image, node, "sum"))
            .collect();
        (sums, machine.stats())
    };
    assert_eq!(sums(100), sums(100));
    assert_ne!(
        sums(100).0,
        sums(17).0,
        "another order of turns gives other old values"
    );
}

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

#[test]
fn the_first_failing_node_gives_the_code() {
    let body = "li t0, 2\n bne s0, t0, wait\n li a0, 5\n li a7, 93\n ecall\n wait: j wait\n";
    let image = guest(body, Profile::Rae2020);
    let mut machine = Machine::new(&config(4), &image).unwrap();
    let outcome = machine.run(1_000_000).unwrap();
    assert_eq!(outcome, Outcome::Failure { node: 2, code: 5 });
}

#[test]
fn tohost_ends_a_node_and_writes_to_the_console() {
    let body = "la t0, tohost\n li t1, 0x0101000000000041\n sd t1, 0(t0)
    li t1, 1\n bnez s0, bad\n sd t1, 0(t0)\n forever: j forever\n bad: li t1, 7\n sd t1, 0(t0)\n j forever
    .data\n .balign 64\n tohost: .dword 0\n fromhost: .dword 0\n .text\n";
    let image = guest(body, Profile::Rae2020);
    let mut machine = Machine::new(&config(2), &image).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    machine.set_console(Box::new(move |node, bytes| {
        sender.send((node, bytes.to_vec())).unwrap();
    }));
    assert_eq!(
        machine.run(10_000).unwrap(),
        Outcome::Failure { node: 1, code: 3 }
    );
    assert_eq!(machine.nodes()[0].exit_code(), Some(0));
    drop(machine);
    let written: Vec<_> = receiver.into_iter().collect();
    assert_eq!(written, [(0, b"A".to_vec()), (1, b"A".to_vec())]);
}

#[test]
fn a_machine_that_cannot_be_is_refused() {
    let image = guest("", Profile::Rae2020);
    for n_nodes in [0, 1025] {
        assert!(matches!(
            Machine::new(&config(n_nodes), &image),
            Err(Error::Config(_))
        ));
    }
    let tiny = MachineConfig {
        ram_bytes: 8,
        ..config(1)
    };
    assert!(matches!(
        Machine::new(&tiny, &image),
        Err(Error::OutsideMemory { .. })
    ));
    assert_eq!(
        Machine::new(&config(1024), &image)
            .unwrap()
            .run(1_000_000)
            .unwrap(),
        Outcome::Success
    );
}

#[test]
fn waiting_for_what_cannot_come_is_an_error() {
    let image = guest("wfi\n j _start\n", Profile::Rae2020);
    let mut machine = Machine::new(&config(2), &image).unwrap();
    assert!(matches!(machine.run(1_000_000), Err(Error::AllWait)));
}
