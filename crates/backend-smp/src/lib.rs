//! Shared-memory backend of `pgas`.
//!
//! [`init`] makes a rank's world of what started the process. A backend for several hosts takes [`create_job`],
//! [`launcher::share`] and [`Member`], for the ranks that share a host.
//!
//! # Building blocks
//!
//! Mailboxes, barrier and doorbells are those of [`pgas_lockfree`], inside the mapping that all ranks share. What they ask of the
//! system and the processor is in [`doorbell`] and `machine`.

// The models of other packages use nothing of this one.
#![cfg(not(loom))]

mod attach;
mod control;
mod cores;
pub mod doorbell;
pub mod launcher;
mod liveness;
mod machine;
mod membarrier;
mod member;
mod rma;
mod segment;
mod threads;

pub use attach::{Watcher, init, join};
pub use member::Member;
pub use segment::{create_job, segment_bytes};
pub use threads::{threads, threads_with};
