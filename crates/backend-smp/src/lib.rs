//! Shared-memory backend of `pgas`.
//!
//! [`init`] makes a rank's world of what started the process. A backend for several hosts takes [`create_job`],
//! [`launcher::share`] and [`Member`], for the ranks that share a host.
//!
//! # Building blocks
//!
//! [`mailbox`], [`barrier`] and [`doorbell`] are structures of plain atomic words inside the mapping that all ranks share: no pointers, valid when
//! zero, the same at every address.
//!
//! Under `--cfg loom` the crate consists of these alone, written against loom's atomics (`sync`): what maps memory or starts
//! processes is `#[cfg(not(loom))]`. `RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=2 CARGO_TARGET_DIR=target/loom
//! cargo test --release -p pgas-smp --lib loom` runs the models.

#[cfg(not(loom))]
mod attach;
pub mod barrier;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod cores;
mod credits;
pub mod doorbell;
#[cfg(not(loom))]
pub mod launcher;
#[cfg(not(loom))]
mod liveness;
pub mod mailbox;
#[cfg(not(loom))]
mod membarrier;
#[cfg(loom)]
#[path = "membarrier_model.rs"]
mod membarrier;
#[cfg(not(loom))]
mod member;
mod payload;
#[cfg(not(loom))]
mod rma;
#[cfg(not(loom))]
mod segment;
mod sync;
#[cfg(not(loom))]
mod threads;

#[cfg(not(loom))]
pub use attach::{Watcher, init, join};
#[cfg(not(loom))]
pub use member::Member;
#[cfg(not(loom))]
pub use segment::{create_job, segment_bytes};
#[cfg(not(loom))]
pub use threads::{threads, threads_with};
