//! The atomics that everything here is written against: the standard library's, or loom's under `--cfg loom`, which runs a
//! model through every interleaving and every value a weak load may return.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
