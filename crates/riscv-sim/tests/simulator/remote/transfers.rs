//! Loads and stores of every kind, of one register and of many elements.

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Machine, MachineConfig, Outcome};

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
        // The register of a load that moves elements stays as it is; behind it the prefix is used
        // up.
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
