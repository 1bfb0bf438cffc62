//! Containers in a directory, written by some number of ranks and read by any other.
//!
//! ```text
//! manifest       what it is, of what, its sizes; for each part how many elements and bytes it has, and their hash
//! part-00000     the elements of rank 0, one after the other
//! part-00001     ...
//! ```
//!
//! The manifest is written last, under another name first, so a directory is either whole or has none. Each part is
//! read by one rank and compared with its hash before anything is done with it.

mod arrays;
mod filters;
mod maps;
mod queues;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use pgas_core::{Rank, World};
use rapidhash::v3::rapidhash_v3_seeded;

use crate::object::{Object, Repr, SECRETS, mix};
use crate::{Error, Result};

const FIRST_LINE: &str = "pgas container, format 1";
const MANIFEST: &str = "manifest";

/// Bytes that are written and hashed at once.
const BLOCK: usize = 1 << 20;

/// What a container is, beside its elements.
struct About<'a> {
    kind: &'a str,
    element: &'static str,
    /// What it is made with.
    sizes: &'a [u64],
}

/// One rank's part while it is written.
struct Part {
    path: PathBuf,
    file: File,
    block: Vec<u8>,
    info: Info,
}

/// What the manifest says of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Info {
    elements: u64,
    bytes: u64,
    hash: u64,
}

impl Info {
    fn add(&mut self, block: &[u8]) {
        self.bytes += block.len() as u64;
        self.hash = mix(self.hash ^ rapidhash_v3_seeded(block, &SECRETS));
    }
}

fn storage(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Storage(format!("{}: {why}", path.display()).into())
}

impl Part {
    fn create(dir: &Path, rank: usize) -> Result<Self> {
        let path = part_path(dir, rank);
        let file = File::create(&path).map_err(|e| storage(&path, e))?;
        Ok(Self {
            path,
            file,
            block: Vec::new(),
            info: Info::default(),
        })
    }

    /// Appends an element.
    fn push<T: Object>(&mut self, element: &T) -> Result<()> {
        <T::Repr as Repr<T>>::write(element, &mut self.block)?;
        self.info.elements += 1;
        self.write(BLOCK)
    }

    /// Writes whole blocks of at least `least` bytes.
    fn write(&mut self, least: usize) -> Result<()> {
        while self.block.len() >= least.max(1) {
            let rest = self.block.split_off(self.block.len().min(BLOCK));
            self.info.add(&self.block);
            let written = self.file.write_all(&self.block);
            written.map_err(|e| storage(&self.path, e))?;
            self.block = rest;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Info> {
        self.write(1)?;
        self.file.sync_all().map_err(|e| storage(&self.path, e))?;
        Ok(self.info)
    }
}

fn part_path(dir: &Path, i: usize) -> PathBuf {
    dir.join(format!("part-{i:05}"))
}

/// `mine` if every rank has succeeded; else every rank gets an error, those that have not their own. Collective.
fn together<T>(world: &World, mine: Result<T>) -> Result<T> {
    let text = match &mine {
        Ok(_) => String::new(),
        Err(error) => format!("rank {}: {error}", world.rank()),
    };
    let texts = world.team().allgather_varying(text.as_bytes())?;
    let value = mine?;
    match texts.iter().find(|text| !text.is_empty()) {
        Some(text) => Err(Error::Storage(String::from_utf8_lossy(text).into())),
        None => Ok(value),
    }
}

/// Writes a container to `dir`: each rank what `write` gives of it. Collective.
fn save(
    world: &World,
    dir: &Path,
    about: &About<'_>,
    write: impl FnOnce(&mut Part) -> Result<()>,
) -> Result<()> {
    let is_first = world.rank() == Rank::ZERO;
    let manifest = dir.join(MANIFEST);
    let begun = if is_first {
        fs::create_dir_all(dir)
            .and_then(|()| match fs::remove_file(&manifest) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            })
            .map_err(|e| storage(dir, e))
    } else {
        Ok(())
    };
    together(world, begun)?;
    let written = Part::create(dir, world.rank().index()).and_then(|mut part| {
        write(&mut part)?;
        part.finish()
    });
    let info = together(world, written)?;
    let infos = world.allgather(&[[info.elements, info.bytes, info.hash]])?;
    let published = if is_first {
        publish(dir, about, &infos)
    } else {
        Ok(())
    };
    together(world, published)
}

fn publish(dir: &Path, about: &About<'_>, infos: &[[u64; 3]]) -> Result<()> {
    let mut text = format!("{FIRST_LINE}\n{}\n{}\n", about.kind, about.element);
    let numbers = |numbers: &[u64]| {
        let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
        texts.join(" ")
    };
    for line in [about.sizes, &[infos.len() as u64]] {
        writeln!(text, "{}", numbers(line)).expect("a string takes it");
    }
    for info in infos {
        writeln!(text, "{}", numbers(info)).expect("a string takes it");
    }
    let (draft, name) = (dir.join("manifest.new"), dir.join(MANIFEST));
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &name)
    };
    write().map_err(|e| storage(&name, e))
}

/// A container in a directory.
struct Saved {
    dir: PathBuf,
    sizes: Vec<u64>,
    parts: Vec<Info>,
}

/// What is in `dir`, if it is a container of the kind and of the elements that are expected. Collective.
fn open(world: &World, dir: &Path, about: &About<'_>) -> Result<Saved> {
    let path = dir.join(MANIFEST);
    let read = fs::read_to_string(&path).map_err(|e| storage(&path, e));
    together(world, read.and_then(|text| parse(dir, &text, about)))
}

fn parse(dir: &Path, text: &str, about: &About<'_>) -> Result<Saved> {
    let path = dir.join(MANIFEST);
    let mut lines = text.lines();
    for (what, expected) in [
        ("format", FIRST_LINE),
        ("kind", about.kind),
        ("element", about.element),
    ] {
        let found = lines.next().unwrap_or("");
        if found != expected {
            let why = format!("the {what} is {found:?}; {expected:?} was expected");
            return Err(storage(&path, why));
        }
    }
    let mut numbers = |n: Option<usize>| {
        let line = lines.next().unwrap_or("");
        let numbers: Option<Vec<u64>> = line.split(' ').map(|word| word.parse().ok()).collect();
        numbers
            .filter(|numbers| n.is_none_or(|n| numbers.len() == n))
            .ok_or_else(|| storage(&path, format!("a line of numbers is {line:?}")))
    };
    let sizes = numbers(Some(about.sizes.len()))?;
    let n_parts = numbers(Some(1))?[0];
    let parts = (0..n_parts).map(|_| {
        let line = numbers(Some(3))?;
        Ok(Info {
            elements: line[0],
            bytes: line[1],
            hash: line[2],
        })
    });
    Ok(Saved {
        dir: dir.to_owned(),
        sizes,
        parts: parts.collect::<Result<_>>()?,
    })
}

impl Saved {
    fn size(&self, i: usize) -> Result<usize> {
        let size = self.sizes[i];
        usize::try_from(size)
            .map_err(|_| storage(&self.dir, format!("{size} is no size on this machine")))
    }

    /// Calls `f` with the elements of this rank's share of the parts, and their numbers among all. Collective.
    fn for_each<T: Object>(
        &self,
        world: &World,
        mut f: impl FnMut(usize, T) -> Result<()>,
    ) -> Result<()> {
        let n_ranks = world.n_ranks() as usize;
        let mut mine = || {
            let mut first = 0;
            for (i, info) in self.parts.iter().enumerate() {
                if i % n_ranks == world.rank().index() {
                    self.read_part(i, *info, |within, element| f(first + within, element))?;
                }
                first += usize::try_from(info.elements).unwrap_or(usize::MAX);
            }
            Ok(())
        };
        together(world, mine())
    }

    fn read_part<T: Object>(
        &self,
        i: usize,
        info: Info,
        mut f: impl FnMut(usize, T) -> Result<()>,
    ) -> Result<()> {
        let path = part_path(&self.dir, i);
        let bytes = fs::read(&path).map_err(|e| storage(&path, e))?;
        let mut found = Info {
            elements: info.elements,
            ..Info::default()
        };
        bytes.chunks(BLOCK).for_each(|block| found.add(block));
        if found != info {
            let (has, expected) = (found.bytes, info.bytes);
            let why = if has == expected {
                "its contents are not what was written".to_owned()
            } else {
                format!("it has {has} bytes; {expected} were written")
            };
            return Err(storage(&path, why));
        }
        let mut rest = &bytes[..];
        let n = usize::try_from(info.elements).unwrap_or(usize::MAX);
        for within in 0..n {
            f(within, <T::Repr as Repr<T>>::read(&mut rest)?)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        Err(storage(
            &path,
            format!("{} bytes are left over", rest.len()),
        ))
    }
}
