//! Values as bytes in slots and files: serde's, in the one format that the crates share.

mod layout;

pub(super) use layout::layout;

use pgas_am::codec::format::{self, Refused, Sink};
use serde::Serialize;
use serde::de::DeserializeOwned;

use pgas_core::{Error, Result};

/// Where an encoding ended up.
pub(super) enum Encoding {
    /// In the buffer, that many bytes of it.
    Inline(usize),
    /// It is longer than the buffer.
    Long(Vec<u8>),
}

/// A buffer, and memory for all bytes once it is too short for them.
struct Buffer<'b> {
    buffer: &'b mut [u8],
    len: usize,
    long: Option<Vec<u8>>,
}

impl Sink for Buffer<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match (&mut self.long, self.buffer.get_mut(self.len..end)) {
            (None, Some(place)) => place.copy_from_slice(bytes),
            (None, None) => {
                let mut long = Vec::with_capacity(2 * end);
                long.extend_from_slice(&self.buffer[..self.len]);
                long.extend_from_slice(bytes);
                self.long = Some(long);
            }
            (Some(long), _) => long.extend_from_slice(bytes),
        }
        self.len = end;
    }

    #[inline]
    fn n_bytes(&self) -> usize {
        self.len
    }
}

/// Encodes `value` into `buffer`, or into memory of its own.
pub(super) fn encode<T: Serialize>(value: &T, buffer: &mut [u8]) -> Result<Encoding> {
    let mut out = Buffer {
        buffer,
        len: 0,
        long: None,
    };
    format::encode(value, &mut out).map_err(|e| refused::<T>(&e))?;
    Ok(match out.long {
        None => Encoding::Inline(out.len),
        Some(long) => Encoding::Long(long),
    })
}

/// The value whose encoding is `bytes`, all of them.
pub(super) fn decode<T: DeserializeOwned>(mut bytes: &[u8]) -> Result<T> {
    let value = format::decode(&mut bytes).map_err(|e| refused::<T>(&e))?;
    if bytes.is_empty() {
        return Ok(value);
    }
    let n = bytes.len();
    Err(refused::<T>(&Refused::new(format_args!(
        "{n} bytes are left over"
    ))))
}

/// Appends the length of `value`'s encoding, and that.
pub(super) fn write<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    if let Err(e) = format::encode(value, out) {
        out.truncate(start);
        return Err(refused::<T>(&e));
    }
    let len = out.len() - start - 8;
    out[start..start + 8].copy_from_slice(&(len as u64).to_le_bytes());
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
        return Err(Error::codec::<[u8]>("reading bytes", text));
    };
    *bytes = rest;
    Ok(front)
}

#[cold]
fn refused<T>(why: &Refused) -> Error {
    Error::codec::<T>("encoding or decoding an element", why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_lies_in_the_buffer_if_it_fits() {
        let value = (1_u8, "text".to_owned(), vec![300_u16; 20]);
        let mut bytes = Vec::new();
        format::encode(&value, &mut bytes).unwrap();
        for room in 0..bytes.len() + 2 {
            let mut buffer = vec![0; room];
            match encode(&value, &mut buffer).unwrap() {
                Encoding::Inline(len) => assert_eq!(&buffer[..len], &bytes[..]),
                Encoding::Long(long) => {
                    assert!(bytes.len() > room);
                    assert_eq!(long, bytes);
                }
            }
        }
        assert_eq!(decode::<(u8, String, Vec<u16>)>(&bytes).unwrap(), value);
        bytes.push(0);
        let error = decode::<(u8, String, Vec<u16>)>(&bytes).unwrap_err();
        assert!(error.to_string().contains("1 bytes are left over"));
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let mut out = vec![7];
        assert!(write(&(1_u8, vec![(); format::EMPTY + 1]), &mut out).is_err());
        assert_eq!(out, [7]);
        write(&"text", &mut out).unwrap();
        let mut rest = &out[1..];
        assert_eq!(read::<String>(&mut rest).unwrap(), "text");
        assert_eq!(rest, []);
    }
}
