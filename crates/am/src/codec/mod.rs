//! Encodes values as bytes: arguments and results of calls, and elements of containers that are not
//! byte-copyable.
//!
//! A type names its codec by [`Wire`]: byte-copyable types are copied ([`AsBytes`]), compounds are
//! encoded part by part ([`Parts`], or [`Derived`] for types of the program), others by serde
//! ([`AsSerde`]). All encoding is in this folder, so another serializer is a change of this folder
//! only. Bytes may come from anywhere, so decoding has limits: a value takes no more memory than
//! its bytes justify, values are nested at most [`format::DEPTH`] deep, and a value has at most
//! [`format::EMPTY`] elements without bytes.

mod by_serde;
mod decoder;
mod derived;
mod encoder;
pub mod format;
mod layout;
mod of_std;
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
pub use derived::{
    Choose, Chosen, Done, IsPod, Member, MemberOf, NotPod, PlainMember, layout_of, no_variant,
};
pub use encoder::Encoder;
pub use layout::Layout;
pub use of_std::OfStd;
pub use parts::Parts;
pub use plain::AsBytes;
pub(crate) use refusal::unreadable;
pub use wire::{Codec, Each, Wire};

/// The name of the encoding in files.
pub const NAME: &str = "pgas 1: parts, plain bytes and bincode 2, little endian";

/// The maximum length of a call and of a result, in bytes.
pub(crate) const LONGEST: usize = 1 << 26;
