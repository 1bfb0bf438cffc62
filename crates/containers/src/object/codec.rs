//! The encodings of values in slots and files, which are those of [`Wire`].
//!
//! A program's codec may panic. That is an error of its value, and of no other one: a container has
//! counted, and others may lie beside it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pgas_am::codec::{Decoder, Encoder, Wire};
use pgas_core::process::{discard_panic, panic_text};
use pgas_core::{Error, Result};

/// Runs the codec of a `T`; `what` names the operation.
#[inline]
fn run<T: ?Sized, R>(what: &'static str, codec: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(codec)).unwrap_or_else(|panic| Err(panicked::<T>(what, panic)))
}

#[cold]
fn panicked<T: ?Sized>(what: &'static str, panic: Box<dyn Any + Send>) -> Error {
    let reason = format!("its codec panicked: {}", panic_text(&*panic));
    discard_panic(panic);
    Error::codec::<T>(what, reason)
}

const READING: &str = "reading bytes as a value";

/// The bytes of `value`, which are those of any equal one.
#[inline]
pub(super) fn encode<T: Wire>(value: &T) -> Result<Encoder> {
    encode_with::<T>(|out| out.put(value))
}

/// The bytes of a `T` that `put` appends.
#[inline]
pub(super) fn encode_with<T: ?Sized>(
    put: impl FnOnce(&mut Encoder) -> Result<()>,
) -> Result<Encoder> {
    let mut out = Encoder::canonical();
    run::<T, _>("encoding an element", || put(&mut out))?;
    Ok(out)
}

/// The value whose encoding is `bytes`, all of them.
#[inline]
pub(super) fn decode<T: Wire>(bytes: &[u8]) -> Result<T> {
    let mut input = Decoder::new(bytes);
    let value = run::<T, _>(READING, || input.get())?;
    match input.remaining().len() {
        0 => Ok(value),
        n => Err(left_over::<T>(n)),
    }
}

#[cold]
fn left_over<T>(n: usize) -> Error {
    Error::codec::<T>(READING, format!("{n} bytes are left over"))
}

/// Appends the length of `value`'s encoding, and the encoding.
pub(super) fn write<T: Wire>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    let encoded = encode(value)?;
    let bytes = encoded.bytes();
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

/// Reads a value from the front of what [`write`] has written.
pub(super) fn read<T: Wire>(bytes: &mut &[u8]) -> Result<T> {
    let len = take(bytes, 8)?.try_into().expect("eight bytes");
    let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(usize::MAX);
    decode(take(bytes, len)?)
}

/// Splits off the first `n` bytes.
pub(super) fn take<'b>(bytes: &mut &'b [u8], n: usize) -> Result<&'b [u8]> {
    let Some((front, rest)) = bytes.split_at_checked(n) else {
        let text = format!("an element of {n} bytes ends after {}", bytes.len());
        return Err(Error::codec::<[u8]>("reading bytes", text));
    };
    *bytes = rest;
    Ok(front)
}

#[cfg(test)]
mod tests {
    use pgas_am::codec::format;

    use super::*;

    #[test]
    fn an_encoding_comes_back_and_nothing_may_be_left_over() {
        let value = (1_u8, "text".to_owned(), vec![300_u16; 20]);
        let mut bytes = encode(&value).unwrap().bytes().to_vec();
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
        write(&"text".to_owned(), &mut out).unwrap();
        let mut rest = &out[1..];
        assert_eq!(read::<String>(&mut rest).unwrap(), "text");
        assert_eq!(rest, []);
    }
}
