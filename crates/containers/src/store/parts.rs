//! A part: one rank's elements in a file.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use pgas_core::Work;
use rapidhash::v3::rapidhash_v3_seeded;

use super::directory::{open, refused, storage};
use crate::object::{Object, Repr, SECRETS, mix};
use crate::{Error, Result};

/// Bytes that are written and hashed at once.
const BLOCK: usize = 1 << 20;

/// The most elements of a part if they take less than a byte each on average.
const EMPTY: u64 = 1 << 24;

/// The file with part `part` of section `i` of checkpoint `number`.
pub(super) fn name(number: u64, i: usize, part: usize) -> String {
    format!("part-{number}-{i}-{part:05}")
}

/// The number of the checkpoint that a file is a part of. `None` for all files with other names,
/// which are not ours.
pub(super) fn number_in(file: &str) -> Option<u64> {
    let mut numbers = file.strip_prefix("part-")?.splitn(3, '-');
    let number = numbers.next()?.parse().ok()?;
    let i = numbers.next()?.parse().ok()?;
    let part = numbers.next()?.parse().ok()?;
    (name(number, i, part) == file).then_some(number)
}

/// The manifest's entry of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) elements: u64,
    pub(super) bytes: u64,
    pub(super) hash: u64,
}

impl Info {
    pub(super) const fn to_words(self) -> [u64; 3] {
        [self.elements, self.bytes, self.hash]
    }

    pub(super) const fn of_words(&[elements, bytes, hash]: &[u64; 3]) -> Self {
        Self {
            elements,
            bytes,
            hash,
        }
    }

    pub(super) fn add(&mut self, block: &[u8]) {
        self.bytes += block.len() as u64;
        self.hash = mix(self.hash ^ hash_of(block));
    }

    /// Whether the number of bytes is possible for the number of elements.
    pub(super) fn is_possible(self) -> bool {
        self.elements <= self.bytes.max(EMPTY)
    }
}

pub(super) fn hash_of(bytes: &[u8]) -> u64 {
    rapidhash_v3_seeded(bytes, &SECRETS)
}

/// A part while it is written.
pub(super) struct Part<'a> {
    work: &'a Work<'a>,
    path: PathBuf,
    file: File,
    block: Vec<u8>,
    info: Info,
}

impl<'a> Part<'a> {
    pub(super) fn create(path: &Path, work: &'a Work<'a>) -> Result<Self> {
        // No file is written over, and no link is followed.
        let file = File::create_new(path).map_err(|e| refused(path, e))?;
        Ok(Self {
            work,
            path: path.to_owned(),
            file,
            block: Vec::new(),
            info: Info::default(),
        })
    }

    /// Appends an element.
    pub(super) fn push<T: Object>(&mut self, element: &T) -> Result<()> {
        <T::Repr as Repr<T>>::write(element, &mut self.block)?;
        self.info.elements += 1;
        self.work.add(1);
        self.check(self.info.bytes + self.block.len() as u64)?;
        self.write(BLOCK)
    }

    /// An error if there are more elements than `bytes` bytes may be.
    fn check(&self, bytes: u64) -> Result<()> {
        if (Info { bytes, ..self.info }).is_possible() {
            return Ok(());
        }
        let n = self.info.elements;
        let text = format!("{n} elements without bytes are too many");
        Err(storage(&self.path, text))
    }

    /// Writes whole blocks of at least `least` bytes.
    fn write(&mut self, least: usize) -> Result<()> {
        let mut rest = &self.block[..];
        while rest.len() >= least.max(1) {
            let (block, others) = rest.split_at(rest.len().min(BLOCK));
            self.info.add(block);
            let written = self.file.write_all(block);
            written.map_err(|e| refused(&self.path, e))?;
            rest = others;
        }
        let n_written = self.block.len() - rest.len();
        self.block.drain(..n_written);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Info> {
        self.write(1)?;
        self.check(self.info.bytes)?;
        self.file.sync_all().map_err(|e| refused(&self.path, e))?;
        Ok(self.info)
    }
}

/// Calls `f` with the elements of a part and their indices, if the file is as the manifest says.
pub(super) fn read<T: Object>(
    path: &Path,
    info: Info,
    mut f: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let bytes = read_bytes(path, info)?;
    let mut rest = &bytes[..];
    let n = usize::try_from(info.elements).unwrap_or(usize::MAX);
    for within in 0..n {
        let element = <T::Repr as Repr<T>>::read(&mut rest).map_err(|e| storage(path, e))?;
        f(within, element).map_err(|error| match error {
            // A value that a container of this size refuses, or that cannot be encoded again, is no
            // valid element. Or there is no memory for a long one.
            Error::Full { .. } | Error::QueueFull | Error::Codec(_) | Error::Exhausted(_) => {
                storage(path, error)
            }
            other => other,
        })?;
    }
    if rest.is_empty() {
        return Ok(());
    }
    Err(storage(path, format!("{} bytes are left over", rest.len())))
}

fn read_bytes(path: &Path, info: Info) -> Result<Vec<u8>> {
    let fails = |e| refused(path, e);
    let file = open(path).map_err(|error| match error.kind() {
        // Not a directory without a checkpoint.
        ErrorKind::NotFound => storage(path, "it is not there, though the manifest names it"),
        _ => fails(error),
    })?;
    let about = file.metadata().map_err(fails)?;
    if !about.is_file() {
        return Err(storage(path, "it is no file"));
    }
    if about.len() != info.bytes {
        let (has, expected) = (about.len(), info.bytes);
        return Err(storage(
            path,
            format!("it has {has} bytes; {expected} were written"),
        ));
    }
    let mut bytes = Vec::new();
    let room = usize::try_from(info.bytes).unwrap_or(usize::MAX);
    bytes
        .try_reserve_exact(room)
        .map_err(|e| storage(path, e))?;
    file.take(info.bytes)
        .read_to_end(&mut bytes)
        .map_err(fails)?;
    let mut found = Info {
        elements: info.elements,
        ..Info::default()
    };
    bytes.chunks(BLOCK).for_each(|block| found.add(block));
    if found == info {
        return Ok(bytes);
    }
    Err(storage(path, "its contents are not what was written"))
}

#[cfg(test)]
mod tests {
    use pgas_core::backend::loopback;
    use pgas_core::stats::Unit;

    use super::*;

    #[test]
    fn only_files_with_names_of_ours_are_parts() {
        for (number, i, part) in [(1, 0, 0), (7, 3, 12), (u64::MAX, 1, 123_456)] {
            assert_eq!(number_in(&name(number, i, part)), Some(number));
        }
        for foreign in [
            "part-00000",
            "part-list.txt",
            "part-1",
            "part-1-0",
            "part-1-0-0",
            "part-01-0-00000",
            "part-1-0-00000.gz",
            "part-1-0-00000-1",
            "part-00000-5b0f-c000.snappy.parquet",
            "part-+1-0-00000",
        ] {
            assert_eq!(number_in(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_first_element_that_is_too_many_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let world = loopback::world();
        let work = world.work("the test", 0, Unit::Elements);
        let mut part = Part::create(&dir.path().join("part"), &work).unwrap();
        part.info.elements = EMPTY - 1;
        part.push(&()).unwrap();
        assert!(matches!(part.push(&()), Err(Error::Storage(_))));
    }
}
