//! The directory of a checkpoint.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use pgas_core::{Error, Process, Result, StorageError};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// An error about the file or directory at `path`.
pub(super) fn storage(path: &Path, why: impl std::fmt::Display) -> Error {
    told(path, &why, None)
}

/// The system's error for the file or directory at `path`.
pub(super) fn refused(path: &Path, error: io::Error) -> Error {
    let error = Arc::new(error);
    told(path, &error, Some(Arc::clone(&error)))
}

fn told(path: &Path, why: &dyn std::fmt::Display, system: Option<Arc<io::Error>>) -> Error {
    Error::from(Box::new(StorageError {
        path: path.to_owned(),
        reason: why.to_string(),
        system,
    }))
}

/// Opens a file for reading. If it is a pipe, does not wait for a writer.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

/// A directory into which nobody else saves while this lives; only opened, if the file system has
/// no locks.
#[derive(Debug)]
pub(super) struct Claim {
    dir: File,
    process: Process,
}

impl Claim {
    /// An error if another program, or another team, is saving into `dir`: each would remove the
    /// files of the other.
    pub(super) fn on(dir: &Path) -> Result<Self> {
        let file = File::open(dir).map_err(|e| refused(dir, e))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(storage(dir, "another container is being saved into it"));
        }
        let process = Process::this();
        Ok(Self { dir: file, process })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A child that was forked has the parent's lock.
        if self.process.is_forked() {
            return;
        }
        // A process that another thread has just forked has the directory open until it runs its
        // program. Without locks there is nothing to give back.
        let _ignored = flock(&self.dir, FlockOperation::Unlock);
    }
}

/// Makes the directory `dir`, and those above it that are not there.
pub(super) fn create(dir: &Path) -> io::Result<()> {
    let is_new = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let new: Vec<&Path> = dir.ancestors().take_while(is_new).collect();
    fs::create_dir_all(dir)?;
    new.into_iter().rev().try_for_each(sync_parent)
}

/// Waits until changes to the directory `dir` are on the disk, if the file system can do that for
/// directories.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    match File::open(dir)?.sync_all() {
        Err(error) if is_unable(&error) => Ok(()),
        synced => synced,
    }
}

fn is_unable(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::INVAL | Errno::BADF))
}

/// As [`sync`], for the directory in which `dir` is. Only if it may be read, which making `dir`
/// does not need.
pub(super) fn sync_parent(dir: &Path) -> io::Result<()> {
    let parent = fs::canonicalize(dir)?.parent().map(sync);
    match parent.unwrap_or(Ok(())) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}
