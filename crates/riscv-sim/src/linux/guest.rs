//! What a call's arguments point at: bytes, words and texts in the process's memory.

use super::errno::Errno;
use super::space::END_OF_ADDRESSES;
use crate::memory::Ram;

/// The longest path.
const LONGEST_PATH: u64 = 4096;

/// No bytes are anywhere.
pub(super) fn bytes(ram: &Ram, address: u64, n_bytes: u64) -> Result<&[u8], Errno> {
    if n_bytes == 0 {
        return Ok(&[]);
    }
    ram.slice(address, n_bytes).ok_or(Errno::FAULT)
}

pub(super) fn bytes_mut(ram: &mut Ram, address: u64, n_bytes: u64) -> Result<&mut [u8], Errno> {
    if n_bytes == 0 {
        return Ok(&mut []);
    }
    ram.slice_mut(address, n_bytes).ok_or(Errno::FAULT)
}

pub(super) fn put(ram: &mut Ram, address: u64, value: &[u8]) -> Result<(), Errno> {
    bytes_mut(ram, address, value.len() as u64)?.copy_from_slice(value);
    Ok(())
}

/// As [`put`], where there may be nobody who wants to know.
pub(super) fn put_if_asked(ram: &mut Ram, address: u64, value: &[u8]) -> Result<(), Errno> {
    if address == 0 {
        return Ok(());
    }
    put(ram, address, value)
}

pub(super) fn word(ram: &Ram, address: u64, n_bytes: u64) -> Result<u64, Errno> {
    ram.read(address, n_bytes).ok_or(Errno::FAULT)
}

/// Refuses flags, of 32 bits, but for these: what a call does not know it does not do.
pub(super) fn only(flags: u64, known: u64) -> Result<(), Errno> {
    match u64::from(flags as u32) & !known {
        0 => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

/// How many bytes a call moves of a buffer: those that lie in memory, if any does. A buffer beyond
/// all addresses is none.
pub(super) fn movable(ram: &Ram, address: u64, n_bytes: u64) -> Result<u64, Errno> {
    let end = address.checked_add(n_bytes);
    if end.is_none_or(|end| end > END_OF_ADDRESSES) {
        return Err(Errno::FAULT);
    }
    match n_bytes.min(ram.end().saturating_sub(address)) {
        0 if n_bytes > 0 => Err(Errno::FAULT),
        movable => Ok(movable),
    }
}

/// The bytes up to a zero.
pub(super) fn text(ram: &Ram, address: u64) -> Result<&[u8], Errno> {
    let bytes = bytes(ram, address, movable(ram, address, LONGEST_PATH)?)?;
    let end = bytes.iter().position(|byte| *byte == 0);
    let why = if (bytes.len() as u64) < LONGEST_PATH {
        Errno::FAULT
    } else {
        Errno::NAMETOOLONG
    };
    end.map(|end| &bytes[..end]).ok_or(why)
}

/// Buffers of a call that takes several: addresses and lengths.
pub(super) fn buffers(ram: &Ram, address: u64, n: u64) -> Result<Vec<(u64, u64)>, Errno> {
    const MOST: u64 = 1024;
    if n > MOST {
        return Err(Errno::INVAL);
    }
    let buffer = |k: u64| {
        let at = address.checked_add(16 * k).ok_or(Errno::FAULT)?;
        let (start, len) = (word(ram, at, 8)?, word(ram, at + 8, 8)?);
        if len.cast_signed() < 0 {
            return Err(Errno::INVAL);
        }
        // Nothing is moved if one of several cannot be in memory. A single one is cut.
        let end = start.checked_add(len);
        if n > 1 && end.is_none_or(|end| end > END_OF_ADDRESSES) {
            return Err(Errno::FAULT);
        }
        Ok((start, len))
    };
    (0..n).map(buffer).collect()
}
