//! The examples of this crate's pages, for the tests of `pgas`.

#[doc = include_str!("object.md")]
pub mod object {}
#[doc = include_str!("pod.md")]
pub mod pod {}
#[doc = include_str!("../README.md")]
pub mod readme {}
#[doc = include_str!("wire.md")]
pub mod wire {}
