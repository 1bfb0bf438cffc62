//! Many nodes at one word: nothing is lost, and a run is repeated exactly.

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::{Machine, MachineConfig, Outcome};

use super::{config, guest, run, word};

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
