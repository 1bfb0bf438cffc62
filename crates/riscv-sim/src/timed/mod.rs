//! The timed machine.
#![doc = include_str!("README.md")]

pub mod cache;
pub mod config;
pub mod core;
pub mod directory;
pub mod dram;
mod guests;
pub mod hierarchy;
mod insn;
pub mod machine;
pub mod mesh;
pub mod nic;
pub mod packet;
pub mod queue;
pub mod simulation;
pub mod time;
mod timekeeper;
pub mod trace;

/// A number that is known to be small, as an index.
#[expect(
    clippy::cast_possible_truncation,
    reason = "callers pass line numbers reduced to the size of a table in memory"
)]
const fn index(value: u64) -> usize {
    value as usize
}
