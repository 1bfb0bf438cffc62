//! Which files of the host a process may open: those below folders that the user granted.

use std::cell::RefCell;
use std::path::{Component, Path, PathBuf};

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
        let is_inside = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let path = self.current.join(path);
        let found = self.find_entry(&path, changes);
        if found == Err(Errno::ACCES) && changes {
            self.refused.replace(Some(path));
        }
        match found {
            Ok(path) if is_inside && path.is_symlink() => Err(Errno::NOTDIR),
            found => found,
        }
    }

    /// The last path that was refused, as the process named it.
    pub(super) fn refused(&self) -> Option<PathBuf> {
        self.refused.borrow().clone()
    }

    fn find(&self, path: &Path, changes: bool) -> Result<PathBuf, Errno> {
        if let Ok(real) = path.canonicalize() {
            return self.allowed(real, changes);
        }
        if path.symlink_metadata().is_ok() {
            // A link to something that is not there could lead anywhere.
            return Err(Errno::ACCES);
        }
        self.find_entry(path, changes)
    }

    fn find_entry(&self, path: &Path, changes: bool) -> Result<PathBuf, Errno> {
        let Some(Component::Normal(last)) = path.components().next_back() else {
            return Err(Errno::ACCES);
        };
        let parent = path.parent().ok_or(Errno::ACCES)?;
        // The nearest part of it that is there says whether anybody may know that the rest is not.
        match parent.canonicalize() {
            Ok(parent) => self.allowed(parent.join(last), changes),
            Err(_) => {
                let mut ancestors = parent.ancestors().skip(1);
                let nearest = ancestors.find_map(|path| path.canonicalize().ok());
                self.allowed(nearest.ok_or(Errno::ACCES)?, false)?;
                Err(Errno::NOENT)
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn nothing_outside_of_the_folders_is_reached_whatever_the_path() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        for folder in ["in/deep", "out", "rw"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        for file in ["in/file", "out/secret", "rw/file"] {
            std::fs::write(top.join(file), file).unwrap();
        }
        std::os::unix::fs::symlink(top.join("out/secret"), top.join("in/link")).unwrap();
        std::os::unix::fs::symlink(top.join("out/none"), top.join("rw/dangling")).unwrap();
        std::os::unix::fs::symlink(top.join("in/file"), top.join("out/back")).unwrap();
        let folder = |name: &str, is_writable| Folder {
            path: top.join(name),
            is_writable,
        };
        let mut folders = Folders::new(&[folder("in", false), folder("rw", true)]).unwrap();
        folders.current = top.join("in");
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
            ("link/", false, Err(Errno::NOTDIR)),
            ("link", true, Err(Errno::ACCES)),
            ("../rw/dangling", true, Ok(top.join("rw/dangling"))),
            ("../rw/new", true, Ok(top.join("rw/new"))),
            (&full("out/back"), false, Err(Errno::ACCES)),
            ("../rw/..", true, Err(Errno::ACCES)),
            ("none/none", false, Err(Errno::NOENT)),
        ] {
            assert_eq!(entry(path, changes), expected, "{path:?} {changes}");
        }
        assert!(Folders::new(&[folder("none", false)]).is_err());
        assert!(Folders::new(&[folder("in/file", false)]).is_err());
    }
}
