//! Distributed containers of `pgas`.
//!
//! A container is spread over the segments of all ranks and used by one-sided operations: the rank that
//! holds an element is not asked to do anything. Where the transport has it serve atomics by messages
//! anyway, as MPI between hosts does, it serves a whole operation on a map or queue by one. Every method says
//! what it costs, in the units of the BCL paper: `R` a remote read, `W` a remote write, `A` a remote
//! atomic, `B` a barrier, `l` work on this rank's own memory; and `M` a message that its target serves,
//! with the answer.
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
//! | arrays; what is gathered for other ranks | `array`, `distributor` |
//! | queues and filters; ways of many hops | `bloom`, `queue`, `route` |
//! | elements anywhere, many at once | `scattered` |
//! | operations that other ranks carry out | `requests` |
//! | how values live in global memory; elements that go to other ranks by messages | `mail`, `object` |
//! | errors | `error` |
#![forbid(unsafe_code)]

pub mod array;
pub mod bloom;
mod distributor;
mod error;
pub mod hash_map;
mod mail;
pub mod object;
pub mod queue;
mod requests;
pub mod route;
mod scattered;
#[cfg(test)]
mod sizes;
mod store;
#[cfg(test)]
mod testing;

pub use array::{Array, DArray, DMatrix};
pub use bloom::{BloomFilter, WideBloomFilter};
pub use distributor::Distributor;
pub use error::{BatchError, Lost, TakeError};
pub use hash_map::{HashMap, HashMapBuffer, HashSet, MultiMap};
pub use object::Object;
/// The library's error and result.
pub use pgas_core::{Error, Result};
pub use queue::{CircularQueue, FastQueue};
