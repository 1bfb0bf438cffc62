//! A simulator of RISC-V nodes joined by a network: RV64GC cores with the extended registers and
//! remote loads and stores of xBGAS, and the remote atomics of RAE.
//!
//! Every node has its own memory and runs the same guest. An extended register beside the base
//! register of a remote instruction names an object: 0 is the node itself, `k` is node `k - 1`. At
//! reset `e10` is the number of the node and `e11` how many there are. The simulator is
//! deterministic (same inputs, same instructions, same cycles) and has no unsafe code. As a library
//! it needs no other crate of the workspace; its program `rae` needs the one for command lines.
//!
//! ```
//! use pgas_riscv_sim::{Machine, MachineConfig, Outcome, asm, isa::Profile};
//!
//! // Every node adds its number to a word of node 0.
//! let guest = asm::assemble(
//!     "        eaddi     a1, e10, 0      # a1 = e10
//!              li        t0, 1
//!              eaddie    e10, t0, 0      # e10 = 1, the object that stands for node 0
//!              la        a0, sum         # a0 is register 10, so its object is e10
//!              eamoadd.d a2, a0, a1
//!              li        a0, 0
//!              li        a7, 93
//!              ecall
//!              .data
//!              .balign 8
//!      sum:    .dword 0",
//!     Profile::Rae2020,
//! )?;
//! let mut machine = Machine::new(&MachineConfig { n_nodes: 5, ..Default::default() }, &guest)?;
//! assert_eq!(machine.run(10_000)?, Outcome::Success);
//! let sum = guest.address_of("sum").expect("the guest has that label");
//! assert_eq!(machine.nodes()[0].ram().read(sum, 8), Some(0 + 1 + 2 + 3 + 4));
//! # Ok::<(), pgas_riscv_sim::Error>(())
//! ```
//!
//! A guest ends by a write to `tohost` (1 for success, `(code << 1) | 1` for failure) or by `ecall`
//! with 93 in `a7` and the code in `a0`. Guests in C are built with what lies in the crate's folder
//! `guest`.
//!
//! Where things are: [`isa`] is the table of instructions; [`hart`] runs them on one core;
//! [`float`] is its arithmetic; [`machine`] joins nodes without a clock and [`timed`] with one;
//! [`asm`], [`disasm`] and [`elf`] turn text and files into guests and back; [`gdb`] lets a
//! debugger look into a node; [`remote`] is what nodes ask of one another; [`linux`] answers the
//! system calls of programs of Linux; [`workload`] has the kernels of the RAE paper.
//!
//! A node may have several cores, which share its memory and its place in the network: all start at
//! the guest's entry with the same `e10` and `e11`, `mhartid` tells them apart, and the node ends
//! when one of them ends it.
//!
//! # The official instruction tests
//! Programs of [riscv-tests](https://github.com/riscv-software-src/riscv-tests) run as they are,
//! since they end by `tohost`. Build the variants without virtual memory (`-p`) with any cross
//! compiler, and point `rae run` at each; its exit status is 0 if the test passed, and the number
//! of the failing case otherwise:
//!
//! ```sh
//! cd riscv-tests/isa        # with env/ from github.com/riscv/riscv-test-env
//! make XLEN=64 RISCV_PREFIX=riscv64-unknown-elf- rv64ui rv64um rv64ua rv64uf rv64ud rv64uc
//! for test in rv64u[imafdc]-p-*; do
//!     case $test in *.dump) continue;; esac
//!     rae run "$test" --quiet && rae run "$test" --quiet --timed || echo "$test failed"
//! done
//! ```
//!
//! What it does not do: virtual memory, supervisor mode, physical memory protection (its registers
//! read 0), interrupts, devices other than the host's console.

#![forbid(unsafe_code)]

#[macro_use]
pub mod isa;

pub mod asm;
pub mod disasm;
pub mod elf;
pub mod error;
pub mod float;
pub mod gdb;
pub mod hart;
pub mod linux;
pub mod machine;
pub mod memory;
pub mod remote;
pub mod timed;
pub mod workload;

pub use elf::Image;
pub use error::{Error, Result};
pub use machine::{Machine, MachineConfig, Outcome};
