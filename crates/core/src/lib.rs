//! The core of `pgas`.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | transfers; the transport for tests | `loopback`, `rma` |
//! | what ranks do with memory and with each other | `alloc`, `atomics`, `collective`, `ending`, `progress`, `wait` |
//! | operations in flight, messages, reports | `completion`, `event`, `in_place`, `messages`, `process`, `span`, `stall`, `symmetric`, `team` |
//! | a rank's view of the job | `world` |
//! | where segments are mapped, and accesses to them | `raw` |
//! | parts of a world | `global_ptr`, `handler`, `members`, `orphans`, `refused`, `running`, `wire` |
//! | the contract of a transport, and settings | `backend`, `config`, `handles`, `segment` |
//! | traces | `trace` |
//! | errors, counts and watches | `error`, `lookout`, `stats`, `tasks`, `waits` |
//! | buffers | `few_words` |
//! | what stands alone | `cost`, `launch`, `locks`, `notice`, `pod`, `rank`, `thread_number` |

#[cfg(not(target_pointer_width = "64"))]
compile_error!("pgas needs a 64-bit processor: the segments of all ranks lie in one address space");

mod alloc;
pub mod atomics;
pub mod backend;
pub mod collective;
mod completion;
pub mod config;
mod cost;
mod ending;
mod error;
mod event;
mod few_words;
mod global_ptr;
mod handler;
mod handles;
mod in_place;
mod launch;
mod locks;
pub mod lookout;
mod loopback;
mod members;
mod messages;
pub mod notice;
mod orphans;
mod pod;
pub mod process;
mod progress;
mod rank;
mod refused;
mod running;

pub mod raw;
pub mod rma;
pub mod segment;
mod span;
mod stall;
pub mod stats;
mod symmetric;
mod tasks;
mod team;
mod thread_number;
pub mod trace;
mod wait;
mod waits;
mod wire;
mod world;

pub use config::Config;
pub use cost::{Costs, Statistics};
pub use error::{
    BackendError, CodecError, Elsewhere, Error, Exhausted, Mismatch, MixedBinaries, RankFailure,
    RemoteError, RemotePanic, Result, SettingError, StorageError, Timeout, Undelivered, Unknown,
};
pub use event::Event;
pub use global_ptr::GlobalPtr;
pub use handler::{as_handler, in_handler};
pub use in_place::InPlace;
pub use members::TeamId;
pub use pod::Pod;
pub use rank::Rank;
pub use span::Span;
pub use symmetric::Symmetric;
pub use tasks::Tasks;
pub use team::Team;
pub use wait::OwnWait;
pub use waits::{PartOf, part_of};
pub use world::{Layer, WeakWorld, World};
