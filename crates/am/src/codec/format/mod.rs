//! The encoding of values by serde, in the format of bincode 2 with its standard settings.
//!
//! It is used in remote calls, in containers and in saved files, for types that name
//! [`AsSerde`](super::AsSerde).
//!
//! ```text
//! integers         one byte up to 250, else 251, 252, 253 or 254 and 2, 4, 8 or 16 bytes, the low ones first; signed ones zigzag
//! u8, i8, bool     one byte
//! floats           their bytes, the low ones first
//! text, bytes      their number, and they
//! option           0, or 1 and the value
//! sequence, map    the number of elements, and they
//! struct, tuple    the members
//! enum             the number of the variant, and its members
//! ```
//!
//! Writer and reader are our own, since bytes may come from anywhere: the number of bytes limits
//! the memory, stack and time of the reader. Values are nested at most [`DEPTH`] deep, and at most
//! [`EMPTY`] elements of sequences take no byte. The writer refuses values that the reader would
//! refuse.
//!
//! # Examples
//!
//! ```
//! use pgas_am::codec::format;
//!
//! let mut bytes = Vec::new();
//! format::encode(&("one", Some(2_u64)), &mut bytes)?;
//! let mut rest = &bytes[..];
//! assert_eq!(format::decode::<(String, Option<u64>)>(&mut rest)?, ("one".to_owned(), Some(2)));
//! assert_eq!(rest, []);
//!
//! // A length for which there are no bytes.
//! let mut hostile = &[253, 0, 0, 0, 0, 0, 0, 0, 16][..];
//! assert!(format::decode::<Vec<u8>>(&mut hostile).is_err());
//! # Ok::<(), format::Refused>(())
//! ```

mod limits;
mod reader;
mod refused;
mod sink;
#[cfg(test)]
mod tests;
mod writer;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use limits::Limits;
pub use limits::{DEPTH, EMPTY};
pub use refused::Refused;
pub use sink::Sink;

/// The name of the format in files.
pub const NAME: &str = "bincode 2, variable integers, little endian";

/// Appends the bytes of `value` to `out`.
///
/// # Errors
///
/// For values that serde refuses; values nested more than [`DEPTH`] deep; more than [`EMPTY`]
/// elements that take no byte; sequences of unknown length. Part of the value may have been written
/// then.
pub fn encode<T: Serialize + ?Sized>(value: &T, out: &mut impl Sink) -> Result<(), Refused> {
    encode_within(value, out, &mut Limits::default())
}

/// Takes a value from the front of `bytes`.
///
/// # Errors
///
/// For bytes that [`encode`] does not write for a `T`.
pub fn decode<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, Refused> {
    decode_within(bytes, &mut Limits::default())
}

/// Appends a number of elements.
#[inline]
pub(crate) fn put_count(n: usize, out: &mut impl Sink) {
    writer::put_integer(n as u128, out);
}

/// Takes a number of elements from the front of `bytes`.
#[inline]
pub(crate) fn get_count(bytes: &mut &[u8]) -> Result<usize, Refused> {
    reader::length(bytes)
}

/// As [`encode`], for a part of a larger value.
pub(crate) fn encode_within<T: Serialize + ?Sized>(
    value: &T,
    out: &mut impl Sink,
    limits: &mut Limits,
) -> Result<(), Refused> {
    writer::write(value, out, limits)
}

/// As [`decode`], for a part of a larger value.
pub(crate) fn decode_within<T: DeserializeOwned>(
    bytes: &mut &[u8],
    limits: &mut Limits,
) -> Result<T, Refused> {
    reader::read(bytes, limits)
}
