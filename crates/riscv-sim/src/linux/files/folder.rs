//! Folders: their entries, and the one where relative paths start.

use std::path::Path;

use super::{AT_FDCWD, Files, Open};
use crate::linux::errno::Errno;
use crate::linux::stat::{kind_of_entry, path_number};

/// An entry of a folder.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    name: Vec<u8>,
    kind: u8,
}

impl Files {
    /// Relative paths start there from now on.
    pub(crate) fn enter_folder(&mut self, path: &[u8]) -> Result<u64, Errno> {
        let path = self.resolve(u64::from(AT_FDCWD.cast_unsigned()), path, false)?;
        if !path.metadata()?.is_dir() {
            return Err(Errno::NOTDIR);
        }
        self.folders.current = path;
        Ok(0)
    }

    /// As [`enter_folder`](Self::enter_folder), with the folder open.
    pub(crate) fn enter_open_folder(&mut self, number: u64) -> Result<u64, Errno> {
        let path = match &*self.get(number)? {
            Open::Folder { path, .. } => path.clone(),
            _ => return Err(Errno::NOTDIR),
        };
        self.folders.current = path;
        Ok(0)
    }

    /// The next entries of a folder as Linux lays them out, of at most so many bytes, and their
    /// number.
    pub(crate) fn entries(&self, number: u64, most: u64) -> Result<(Vec<u8>, usize), Errno> {
        /// Before an entry's name.
        const HEAD: usize = 19;
        let open = self.get(number)?;
        let Open::Folder { path, left } = &*open else {
            return Err(Errno::NOTDIR);
        };
        let (mut bytes, mut n) = (Vec::new(), 0);
        for entry in left.iter().rev() {
            let len = (HEAD + entry.name.len() + 1).next_multiple_of(8);
            if (bytes.len() + len) as u64 > most {
                break;
            }
            let start = bytes.len();
            let whole = path.as_os_str().as_encoded_bytes();
            let number = path_number(whole) ^ path_number(&entry.name);
            bytes.extend(number.to_le_bytes());
            bytes.extend(((left.len() - n) as u64).to_le_bytes());
            bytes.extend(u16::try_from(len).map_err(|_| Errno::INVAL)?.to_le_bytes());
            bytes.push(entry.kind);
            bytes.extend(&entry.name);
            bytes.resize(start + len, 0);
            n += 1;
        }
        if bytes.is_empty() && !left.is_empty() {
            return Err(Errno::INVAL);
        }
        Ok((bytes, n))
    }

    /// Goes on behind the next `n` entries.
    pub(crate) fn pass_entries(&self, number: u64, n: usize) -> Result<(), Errno> {
        if let Open::Folder { left, .. } = &mut *self.get_mut(number)? {
            left.truncate(left.len().saturating_sub(n));
        }
        Ok(())
    }
}

/// The entries of a folder, the first by name last.
pub(super) fn entries(folder: &Path) -> Result<Vec<Entry>, Errno> {
    let mut entries = Vec::new();
    for name in [&b"."[..], b".."] {
        entries.push(Entry {
            name: name.to_vec(),
            kind: kind_of_entry(folder.metadata()?.file_type()),
        });
    }
    for entry in folder.read_dir()? {
        let entry = entry?;
        entries.push(Entry {
            name: entry.file_name().as_encoded_bytes().to_vec(),
            kind: kind_of_entry(entry.file_type()?),
        });
    }
    entries.sort_by(|a, b| b.name.cmp(&a.name));
    Ok(entries)
}
