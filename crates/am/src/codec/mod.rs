//! Encodes values as bytes: arguments and results of calls, and elements of containers that are not
//! byte-copyable.
//!
//! A type says by [`Wire`] how it travels: byte-copyable types as they are ([`AsBytes`]), compounds
//! part by part ([`Parts`], and [`Derived`] for a type of one's own), others by serde
//! ([`AsSerde`]). All bytes pass through here, so that another serializer is a change of this
//! folder. They may come from anywhere: a value takes no more memory than its bytes stand for,
//! values lie within each other no deeper than [`format::DEPTH`], and a list has no more than
//! [`format::EMPTY`] elements without bytes.

mod by_serde;
mod decoder;
mod derived;
mod encoder;
pub mod format;
mod layout;
mod parts;
mod plain;
mod refusal;
#[cfg(test)]
mod tests;
mod wire;

pub use by_serde::AsSerde;
pub use decoder::Decoder;
pub use derived::Derived;
#[doc(hidden)]
pub use derived::{Choose, Chosen, Done, IsPod, NotPod, layout_of, no_variant};
pub use encoder::Encoder;
pub use layout::Layout;
pub use parts::Parts;
pub use plain::AsBytes;
pub(crate) use refusal::unreadable;
pub use wire::{Codec, Each, Wire};

/// The name of the encoding in files.
pub const NAME: &str = "pgas 1: parts, plain bytes and bincode 2, little endian";

/// No call and no result is longer.
pub(crate) const LONGEST: usize = 1 << 26;
