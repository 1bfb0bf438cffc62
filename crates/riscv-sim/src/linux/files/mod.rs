//! A process's open files: the console, files of the host, and the few that the simulator makes up.

mod attributes;
mod content;
mod folder;
mod locks;

use std::cell::{Ref, RefCell, RefMut};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::errno::Errno;
use super::folders::Folders;
use folder::{Entry, entries};
pub(crate) use locks::Identity;

/// The most files that a process may have open.
pub(crate) const MOST_FILES: u64 = 1024;

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
const NO_FOLLOW: u64 = 0o400_000;

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
        /// How it is used.
        flags: u64,
        /// It has the lock of this file, which is its own.
        locked: Option<Identity>,
    },
    Folder {
        path: PathBuf,
        /// The entries that have not been read.
        left: Vec<Entry>,
    },
}

/// All of a process's open files.
#[derive(Debug)]
pub(crate) struct Files {
    /// Several descriptors may stand for one open file, which has one place.
    open: Vec<Option<Rc<RefCell<Open>>>>,
    folders: Folders,
    /// What `/proc/self/maps` says.
    maps: Arc<[u8]>,
    program: Arc<[u8]>,
    /// The rights that files and folders do not get when they are made.
    mask: u64,
}

/// A path as a process writes it.
pub(crate) fn path_of(bytes: &[u8]) -> Result<&Path, Errno> {
    let text = std::str::from_utf8(bytes).map_err(|_| Errno::NOENT)?;
    Ok(Path::new(OsStr::new(text)))
}

/// Whether a file that is opened so may be written.
const fn writes(flags: u64) -> bool {
    matches!(flags & ACCESS, WRITE_ONLY | READ_WRITE)
}

/// Whether a descriptor, which is 32 bits wide, stands for the current folder.
const fn is_current(at: u64) -> bool {
    at as u32 == AT_FDCWD.cast_unsigned()
}

impl Files {
    pub(crate) fn new(folders: Folders, maps: &str, program: Arc<[u8]>) -> Self {
        Self {
            open: [
                Open::Input,
                Open::Console(Stream::Output),
                Open::Console(Stream::Errors),
            ]
            .map(|open| Some(Rc::new(RefCell::new(open))))
            .into(),
            folders,
            maps: maps.as_bytes().into(),
            program,
            mask: 0o022,
        }
    }

    /// The last path that lies in no folder which it may use so.
    pub(crate) fn refused(&self) -> Option<PathBuf> {
        self.folders.refused()
    }

    /// Where relative paths start.
    pub(crate) fn current(&self) -> &Path {
        &self.folders.current
    }

    /// `mode` is that of a file which is created.
    pub(crate) fn open(
        &mut self,
        at: u64,
        path: &[u8],
        (flags, mode): (u64, u64),
    ) -> Result<u64, Errno> {
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
            None => self.open_file(at, path, (flags, mode))?,
        };
        self.enter_from(0, Rc::new(RefCell::new(open)))
    }

    fn open_file(&self, at: u64, path: &[u8], (flags, mode): (u64, u64)) -> Result<Open, Errno> {
        let writes = writes(flags);
        let changes = writes || flags & (CREATE | TRUNCATE) != 0;
        let is_link = || {
            self.resolve_entry(at, path, false)
                .is_ok_and(|it| it.is_symlink())
        };
        if flags & NO_FOLLOW != 0 && is_link() {
            return Err(Errno::LOOP);
        }
        let path = self.resolve(at, path, changes)?;
        if let Ok(metadata) = path.metadata() {
            if flags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE {
                return Err(Errno::EXIST);
            }
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
        // By itself, since the host does neither for whoever only reads, or appends.
        if flags & (CREATE | TRUNCATE) != 0 {
            attributes::creating(mode & !self.mask)
                .write(true)
                .truncate(flags & TRUNCATE != 0)
                .create(flags & CREATE != 0)
                .create_new(flags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE)
                .open(&path)?;
        }
        let file = OpenOptions::new()
            .read(flags & ACCESS != WRITE_ONLY)
            .write(writes && flags & APPEND == 0)
            .append(writes && flags & APPEND != 0)
            .open(&path)?;
        Ok(Open::File {
            file,
            path,
            flags,
            locked: None,
        })
    }

    /// The file of the host that a path means, seen from the folder `at`.
    pub(crate) fn resolve(&self, at: u64, path: &[u8], changes: bool) -> Result<PathBuf, Errno> {
        self.folders.resolve(&self.seen_from(at, path)?, changes)
    }

    /// As [`resolve`](Self::resolve), of the entry that the path names, which may be a link.
    pub(crate) fn resolve_entry(
        &self,
        at: u64,
        path: &[u8],
        changes: bool,
    ) -> Result<PathBuf, Errno> {
        let path = self.seen_from(at, path)?;
        self.folders.resolve_entry(&path, changes)
    }

    /// A path, seen from the current folder.
    fn seen_from(&self, at: u64, path: &[u8]) -> Result<PathBuf, Errno> {
        let path = path_of(path)?;
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT);
        }
        if path.is_absolute() || is_current(at) {
            return Ok(path.to_owned());
        }
        match &*self.get(at)? {
            Open::Folder { path: folder, .. } => Ok(folder.join(path)),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Gives an open file the lowest free number that is not below `least`.
    fn enter_from(&mut self, least: u64, open: Rc<RefCell<Open>>) -> Result<u64, Errno> {
        let mut numbers = least..MOST_FILES;
        let number = numbers.find(|number| !self.is_open(*number));
        let number = number.ok_or(Errno::MFILE)?;
        self.put_at(number, open);
        Ok(number)
    }

    fn put_at(&mut self, number: u64, open: Rc<RefCell<Open>>) {
        let number = number as usize;
        if number >= self.open.len() {
            self.open.resize_with(number + 1, || None);
        }
        self.open[number] = Some(open);
    }

    fn shared(&self, number: u64) -> Result<&Rc<RefCell<Open>>, Errno> {
        let open = self.open.get(number as u32 as usize);
        open.and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    fn get(&self, number: u64) -> Result<Ref<'_, Open>, Errno> {
        Ok(self.shared(number)?.borrow())
    }

    fn get_mut(&self, number: u64) -> Result<RefMut<'_, Open>, Errno> {
        Ok(self.shared(number)?.borrow_mut())
    }

    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.shared(number).is_ok()
    }

    pub(crate) fn close(&mut self, number: u64) -> Result<u64, Errno> {
        self.shared(number)?;
        self.open[number as u32 as usize] = None;
        Ok(0)
    }

    /// Closes everything, which releases the locks of files.
    pub(crate) fn close_all(&mut self) {
        self.open.clear();
    }

    /// Another descriptor for the same file: the lowest free one that is not below `least`.
    pub(crate) fn duplicate(&mut self, number: u64, least: u64) -> Result<u64, Errno> {
        if least >= MOST_FILES {
            return Err(Errno::INVAL);
        }
        let same = Rc::clone(self.shared(number)?);
        self.enter_from(least, same)
    }

    /// Makes `to` another descriptor for the same file, whatever it was.
    pub(crate) fn duplicate_to(&mut self, number: u64, to: u64) -> Result<u64, Errno> {
        let same = Rc::clone(self.shared(number)?);
        if to >= MOST_FILES {
            return Err(Errno::BADF);
        }
        if number == to {
            return Err(Errno::INVAL);
        }
        self.put_at(to, same);
        Ok(to)
    }

    /// The host's own file, which a lock is for.
    pub(crate) fn host_file(&self, number: u64) -> Result<Ref<'_, File>, Errno> {
        let file = Ref::filter_map(self.get(number)?, |open| match open {
            Open::File { file, .. } => Some(file),
            _ => None,
        });
        file.map_err(|_| Errno::INVAL)
    }

    /// Which output this is, if it is one.
    pub(crate) fn stream(&self, number: u64) -> Result<Option<Stream>, Errno> {
        Ok(match &*self.get(number)? {
            Open::Console(stream) => Some(*stream),
            _ => None,
        })
    }
}
