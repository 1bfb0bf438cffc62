//! Libfabric backend of `pgas`: one-sided communication over the fabric of a cluster, or over TCP,
//! without MPI.
//!
//! [`init`] joins a job on one host that `pgas-run` or the program itself has started, or a job on
//! several hosts of a launcher that speaks PMI-1 (`pgas-run --hosts`, MPICH's and Slurm's) or PMIx
//! (Open MPI's and Slurm's). `pgas::init` of the facade calls it, with feature `ofi` and
//! `PGAS_BACKEND=ofi`. Libfabric and PMIx's client library are loaded when they are needed; the
//! build needs neither.
//!
//! ```no_run
//! # fn main() -> pgas_core::Result<()> {
//! let world = pgas_ofi::init(&pgas_core::Config::from_env()?)?; // under `pgas-run --hosts a:2,b:2`
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
//! | ranks of one host, in a job on several | loads and stores | CPU atomics | mailboxes in shared memory | core's, over messages |
//! | hosts | `fi_write`, `fi_read` | at the target, by message (*) | `fi_send`, credits | core's, over messages |
//! | different ranks, with `PGAS_DIRECT=0` | `fi_write`, `fi_read` | at the target, by message (*) | `fi_send`, credits | core's, over messages |
//!
//! (*) Or all atomics of the job by the provider, those within a host and on own words, too.
//!
//! A job on one host uses shared memory alone, and does not even load libfabric. With
//! `PGAS_DIRECT=0` all operations on other ranks go through the network; this is how it is tested.
//!
//! # Which network
//!
//! The backend uses the first provider of this list that every rank has: the fabrics `cxi`, `efa`,
//! `psm3`, `opx`, `psm2` and `verbs;ofi_rxm`, then `tcp;ofi_rxm`. `PGAS_OFI_PROVIDER` names another
//! one. `shm` and `sockets` are used only if they are named: the first is slower than this
//! library's own shared memory, the second is no longer maintained.
//!
//! Writes use `FI_DELIVERY_COMPLETE`, so that after a flush they are at the target. Memory is
//! registered as the provider demands: by address or offset, with its keys or ours, local buffers
//! too, bound to an endpoint.
//!
//! # Who executes atomics
//!
//! A mixture of the provider's and CPU atomics would lose updates, so a job has one of them for all.
//! The provider executes them if it does so without the target's processor, as the card of `cxi`
//! does; ranks try that when they start. Otherwise the target's processor does, which with several
//! related atomics in one message takes less time than a provider of software.
//! `PGAS_OFI_ATOMICS=provider` or `target` chooses. `Capabilities::atomics` tells which it is.
//! Operations that the provider lacks (all on 1 and 2 bytes, sums and extremes of floats, with some
//! providers others) take it a compare-and-swap, or several. One on 1 or 2 bytes is on the 4 bytes
//! around: a plain put or store to the others of these at the same time may be lost, unless the
//! card uses atomics of the bus. `PGAS_OFI_ATOMICS=target` never touches them. Where the provider
//! executes atomics, one on a word of the same host takes it as long as one on another host.
//!
//! # Lost hosts
//!
//! The first ranks of hosts have TCP connections to those of others, as over MPI. If a host, or the
//! network to it, is silent for [`silence`](pgas_core::Config::silence), the job ends. If a rank
//! dies, the ranks of its host report its number, and the launcher ends the others.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | joining a job | `start` |
//! | joining one of several hosts; the contract | `contract`, `hosts` |
//! | its parts; opening the network | `atomics`, `connect`, `provided`, `shutdown`, `rma`, `serve` |
//! | who executes atomics | `executor` |
//! | a rank that communicates over libfabric | `network` |
//! | messages of a rank | `mailbox` |
//! | buffers to send from and to receive in | `inbox`, `outbox` |
//! | parts of a rank that use libfabric | `ops`, `segment`, `staging`, `trial` |
//! | several notes in a message; an atomic as steps of the provider | `bundle`, `steps` |
//! | the provider's atomics | `native` |
//! | choice of the network, and the bootstrap | `bootstrap`, `provider` |
//! | every call of libfabric and PMIx | `sys` |

#[cfg(any(pgas_portable, not(target_os = "linux")))]
compile_error!("pgas-ofi needs Linux: ranks of one host share memory there as processes");

mod atomics;
mod bootstrap;
mod bundle;
mod connect;
mod contract;
mod executor;
mod hosts;
mod inbox;
mod mailbox;
mod native;
mod network;
mod ops;
mod outbox;
mod provided;
mod provider;
mod rma;
mod segment;
mod serve;
mod shutdown;
mod staging;
mod start;
mod steps;
mod sys;
mod trial;

pub use start::init;
