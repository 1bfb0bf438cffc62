//! Loads and stores of every kind, of one register and of many elements.

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::memory::RAM_BASE;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Error, Machine, MachineConfig, Outcome};

use super::{config, guest, run};

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
         la a2, near\n eag a3, a1, a2\n elh t2, 64(a0)\n eld t3, 0(a0)
         li a1, 1\n la a2, quad\n eag a3, a1, a2\n elq t2, 64(a0)\n elq t4, 16(a0)\n fence\n j end
         .data\n .balign 16\n near: .zero 32\n quad: .zero 32\n sent: .word 1, 2, 3, 4\n .balign 16
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
        let quad: Vec<_> = (0..5).map(|k| read(0, "quad", 4 * k, 4)).collect();
        assert_eq!(quad, [1, 2, 3, 4, 0]);
        assert_eq!(machine.nodes()[0].hart().x(29), 77);
        // The register of a load that moves elements stays as it is; behind it the prefix is used
        // up.
        assert_eq!(machine.nodes()[0].hart().x(28), u64::MAX);
        let stats = &machine.stats().nodes[0];
        assert_eq!((stats.remote_loads, stats.remote_stores), (8, 5));
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

/// Every width and sign, remote and raw, and the extended registers through memory; e0 can be
/// written; object 0 and the own object reach the own memory.
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

/// What a handler does in between has no prefix, and what it mends is done with all elements, by
/// both machines.
#[test]
fn a_transfer_that_trapped_keeps_its_prefix_for_when_the_handler_returns() {
    let body = "bnez s0, end\n la t0, handler\n csrw mtvec, t0\n la a0, far + 1\n li t0, 9\n eaddie e10, t0, 0
         li a1, 3\n la a2, near\n eag a3, a1, a2\n elw t2, 0(a0)\n csrw mtvec, zero\n j end
         .balign 4\n handler: addi s2, s2, 1\n li t0, 2\n li t1, 4\n csrr t4, mcause\n beq t4, t1, 1f
         eaddie e10, t0, 0\n mret\n
         1: eaddie e12, t0, 0\n la a2, far\n elw s3, 4(a2)\n la a0, far\n mret
         .data\n .balign 8\n near: .zero 16\n far: .word 1, 2, 3, 4\n .text\n";
    let image = guest(body, Profile::Rae2020);
    let check = |machine: &Machine| {
        let near = image.address_of("near").unwrap();
        let node = &machine.nodes()[0];
        let near: Vec<_> = (0..4).map(|k| node.ram().read(near + 4 * k, 4)).collect();
        assert_eq!(near, [Some(1), Some(2), Some(3), Some(0)]);
        // A misaligned load, and then one of an object that is not there.
        assert_eq!((node.hart().x(18), node.hart().x(19)), (2, 2));
    };
    let mut functional = Machine::new(&config(2), &image).unwrap();
    assert_eq!(functional.run(1000).unwrap(), Outcome::Success);
    check(&functional);
    let machine = Machine::new(&config(2), &image).unwrap();
    let mut simulation = Simulation::new(machine, &TimedConfig::default()).unwrap();
    assert_eq!(simulation.run(1000).unwrap(), Outcome::Success);
    check(simulation.machine());
}

/// Both machines: a run can be given up however many elements an instruction moves.
#[test]
fn every_element_is_a_step() {
    let config = MachineConfig {
        profile: Profile::Xbgas2,
        ..config(2)
    };
    let loops = |n_elements: u64| {
        let body = format!(
            "la a0, word\n mv a1, a0\n eaddie e10, zero, 1\n li a2, {n_elements}\n li a3, 0
             1: ebld a1, a0, a2, a3\n j 1b\n .data\n .balign 8\n word: .dword 1\n .text\n"
        );
        Machine::new(&config, &guest(&body, config.profile)).unwrap()
    };
    let mut functional = loops(1 << 16);
    let ended = functional.run(1000);
    assert!(matches!(ended, Err(Error::NoEnd(1000))), "{ended:?}");
    assert!(functional.n_instructions() < 100);
    let mut simulation = Simulation::new(loops(64), &TimedConfig::default()).unwrap();
    let ended = simulation.run(1000);
    assert!(matches!(ended, Err(Error::NoEnd(1000))), "{ended:?}");
    assert!(simulation.machine().n_instructions() < 500);
}

/// The transfer is one instruction, and others have their turns meanwhile.
#[test]
fn a_transfer_of_many_elements_takes_several_turns() {
    const N: u64 = 2_500_000;
    let config = MachineConfig {
        profile: Profile::Xbgas2,
        ram_bytes: 8 << 20,
        ..config(2)
    };
    let body = format!(
        "bnez s0, end\n li a0, {:#x}\n eaddie e10, zero, 2\n mv a1, a0\n li a2, {N}\n li a3, 1
         ebsb a1, a0, a2, a3\n csrr s2, minstret\n",
        RAM_BASE + (1 << 20)
    );
    let image = guest(&body, config.profile);
    let mut machine = Machine::new(&config, &image).unwrap();
    let ram = machine.node_mut(0).ram_mut();
    let bytes = ram.slice_mut(RAM_BASE + (1 << 20), N + 1).unwrap();
    for (k, byte) in (0_u8..=250).cycle().zip(bytes) {
        *byte = k;
    }
    let ended = machine.run(10_000);
    assert!(matches!(ended, Err(Error::NoEnd(_))), "{ended:?}");
    assert_eq!(machine.nodes()[1].exit_code(), Some(0));
    assert_eq!(machine.run(u64::MAX).unwrap(), Outcome::Success);
    let bytes = |node: usize| {
        let ram = machine.nodes()[node].ram();
        ram.slice(RAM_BASE + (1 << 20), N + 1).unwrap().split_last()
    };
    let ((_, sent), (behind, got)) = (bytes(0).unwrap(), bytes(1).unwrap());
    assert!(sent == got);
    assert_eq!(*behind, 0);
    let stats = machine.stats();
    assert_eq!(
        (stats.nodes[0].remote_stores, stats.nodes[1].served),
        (N, N)
    );
    assert!(machine.nodes()[0].hart().x(18) < 20);
}

/// Object 0 is the node itself: no memory of it is another's, and nothing goes through the network.
#[test]
fn a_transfer_within_a_node_needs_no_shared_memory() {
    let config = MachineConfig {
        shared: Some(RAM_BASE + 0x8000..RAM_BASE + 0x9000),
        ..config(2)
    };
    let body = "la t0, from\n la a2, to\n li a1, 4\n eag a3, a1, a2\n eld t3, 0(t0)
        la a2, from\n la t0, to + 32\n eag a3, a1, a2\n esd t3, 0(t0)\n j end
        .data\n .balign 8\n from: .dword 1, 2, 3, 4\n to: .zero 64\n .text\n";
    let image = guest(body, config.profile);
    let check = |machine: &Machine| {
        let to = image.address_of("to").unwrap();
        for node in machine.nodes() {
            let words: Vec<_> = (0..8).map(|k| node.ram().read(to + 8 * k, 8)).collect();
            assert_eq!(words, [1, 2, 3, 4, 1, 2, 3, 4].map(Some));
            let stats = node.stats();
            let counts = [stats.remote_loads, stats.remote_stores, stats.served];
            assert_eq!(counts, [0; 3]);
        }
    };
    let mut functional = Machine::new(&config, &image).unwrap();
    assert_eq!(functional.run(1000).unwrap(), Outcome::Success);
    check(&functional);
    for outstanding_remote in [1, 16] {
        let mut timed = TimedConfig::default();
        timed.core.outstanding_remote = outstanding_remote;
        let machine = Machine::new(&config, &image).unwrap();
        let mut simulation = Simulation::new(machine, &timed).unwrap();
        assert_eq!(simulation.run(1000).unwrap(), Outcome::Success);
        check(simulation.machine());
    }
}

/// The address that is bad is told, and what was to be done there.
#[test]
fn a_transfer_that_cannot_be_done_traps_with_the_address_that_is_bad() {
    let config = MachineConfig {
        profile: Profile::Xbgas2,
        shared: Some(RAM_BASE + 0x8000..RAM_BASE + 0x9000),
        ..config(2)
    };
    let (shared, own, nowhere) = (RAM_BASE + 0x8000, RAM_BASE + 0x4000, RAM_BASE - 0x1000);
    for (insn, local, remote, cause, value) in [
        ("ebld", own, own, 5, own),
        ("ebld", own, shared + 0xff8, 5, shared + 0x1000),
        ("ebld", nowhere, shared, 7, nowhere),
        ("ebsd", own, own, 7, own),
        ("ebsd", own, shared + 0xff8, 7, shared + 0x1000),
        ("ebsd", nowhere, shared, 5, nowhere),
    ] {
        let body = format!(
            "bnez s0, end\n la t0, handler\n csrw mtvec, t0\n eaddie e10, zero, 2
             li a0, {remote:#x}\n li a1, {local:#x}\n li a2, 2\n li a3, 1\n {insn} a1, a0, a2, a3
             .balign 4\n handler: csrr s2, mcause\n csrr s3, mtval\n csrw mtvec, zero\n j end\n"
        );
        let image = guest(&body, config.profile);
        let trapped = |machine: &Machine| {
            let hart = machine.nodes()[0].hart();
            (hart.x(18), hart.x(19))
        };
        let mut functional = Machine::new(&config, &image).unwrap();
        assert_eq!(functional.run(1000).unwrap(), Outcome::Success);
        assert_eq!(trapped(&functional), (cause, value), "{insn} {local:#x}");
        let machine = Machine::new(&config, &image).unwrap();
        let mut simulation = Simulation::new(machine, &TimedConfig::default()).unwrap();
        assert_eq!(simulation.run(1000).unwrap(), Outcome::Success);
        let trapped = trapped(simulation.machine());
        assert_eq!(trapped, (cause, value), "{insn} {local:#x}");
    }
}
