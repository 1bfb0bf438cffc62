//! The core of `pgas`.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("pgas needs a 64-bit processor: the segments of all ranks lie in one address space");

pub mod atomics;
pub mod backend;
pub mod collective;
pub mod config;
mod cost;
mod engine;
mod error;
mod event;
mod global_ptr;
mod in_place;
pub mod lookout;
pub mod notice;
mod pod;
pub mod process;
mod progress;
mod rank;
mod running;

pub mod raw;
pub mod rma;
pub mod segment;
mod stall;
mod tasks;
mod team;
mod wait;
mod world;

pub use config::Config;
pub use cost::{Costs, Statistics};
pub use engine::{Layer, as_handler, in_handler};
pub use error::{
    BackendError, Elsewhere, Error, Exhausted, Mismatch, RankFailure, Result, SettingError, Timeout,
};
pub use event::Event;
pub use global_ptr::GlobalPtr;
pub use in_place::InPlace;
pub use pod::Pod;
pub use rank::Rank;
pub use segment::Symmetric;
pub use stall::{PartOf, part_of};
pub use tasks::Tasks;
pub use team::{Team, TeamId};
pub use wait::OwnWait;
pub use world::{WeakWorld, World};
