//! Locks of files, which belong to what was opened and not to a descriptor.

use std::fs::File;

use super::{Files, Open};
use crate::linux::errno::Errno;

/// Of `flock`: with others, alone, no longer.
const LOCK_SHARED: u64 = 1;
const LOCK_EXCLUSIVE: u64 = 2;
const LOCK_NONE: u64 = 8;

/// What tells the host's files apart: the file system, and the number there.
pub(crate) type Identity = (u64, u64);

impl Files {
    /// Locks a file of the host at once, for whoever opened it, or releases the lock.
    pub(crate) fn lock(&self, number: u64, operation: u64) -> Result<(), Errno> {
        let Open::File { file, locked, .. } = &mut *self.get_mut(number)? else {
            return Err(Errno::INVAL);
        };
        let result = try_lock(file, operation);
        match result {
            Ok(()) if operation != LOCK_NONE => *locked = Some(identity(file)?),
            // Who wants to lock in another way gives up what there is, even in vain.
            Ok(()) | Err(Errno::AGAIN) => *locked = None,
            Err(_) => {}
        }
        result
    }

    /// Which file of the host it is.
    pub(crate) fn identity(&self, number: u64) -> Result<Identity, Errno> {
        identity(&*self.host_file(number)?)
    }

    /// The files that are locked.
    pub(crate) fn locked(&self) -> impl Iterator<Item = Identity> {
        let open = self.open.iter().flatten();
        open.filter_map(|open| match &*open.borrow() {
            Open::File { locked, .. } => *locked,
            _ => None,
        })
    }
}

#[cfg(unix)]
fn try_lock(file: &File, operation: u64) -> Result<(), Errno> {
    use rustix::fs::{FlockOperation, flock};
    let operation = match operation {
        LOCK_SHARED => FlockOperation::NonBlockingLockShared,
        LOCK_EXCLUSIVE => FlockOperation::NonBlockingLockExclusive,
        LOCK_NONE => FlockOperation::NonBlockingUnlock,
        _ => return Err(Errno::INVAL),
    };
    flock(file, operation).map_err(|why| Errno::from(std::io::Error::from(why)))
}

/// The host knows no such locks.
#[cfg(not(unix))]
fn try_lock(_file: &File, _operation: u64) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

#[cfg(unix)]
fn identity(file: &File) -> Result<Identity, Errno> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Where no file is locked.
#[cfg(not(unix))]
fn identity(_file: &File) -> Result<Identity, Errno> {
    Err(Errno::NOSYS)
}
