//! A simulator of RISC-V nodes joined by a network: RV64GC cores with the extended registers and remote loads and stores of
//! xBGAS, and the remote atomics of RAE.
//!
//! It is deterministic (same inputs, same instructions, same cycles), has no unsafe code and depends on no other crate of the
//! workspace.

#![forbid(unsafe_code)]

#[macro_use]
pub mod isa;

pub mod asm;
pub mod disasm;
pub mod elf;
pub mod error;
pub mod float;
pub mod hart;
pub mod machine;
pub mod memory;
pub mod remote;
pub mod timed;

pub use elf::Image;
pub use error::{Error, Result};
pub use machine::{Machine, MachineConfig, Outcome};
