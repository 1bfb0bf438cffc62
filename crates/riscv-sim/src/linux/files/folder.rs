//! Folders: their entries, and the one where relative paths start.

use std::path::Path;

use super::{AT_FDCWD, Files, Open};
use crate::linux::errno::Errno;
use crate::linux::stat::path_number;

/// An entry of a folder.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    name: Vec<u8>,
    is_folder: bool,
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
        let Open::Folder { path, .. } = self.get(number)? else {
            return Err(Errno::NOTDIR);
        };
        self.folders.current = path.clone();
        Ok(0)
    }

    /// The next entries of a folder as Linux lays them out, of at most so many bytes.
    pub(crate) fn entries(&mut self, number: u64, most: u64) -> Result<Vec<u8>, Errno> {
        /// Before an entry's name.
        const HEAD: usize = 19;
        let Open::Folder { path, left } = self.get_mut(number)? else {
            return Err(Errno::NOTDIR);
        };
        let mut bytes = Vec::new();
        while let Some(entry) = left.last() {
            let len = (HEAD + entry.name.len() + 1).next_multiple_of(8);
            if (bytes.len() + len) as u64 > most {
                break;
            }
            let start = bytes.len();
            let whole = path.as_os_str().as_encoded_bytes();
            let number = path_number(whole) ^ path_number(&entry.name);
            bytes.extend(number.to_le_bytes());
            bytes.extend((left.len() as u64).to_le_bytes());
            bytes.extend(u16::try_from(len).map_err(|_| Errno::INVAL)?.to_le_bytes());
            bytes.push(if entry.is_folder { 4 } else { 8 });
            bytes.extend(&entry.name);
            bytes.resize(start + len, 0);
            left.pop();
        }
        if bytes.is_empty() && !left.is_empty() {
            return Err(Errno::INVAL);
        }
        Ok(bytes)
    }
}

/// The entries of a folder, the first by name last.
pub(super) fn entries(folder: &Path) -> Result<Vec<Entry>, Errno> {
    let mut entries = Vec::new();
    for name in [&b"."[..], b".."] {
        entries.push(Entry {
            name: name.to_vec(),
            is_folder: true,
        });
    }
    for entry in folder.read_dir()? {
        let entry = entry?;
        entries.push(Entry {
            name: entry.file_name().as_encoded_bytes().to_vec(),
            is_folder: entry.file_type()?.is_dir(),
        });
    }
    entries.sort_by(|a, b| b.name.cmp(&a.name));
    Ok(entries)
}
