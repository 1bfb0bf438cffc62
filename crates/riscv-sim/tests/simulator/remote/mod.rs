//! The remote instructions on several nodes: what the authors' simulator measured, atomicity,
//! reservations, faults, determinism.

mod atomics;
mod ends;
mod faults;
mod many_nodes;
mod transfers;

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::{Image, Machine, MachineConfig, Outcome, asm};

/// Puts the number of the node into `s0` and how many there are into `s1`, and ends with code 0 at
/// `end`.
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
