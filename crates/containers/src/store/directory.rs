//! The directory of a checkpoint.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use pgas_core::{Error, StorageError};

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

/// Waits until changes to the directory `dir` are on the disk.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
