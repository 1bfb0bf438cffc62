//! Shared-memory backend of `pgas`.
//!
//! # Building blocks
//!
//! [`mailbox`], [`barrier`] and [`doorbell`] are structures of plain atomic words inside the mapping that all ranks share: no pointers, valid when
//! zero, the same at every address. [`backoff`] decides when a waiting rank spins, yields or sleeps.
//!
//! Under `--cfg loom` the crate consists of these alone, written against loom's atomics (`sync`): what maps memory or starts
//! processes is `#[cfg(not(loom))]`. `RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=2 CARGO_TARGET_DIR=target/loom
//! cargo test --release -p pgas-smp --lib loom` runs the models.

pub mod backoff;
pub mod barrier;
pub mod doorbell;
#[cfg(not(loom))]
pub mod launcher;
pub mod mailbox;
mod sync;
