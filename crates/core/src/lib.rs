//! The core of `pgas`: ranks, global memory, and one-sided operations on it.
//!
//! Programs use the crate `pgas`, which has all of this and a guide. This crate is for libraries
//! that need no containers and no calls, and for new transports.
//!
//! # Memory
//!
//! Each [rank](Rank) of a job exposes a *segment* of memory. A [`World`] is the job as one rank
//! sees it. A [`GlobalPtr`] is one word that names memory in any rank's segment.
//! [`put`](GlobalPtr::put), [`get`](GlobalPtr::get) and [atomics](GlobalPtr::fetch_add) on it are
//! *one-sided*: the rank that has the memory makes no call for them. Collective calls, such as
//! [`alloc_symmetric`](World::alloc_symmetric) and [`barrier`](World::barrier), are made by every
//! rank, in the same order.
//!
//! ```
//! use pgas_core::collective::op::Sum;
//! use pgas_core::{Rank, Result, World};
//!
//! fn program(world: &World) -> Result<()> {
//!     let me = u64::from(world.rank().number());
//!     let inbox = world.alloc_symmetric::<u64>(1)?; // a word on every rank
//!     inbox.on(world.rank_after(world.rank())).put(world, me)?; // into the neighbour's memory
//!     world.barrier()?; // the put is complete there
//!     let received = inbox.here().get(world)?;
//!     assert_eq!(received, u64::from(world.rank_before(world.rank()).number()));
//!     assert_eq!(world.allreduce(me, Sum)?, 0 + 1 + 2);
//!     Ok(())
//! }
//!
//! // Three ranks as threads, over the transport that is here for tests.
//! for result in pgas_core::backend::loopback::run(3, |world| program(&world)) {
//!     result?;
//! }
//! # Ok::<(), pgas_core::Error>(())
//! ```
//!
//! # Where to look
//!
//! | to | see |
//! |---|---|
//! | allocate | [`World::alloc_symmetric`], [`Team::alloc_symmetric`], [`World::alloc`] |
//! | move values, slices, boxes and scattered pieces | [`GlobalPtr`], [`rma`], [`World::scope`] |
//! | change words atomically | [`GlobalPtr::fetch_op`], [`atomics`] |
//! | exclude other ranks for a while | [`Lock`] |
//! | begin now and wait later | the `.._nb` forms, which give an [`Event`] |
//! | compute together | [`World::allreduce`] and the others of [`collective`], on the world or a [`Team`] |
//! | know when an operation is complete | [`World::flush`], [`World::barrier`] |
//! | send messages | the crate `pgas-am` |
//! | count operations | [`World::costs`], [`Statistics`] |
//! | choose settings | [`Config`] |
//! | write a transport | [`backend`] |
//!
//! Prices are given under `# Cost`: `R` is a remote read, `W` a remote write, `A` a remote atomic,
//! `B` a barrier, `M` a message that its target serves, with its answer, and `ℓ` work on this
//! rank's own memory.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | transfers, locks, waits of programs' own loops; the transport for tests | `lock`, `loopback`, `own_wait`, `rma` |
//! | operations on memory and between ranks | `alloc`, `atomics`, `collective`, `ending`, `progress`, `wait` |
//! | operations in flight, messages, reports; memory of teams | `completion`, `event`, `gathered_steps`, `in_parts`, `in_place`, `messages`, `performing`, `phase`, `process`, `sleeps`, `span`, `stall`, `symmetric`, `work` |
//! | operations that the world looks after | `flight` |
//! | ordered sets of ranks | `team` |
//! | a rank's view of the job | `world` |
//! | maps of segments, and accesses to them | `raw` |
//! | parts of a world | `full`, `global_ptr`, `members`, `orphans`, `refused`, `running`, `seen`, `serving`, `spares`, `untold`, `wire` |
//! | locks of handlers | `handler_mutex` |
//! | handlers | `handler` |
//! | the contract of a transport, and settings | `backend`, `config`, `handles`, `segment` |
//! | traces | `trace` |
//! | errors, counts and watches | `error`, `lookout`, `stats`, `tasks`, `waits` |
//! | circles of waits | `circle` |
//! | buffers, names of teams | `few_words`, `team_id` |
//! | independent modules | `cost`, `forked`, `launch`, `locks`, `notice`, `pod`, `rank`, `thread_number`, `waited` |

#[cfg(not(target_pointer_width = "64"))]
compile_error!("pgas needs a 64-bit processor: the segments of all ranks lie in one address space");

mod alloc;
pub mod atomics;
pub mod backend;
mod circle;
pub mod collective;
mod completion;
pub mod config;
mod cost;
mod ending;
mod error;
mod event;
mod few_words;
mod flight;
mod forked;
mod full;
mod gathered_steps;
mod global_ptr;
mod handler;
mod handler_mutex;
mod handles;
mod in_parts;
mod in_place;
mod launch;
mod lock;
mod locks;
pub mod lookout;
mod loopback;
mod members;
mod messages;
pub mod notice;
mod orphans;
mod own_wait;
mod performing;
mod phase;
mod pod;
pub mod process;
mod progress;
mod rank;
mod refused;
mod running;

pub mod raw;
pub mod rma;
#[cfg(feature = "tracing")]
mod seen;
pub mod segment;
mod serving;
mod sleeps;
mod span;
mod spares;
mod stall;
pub mod stats;
mod symmetric;
mod tasks;
mod team;
mod team_id;
mod thread_number;
pub mod trace;
mod untold;
mod wait;
#[cfg(test)]
mod wait_tests;
mod waited;
mod waits;
mod wire;
mod work;
mod world;

pub use config::Config;
pub use cost::{Costs, Statistics};
pub use error::{
    BackendError, CodecError, Elsewhere, Error, Exhausted, Mismatch, MixedBinaries, RankFailure,
    RemoteError, RemotePanic, Result, SettingError, StorageError, Timeout, Undelivered, Unknown,
};
pub use event::Event;
pub use forked::Process;
pub use gathered_steps::GatheredSteps;
pub use global_ptr::GlobalPtr;
pub use handler::{as_handler, in_handler, refuse_in_handler};
pub use handler_mutex::{HandlerMutex, HandlerMutexGuard};
pub use in_parts::PerformingInParts;
pub use in_place::InPlace;
pub use lock::{Lock, LockGuard};
pub use own_wait::OwnWait;
pub use performing::Performing;
pub use phase::InPhase;
pub use pod::Pod;
pub use progress::Serving;
pub use rank::Rank;
pub use span::Span;
pub use spares::Spare;
pub use symmetric::Symmetric;
pub use tasks::Tasks;
pub use team::{AsTeam, Member, Team};
#[doc(hidden)]
pub use team_id::Split;
pub use team_id::TeamId;
pub use waits::{PartOf, keep_line, part_of, part_of_at, part_of_earlier, part_of_object};
pub use wire::InStep;
pub use work::Work;
pub use world::{Layer, WeakWorld, World};
