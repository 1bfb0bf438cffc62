//! Which files of the host a process may open: those below folders that the user granted.

use std::cell::RefCell;
use std::path::{Component, Path, PathBuf, is_separator};

use super::errno::Errno;
use crate::error::{Error, Result};

/// A folder of the host that guests may use, under the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// Whether files in it may be made, changed and removed, or only read.
    pub is_writable: bool,
}

/// The granted folders by their real names, in which nothing is a link.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    granted: Vec<Folder>,
    /// Where relative paths start.
    pub(super) current: PathBuf,
    /// The last path that was refused.
    refused: RefCell<Option<PathBuf>>,
}

impl Folders {
    pub(super) fn new(granted: &[Folder]) -> Result<Self> {
        let real = |folder: &Folder| {
            let named = |why| Error::Config(format!("{}: {why}", folder.path.display()));
            let path = folder.path.canonicalize().map_err(named)?;
            if !path.is_dir() {
                return Err(Error::Config(format!("{}: no folder", path.display())));
            }
            Ok(Folder {
                path,
                is_writable: folder.is_writable,
            })
        };
        let current = std::env::current_dir();
        Ok(Self {
            granted: granted.iter().map(real).collect::<Result<_>>()?,
            current: current.map_err(|why| Error::Config(format!("the current folder: {why}")))?,
            refused: RefCell::default(),
        })
    }

    /// The file that a path means, if it lies in a granted folder, which has to be writable if it
    /// is to be changed. The path's last part need not be there. What a path outside means, or
    /// whether there is anything, is not told.
    pub(super) fn resolve(&self, path: &Path, changes: bool) -> Result<PathBuf, Errno> {
        let path = self.current.join(path);
        let found = self.find(&path, changes);
        if found == Err(Errno::ACCES) {
            self.refused.replace(Some(path));
        }
        found
    }

    /// As [`resolve`](Self::resolve), of the entry that a path names, which may be a link: what it
    /// leads to does not matter.
    pub(super) fn resolve_entry(&self, path: &Path, changes: bool) -> Result<PathBuf, Errno> {
        let path = self.current.join(path);
        let found = self.find_entry(&path, changes);
        if found == Err(Errno::ACCES) && changes {
            self.refused.replace(Some(path));
        }
        found
    }

    /// The last path that was refused, as the process named it.
    pub(super) fn refused(&self) -> Option<PathBuf> {
        self.refused.borrow().clone()
    }

    fn find(&self, path: &Path, changes: bool) -> Result<PathBuf, Errno> {
        if let Ok(real) = path.canonicalize() {
            return self.allowed(real, changes);
        }
        let (name, _) = split_end(path);
        if name.is_symlink() {
            // A link to something that is not there could lead anywhere.
            let real = name.canonicalize().map_err(|_| Errno::ACCES)?;
            self.allowed(real, changes)?;
            return Err(Errno::NOTDIR);
        }
        self.find_entry(path, changes)
    }

    fn find_entry(&self, path: &Path, changes: bool) -> Result<PathBuf, Errno> {
        let (path, end) = split_end(path);
        let Some(Component::Normal(last)) = path.components().next_back() else {
            return Err(Errno::ACCES);
        };
        let parent = path.parent().ok_or(Errno::ACCES)?;
        // The nearest part of it that is there says whether anybody may know that the rest is not.
        let Ok(parent) = parent.canonicalize() else {
            let mut ancestors = parent.ancestors().skip(1);
            let nearest = ancestors.find_map(|path| path.canonicalize().ok());
            self.allowed(nearest.ok_or(Errno::ACCES)?, false)?;
            return Err(Errno::NOENT);
        };
        let mut entry = self.allowed(parent.join(last), changes)?;
        if !end.is_empty() {
            if entry.is_symlink() {
                return Err(Errno::NOTDIR);
            }
            // The host says what such an end means for what is there, or is not.
            entry.as_mut_os_string().push(end);
        }
        Ok(entry)
    }

    fn allowed(&self, real: PathBuf, changes: bool) -> Result<PathBuf, Errno> {
        let mut granted = self.granted.iter();
        let holds =
            |folder: &Folder| real.starts_with(&folder.path) && (folder.is_writable || !changes);
        match granted.any(holds) {
            true => Ok(real),
            false => Err(Errno::ACCES),
        }
    }
}

/// A path without the slashes and dots at its end, by which it means what is inside, and these:
/// with them it leads through a link.
fn split_end(path: &Path) -> (PathBuf, &'static str) {
    let is_slash = |byte: &u8| is_separator(char::from(*byte));
    let bytes = path.as_os_str().as_encoded_bytes();
    let len = bytes.iter().rposition(|byte| !is_slash(byte));
    let named = &bytes[..len.map_or(0, |last| last + 1)];
    let end = match named {
        [.., before, b'.'] if is_slash(before) => "/.",
        _ if named.len() < bytes.len() => "/",
        _ => "",
    };
    (path.components().collect(), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder to read and one to write, links in them and elsewhere, and where all lie.
    #[cfg(unix)]
    fn made() -> (tempfile::TempDir, PathBuf, Folders) {
        let held = tempfile::tempdir().unwrap();
        let top = held.path().canonicalize().unwrap();
        for folder in ["in/deep", "out", "rw"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        for file in ["in/file", "out/secret", "rw/file"] {
            std::fs::write(top.join(file), file).unwrap();
        }
        for (to, link) in [
            ("out/secret", "in/link"),
            ("out/none", "rw/dangling"),
            ("in/file", "out/back"),
        ] {
            std::os::unix::fs::symlink(top.join(to), top.join(link)).unwrap();
        }
        let granted = [("in", false), ("rw", true)].map(|(name, is_writable)| Folder {
            path: top.join(name),
            is_writable,
        });
        let mut folders = Folders::new(&granted).unwrap();
        folders.current = top.join("in");
        (held, top, folders)
    }

    #[test]
    #[cfg(unix)]
    fn nothing_outside_of_the_folders_is_reached_whatever_the_path() {
        let (_held, top, folders) = made();
        let resolve = |path: &str, changes| folders.resolve(Path::new(path), changes);
        let full = |path: &str| top.join(path).to_str().unwrap().to_owned();
        for (path, changes, expected) in [
            ("file", false, Ok(top.join("in/file"))),
            ("deep/../file", false, Ok(top.join("in/file"))),
            ("../rw/file", true, Ok(top.join("rw/file"))),
            ("../rw/new", true, Ok(top.join("rw/new"))),
            (&full("out/back"), false, Ok(top.join("in/file"))),
            ("file", true, Err(Errno::ACCES)),
            ("new", true, Err(Errno::ACCES)),
            ("link", false, Err(Errno::ACCES)),
            ("../rw/dangling", true, Err(Errno::ACCES)),
            ("../out/secret", false, Err(Errno::ACCES)),
            ("../out/none", false, Err(Errno::ACCES)),
            ("../none/none", false, Err(Errno::ACCES)),
            ("/etc/passwd", false, Err(Errno::ACCES)),
            ("/", false, Err(Errno::ACCES)),
            ("none/none", false, Err(Errno::NOENT)),
            ("none/../../out/secret", false, Err(Errno::NOENT)),
            ("", false, Ok(top.join("in"))),
        ] {
            assert_eq!(resolve(path, changes), expected, "{path:?} {changes}");
        }
        let entry = |path: &str, changes| folders.resolve_entry(Path::new(path), changes);
        for (path, changes, expected) in [
            ("link", false, Ok(top.join("in/link"))),
            ("link", true, Err(Errno::ACCES)),
            ("../rw/dangling", true, Ok(top.join("rw/dangling"))),
            ("../rw/new", true, Ok(top.join("rw/new"))),
            (&full("out/back"), false, Err(Errno::ACCES)),
            ("../rw/..", true, Err(Errno::ACCES)),
            ("none/none", false, Err(Errno::NOENT)),
        ] {
            assert_eq!(entry(path, changes), expected, "{path:?} {changes}");
        }
        let refused = |name| {
            let path = top.join(name);
            let is_writable = false;
            Folders::new(&[Folder { path, is_writable }]).is_err()
        };
        assert!(refused("none") && refused("in/file"));
    }

    #[test]
    #[cfg(unix)]
    fn a_path_that_ends_in_a_slash_or_dot_keeps_that_and_leads_through_no_link() {
        let (_held, top, folders) = made();
        let full = |path: &str| top.join(path).to_str().unwrap().to_owned();
        // Paths that differ in their ends alone are equal, and texts are not.
        let text = |found: Result<PathBuf, Errno>| found.map(|it| it.to_str().unwrap().to_owned());
        for (path, changes, expected) in [
            ("../rw/dangling/", true, Err(Errno::ACCES)),
            ("../rw/dangling//.", true, Err(Errno::ACCES)),
            ("../rw/dangling/./", false, Err(Errno::ACCES)),
            ("link/", false, Err(Errno::ACCES)),
            (&full("out/back/"), false, Err(Errno::NOTDIR)),
            ("../rw/file/", true, Ok(full("rw/file/"))),
            ("../rw/new/./", true, Ok(full("rw/new/."))),
            ("deep/.", false, Ok(full("in/deep"))),
        ] {
            let found = text(folders.resolve(Path::new(path), changes));
            assert_eq!(found, expected, "{path:?} {changes}");
        }
        for (path, changes, expected) in [
            ("link/", false, Err(Errno::NOTDIR)),
            ("link/.", false, Err(Errno::NOTDIR)),
            ("../rw/dangling//", true, Err(Errno::NOTDIR)),
            ("../rw/file/.//", true, Ok(full("rw/file/."))),
        ] {
            let found = text(folders.resolve_entry(Path::new(path), changes));
            assert_eq!(found, expected, "{path:?} {changes}");
        }
    }
}
