//! What is in open files: reading and writing, and how long they are.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use super::folder::entries;
use super::{ACCESS, AT_FDCWD, Files, Open, WRITE_ONLY};
use crate::linux::errno::Errno;

impl Files {
    /// Reads at the file's place, or at one that the call names.
    pub(crate) fn read(&self, number: u64, to: &mut [u8], at: Option<u64>) -> Result<usize, Errno> {
        match &mut *self.get_mut(number)? {
            Open::Input | Open::Console(_) if at.is_some() => Err(Errno::SPIPE),
            Open::Input | Open::Null => Ok(0),
            Open::Console(_) => Err(Errno::BADF),
            Open::Folder { .. } => Err(Errno::ISDIR),
            Open::Text { bytes, at: place } => {
                let from = at.unwrap_or(*place);
                let rest = usize::try_from(from)
                    .ok()
                    .and_then(|from| bytes.get(from..));
                let rest = rest.unwrap_or(&[]);
                let n_bytes = rest.len().min(to.len());
                to[..n_bytes].copy_from_slice(&rest[..n_bytes]);
                if at.is_none() {
                    *place += n_bytes as u64;
                }
                Ok(n_bytes)
            }
            Open::File { file, .. } => {
                let read = |file: &mut File| {
                    // As much as there is, so that a run does not depend on how the host cuts it.
                    let mut n_bytes = 0;
                    while n_bytes < to.len() {
                        match file.read(&mut to[n_bytes..])? {
                            0 => break,
                            n => n_bytes += n,
                        }
                    }
                    Ok(n_bytes)
                };
                Ok(at_place(file, at, read)?)
            }
        }
    }

    /// Whether what is in a file can be had as memory.
    pub(crate) fn check_mappable(&self, number: u64) -> Result<(), Errno> {
        match &*self.get(number)? {
            Open::File { flags, .. } if flags & ACCESS == WRITE_ONLY => Err(Errno::ACCES),
            Open::File { .. } | Open::Text { .. } => Ok(()),
            Open::Input | Open::Console(_) | Open::Null | Open::Folder { .. } => Err(Errno::NODEV),
        }
    }

    /// Writes to anything but the console.
    pub(crate) fn write(&self, number: u64, bytes: &[u8], at: Option<u64>) -> Result<usize, Errno> {
        match &mut *self.get_mut(number)? {
            Open::Null => Ok(bytes.len()),
            Open::File { file, .. } => {
                at_place(file, at, |file| file.write_all(bytes))?;
                Ok(bytes.len())
            }
            Open::Input | Open::Console(_) | Open::Text { .. } | Open::Folder { .. } => {
                Err(Errno::BADF)
            }
        }
    }

    pub(crate) fn seek(&self, number: u64, offset: i64, from: u64) -> Result<u64, Errno> {
        match &mut *self.get_mut(number)? {
            Open::File { file, .. } => {
                let to = match from {
                    0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno::INVAL)?),
                    1 => SeekFrom::Current(offset),
                    2 => SeekFrom::End(offset),
                    _ => return Err(Errno::INVAL),
                };
                Ok(file.seek(to)?)
            }
            Open::Text { bytes, at } => {
                let base = match from {
                    0 => 0,
                    1 => *at,
                    2 => bytes.len() as u64,
                    _ => return Err(Errno::INVAL),
                };
                let to = base.checked_add_signed(offset);
                // A larger number would be taken for a failure's.
                let to = to.filter(|to| i64::try_from(*to).is_ok());
                *at = to.ok_or(Errno::INVAL)?;
                Ok(*at)
            }
            Open::Null => Ok(0),
            // Back to the first entry; others have no places that can be told.
            Open::Folder { path, left } if (offset, from) == (0, 0) => {
                *left = entries(path)?;
                Ok(0)
            }
            Open::Folder { .. } => Err(Errno::INVAL),
            Open::Input | Open::Console(_) => Err(Errno::SPIPE),
        }
    }

    pub(crate) fn set_length(&self, number: u64, n_bytes: u64) -> Result<u64, Errno> {
        self.host_file(number)?.set_len(n_bytes)?;
        Ok(0)
    }

    /// Makes a file at least so long.
    pub(crate) fn lengthen(&self, number: u64, n_bytes: u64) -> Result<u64, Errno> {
        let file = self.host_file(number)?;
        if file.metadata()?.len() < n_bytes {
            file.set_len(n_bytes)?;
        }
        Ok(0)
    }

    /// As [`set_length`](Self::set_length), of the file of that name.
    pub(crate) fn truncate(&self, path: &[u8], n_bytes: u64) -> Result<u64, Errno> {
        let path = self.resolve(u64::from(AT_FDCWD.cast_unsigned()), path, true)?;
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(n_bytes)?;
        Ok(0)
    }
}

/// Does it at the file's own place, or elsewhere without moving that.
fn at_place<T>(
    file: &mut File,
    at: Option<u64>,
    action: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    let Some(at) = at else {
        return action(file);
    };
    let before = file.stream_position()?;
    file.seek(SeekFrom::Start(at))?;
    let result = action(file);
    file.seek(SeekFrom::Start(before))?;
    result
}
