//! Distributed containers of `pgas`.
//!
//! Programs use the crate `pgas`, which has all of this; its guide says which container and which
//! phase to choose.
//!
//! A container is spread over the segments of all ranks and used by one-sided operations: the rank
//! that holds an element does nothing for them. Where ranks serve atomics by messages anyway, as
//! over MPI between hosts, a whole operation on a map or queue is one message. Every method states
//! its cost, in the units of the BCL paper: `R` is a remote read, `W` a remote write, `A` a remote
//! atomic, `B` a barrier, `ℓ` work on this rank's own memory; and `M` is a message that its target
//! serves, with its answer.
//!
//! | container | holds |
//! |---|---|
//! | [`HashMap`], [`HashSet`], [`MultiMap`] | keys and values, over all ranks |
//! | [`HashMapBuffer`] | inserts on their way to a map, many together |
//! | [`CircularQueue`], [`FastQueue`] | elements in order, on one rank |
//! | [`Distributor`] | elements on their way from all ranks to all ranks |
//! | [`Array`] | elements by index, on one rank |
//! | [`DArray`], [`DMatrix`] | elements by index, over all ranks |
//! | [`BloomFilter`], [`WideBloomFilter`] | a set with false positives, in a few bits an element |
//!
//! Each is made on `&world`, for all ranks, or on `&team` ([`AsTeam`](pgas_core::AsTeam)), for the
//! members, and lies in their memory alone. A call that is *collective over the team* is made by
//! all members and by nobody else.
//!
//! A *phase* is a promise of all ranks about what they do until the next change of phase. It is a
//! type, so an operation that the phase forbids does not compile, and those that remain are
//! cheaper: while all ranks only read, a find is one read.
//!
//! ```
//! use pgas_containers::HashMap;
//!
//! # let world = pgas_core::backend::loopback::world();
//! let counts = HashMap::<u64, u64>::with_capacity(&world, 1 << 10)?; // collective
//! counts.fetch_add(&42, 1)?; // one-sided, by any rank
//! counts.fetch_add(&42, 1)?;
//! world.barrier()?;
//! assert_eq!(counts.find(&42)?, Some(2));
//! assert_eq!(counts.len()?, 1);
//!
//! let counts = counts.into_find_phase()?; // collective; from here a find is one read
//! assert_eq!(counts.find(&42)?, Some(2));
//! # Ok::<(), pgas_containers::Error>(())
//! ```
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | checkpoints | `store` |
//! | maps and sets | `hash_map` |
//! | arrays; elements collected for other ranks | `array`, `distributor` |
//! | queues and filters; routes of several hops | `bloom`, `queue`, `route` |
//! | many elements on any ranks, in one call | `scattered` |
//! | operations that other ranks carry out | `requests` |
//! | values in global memory; elements sent by messages | `mail`, `object` |
//! | errors; prices; phases; members of teams | `error`, `prices`, `phases`, `team` |
//! | steps of operations in flight; waits for other ranks | `replay`, `wait` |
#![forbid(unsafe_code)]

pub mod array;
pub mod bloom;
mod distributor;
mod error;
pub mod hash_map;
mod mail;
pub mod object;
mod phases;
pub mod prices;
pub mod queue;
mod replay;
mod requests;
pub mod route;
mod scattered;
#[cfg(test)]
mod sizes;
mod store;
mod team;
#[cfg(test)]
mod testing;
mod wait;

pub use array::{Array, DArray, DMatrix};
pub use bloom::{BloomFilter, WideBloomFilter};
pub use distributor::Distributor;
pub use error::{BatchError, ChangeError, Lost, TakeError};
pub use hash_map::{HashMap, HashMapBuffer, HashSet, MultiMap};
pub use object::Object;
/// The library's error and result.
pub use pgas_core::{Error, Result};
pub use queue::{CircularQueue, FastQueue};
pub use team::TeamMember;
