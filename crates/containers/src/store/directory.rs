//! The directory of a checkpoint.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::Error;

pub(super) fn storage(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Storage(format!("{}: {why}", path.display()).into())
}

/// Waits until what was done to the files of `dir` is on the disk.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
