//! What is told of files beside what is in them, and which of it a process may set.

use std::path::Path;

use super::{Files, Open};
use crate::linux::errno::Errno;
use crate::linux::stat::Facts;

impl Files {
    /// Sets whether a file may be written, of all that a mode tells.
    pub(crate) fn set_mode(&self, number: u64, mode: u64) -> Result<u64, Errno> {
        match self.get(number)? {
            Open::File { path, .. } | Open::Folder { path, .. } => {
                set_mode(&self.folders.resolve(path, true)?, mode)
            }
            _ => Err(Errno::PERM),
        }
    }

    /// As [`set_mode`](Self::set_mode), of what a path means.
    pub(crate) fn set_mode_at(&self, at: u64, path: &[u8], mode: u64) -> Result<u64, Errno> {
        set_mode(&self.resolve(at, path, true)?, mode)
    }

    pub(crate) fn facts(&self, number: u64) -> Result<Facts, Errno> {
        Ok(match self.get(number)? {
            Open::Input | Open::Console(_) | Open::Null => Facts::device(),
            Open::Text { bytes, .. } => Facts::made_up(bytes.len() as u64),
            Open::File { file, path } => {
                Facts::of(&file.metadata()?, path.as_os_str().as_encoded_bytes())
            }
            Open::Folder { path, .. } => facts_of(path)?,
        })
    }

    /// As [`facts`](Self::facts), of what a path means.
    pub(crate) fn facts_at(&self, at: u64, path: &[u8]) -> Result<Facts, Errno> {
        match path {
            b"" => self.facts(at),
            b"/dev/null" => Ok(Facts::device()),
            b"/proc/self/exe" => Ok(Facts::made_up(self.program.len() as u64)),
            b"/proc/self/maps" => Ok(Facts::made_up(self.maps.len() as u64)),
            _ => facts_of(&self.resolve(at, path, false)?),
        }
    }
}

fn facts_of(path: &Path) -> Result<Facts, Errno> {
    Ok(Facts::of(
        &path.metadata()?,
        path.as_os_str().as_encoded_bytes(),
    ))
}

fn set_mode(path: &Path, mode: u64) -> Result<u64, Errno> {
    /// Anybody may write it.
    const WRITABLE: u64 = 0o222;
    let mut permissions = path.metadata()?.permissions();
    permissions.set_readonly(mode & WRITABLE == 0);
    std::fs::set_permissions(path, permissions)?;
    Ok(0)
}
