//! The only place that knows how values are turned into bytes: serde, in the format of bincode 2 with its standard settings.
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
//! Writer and reader are our own, since bytes may come from anywhere: the reader takes no more memory than there are bytes, goes
//! no deeper than [`DEPTH`] and does no more steps than [`EMPTY`] without a byte; and the writer refuses what the reader would.

mod layout;
mod reader;
mod refused;
#[cfg(all(test, not(loom)))]
mod tests;
mod writer;

pub(super) use layout::layout;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use refused::Refused;

/// How the format is called in files.
pub(crate) const NAME: &str = "bincode 2, variable integers, little endian";

/// Where an encoding ended up.
pub(super) enum Encoding {
    /// In the buffer, that many bytes of it.
    Inline(usize),
    /// It is longer than the buffer.
    Long(Vec<u8>),
}

/// Encodes `value` into `buffer`, or into memory of its own.
pub(super) fn encode<T: Serialize>(value: &T, buffer: &mut [u8]) -> Result<Encoding> {
    let encoded = writer::write(value, buffer).map_err(|e| refused::<T>(&e))?;
    Ok(match encoded {
        (len, None) => Encoding::Inline(len),
        (_, Some(long)) => Encoding::Long(long),
    })
}

/// The value whose encoding is `bytes`, all of them.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    reader::read(bytes).map_err(|e| refused::<T>(&e))
}

/// Appends the length of `value`'s encoding, and that.
pub(super) fn write<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    let (_, bytes) = writer::write(value, &mut []).map_err(|e| refused::<T>(&e))?;
    let bytes = bytes.unwrap_or_default();
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Reads a value from the front of what [`write`] has written.
pub(super) fn read<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T> {
    let len = take(bytes, 8)?.try_into().expect("eight bytes");
    let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(usize::MAX);
    decode(take(bytes, len)?)
}

/// The first `n` bytes, which are taken away.
pub(super) fn take<'b>(bytes: &mut &'b [u8], n: usize) -> Result<&'b [u8]> {
    let Some((front, rest)) = bytes.split_at_checked(n) else {
        let text = format!("an element of {n} bytes ends after {}", bytes.len());
        return Err(Error::Codec(text.into()));
    };
    *bytes = rest;
    Ok(front)
}

#[cold]
fn refused<T>(why: &Refused) -> Error {
    Error::Codec(format!("{}: {why}", std::any::type_name::<T>()).into())
}
