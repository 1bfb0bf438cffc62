//! MPI backend of `pgas`: one-sided communication over MPI-3 RMA windows between hosts, and over
//! shared memory within a host.
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
//! # Paths of operations
//!
//! | between | put, get | atomics | messages | barrier |
//! |---|---|---|---|---|
//! | ranks of a job on one host | loads and stores | CPU atomics | mailboxes in shared memory | a counter in shared memory |
//! | ranks of one host, in a job on several | loads and stores | CPU atomics | mailboxes in shared memory | `MPI_Ibarrier` |
//! | hosts | `MPI_Put`, `MPI_Get` | at the target, by message | `MPI_Isend`, credits | `MPI_Ibarrier` |
//! | any two ranks, with `PGAS_DIRECT=0` | `MPI_Put`, `MPI_Get` | at the target, by message | `MPI_Isend`, credits | `MPI_Ibarrier` |
//!
//! Collectives are MPI's own, non-blocking ones, on a communicator for each team. On one host these
//! are only the long broadcasts, gathers, allgathers and all-to-alls, in which MPI is faster.
//! Core's own are used where MPI's results differ from those that this library promises: for
//! floats, for the user's operators, for sums and products of integers below 32 bits, and with
//! MPICH for comparisons of unsigned integers. They are also used from 2 GiB on, which MPI cannot
//! count.
//!
//! CPU atomics and MPI's atomics on one word together lose updates, with every MPI that was
//! measured. So a job uses CPU atomics only, by a rank that has the word in its memory. So ranks
//! [serve atomics](pgas_core::backend::Capabilities::ranks_serve_atomics) in every job with a
//! window, and containers send whole operations to them.
//!
//! # Lost hosts
//!
//! The first rank of each host has TCP connections to the first ranks of others, on a port that the
//! system chooses; with up to 32 hosts to all of them. If a host, or the network to it, is silent
//! for [`silence`](pgas_core::Config::silence), the job ends. If a connection cannot be made, for
//! example because of a firewall, there is a warning, and MPI and its launcher have to notice lost
//! hosts. They also have to until MPI has started: only [`timeout`](pgas_core::Config::timeout) and
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
//! | a rank in a job on several hosts, or on one | `network`, `one_host` |
//! | parts of a rank that use MPI | `collectives`, `mailbox`, `window` |
//! | the process's part in a job over MPI | `session` |
//! | tables of operations in flight, and the lookout | `barrier`, `lookout`, `ops` |
//! | every call of MPI | `sys` |
//! | modules without MPI | `flushes`, `output`, `settings`, `time_slice`, `staging` |
//! | system calls without a safe form in other crates | `system` |
//! | the names of MPI for documentation alone | `documented` |

// This crate takes the place of the crate `mpi`, which needs an MPI library.
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

/// The number of calls of each MPI function by this crate in this process, with the function's
/// name, since a world with [`Statistics`](pgas_core::Statistics) was made.
///
/// # Examples
///
/// ```
/// assert!(pgas_mpi::calls().all(|(name, _)| name.starts_with("MPI_")));
/// ```
pub fn calls() -> impl Iterator<Item = (&'static str, u64)> {
    sys::counts()
}

/// The name and version of the MPI library that this program is linked with.
///
/// # Errors
///
/// Errors of MPI.
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
