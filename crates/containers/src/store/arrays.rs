//! Arrays and matrices: elements in the order of their indices, a run of them for each rank.

use std::any::type_name;
use std::ops::Range;
use std::path::Path;

use pgas_core::{Pod, Rank, World};

use super::{About, open, save};
use crate::Result;
use crate::array::{Array, DArray, DMatrix, Distribution};
use crate::object::{Object, Plain};

fn about<'s, T>(kind: &'static str, sizes: &'s [u64]) -> About<'s> {
    About {
        kind,
        element: type_name::<T>(),
        sizes,
    }
}

const ARRAY: &str = "array";
const MATRIX: &str = "matrix";

/// This rank's run of `n` elements.
fn share(world: &World, n: usize) -> Range<usize> {
    let (rank, n_ranks) = (world.rank().index(), world.n_ranks() as usize);
    let start = |rank: usize| n / n_ranks * rank + (n % n_ranks).min(rank);
    start(rank)..start(rank + 1)
}

fn save_array<T: Object>(
    world: &World,
    dir: &Path,
    len: usize,
    get: impl Fn(usize) -> Result<T>,
) -> Result<()> {
    world.barrier()?;
    save(world, dir, &about::<T>(ARRAY, &[len as u64]), |part| {
        share(world, len).try_for_each(|i| part.push(&get(i)?))
    })?;
    Ok(world.barrier()?)
}

fn load_array<T: Object, A>(
    world: &World,
    dir: &Path,
    make: impl FnOnce(usize) -> Result<A>,
    put: impl Fn(&A, usize, &T) -> Result<()>,
) -> Result<A> {
    let saved = open(world, dir, &about::<T>(ARRAY, &[0]))?;
    let array = make(saved.size(0)?)?;
    saved.for_each(world, |i, element| put(&array, i, &element))?;
    world.barrier()?;
    Ok(array)
}

impl<T: Object> DArray<T> {
    /// Writes the elements to a directory, from which any number of ranks may [`load`](Self::load) them, into an array or a [`DArray`].
    ///
    /// # Cost
    ///
    /// That of a [`get`](Self::get) an element, shared out to the ranks, and 2B + 5 collectives. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if a file cannot be written, which names it.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        save_array(self.world(), dir.as_ref(), self.len(), |i| self.get(i))
    }

    /// The array that was saved in a directory, dealt out as `distribution` says; `initial` is for an element that nobody
    /// has written yet.
    ///
    /// # Cost
    ///
    /// That of [`new`](Self::new), of a [`put`](Self::put) an element, shared out to the ranks, and 3 collectives. Collective over
    /// the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no array of such elements, or a file
    /// cannot be read or is not what was written; those of [`new`](Self::new).
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
    pub fn load(world: &World, dir: impl AsRef<Path>, host: Rank, initial: &T) -> Result<Self> {
        let make = |len| Self::new(world, host, len, initial);
        load_array(world, dir.as_ref(), make, Self::put)
    }
}

impl<T: Pod + Object<Repr = Plain>> DMatrix<T> {
    /// Writes the elements to a directory, from which any number of ranks may [`load`](Self::load) them, into tiles of any shape.
    ///
    /// # Cost
    ///
    /// That of a [`get_block`](Self::get_block) a row, shared out to the ranks, and 2B + 5 collectives. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if a file cannot be written, which names it.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let (world, [rows, columns]) = (self.world(), self.shape());
        let sizes = [rows as u64, columns as u64];
        world.barrier()?;
        save(world, dir.as_ref(), &about::<T>(MATRIX, &sizes), |part| {
            for row in share(world, rows) {
                let elements = self.get_block(row..row + 1, 0..columns)?;
                elements.iter().try_for_each(|element| part.push(element))?;
            }
            Ok(())
        })?;
        Ok(world.barrier()?)
    }

    /// The matrix that was saved in a directory, in tiles of `[rows, columns]`.
    ///
    /// # Cost
    ///
    /// That of [`new`](Self::new), of a [`put`](Self::put) an element, shared out to the ranks, and 3 collectives. Collective over
    /// the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no matrix of such elements, or a file
    /// cannot be read or is not what was written; those of [`new`](Self::new).
    pub fn load(world: &World, dir: impl AsRef<Path>, tile: [usize; 2]) -> Result<Self> {
        let saved = open(world, dir.as_ref(), &about::<T>(MATRIX, &[0, 0]))?;
        let (rows, columns) = (saved.size(0)?, saved.size(1)?);
        let matrix = Self::new(world, [rows, columns], tile, T::new_zeroed())?;
        saved.for_each(world, |i, element| {
            matrix.put(i / columns, i % columns, element)
        })?;
        world.barrier()?;
        Ok(matrix)
    }
}
