//! Values of any type that serde can write, as bytes: in the format of bincode 2 with its standard
//! settings.
//!
//! Arguments and results of remote calls have this form, and what containers hold and save.
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
//! Writer and reader are our own, since bytes may come from anywhere: memory, stack and time of the
//! reader have limits that follow from the number of bytes. Values lie within each other no deeper
//! than [`DEPTH`], and no more than [`EMPTY`] elements of sequences take no byte. The writer
//! refuses what the reader would refuse.
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
//! // A length that no bytes stand behind.
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
/// What serde refuses; values more than [`DEPTH`] within each other, more than [`EMPTY`] elements
/// that take no byte, and sequences that do not know their length. Part of the value may have been
/// written then.
pub fn encode<T: Serialize + ?Sized>(value: &T, out: &mut impl Sink) -> Result<(), Refused> {
    encode_within(value, out, &mut Limits::default())
}

/// Takes a value from the front of `bytes`.
///
/// # Errors
///
/// Bytes that [`encode`] does not write for a `T`.
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

/// As [`encode`], of a part of a larger value.
pub(crate) fn encode_within<T: Serialize + ?Sized>(
    value: &T,
    out: &mut impl Sink,
    limits: &mut Limits,
) -> Result<(), Refused> {
    writer::write(value, out, limits)
}

/// As [`decode`], of a part of a larger value.
pub(crate) fn decode_within<T: DeserializeOwned>(
    bytes: &mut &[u8],
    limits: &mut Limits,
) -> Result<T, Refused> {
    reader::read(bytes, limits)
}
