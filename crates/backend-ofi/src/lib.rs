//! Libfabric backend of `pgas`: one-sided communication over the fabric of a cluster, or over TCP,
//! without MPI.
//!
//! [`init`] joins the job that `pgas-run` or the program itself started on one host, or a launcher
//! that speaks PMI-1, as `pgas-run --hosts`, MPICH's and Slurm's do, or PMIx, as Open MPI's and
//! Slurm's do, on several. `pgas::init` of the facade calls it, with feature `ofi` and
//! `PGAS_BACKEND=ofi`. Libfabric and PMIx's client library are loaded when they are needed; nothing
//! of them is needed to build.
//!
//! ```no_run
//! # fn main() -> pgas_core::Result<()> {
//! let world = pgas_ofi::init(&pgas_core::Config::from_env()?)?; // under `pgas-run --hosts a:2,b:2`
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
//! | ranks of one host, in a job on several | loads and stores | CPU atomics | mailboxes in shared memory | core's, over messages |
//! | hosts | `fi_write`, `fi_read` | at the target, by message | `fi_send`, credits | core's, over messages |
//! | any two ranks, with `PGAS_DIRECT=0` | `fi_write`, `fi_read` | at the target, by message | `fi_send`, credits | core's, over messages |
//!
//! A job on one host uses shared memory alone, and does not even load libfabric. With
//! `PGAS_DIRECT=0` all operations go through the network; this is how it is tested.
//!
//! # Which network
//!
//! The first provider of libfabric of this list that every rank has: the fabrics `cxi`, `efa`,
//! `psm3`, `opx`, `psm2` and `verbs;ofi_rxm`, then `tcp;ofi_rxm`. `PGAS_OFI_PROVIDER` names another
//! one. `shm` and `sockets` are taken only so: the one is slower than this library's own shared
//! memory, the other is no longer looked after.
//!
//! Writes are asked for with `FI_DELIVERY_COMPLETE`, so that what a flush has waited for is at its
//! target. How a provider wants memory to be registered it says itself, and that is done: by
//! address or offset, with its keys or ours, local buffers too, bound to an endpoint.
//!
//! Atomics are not the provider's: none that was tried has all of the contract, and some of them by
//! the network and others by a CPU would lose updates.
//!
//! # Lost hosts
//!
//! The first ranks of hosts hold TCP connections to those of others, as over MPI. If nothing is
//! heard of a host, or of the way to it, for [`silence`](pgas_core::Config::silence), the job ends.
//! The ranks of its host name a rank that dies, and the launcher ends the others.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | joining a job | `start` |
//! | joining one of several hosts; the contract | `contract`, `hosts` |
//! | its parts; opening the network | `atomics`, `connect`, `shutdown`, `rma`, `serve` |
//! | a rank that communicates over libfabric | `network` |
//! | parts of a rank that use libfabric | `mailbox`, `ops`, `segment`, `staging` |
//! | several notes in a message | `bundle` |
//! | choice of the network, and the bootstrap | `bootstrap`, `provider` |
//! | every call of libfabric and PMIx | `sys` |

#[cfg(any(pgas_portable, not(target_os = "linux")))]
compile_error!("pgas-ofi needs Linux: ranks of one host share memory there as processes");

mod atomics;
mod bootstrap;
mod bundle;
mod connect;
mod contract;
mod hosts;
mod mailbox;
mod network;
mod ops;
mod provider;
mod rma;
mod segment;
mod serve;
mod shutdown;
mod staging;
mod start;
mod sys;

pub use start::init;
