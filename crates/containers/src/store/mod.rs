//! Containers in a directory, written by some number of ranks and read by any other.
//!
//! ```text
//! manifest         the codec, the kind, the element type and the sizes of the container; for each
//!                  part its numbers of elements and bytes, and its hash; a hash of all that
//! part-7-0-00000   the elements of rank 0, one after the other, in checkpoint 7 of the directory
//! part-7-0-00001   those of rank 1
//! part-7-1-00000   those of rank 0 in the second map of a multimap
//! ```
//!
//! A checkpoint is written beside the existing one, in files of its own. When all of it is on the
//! disk, the rename of its manifest makes it the directory's checkpoint. So there is always a
//! complete one, the former or the new. Then the files of other checkpoints are removed. What killed
//! processes have left is removed before the next one is written, so that it takes no room. The
//! directory is locked meanwhile: two that save into it at once would remove each other's files.
//!
//! Everything that is read is checked before it is used: the sizes have to fit the elements, and
//! the parts their hashes. A manipulated file results in an error or in a container, and nothing
//! else.

mod arrays;
mod directory;
mod filters;
#[cfg(all(test, not(loom)))]
mod fuzz;
#[cfg(all(test, not(loom)))]
mod kills;
mod manifest;
mod maps;
mod parts;
mod queues;
#[cfg(test)]
mod tests;
// Capabilities are Linux's.
#[cfg(all(test, target_os = "linux"))]
mod unreadable;

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pgas_core::collective::op::Sum;
use pgas_core::stats::Unit;
use pgas_core::{PartOf, Team, Work, World, part_of_object};

use crate::object::Object;
use directory::{Claim, refused, storage};
use manifest::{About, Manifest};
use parts::{Info, Part};
use pgas_core::{Error, Result};

/// Returns the result of `mine` if every rank has succeeded. Otherwise every rank gets an error:
/// its own, or one that names a rank that has failed. Collective.
#[track_caller]
fn together<T>(team: &Team, dir: &Path, mine: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = team.all_try(A_CHECKPOINT, mine);
    done.map_err(|error| of_all(dir, error))
}

/// What ranks do together.
const A_CHECKPOINT: &str = "a checkpoint";

/// The error of a step that all ranks take, if this rank or another one has failed.
fn of_all(dir: &Path, error: Error) -> Error {
    match error {
        Error::Elsewhere(there) => {
            let reason = format!("rank {}: {}", there.rank, there.cause);
            storage(dir, reason)
        }
        own => own,
    }
}

/// The work of writing or reading `n_elements` elements, for reports of progress.
fn work<'w>(world: &'w World, verb: &str, dir: &Path, n_elements: u64) -> Work<'w> {
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy();
    world.work(&format!("{verb} {name}"), n_elements, Unit::Elements)
}

/// Names the saving of a container with this number, until the value is dropped.
#[track_caller]
fn saving(object: u64) -> PartOf {
    part_of_object("the saving of a container", object)
}

/// Writes a container to `dir` (5 collectives). Each rank has a part for each of `abouts`, which
/// `write` fills. Collective.
#[track_caller]
fn save(
    team: &Team,
    dir: &Path,
    kind: &str,
    (abouts, n_elements): (&[About], u64),
    write: impl FnOnce(&mut [Part<'_>]) -> Result<()>,
) -> Result<()> {
    let is_first = team.rank() == 0;
    let mut claim = None;
    let mut begin = || {
        let (claimed, number) = begin(dir)?;
        claim = Some(claimed);
        Ok(number)
    };
    let begun = together(team, dir, || if is_first { begin() } else { Ok(0) })?;
    let number = team.broadcast(0, begun)?;
    let name = |i: usize| parts::name(number, i, team.rank() as usize);
    let paths: Vec<PathBuf> = (0..abouts.len()).map(|i| dir.join(name(i))).collect();
    let write = || {
        let work = work(team.world(), "saving", dir, n_elements);
        write_parts(&paths, &work, write)
    };
    let written = together(team, dir, write).inspect_err(|_| {
        // All ranks have written what they could, and the directory is still claimed: nobody else
        // uses this number.
        if is_first {
            remove(dir, |of| of == number);
        }
    })?;
    let mine: Vec<[u64; 3]> = written.into_iter().map(Info::to_words).collect();
    let all = team.allgather(&mine)?;
    let publish = || {
        let manifest = Manifest {
            kind: kind.to_owned(),
            number,
            abouts: abouts.to_vec(),
            parts: (0..abouts.len())
                .map(|i| all.iter().skip(i).step_by(abouts.len()))
                .map(|infos| infos.map(Info::of_words).collect())
                .collect(),
        };
        let published = manifest.publish(dir);
        match published {
            Ok(()) => remove_others(dir),
            Err(_) => remove_failed(dir, number),
        }
        // Others may save into it as soon as they return.
        drop(claim);
        published
    };
    together(team, dir, || if is_first { publish() } else { Ok(()) })
}

fn write_parts(
    paths: &[PathBuf],
    work: &Work<'_>,
    write: impl FnOnce(&mut [Part<'_>]) -> Result<()>,
) -> Result<Vec<Info>> {
    let parts = paths.iter().map(|path| Part::create(path, work));
    let parts: Result<Vec<Part<'_>>> = parts.collect();
    let mut parts = parts?;
    write(&mut parts)?;
    parts.into_iter().map(Part::finish).collect()
}

/// Makes the directory, and claims it. Returns the number of the next checkpoint, of which there is
/// no file yet.
fn begin(dir: &Path) -> Result<(Claim, u64)> {
    directory::create(dir).map_err(|e| refused(dir, e))?;
    let claim = Claim::on(dir)?;
    remove_others(dir);
    let mut number = 0;
    for name in names(dir).map_err(|e| refused(dir, e))? {
        number = number.max(parts::number_in(&name).unwrap_or(0));
    }
    let next = number.checked_add(1);
    let none = || storage(dir, "there is no number left for another checkpoint");
    Ok((claim, next.ok_or_else(none)?))
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().into_string().ok());
    fs::read_dir(dir)?
        .filter_map(|entry| name(entry).transpose())
        .collect()
}

/// Removes the parts of all checkpoints but the directory's. Failures are ignored: the files only
/// take room.
fn remove_others(dir: &Path) {
    if let Some(current) = current(dir) {
        remove(dir, |number| number != current);
    }
}

/// Removes the parts of checkpoint `number`, if it has not become the directory's.
fn remove_failed(dir: &Path, number: u64) {
    if current(dir).is_some_and(|current| current != number) {
        remove(dir, |of| of == number);
    }
}

/// The number of the directory's checkpoint, or 0 if it has none. `None` if the manifest cannot be
/// read: somebody may want to repair it.
fn current(dir: &Path) -> Option<u64> {
    match manifest::read(dir) {
        Ok(bytes) => manifest::number_in(&bytes),
        Err(Error::Storage(error)) if error.is_absent() => Some(0),
        Err(_) => None,
    }
}

fn remove(dir: &Path, is_unwanted: impl Fn(u64) -> bool) {
    for name in names(dir).unwrap_or_default() {
        if parts::number_in(&name).is_some_and(&is_unwanted) {
            drop(fs::remove_file(dir.join(name)));
        }
    }
}

/// A container in a directory.
struct Saved {
    dir: PathBuf,
    manifest: Manifest,
    /// Whether a later save has removed parts while they were read; the same on all ranks.
    is_replaced: Cell<bool>,
}

/// The most attempts to read a checkpoint that others replace again and again.
const ATTEMPTS: usize = 100;

/// Makes a container of the checkpoint in `dir`, as [`open`]; of a later one if that replaces it
/// meanwhile, and removes its parts. Collective.
#[track_caller]
fn load<A>(
    team: &Team,
    dir: &Path,
    (kind, abouts): (&str, &[About]),
    mut make: impl FnMut(&Saved) -> Result<A>,
) -> Result<A> {
    // All that `make` waits for is at the program's line.
    let _waits = pgas_core::part_of("the loading of a container");
    let mut n = 0;
    loop {
        let saved = open(team, dir, kind, abouts)?;
        n += 1;
        match make(&saved) {
            Err(_) if saved.is_replaced.get() && n < ATTEMPTS => {}
            made => return made,
        }
    }
}

/// Opens the checkpoint in `dir`, which must be a container of the expected kind and elements
/// (3 collectives). The first rank reads the manifest for all, so that all ranks see the same one,
/// or none. Collective.
#[track_caller]
fn open(team: &Team, dir: &Path, kind: &str, abouts: &[About]) -> Result<Saved> {
    let is_first = team.rank() == 0;
    let (mine, absent) = match is_first.then(|| manifest::read(dir)) {
        Some(Err(Error::Storage(error))) if error.is_absent() => (Ok(Vec::new()), Some(error)),
        Some(read) => (read, None),
        None => (Ok(Vec::new()), None),
    };
    let read = together(team, dir, || mine)?;
    let bytes = team.allgather_varying(&read)?.swap_remove(0);
    let path = dir.join(manifest::NAME);
    if bytes.is_empty() {
        let not_found = || refused(&path, io::ErrorKind::NotFound.into());
        return Err(absent.map_or_else(not_found, Error::Storage));
    }
    let manifest = Manifest::parse(&bytes, kind, abouts);
    Ok(Saved {
        manifest: manifest.map_err(|why| storage(&path, why))?,
        dir: dir.to_owned(),
        is_replaced: Cell::new(false),
    })
}

impl Saved {
    fn refuse(&self, why: impl std::fmt::Display) -> Error {
        storage(&self.dir.join(manifest::NAME), why)
    }

    /// A size that the container was made with; of a multimap, that of its first map.
    fn size(&self, i: usize) -> Result<usize> {
        self.in_memory(self.manifest.abouts[0].sizes[i])
    }

    /// The capacity of one of the maps that the container is made of.
    fn capacity(&self, i: usize) -> Result<usize> {
        self.in_memory(self.manifest.abouts[i].sizes[0])
    }

    fn in_memory(&self, size: u64) -> Result<usize> {
        let refuse = |_| self.refuse(format!("{size} is no size on this machine"));
        usize::try_from(size).map_err(refuse)
    }

    /// An error unless there are `n` elements.
    fn expect(&self, n: Option<u64>) -> Result<()> {
        let there = self.n_elements(0)?;
        if n == Some(there) {
            return Ok(());
        }
        Err(self.refuse(format!(
            "there are {there} elements, not as many as its sizes say"
        )))
    }

    /// An error if there are more elements than there is room for.
    fn expect_room(&self) -> Result<()> {
        for (i, about) in self.manifest.abouts.iter().enumerate() {
            let (there, room) = (self.n_elements(i)?, about.sizes[0]);
            if there > room {
                return Err(self.refuse(format!("{there} elements have room for {room}")));
            }
        }
        Ok(())
    }

    fn n_elements(&self, i: usize) -> Result<u64> {
        let mut infos = self.manifest.parts[i].iter();
        let n = infos.try_fold(0_u64, |n, info| n.checked_add(info.elements));
        n.ok_or_else(|| self.refuse("there are more than 2^64 elements"))
    }

    /// Checks the making of a container with the saved sizes. If no container has such sizes, or
    /// there is no room for it, the file is to blame as far as anyone can tell.
    fn made<A>(&self, made: Result<A>) -> Result<A> {
        made.map_err(|error| match error {
            Error::Argument(_) | Error::NoCapacity | Error::Exhausted(_) | Error::Elsewhere(_) => {
                self.refuse(error)
            }
            other => other,
        })
    }

    /// As [`made`](Self::made), for a container that was made with arguments of the caller, too. If
    /// they `are_bad` whatever was saved, the error is theirs, and names no file.
    fn made_with<A>(&self, are_bad: bool, made: Result<A>) -> Result<A> {
        if are_bad { made } else { self.made(made) }
    }

    /// Calls `f` with the elements of this rank's share of the parts, and their indices among all
    /// elements (an allreduce). Collective.
    #[track_caller]
    fn for_each<T: Object>(
        &self,
        team: &Team,
        i: usize,
        mut f: impl FnMut(usize, T) -> Result<()>,
    ) -> Result<()> {
        let none = |within, element| f(within, element).map(|()| 0);
        self.sum_of_each(team, i, none).map(drop)
    }

    /// As [`for_each`](Self::for_each). Returns the sum of the results of all ranks. Collective.
    #[track_caller]
    fn sum_of_each<T: Object>(
        &self,
        team: &Team,
        i: usize,
        mut f: impl FnMut(usize, T) -> Result<u64>,
    ) -> Result<u64> {
        let n_ranks = team.n_ranks() as usize;
        let parts = || self.manifest.parts[i].iter().enumerate();
        let is_mine = |part: usize| part % n_ranks == team.rank() as usize;
        let sizes = parts().filter(|(part, _)| is_mine(*part));
        let n_mine = sizes.fold(0, |n: u64, (_, info)| n.saturating_add(info.elements));
        let mine = || {
            let work = work(team.world(), "loading", &self.dir, n_mine);
            let (mut first, mut sum) = (0, 0);
            for (part, info) in parts() {
                if is_mine(part) {
                    self.read_part(i, part, &work, |within, element| {
                        sum += f(first + within, element)?;
                        Ok(())
                    })?;
                }
                first += usize::try_from(info.elements).unwrap_or(usize::MAX);
            }
            Ok(sum)
        };
        self.together(team, mine)
    }

    /// As [`together`], for what reads parts. Returns the sum of the results of all ranks. After an
    /// error the ranks find out whether another checkpoint has taken the place of this one.
    /// Collective.
    #[track_caller]
    fn together(&self, team: &Team, mine: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let done = team.all_try_reduce(A_CHECKPOINT, mine, Sum);
        let done = done.map_err(|error| of_all(&self.dir, error));
        if done.is_err() {
            let is_other = || {
                let now = manifest::read(&self.dir).ok()?;
                Some(manifest::number_in(&now)? != self.manifest.number)
            };
            let is_first = team.rank() == 0;
            let is_replaced = is_first && is_other().unwrap_or(false);
            self.is_replaced
                .set(team.broadcast(0, u8::from(is_replaced))? != 0);
        }
        done
    }

    /// Calls `f` with the elements of one part, and their indices in it.
    fn read_part<T: Object>(
        &self,
        i: usize,
        part: usize,
        work: &Work<'_>,
        mut f: impl FnMut(usize, T) -> Result<()>,
    ) -> Result<()> {
        let path = self.dir.join(parts::name(self.manifest.number, i, part));
        parts::read(&path, self.manifest.parts[i][part], |within, element| {
            work.add(1);
            f(within, element)
        })
    }
}
