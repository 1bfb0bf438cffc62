//! What is told of files beside what is in them, and which of it a process may set.

use std::fs::{File, OpenOptions, Permissions};
use std::path::{Path, PathBuf};

use super::{ACCESS, APPEND, Files, Open, READ_WRITE, is_current, writes};
use crate::linux::errno::Errno;
use crate::linux::stat::Facts;

/// Of what tells of files: a link is told of itself.
const NO_FOLLOW: u64 = 0x100;
/// Of the same: with no path, of the open file.
const NO_PATH: u64 = 0x1000;

impl Files {
    /// Sets which rights files and folders do not get when they are made; gives those before.
    pub(crate) fn set_mask(&mut self, mask: u64) -> u64 {
        std::mem::replace(&mut self.mask, mask & 0o777)
    }

    /// Makes a folder, which its owner may use whatever its mode.
    pub(crate) fn make_folder(&self, at: u64, path: &[u8], mode: u64) -> Result<u64, Errno> {
        make_folder(&self.resolve_entry(at, path, true)?, mode & !self.mask)?;
        Ok(0)
    }

    /// Sets whether a file may be written, of all that a mode tells.
    pub(crate) fn set_mode(&self, number: u64, mode: u64) -> Result<u64, Errno> {
        match &*self.get(number)? {
            Open::File {
                file, path, flags, ..
            } => {
                // Who may not write it may be allowed to by where it lies, if it still lies there.
                if !writes(*flags) && !is_at(file, &self.folders.resolve(path, true)?)? {
                    return Err(Errno::PERM);
                }
                let mut permissions = file.metadata()?.permissions();
                set_writable(&mut permissions, mode);
                file.set_permissions(permissions)?;
                Ok(0)
            }
            Open::Folder { path, .. } => set_mode(&self.folders.resolve(path, true)?, mode),
            _ => Err(Errno::PERM),
        }
    }

    /// As [`set_mode`](Self::set_mode), of what a path means.
    pub(crate) fn set_mode_at(&self, at: u64, path: &[u8], mode: u64) -> Result<u64, Errno> {
        set_mode(&self.resolve(at, path, true)?, mode)
    }

    pub(crate) fn facts(&self, number: u64) -> Result<Facts, Errno> {
        Ok(match &*self.get(number)? {
            Open::Input | Open::Console(_) | Open::Null => Facts::device(),
            Open::Text { bytes, .. } => Facts::made_up(bytes.len() as u64),
            Open::File { file, path, .. } => {
                Facts::of(&file.metadata()?, path.as_os_str().as_encoded_bytes())
            }
            Open::Folder { path, .. } => facts_of(path)?,
        })
    }

    /// As [`facts`](Self::facts), of what a path means, or of the link that it names; where no path
    /// is needed, of what is open.
    pub(crate) fn facts_at(&self, at: u64, path: &[u8], flags: u64) -> Result<Facts, Errno> {
        let follows = flags & NO_FOLLOW == 0;
        match path {
            b"" if flags & NO_PATH == 0 => Err(Errno::NOENT),
            b"" if is_current(at) => facts_of(&self.folders.resolve(self.current(), false)?),
            b"" => self.facts(at),
            b"/dev/null" => Ok(Facts::device()),
            b"/proc/self/exe" => Ok(Facts::made_up(self.program.len() as u64)),
            b"/proc/self/maps" => Ok(Facts::made_up(self.maps.len() as u64)),
            _ if follows => facts_of(&self.resolve(at, path, false)?),
            _ => match self.entry(at, path)? {
                entry if entry.is_symlink() => {
                    let name = entry.as_os_str().as_encoded_bytes();
                    Ok(Facts::of(&entry.symlink_metadata()?, name))
                }
                _ => facts_of(&self.resolve(at, path, false)?),
            },
        }
    }

    /// Whether the guest may change what [`facts_at`](Self::facts_at) tells of.
    pub(crate) fn may_change(&self, at: u64, path: &[u8], flags: u64) -> Result<(), Errno> {
        let real = match path {
            b"/dev/null" => return Ok(()),
            b"" if flags & NO_PATH != 0 && is_current(at) => {
                self.folders.resolve(self.current(), true)
            }
            b"" if flags & NO_PATH != 0 => match &*self.get(at)? {
                Open::File { path, .. } | Open::Folder { path, .. } => {
                    self.folders.resolve(path, true)
                }
                Open::Input | Open::Console(_) | Open::Null => return Ok(()),
                Open::Text { .. } => Err(Errno::ACCES),
            },
            _ if flags & NO_FOLLOW != 0 && self.entry(at, path)?.is_symlink() => {
                self.resolve_entry(at, path, true)
            }
            _ => self.resolve(at, path, true),
        };
        real.map(drop)
    }

    /// The text of a link.
    pub(crate) fn link(&self, at: u64, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let link = self.entry(at, path)?.read_link()?;
        Ok(link.into_os_string().into_encoded_bytes())
    }

    /// The entry that a path names, where it names one: the path of a folder may end in another way
    /// than with its name.
    fn entry(&self, at: u64, path: &[u8]) -> Result<PathBuf, Errno> {
        let entry = self.resolve_entry(at, path, false);
        entry.or_else(|_| self.resolve(at, path, false))
    }

    /// How an open file is used, of all that its flags tell.
    pub(crate) fn flags(&self, number: u64) -> Result<u64, Errno> {
        Ok(match &*self.get(number)? {
            Open::File { flags, .. } => flags & (ACCESS | APPEND),
            Open::Console(_) | Open::Null => READ_WRITE,
            Open::Input | Open::Text { .. } | Open::Folder { .. } => 0,
        })
    }

    /// Sets whether what is written goes to the end of the file, of all that flags tell.
    pub(crate) fn set_flags(&self, number: u64, new: u64) -> Result<u64, Errno> {
        if let Open::File { file, flags, .. } = &mut *self.get_mut(number)? {
            set_append(file, new & APPEND != 0)?;
            *flags = *flags & !APPEND | new & APPEND;
        }
        Ok(0)
    }
}

#[cfg(unix)]
fn set_append(file: &File, appends: bool) -> Result<(), Errno> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let set = || {
        let mut flags = fcntl_getfl(file)?;
        flags.set(OFlags::APPEND, appends);
        fcntl_setfl(file, flags)
    };
    set().map_err(|why| Errno::from(std::io::Error::from(why)))
}

/// The host does so for a whole file only when it is opened.
#[cfg(not(unix))]
fn set_append(_file: &File, appends: bool) -> Result<(), Errno> {
    match appends {
        true => Err(Errno::INVAL),
        false => Ok(()),
    }
}

fn facts_of(path: &Path) -> Result<Facts, Errno> {
    Ok(Facts::of(
        &path.metadata()?,
        path.as_os_str().as_encoded_bytes(),
    ))
}

/// Whether this is the file that lies there.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> Result<bool, Errno> {
    use std::os::unix::fs::MetadataExt as _;
    let (open, there) = (file.metadata()?, path.metadata()?);
    Ok((open.dev(), open.ino()) == (there.dev(), there.ino()))
}

/// The host moves no file that is open.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> Result<bool, Errno> {
    Ok(true)
}

fn set_mode(path: &Path, mode: u64) -> Result<u64, Errno> {
    let mut permissions = path.metadata()?.permissions();
    set_writable(&mut permissions, mode);
    std::fs::set_permissions(path, permissions)?;
    Ok(0)
}

/// Whether somebody may write a file of this mode.
fn is_writable(mode: u64) -> bool {
    mode & 0o222 != 0
}

/// Its owner may write it again, and nobody else who could not before.
#[cfg(unix)]
fn set_writable(permissions: &mut Permissions, mode: u64) {
    use std::os::unix::fs::PermissionsExt as _;
    let own = permissions.mode();
    permissions.set_mode(if is_writable(mode) {
        own | 0o200
    } else {
        own & !0o222
    });
}

#[cfg(not(unix))]
fn set_writable(permissions: &mut Permissions, mode: u64) {
    permissions.set_readonly(!is_writable(mode));
}

/// Options for a file that is created. Its owner may read and write it, whatever its mode: this
/// opens it once more.
#[cfg(unix)]
pub(super) fn creating(mode: u64) -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    let of_others = u32::try_from(mode & 0o177).unwrap_or(0);
    options.mode(0o600 | of_others);
    options
}

#[cfg(not(unix))]
pub(super) fn creating(_mode: u64) -> OpenOptions {
    OpenOptions::new()
}

#[cfg(unix)]
fn make_folder(path: &Path, mode: u64) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let of_others = u32::try_from(mode & 0o077).unwrap_or(0);
    std::fs::DirBuilder::new()
        .mode(0o700 | of_others)
        .create(path)
}

#[cfg(not(unix))]
fn make_folder(path: &Path, _mode: u64) -> std::io::Result<()> {
    std::fs::create_dir(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::CREATE;
    use super::*;

    #[test]
    fn nobody_but_the_owner_comes_to_write_a_file_of_the_host() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        drop(
            creating(0o640)
                .write(true)
                .create(true)
                .open(&path)
                .unwrap(),
        );
        assert_eq!(mode() & 0o027, 0);
        for (before, set, after) in [
            (0o644, 0o600, 0o644),
            (0o644, 0o666, 0o644),
            (0o444, 0o644, 0o644),
            (0o664, 0o444, 0o444),
            (0o755, 0o777, 0o755),
        ] {
            std::fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            set_mode(&path, set).unwrap();
            assert_eq!(mode(), after, "{before:o}, {set:o}");
        }
    }

    fn files(folder: &Path) -> Files {
        let granted = [crate::linux::Folder {
            path: folder.into(),
            is_writable: true,
        }];
        let folders = crate::linux::folders::Folders::new(&granted).expect("the folder is there");
        Files::new(folders, "", [].into())
    }

    #[test]
    fn what_a_process_masks_nobody_else_may_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(&folder.path().canonicalize().unwrap());
        assert_eq!(files.set_mask(0o1077), 0o022);
        assert_eq!(files.set_mask(0o077), 0o077);
        for (name, mode) in [("file", 0o666), ("folder", 0o777), ("own folder", 0o700)] {
            let path = folder.path().join(name);
            let name = path.to_str().unwrap().as_bytes();
            if name.ends_with(b"file") {
                files.open(0, name, (CREATE | READ_WRITE, mode)).unwrap();
            } else {
                files.make_folder(0, name, mode).unwrap();
            }
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o077, 0);
        }
        files.set_mask(0);
        let own = folder.path().join("again");
        let name = own.to_str().unwrap().as_bytes();
        files.make_folder(0, name, 0o700).unwrap();
        assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_mode_of_an_open_file_is_that_of_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let [file, moved, other] = ["file", "moved", "other"].map(|name| path.join(name));
        let is_writable = |path: &Path| !path.metadata().unwrap().permissions().readonly();
        for flags in [0, READ_WRITE] {
            let mut files = files(&path);
            std::fs::write(&file, "1").unwrap();
            let name = file.to_str().unwrap().as_bytes();
            let number = files.open(0, name, (flags, 0)).unwrap();
            files.set_mode(number, 0o400).unwrap();
            assert!(!is_writable(&file));
            files.set_mode(number, 0o600).unwrap();
            std::fs::rename(&file, &moved).unwrap();
            std::fs::rename(&moved, &other).unwrap();
            std::fs::write(&file, "2").unwrap();
            let set = files.set_mode(number, 0o400);
            assert!(is_writable(&file));
            // Who may only read it is not told where it lies now.
            assert_eq!(set.is_ok(), flags == READ_WRITE);
            assert_eq!(is_writable(&other), flags != READ_WRITE);
        }
    }
}
