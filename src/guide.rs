//! The guide: a chapter a module, from the first program to clusters.
//!
//! The text is in `docs/guide`. Every example in Rust is compiled and run when the library is
//! tested.
//!
//! [first_program]: first_program
//! [memory_model]: memory_model
//! [own_types]: own_types
//! [choosing]: choosing
//! [halo_exchange]: halo_exchange
//! [calls_and_futures]: calls_and_futures
//! [graphs]: graphs
//! [tokio]: self::tokio
//! [testing]: testing
//! [clusters]: clusters
//! [simulated_nodes]: simulated_nodes
//! [finding_a_hang]: finding_a_hang
//! [making_it_fast]: making_it_fast
//! [saving]: saving
//! [coming_from]: coming_from
//!
// The links above precede those of the file, which lead to the files of the chapters.
#![doc = include_str!("../docs/guide/README.md")]

#[doc = include_str!("../docs/guide/first_program.md")]
pub mod first_program {}

#[doc = include_str!("../docs/guide/memory_model.md")]
pub mod memory_model {}

#[doc = include_str!("../docs/guide/own_types.md")]
pub mod own_types {}

#[doc = include_str!("../docs/guide/choosing.md")]
pub mod choosing {}

#[doc = include_str!("../docs/guide/halo_exchange.md")]
pub mod halo_exchange {}

#[doc = include_str!("../docs/guide/calls_and_futures.md")]
pub mod calls_and_futures {}

#[doc = include_str!("../docs/guide/graphs.md")]
pub mod graphs {}

#[cfg(feature = "tokio")]
#[doc = include_str!("../docs/guide/tokio.md")]
pub mod tokio {}

/// Tokio tasks that await operations: this chapter needs feature `tokio`, also where it is read
/// (`cargo doc --features tokio --open`).
#[cfg(not(feature = "tokio"))]
pub mod tokio {}

#[doc = include_str!("../docs/guide/testing.md")]
pub mod testing {}

#[doc = include_str!("../docs/guide/clusters.md")]
#[doc = ""]
#[doc = include_str!("../docs/guide/plots/between-hosts.svg")]
#[doc = include_str!("../docs/guide/plots/over-mpi.svg")]
#[doc = include_str!("../docs/guide/plots/ranks-a-host.svg")]
pub mod clusters {}

#[doc = include_str!("../docs/guide/simulated_nodes.md")]
#[doc = ""]
#[doc = include_str!("../docs/guide/plots/nodes.svg")]
#[doc = include_str!("../docs/guide/plots/interpreter.svg")]
pub mod simulated_nodes {}

#[doc = include_str!("../docs/guide/finding_a_hang.md")]
pub mod finding_a_hang {}

#[doc = include_str!("../docs/guide/making_it_fast.md")]
#[doc = ""]
#[doc = include_str!("../docs/guide/plots/one-sided.svg")]
#[doc = include_str!("../docs/guide/plots/transfers.svg")]
#[doc = include_str!("../docs/guide/plots/hash-map.svg")]
#[doc = include_str!("../docs/guide/plots/queues.svg")]
#[doc = include_str!("../docs/guide/plots/microbenchmarks.svg")]
#[doc = include_str!("../docs/guide/plots/messages.svg")]
#[doc = include_str!("../docs/guide/plots/observed.svg")]
#[doc = include_str!("../docs/guide/plots/kmers.svg")]
pub mod making_it_fast {}

#[doc = include_str!("../docs/guide/saving.md")]
pub mod saving {}

#[doc = include_str!("../docs/guide/coming_from.md")]
pub mod coming_from {}
