//! Arrays and matrices: elements in the order of their indices, a run of them for each rank.

use std::ops::Range;
use std::path::Path;

use pgas_core::{Pod, Rank, World};

use super::manifest::About;
use super::{open, save};
use crate::Result;
use crate::array::{Array, DArray, DMatrix, Distribution};
use crate::object::{Object, Plain};

const ARRAY: &str = "array";
const MATRIX: &str = "matrix";

/// This rank's run of `n` elements.
fn share(world: &World, n: usize) -> Range<usize> {
    let (rank, n_ranks) = (world.rank().index(), world.n_ranks() as usize);
    let start = |rank: usize| n / n_ranks * rank + (n % n_ranks).min(rank);
    start(rank)..start(rank + 1)
}

#[track_caller]
fn save_array<T: Object>(
    world: &World,
    dir: &Path,
    len: usize,
    get: impl Fn(usize) -> Result<T>,
) -> Result<()> {
    world.barrier()?;
    let about = About::of::<T>(&[len as u64]);
    let mine = share(world, len);
    save(world, dir, ARRAY, (&[about], mine.len() as u64), |parts| {
        mine.clone().try_for_each(|i| parts[0].push(&get(i)?))
    })
}

#[track_caller]
fn load_array<T: Object, A>(
    world: &World,
    dir: &Path,
    make: impl FnOnce(usize) -> Result<A>,
    put: impl Fn(&A, usize, &T) -> Result<()>,
) -> Result<A> {
    let saved = open(world, dir, ARRAY, &[About::of::<T>(&[0])])?;
    let len = saved.size(0)?;
    saved.expect(Some(len as u64))?;
    let array = saved.made(make(len))?;
    saved.for_each(world, 0, |i, element| put(&array, i, &element))?;
    world.barrier()?;
    Ok(array)
}

impl<T: Object> DArray<T> {
    /// Writes the elements to a directory, from which any number of ranks may [`load`](Self::load)
    /// them, into an array or a [`DArray`].
    ///
    /// # Cost
    ///
    /// That of a [`get`](Self::get) an element, shared out to the ranks, and B + 7 collectives.
    /// Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if a file cannot be written, which
    /// names it.
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        save_array(self.world(), dir.as_ref(), self.len(), |i| self.get(i))
    }

    /// The array that was saved in a directory, dealt out as `distribution` says; `initial` is for
    /// an element that nobody has written yet.
    ///
    /// # Cost
    ///
    /// That of [`new`](Self::new), of a [`put`](Self::put) an element, shared out to the ranks, and
    /// 3 collectives. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no array of
    /// such elements, or a file cannot be read or is not what was written, or there is no room for
    /// what it says; those of [`new`](Self::new) for arguments that differ.
    #[track_caller]
    pub fn load(
        world: &World,
        dir: impl AsRef<Path>,
        distribution: Distribution,
        initial: &T,
    ) -> Result<Self> {
        let make = |len| Self::new(world, len, distribution, initial);
        load_array(world, dir.as_ref(), make, Self::put)
    }
}

impl<T: Object> Array<T> {
    /// As [`DArray::save`].
    ///
    /// # Cost
    ///
    /// As [`DArray::save`].
    ///
    /// # Errors
    ///
    /// As [`DArray::save`].
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        save_array(self.world(), dir.as_ref(), self.len(), |i| self.get(i))
    }

    /// As [`DArray::load`], on `host`.
    ///
    /// # Cost
    ///
    /// As [`DArray::load`].
    ///
    /// # Errors
    ///
    /// As [`DArray::load`].
    #[track_caller]
    pub fn load(world: &World, dir: impl AsRef<Path>, host: Rank, initial: &T) -> Result<Self> {
        let make = |len| Self::new(world, host, len, initial);
        load_array(world, dir.as_ref(), make, Self::put)
    }
}

impl<T: Pod + Object<Repr = Plain>> DMatrix<T> {
    /// Writes the elements to a directory, from which any number of ranks may [`load`](Self::load)
    /// them, into tiles of any shape.
    ///
    /// # Cost
    ///
    /// That of a [`get_block`](Self::get_block) a row, shared out to the ranks, and B + 7
    /// collectives. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if a file cannot be written, which
    /// names it.
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let (world, [rows, columns]) = (self.world(), self.shape());
        let sizes = [rows as u64, columns as u64];
        world.barrier()?;
        let about = About::of::<T>(&sizes);
        let mine = share(world, rows);
        let n = (mine.len() as u64).saturating_mul(columns as u64);
        save(world, dir.as_ref(), MATRIX, (&[about], n), |parts| {
            for row in mine.clone() {
                let elements = self.get_block(row..row + 1, 0..columns)?;
                let mut elements = elements.iter();
                elements.try_for_each(|element| parts[0].push(element))?;
            }
            Ok(())
        })
    }

    /// The matrix that was saved in a directory, in tiles of `[rows, columns]`.
    ///
    /// # Cost
    ///
    /// That of [`new`](Self::new), of a [`put`](Self::put) an element, shared out to the ranks, and
    /// 3 collectives. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no matrix of
    /// such elements, or a file cannot be read or is not what was written, or there is no room for
    /// what it says; those of [`new`](Self::new) for arguments that differ.
    #[track_caller]
    pub fn load(world: &World, dir: impl AsRef<Path>, tile: [usize; 2]) -> Result<Self> {
        let saved = open(world, dir.as_ref(), MATRIX, &[About::of::<T>(&[0, 0])])?;
        let (rows, columns) = (saved.size(0)?, saved.size(1)?);
        saved.expect((rows as u64).checked_mul(columns as u64))?;
        let matrix = saved.made(Self::new(world, [rows, columns], tile, T::new_zeroed()))?;
        saved.for_each(world, 0, |i, element| {
            matrix.put(i / columns, i % columns, element)
        })?;
        world.barrier()?;
        Ok(matrix)
    }
}
