//! MPI backend of `pgas`: one-sided communication over MPI-3 RMA windows between hosts, over shared
//! memory inside of them.
//!
//! [`init`] joins the job that `mpirun` or `srun` started; [`init_on`] makes a world of any
//! communicator of a program that uses MPI itself. `pgas::init` of the facade calls the first, with
//! feature `mpi`.
//!
//! ```no_run
//! # fn main() -> pgas_core::Result<()> {
//! let world = pgas_mpi::init(&pgas_core::Config::from_env()?)?; // under `mpirun -n 4`
//! println!("rank {} of {}", world.rank(), world.n_ranks());
//! world.barrier()
//! # }
//! ```
//!
//! # What goes which way
//!
//! | between | put, get | atomics | messages | barrier |
//! |---|---|---|---|---|
//! | ranks of a job on one host | loads and stores | CPU atomics | mailboxes in shared memory | a counter in shared memory |
//! | ranks of one host, in a job on several | loads and stores | CPU atomics | mailboxes in shared memory | `MPI_Ibarrier` |
//! | hosts | `MPI_Put`, `MPI_Get` | at the target, by message | `MPI_Isend`, credits | `MPI_Ibarrier` |
//! | any two ranks, with `PGAS_DIRECT=0` | `MPI_Put`, `MPI_Get` | at the target, by message | `MPI_Isend`, credits | `MPI_Ibarrier` |
//!
//! Collectives are MPI's own, non-blocking ones on a communicator for each team; on one host only
//! the long ones in which MPI is faster. What MPI computes otherwise than this library promises
//! stays core's: floats, operators of the user's own, sums and products of integers below 32 bits,
//! and with MPICH comparisons of unsigned ones.
//!
//! CPU atomics and MPI's atomics on one word lose updates with every MPI that was measured, so a
//! job uses one kind only: the CPU's, of the rank that has the word. So ranks [serve
//! atomics](pgas_core::backend::Capabilities::ranks_serve_atomics) in every job with a window, and
//! containers send it whole operations.
//!
//! # Lost hosts
//!
//! The first rank of each host holds TCP connections to those of others, on a port that the system
//! chooses; of up to 32 hosts to all of them. If nothing is heard of a host, or of the way to it,
//! for [`silence`](pgas_core::Config::silence), the job ends. If no connection comes about, as
//! behind a firewall, a warning says so, and MPI and its launcher have to notice lost hosts. The
//! same holds until MPI has started: only [`timeout`](pgas_core::Config::timeout) and
//! [`stall`](pgas_core::Config::stall) limit the start itself, which waits for all processes.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | the contract, and transfers of many pieces | `contract`, `fragmentation` |
//! | its parts; starting and leaving a job | `atomics`, `completion`, `shutdown`, `missing`, `rma`, `serve`, `start` |
//! | a rank of several hosts, or of one | `network`, `one_host` |
//! | parts of a rank that use MPI | `collectives`, `mailbox`, `window` |
//! | its stay in MPI | `session` |
//! | tables of operations in flight, and the lookout | `barrier`, `lookout`, `ops` |
//! | every call of MPI | `sys` |
//! | modules without MPI | `flushes`, `output`, `settings`, `time_slice`, `staging` |
//! | calls of the system that nothing wraps | `system` |
//! | the names of MPI for documentation alone | `documented` |

// Stands for the crate `mpi`, which needs an MPI library.
#[cfg(pgas_docs)]
extern crate self as mpi;
#[cfg(pgas_docs)]
#[expect(
    missing_docs,
    non_camel_case_types,
    reason = "MPI's own names, and not part of this crate"
)]
#[doc(hidden)]
mod documented;
#[cfg(pgas_docs)]
use documented::{ffi, raw};

#[cfg(any(pgas_portable, not(target_os = "linux")))]
compile_error!("pgas-mpi needs Linux: ranks of one host share memory there as processes");

mod atomics;
mod barrier;
mod collectives;
mod completion;
mod contract;
mod flushes;
mod fragmentation;
mod lookout;
mod mailbox;
mod missing;
mod network;
mod one_host;
mod ops;
mod output;
mod rma;
mod serve;
mod session;
mod settings;
mod shutdown;
mod staging;
mod start;
mod sys;
mod system;
mod time_slice;
mod window;

pub use start::{init, init_on, init_on_serialized};

/// How often each call of MPI was made by this crate in this process, by the calls' names, since a
/// world with [`Statistics`](pgas_core::Statistics) was made.
///
/// # Examples
///
/// ```
/// assert!(pgas_mpi::calls().all(|(name, _)| name.starts_with("MPI_")));
/// ```
pub fn calls() -> impl Iterator<Item = (&'static str, u64)> {
    sys::counts()
}

/// The MPI library that this program is linked with, in a few words.
///
/// # Errors
///
/// What MPI reports.
///
/// # Examples
///
/// ```
/// let library = pgas_mpi::library()?;
/// assert!(!library.is_empty());
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub fn library() -> pgas_core::Result<String> {
    sys::library_version(&sys::enter()?)
}
