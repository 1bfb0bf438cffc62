//! A copy of the workspace, in which a line can be changed without anybody's seeing it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::process;

/// The copied paths: all that cargo reads. Most of the rest are build outputs.
const COPIED: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "rust-toolchain.toml",
    "src",
    "crates",
    "examples",
    "benches",
    "tests",
    "xtask",
];

pub(super) struct Copy {
    root: PathBuf,
}

impl Copy {
    /// The copy, in which nothing is changed.
    pub(super) fn make() -> Result<Self> {
        let root = process::root().join("target/mutants/workspace");
        fs::create_dir_all(&root)?;
        for name in COPIED {
            renew(&process::root().join(name), &root.join(name))?;
        }
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder where builds of this kind are kept for the next run.
    pub(super) fn target(&self, kind: &str) -> PathBuf {
        self.root.with_file_name("target").join(kind)
    }

    /// The path of the kept program with this name, built without a mutant.
    pub(super) fn unchanged(&self, name: &OsStr) -> Result<PathBuf> {
        let folder = self.root.with_file_name("unchanged");
        fs::create_dir_all(&folder)?;
        Ok(folder.join(name))
    }
}

/// Makes `to` equal to `from`. Equal files stay as they are, so that cargo builds only changes.
fn renew(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        let bytes = fs::read(from)?;
        if fs::read(to).is_ok_and(|former| former == bytes) {
            return Ok(());
        }
        return Ok(fs::write(to, bytes)?);
    }
    fs::create_dir_all(to)?;
    let names = |folder: &Path| -> Result<Vec<_>> {
        let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
        let names = entries.into_iter().map(|entry| entry.file_name());
        Ok(names.filter(|name| name != OsStr::new("target")).collect())
    };
    let wanted = names(from)?;
    for gone in names(to)?.iter().filter(|name| !wanted.contains(name)) {
        let gone = to.join(gone);
        if gone.is_dir() {
            fs::remove_dir_all(gone)?;
        } else {
            fs::remove_file(gone)?;
        }
    }
    for name in wanted {
        renew(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_renewed_where_it_differs_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/same"), "same").unwrap();
        fs::write(from.join("changed"), "old").unwrap();
        fs::write(from.join("gone"), "").unwrap();
        renew(&from, &to).unwrap();
        let written = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = written("a/same");
        fs::write(from.join("changed"), "new").unwrap();
        fs::remove_file(from.join("gone")).unwrap();
        renew(&from, &to).unwrap();
        assert_eq!(written("a/same"), before);
        assert_eq!(fs::read(to.join("changed")).unwrap(), b"new");
        assert!(!to.join("gone").exists());
    }
}
