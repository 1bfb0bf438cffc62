//! How runs end, and machines that are refused.

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::{Error, Machine, MachineConfig, Outcome};

use super::{config, guest};

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
