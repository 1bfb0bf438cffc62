//! Access to memory that other ranks change at the same time: the crate's unsafe part.
//!
//! Segments are shared, so no Rust reference to their bytes may exist. Everything here is, in the
//! language's terms, relaxed (or stronger) atomic access: single words by [`word`], longer ranges
//! by [`copy`], whose assembly stands for a loop of relaxed byte atomics. A torn read is therefore
//! possible, a data race in the sense of undefined behaviour is not.

pub mod copy;
pub(crate) mod map;
pub(crate) mod wide;
pub mod word;
