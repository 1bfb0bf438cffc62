//! Shared-memory backend of `pgas`: the ranks of one host, as processes or as threads.
//!
//! Programs use the crate `pgas`, whose `init` and `threads` choose this backend by default.
//!
//! ```
//! use pgas_core::collective::op::Sum;
//!
//! // Four ranks, here as threads of this process; `init` joins ranks that are processes.
//! let sums = pgas_smp::threads(4, |world| world.allreduce(1_u64, Sum))?;
//! for sum in sums {
//!     assert_eq!(sum?, 4);
//! }
//! # Ok::<(), pgas_core::Error>(())
//! ```
//!
//! A put or get is a load, a store or a copy, and an atomic is an instruction. Messages go through
//! lock-free rings in the shared memory, and a rank that waits for long sleeps in the kernel. The
//! memory has no name, so nothing is left behind, however a job ends.
//!
//! [`init`] joins the job of the launcher that started the process. A backend for several hosts
//! uses [`create_job`], [`launcher::share`] and [`Member`] for the ranks that share a host.
//!
//! # Systems
//!
//! Ranks that are processes, their launcher and their rendezvous need Linux. On other systems, such
//! as macOS, a job is one process or its ranks are [`threads`], and [`init`] refuses anything else
//! in one sentence. Files for Linux alone say so in their first line; `*_portable.rs` replace them.
//! `RUSTFLAGS='--cfg pgas_portable'` builds the crate with these on Linux too, to test them.
//!
//! # Building blocks
//!
//! Mailboxes, barrier and doorbells are those of [`pgas_lockfree`], inside the mapping that all
//! ranks share. What they ask of the system and the processor is in [`doorbell`] and `machine`.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | joining a job; the contract | `attach`, `rma`, `threads` |
//! | a rank of a job; observers from outside | `member`, `observer` |
//! | the job's memory, and whether ranks are alive and have the same settings | `liveness`, `segment`, `settings` |
//! | the words that ranks share | `control` |
//! | the offsets of these words | `layout` |
//! | sleeping and waking | `doorbell` |
//! | the system and the processor | `cores`, `launcher`, `machine`, `membarrier` |

#[cfg_attr(
    any(pgas_portable, not(target_os = "linux")),
    path = "attach_portable.rs"
)]
mod attach;
mod control;
#[cfg_attr(
    any(pgas_portable, not(target_os = "linux")),
    path = "cores_portable.rs"
)]
mod cores;
pub mod doorbell;
#[cfg(all(test, target_os = "linux", not(pgas_portable)))]
mod forked;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
pub mod launcher;
mod layout;
#[cfg(test)]
mod litmus;
#[cfg_attr(
    any(pgas_portable, not(target_os = "linux")),
    path = "liveness_portable.rs"
)]
mod liveness;
mod machine;
#[cfg_attr(
    any(pgas_portable, not(target_os = "linux")),
    path = "membarrier_portable.rs"
)]
mod membarrier;
mod member;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod observer;
mod rma;
mod segment;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod settings;
#[cfg(all(test, target_os = "linux"))]
mod sleepers;
mod threads;

pub use attach::init;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
pub use attach::{Watcher, join, member};
pub use member::Member;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
pub use observer::{Observer, Seen};
#[cfg(all(target_os = "linux", not(pgas_portable)))]
pub use segment::{JobMemory, create_job};
pub use segment::{segment_bytes, warn_of_size};
pub use threads::{threads, threads_with};
