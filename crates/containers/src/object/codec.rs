//! The only place that knows how values are turned into bytes: serde through bincode 2.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Small numbers take few bytes.
const CONFIG: bincode::config::Configuration = bincode::config::standard();

/// Where an encoding ended up.
pub(super) enum Encoding {
    /// In the buffer, that many bytes of it.
    Inline(usize),
    /// It is longer than the buffer.
    Long(Vec<u8>),
}

/// Encodes `value` into `buffer`, or into memory of its own.
pub(super) fn encode<T: Serialize>(value: &T, buffer: &mut [u8]) -> Result<Encoding> {
    if let Ok(len) = bincode::serde::encode_into_slice(value, buffer, CONFIG) {
        return Ok(Encoding::Inline(len));
    }
    let bytes = bincode::serde::encode_to_vec(value, CONFIG).map_err(|e| refused::<T>(&e))?;
    Ok(Encoding::Long(bytes))
}

/// The value whose encoding is `bytes`, all of them.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let decoded = bincode::serde::decode_from_slice::<T, _>(bytes, CONFIG);
    let (value, read) = decoded.map_err(|e| refused::<T>(&e))?;
    if read == bytes.len() {
        return Ok(value);
    }
    let left = bytes.len() - read;
    Err(refused::<T>(&format_args!("{left} bytes are left over")))
}

/// Appends the length of `value`'s encoding, and that.
pub(super) fn write<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    let bytes = bincode::serde::encode_to_vec(value, CONFIG).map_err(|e| refused::<T>(&e))?;
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
fn refused<T>(why: &dyn std::fmt::Display) -> Error {
    Error::Codec(format!("{}: {why}", std::any::type_name::<T>()).into())
}
