//! What is told about a file, as Linux lays it out. Times and numbers of files that differ between
//! hosts are left out, so that a run is repeated exactly.

use std::fs::{FileType, Metadata};

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    mode: u32,
    n_bytes: u64,
    /// Tells files apart.
    number: u64,
}

impl Facts {
    const FOLDER: u32 = 0o040_000;
    const REGULAR: u32 = 0o100_000;
    const CHARACTERS: u32 = 0o020_000;

    /// The console and the like.
    pub(super) const fn device() -> Self {
        Self {
            mode: Self::CHARACTERS | 0o600,
            n_bytes: 0,
            number: 1,
        }
    }

    /// A file that the simulator makes up.
    pub(super) const fn made_up(n_bytes: u64) -> Self {
        Self {
            mode: Self::REGULAR | 0o444,
            n_bytes,
            number: 2,
        }
    }

    /// A file of the host, at a path.
    pub(super) fn of(metadata: &Metadata, path: &[u8]) -> Self {
        let kind = match kind_of(metadata) {
            Self::FOLDER => Self::FOLDER | 0o111,
            kind => kind,
        };
        let write = match metadata.permissions().readonly() {
            true => 0,
            false => 0o200,
        };
        // File systems disagree on what a folder takes.
        let n_bytes = match metadata.is_dir() {
            true => 4096,
            false => metadata.len(),
        };
        Self {
            mode: kind | write | 0o444,
            n_bytes,
            number: path_number(path),
        }
    }

    /// `struct stat`.
    pub(super) fn stat(&self) -> [u8; 128] {
        let mut to = [0; 128];
        put(&mut to, 0, 1_u64.to_le_bytes());
        put(&mut to, 8, self.number.to_le_bytes());
        put(&mut to, 16, self.mode.to_le_bytes());
        put(&mut to, 20, 1_u32.to_le_bytes());
        put(&mut to, 48, self.n_bytes.to_le_bytes());
        put(&mut to, 56, 4096_u32.to_le_bytes());
        put(&mut to, 64, self.n_bytes.div_ceil(512).to_le_bytes());
        to
    }

    /// `struct statx`.
    pub(super) fn statx(&self) -> [u8; 256] {
        /// All that `stat` has.
        const BASIC: u32 = 0x7ff;
        let mut to = [0; 256];
        put(&mut to, 0, BASIC.to_le_bytes());
        put(&mut to, 4, 4096_u32.to_le_bytes());
        put(&mut to, 16, 1_u32.to_le_bytes());
        let mode = self.mode.to_le_bytes();
        put(&mut to, 28, [mode[0], mode[1]]);
        put(&mut to, 32, self.number.to_le_bytes());
        put(&mut to, 40, self.n_bytes.to_le_bytes());
        put(&mut to, 48, self.n_bytes.div_ceil(512).to_le_bytes());
        put(&mut to, 140, 1_u32.to_le_bytes());
        to
    }
}

/// What a file is, of all that a mode tells.
#[cfg(unix)]
fn kind_of(metadata: &Metadata) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    const KIND: u32 = 0o170_000;
    metadata.mode() & KIND
}

#[cfg(not(unix))]
fn kind_of(metadata: &Metadata) -> u32 {
    match metadata.is_dir() {
        true => Facts::FOLDER,
        false => Facts::REGULAR,
    }
}

/// The kind of a folder's entry, as the folder tells it.
pub(super) fn kind_of_entry(kind: FileType) -> u8 {
    const UNKNOWN: u8 = 0;
    const FOLDER: u8 = 4;
    const REGULAR: u8 = 8;
    const LINK: u8 = 10;
    match kind {
        _ if kind.is_dir() => FOLDER,
        _ if kind.is_file() => REGULAR,
        _ if kind.is_symlink() => LINK,
        _ => UNKNOWN,
    }
}

fn put<const N: usize>(to: &mut [u8], at: usize, bytes: [u8; N]) {
    to[at..at + N].copy_from_slice(&bytes);
}

/// Fowler, Noll and Vo's hash.
pub(super) fn path_number(path: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    path.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One has no bytes where they say nothing of its size.
    #[test]
    #[cfg(target_os = "linux")]
    fn all_folders_are_of_one_size() {
        for path in ["/proc", "/", "/sys"] {
            let facts = Facts::of(&std::fs::metadata(path).unwrap(), path.as_bytes());
            assert_eq!(facts.stat()[48..56], 4096_u64.to_le_bytes(), "{path}");
            assert_eq!(facts.statx()[40..48], 4096_u64.to_le_bytes(), "{path}");
        }
    }
}
