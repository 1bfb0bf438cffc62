//! A partitioned global address space for Rust: programs that run as many processes and share data
//! structures across them.
//!
//! The [`guide`] teaches it, from the first program to clusters; what follows is the short form.
//!
//! # The model
//!
//! A job has [ranks](Rank): processes, numbered from 0, each running the same program. Every rank
//! exposes a piece of its memory, its *segment*. A [`GlobalPtr`] names memory in any rank's segment
//! in one word; [`put`](GlobalPtr::put), [`get`](GlobalPtr::get) and
//! [atomics](GlobalPtr::fetch_add) on it are *one-sided*: the rank that owns the memory does
//! nothing for them. Containers such as [`HashMap`] are built from such operations alone, so they
//! need no help of an owner either. (Over MPI between hosts, and over networks without atomics of
//! their own, the owner serves atomics and operations of containers, whenever it makes progress.)
//! A call that all ranks make, in the same order, is *collective*.
//!
//! ```
//! use pgas::prelude::*;
//!
//! fn count(world: &World) -> pgas::Result<()> {
//!     let words = HashMap::<u64, u64>::with_capacity(world, 1000)?; // collective
//!     for word in [3, 1, 4, 1, 5] {
//!         words.fetch_add(&word, 1)?; // one-sided and atomic
//!     }
//!     world.barrier()?; // collective
//!     assert_eq!(words.find(&1)?, Some(4)); // two ranks, twice each
//!     Ok(())
//! }
//!
//! // Two ranks, here as threads; a program begins with `let world = pgas::init()?` instead.
//! for result in pgas::threads(2, |world| count(&world))? {
//!     result?;
//! }
//! # Ok::<(), pgas::Error>(())
//! ```
//!
//! # Your own types
//!
//! [`pod`](macro@pod) makes a struct byte-copyable: an element of global memory.
//! [`derive(Wire)`](macro@Wire) lets any other type be an argument or a result of [remote
//! calls](RemoteCalls), and [`derive(Object)`](macro@Object) a key or a value of containers.
//! Numbers, text, tuples, arrays and the collections of std need neither.
//!
//! ```
//! use pgas::prelude::*;
//!
//! #[pgas::pod]
//! struct Point {
//!     x: f64,
//!     y: f64,
//! }
//!
//! #[derive(PartialEq, Debug, pgas::Wire, pgas::Object)]
//! enum Place {
//!     City { name: String },
//!     Lake,
//! }
//!
//! fn program(world: &World) -> pgas::Result<()> {
//!     let places = HashMap::<Place, Point>::with_capacity(world, 100)?;
//!     if world.rank() == Rank::ZERO {
//!         places.insert(&Place::Lake, Point { x: 1.0, y: 2.0 })?;
//!         places.insert(&Place::City { name: "Viborg".to_owned() }, Point { x: 3.0, y: 4.0 })?;
//!     }
//!     world.barrier()?;
//!     assert_eq!(places.find(&Place::Lake)?.map(|point| point.y), Some(2.0));
//!     Ok(())
//! }
//!
//! for result in pgas::threads(2, |world| program(&world))? {
//!     result?;
//! }
//! # Ok::<(), pgas::Error>(())
//! ```
//!
//! # How a program starts
//!
//! [`init`] joins the job of the launcher that started the process, so one binary runs everywhere:
//!
//! | started as | runs as |
//! |---|---|
//! | `cargo run --release` | one rank |
//! | `PGAS_RANKS=4 cargo run --release` | four ranks, started by the program itself |
//! | `pgas-run -n 4 target/release/program` | four ranks, started and watched by `pgas-run` |
//! | `mpirun -n 4 ...`, `srun -n 4 ...` on one host | four ranks over shared memory |
//! | the same on several hosts, built with feature `mpi` | ranks over shared memory and MPI-3 RMA |
//! | `pgas-run --hosts a:2,b:2 ...` on several hosts, built with feature `ofi` | ranks over shared memory and libfabric |
//! | `PGAS_BACKEND=ofi mpiexec.hydra -n 4 ...` on several hosts, with that feature | the same |
//!
//! Ranks as processes need Linux. On other systems, such as macOS, a program is one rank, or its
//! ranks are [`threads`].
//!
//! # Errors
//!
//! A failure of the environment is an [`Error`]: one type for the whole library, with a variant for
//! each cause. A `main` that returns it prints its sentence. A mistake of the caller panics
//! instead, at the caller's line. An expected case, such as an absent key, is an `Option`.
//!
//! ```
//! use pgas::Error;
//! use pgas::prelude::*;
//!
//! fn checked(number: u64) -> u64 {
//!     number.checked_sub(1).expect("the number is not 0")
//! }
//!
//! fn program(world: &World) -> pgas::Result<()> {
//!     let next = world.rank_after(world.rank());
//!     match world.rpc(next, checked, 0_u64)?.wait() {
//!         Err(Error::RemotePanic(panic)) => assert_eq!(panic.rank, next), // that rank goes on
//!         other => panic!("{other:?}"),
//!     }
//!     let map = HashMap::<u64, u64>::with_capacity(world, 0); // an error on every rank
//!     assert!(matches!(map, Err(Error::NoCapacity)));
//!     world.barrier()
//! }
//!
//! for result in pgas::threads(2, |world| program(&world))? {
//!     result?;
//! }
//! # Ok::<(), pgas::Error>(())
//! ```
//!
//! # Features of the crate
//!
//! | feature | adds |
//! |---|---|
//! | `smp` (default) | ranks as processes of one host, or as [`threads`] |
//! | `mpi` | ranks on several hosts over MPI; needs an MPI library and libclang to build |
//! | `ofi` | ranks on several hosts over libfabric, which is loaded at run time |
//! | `sim` | ranks as nodes of a simulated RISC-V machine |
//! | `tokio` | `Driver`, by which tasks await operations without polling |
//! | `rayon` | loops of all threads over a rank's part of a container |
//! | `tracing` | spans for a subscriber of that crate |
//!
//! # The crates
//!
//! | crate | contents |
//! |---|---|
//! | [`pgas_core`] | world, teams, global pointers, transfers, atomics, collectives, the contract of a transport |
//! | [`pgas_am`] | active messages, remote calls, futures |
//! | [`pgas_containers`] | distributed containers |
//! | `pgas_derive` | the derives |
//! | `pgas_smp` | ranks over shared memory |
//! | `pgas_mpi` | ranks over MPI, with feature `mpi` |
//! | `pgas_ofi` | ranks over libfabric, with feature `ofi` |
//! | `pgas_sim` | ranks as nodes of a simulated RISC-V machine, with feature `sim` |
//! | `pgas-run` | the launcher, and `pgas-top`, which shows what the ranks of a job do |
//! | `pgas-report` | pages, hints and Perfetto files from traces of a job |
//! | `pgas-riscv-sim` | the simulator, `rae` |
//!
//! Settings are environment variables, listed at [`Config`] and in the guide's chapter on
//! [clusters](guide::clusters).
//!
//! What the library does not do:
//!
//! - survive the loss of a rank: the job ends, with a message that names it;
//! - hide where memory is: a remote access is a method call that says so;
//! - send the captures of a closure, which have no meaning on another rank: pass arguments to a
//!   remote function instead;
//! - access the memory of GPUs: global memory is main memory, and a program copies data of a device
//!   there before it sends them.

/// The version of the library, as `Cargo.toml` has it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(any(doc, doctest))]
pub mod guide;
/// The examples of the README run as doc tests, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub mod readme {}
/// The examples of the derives run here, where they need no second build of the library.
#[cfg(doctest)]
#[path = "../crates/derive/docs/examples.rs"]
pub mod derives;
mod start;

#[cfg(feature = "tokio")]
pub use pgas_am::Driver;
pub use pgas_am::{
    ActiveMessages, Aggregator, Completes, DistObject, First, Here, LocalCalls, PgasFuture,
    Promise, RemoteCalls, Returns, SharedFuture, TeamCalls, ThreadHandle, ValueCollectives,
    WeakObject, WideAtomics, Wire, codec, message, quiet, rpc, when_all, when_any,
};
pub use pgas_containers::{
    Array, BatchError, BloomFilter, ChangeError, CircularQueue, DArray, DMatrix, Distributor,
    FastQueue, HashMap, HashMapBuffer, HashSet, MultiMap, Object, TakeError, TeamMember,
    WideBloomFilter, array, bloom, hash_map, object, queue, route,
};
pub use pgas_core::{
    AsTeam, BackendError, CodecError, Config, Costs, Elsewhere, Error, Event, Exhausted, GlobalPtr,
    HandlerMutex, HandlerMutexGuard, Lock, LockGuard, Member, Mismatch, MixedBinaries, Pod, Rank,
    RankFailure, RemoteError, RemotePanic, Result, Serving, SettingError, Span, Statistics,
    StorageError, Symmetric, Team, Timeout, Undelivered, Unknown, World, atomics, backend,
    collective, config, rma, segment,
};
pub use pgas_derive::{Object, Wire, pod};
#[cfg(feature = "mpi")]
pub use pgas_mpi as mpi;
pub use start::{init, init_with};
#[cfg(feature = "smp")]
pub use start::{threads, threads_with};
pub use zerocopy;

/// The types and traits that nearly every program uses.
pub mod prelude {
    pub use crate::{
        ActiveMessages, Array, BloomFilter, CircularQueue, Completes, DArray, DMatrix, DistObject,
        Distributor, FastQueue, GlobalPtr, HashMap, HashMapBuffer, HashSet, LocalCalls, MultiMap,
        Object, Pod, Rank, RemoteCalls, Team, TeamCalls, ValueCollectives, WideAtomics, World,
    };
}
