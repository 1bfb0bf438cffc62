//! A process's open files: the console, files of the host, and the few that the simulator makes up.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::errno::Errno;
use super::folders::Folders;
use super::stat::{Facts, path_number};

/// The most files that a process may have open.
pub(super) const MOST_FILES: u64 = 1024;

/// "Relative to the current folder", as a descriptor.
const AT_FDCWD: i32 = -100;

const WRITE_ONLY: u64 = 1;
const READ_WRITE: u64 = 2;
const ACCESS: u64 = 3;
const CREATE: u64 = 0o100;
const EXCLUSIVE: u64 = 0o200;
const TRUNCATE: u64 = 0o1000;
const APPEND: u64 = 0o2000;
const DIRECTORY: u64 = 0o200_000;

/// Which of its outputs a process writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The usual one.
    Output,
    /// The one for errors.
    Errors,
}

/// What a descriptor stands for.
#[derive(Debug)]
enum Open {
    Input,
    Console(Stream),
    Null,
    /// Bytes that the simulator made up.
    Text {
        bytes: Arc<[u8]>,
        at: u64,
    },
    File {
        file: File,
        path: PathBuf,
    },
    Folder {
        path: PathBuf,
        /// The entries that have not been read.
        left: Vec<Entry>,
    },
}

/// An entry of a folder.
#[derive(Clone, Debug)]
struct Entry {
    name: Vec<u8>,
    is_folder: bool,
}

/// All of a process's open files.
#[derive(Debug)]
pub(super) struct Files {
    open: Vec<Option<Open>>,
    folders: Folders,
    /// What `/proc/self/maps` says.
    maps: Arc<[u8]>,
    program: Arc<[u8]>,
}

/// A path as a process writes it.
pub(super) fn path_of(bytes: &[u8]) -> Result<&Path, Errno> {
    let text = std::str::from_utf8(bytes).map_err(|_| Errno::NOENT)?;
    Ok(Path::new(OsStr::new(text)))
}

impl Files {
    pub(super) fn new(folders: Folders, maps: &str, program: Arc<[u8]>) -> Self {
        Self {
            open: vec![
                Some(Open::Input),
                Some(Open::Console(Stream::Output)),
                Some(Open::Console(Stream::Errors)),
            ],
            folders,
            maps: maps.as_bytes().into(),
            program,
        }
    }

    /// Where relative paths start.
    pub(super) fn current(&self) -> &Path {
        &self.folders.current
    }

    pub(super) fn open(&mut self, at: u64, path: &[u8], flags: u64) -> Result<u64, Errno> {
        let made_up = match path {
            b"/proc/self/maps" => Some(Open::Text {
                bytes: Arc::clone(&self.maps),
                at: 0,
            }),
            b"/proc/self/exe" => Some(Open::Text {
                bytes: Arc::clone(&self.program),
                at: 0,
            }),
            b"/dev/null" => Some(Open::Null),
            _ => None,
        };
        let open = match made_up {
            Some(open) => open,
            None => self.open_file(at, path, flags)?,
        };
        self.enter(open)
    }

    fn open_file(&self, at: u64, path: &[u8], flags: u64) -> Result<Open, Errno> {
        let writes = matches!(flags & ACCESS, WRITE_ONLY | READ_WRITE);
        let changes = writes || flags & (CREATE | TRUNCATE) != 0;
        let path = self.resolve(at, path, changes)?;
        if let Ok(metadata) = path.metadata() {
            if metadata.is_dir() {
                return if changes {
                    Err(Errno::ISDIR)
                } else {
                    let left = entries(&path)?;
                    Ok(Open::Folder { path, left })
                };
            }
            // What is neither may keep whoever opens it waiting.
            if !metadata.is_file() {
                return Err(Errno::ACCES);
            }
            if flags & DIRECTORY != 0 {
                return Err(Errno::NOTDIR);
            }
        }
        let file = OpenOptions::new()
            .read(flags & ACCESS != WRITE_ONLY)
            .write(writes && flags & APPEND == 0)
            .append(writes && flags & APPEND != 0)
            .truncate(writes && flags & (TRUNCATE | APPEND) == TRUNCATE)
            .create(writes && flags & (CREATE | EXCLUSIVE) == CREATE)
            .create_new(writes && flags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE)
            .open(&path)?;
        Ok(Open::File { file, path })
    }

    /// The file of the host that a path means, seen from the folder `at`.
    pub(super) fn resolve(&self, at: u64, path: &[u8], changes: bool) -> Result<PathBuf, Errno> {
        let path = path_of(path)?;
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT);
        }
        // A descriptor is 32 bits wide.
        if path.is_absolute() || at as u32 == AT_FDCWD.cast_unsigned() {
            return self.folders.resolve(path, changes);
        }
        match self.get(at)? {
            Open::Folder { path: folder, .. } => self.folders.resolve(&folder.join(path), changes),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn enter(&mut self, open: Open) -> Result<u64, Errno> {
        self.enter_from(0, open)
    }

    /// Gives an open file the lowest free number that is not below `least`.
    fn enter_from(&mut self, least: u64, open: Open) -> Result<u64, Errno> {
        let mut numbers = least..MOST_FILES;
        let number = numbers.find(|number| !self.is_open(*number));
        let number = number.ok_or(Errno::MFILE)?;
        self.put_at(number, open);
        Ok(number)
    }

    fn put_at(&mut self, number: u64, open: Open) {
        let number = number as usize;
        if number >= self.open.len() {
            self.open.resize_with(number + 1, || None);
        }
        self.open[number] = Some(open);
    }

    fn get(&self, number: u64) -> Result<&Open, Errno> {
        let open = self.open.get(number as u32 as usize);
        open.and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    fn get_mut(&mut self, number: u64) -> Result<&mut Open, Errno> {
        let open = self.open.get_mut(number as u32 as usize);
        open.and_then(Option::as_mut).ok_or(Errno::BADF)
    }

    pub(super) fn is_open(&self, number: u64) -> bool {
        self.get(number).is_ok()
    }

    pub(super) fn close(&mut self, number: u64) -> Result<u64, Errno> {
        self.get(number)?;
        self.open[number as u32 as usize] = None;
        Ok(0)
    }

    /// Another descriptor for the same file: the lowest free one that is not below `least`.
    pub(super) fn duplicate(&mut self, number: u64, least: u64) -> Result<u64, Errno> {
        if least >= MOST_FILES {
            return Err(Errno::INVAL);
        }
        let copy = self.copy(number)?;
        self.enter_from(least, copy)
    }

    /// Makes `to` another descriptor for the same file, whatever it was.
    pub(super) fn duplicate_to(&mut self, number: u64, to: u64) -> Result<u64, Errno> {
        let copy = self.copy(number)?;
        if to >= MOST_FILES {
            return Err(Errno::BADF);
        }
        if number == to {
            return Err(Errno::INVAL);
        }
        self.put_at(to, copy);
        Ok(to)
    }

    fn copy(&self, number: u64) -> Result<Open, Errno> {
        Ok(match self.get(number)? {
            Open::Input => Open::Input,
            Open::Console(stream) => Open::Console(*stream),
            Open::Null => Open::Null,
            Open::File { file, path } => Open::File {
                file: file.try_clone()?,
                path: path.clone(),
            },
            Open::Text { bytes, at } => Open::Text {
                bytes: Arc::clone(bytes),
                at: *at,
            },
            Open::Folder { path, left } => Open::Folder {
                path: path.clone(),
                left: left.clone(),
            },
        })
    }

    /// The host's own file, which a lock is for.
    pub(super) fn host_file(&self, number: u64) -> Result<&File, Errno> {
        match self.get(number)? {
            Open::File { file, .. } => Ok(file),
            _ => Err(Errno::INVAL),
        }
    }

    /// Which output this is, if it is one.
    pub(super) fn stream(&self, number: u64) -> Result<Option<Stream>, Errno> {
        Ok(match self.get(number)? {
            Open::Console(stream) => Some(*stream),
            _ => None,
        })
    }

    /// Reads at the file's place, or at one that the call names.
    pub(super) fn read(
        &mut self,
        number: u64,
        to: &mut [u8],
        at: Option<u64>,
    ) -> Result<usize, Errno> {
        match self.get_mut(number)? {
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

    /// Writes to anything but the console.
    pub(super) fn write(
        &mut self,
        number: u64,
        bytes: &[u8],
        at: Option<u64>,
    ) -> Result<usize, Errno> {
        match self.get_mut(number)? {
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

    pub(super) fn seek(&mut self, number: u64, offset: i64, from: u64) -> Result<u64, Errno> {
        match self.get_mut(number)? {
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
                *at = base.checked_add_signed(offset).ok_or(Errno::INVAL)?;
                Ok(*at)
            }
            Open::Null => Ok(0),
            Open::Input | Open::Console(_) | Open::Folder { .. } => Err(Errno::SPIPE),
        }
    }

    pub(super) fn set_length(&self, number: u64, n_bytes: u64) -> Result<u64, Errno> {
        self.host_file(number)?.set_len(n_bytes)?;
        Ok(0)
    }

    /// Makes a file at least so long.
    pub(super) fn lengthen(&self, number: u64, n_bytes: u64) -> Result<u64, Errno> {
        let file = self.host_file(number)?;
        if file.metadata()?.len() < n_bytes {
            file.set_len(n_bytes)?;
        }
        Ok(0)
    }

    /// As [`set_length`](Self::set_length), of the file of that name.
    pub(super) fn truncate(&self, path: &[u8], n_bytes: u64) -> Result<u64, Errno> {
        let path = self.resolve(u64::from(AT_FDCWD.cast_unsigned()), path, true)?;
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(n_bytes)?;
        Ok(0)
    }

    /// Sets whether a file may be written, of all that a mode tells.
    pub(super) fn set_mode(&self, number: u64, mode: u64) -> Result<u64, Errno> {
        match self.get(number)? {
            Open::File { path, .. } | Open::Folder { path, .. } => {
                set_mode(&self.folders.resolve(path, true)?, mode)
            }
            _ => Err(Errno::PERM),
        }
    }

    /// As [`set_mode`](Self::set_mode), of what a path means.
    pub(super) fn set_mode_at(&self, at: u64, path: &[u8], mode: u64) -> Result<u64, Errno> {
        set_mode(&self.resolve(at, path, true)?, mode)
    }

    /// Relative paths start there from now on.
    pub(super) fn enter_folder(&mut self, path: &[u8]) -> Result<u64, Errno> {
        let path = self.resolve(u64::from(AT_FDCWD.cast_unsigned()), path, false)?;
        if !path.metadata()?.is_dir() {
            return Err(Errno::NOTDIR);
        }
        self.folders.current = path;
        Ok(0)
    }

    /// As [`enter_folder`](Self::enter_folder), with the folder open.
    pub(super) fn enter_open_folder(&mut self, number: u64) -> Result<u64, Errno> {
        let Open::Folder { path, .. } = self.get(number)? else {
            return Err(Errno::NOTDIR);
        };
        self.folders.current = path.clone();
        Ok(0)
    }

    pub(super) fn facts(&self, number: u64) -> Result<Facts, Errno> {
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
    pub(super) fn facts_at(&self, at: u64, path: &[u8]) -> Result<Facts, Errno> {
        match path {
            b"" => self.facts(at),
            b"/dev/null" => Ok(Facts::device()),
            b"/proc/self/exe" => Ok(Facts::made_up(self.program.len() as u64)),
            b"/proc/self/maps" => Ok(Facts::made_up(self.maps.len() as u64)),
            _ => facts_of(&self.resolve(at, path, false)?),
        }
    }

    /// The next entries of a folder as Linux lays them out, of at most so many bytes.
    pub(super) fn entries(&mut self, number: u64, most: u64) -> Result<Vec<u8>, Errno> {
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

/// The entries of a folder, the first by name last.
fn entries(folder: &Path) -> Result<Vec<Entry>, Errno> {
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
