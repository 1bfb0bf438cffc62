//! Arrays and matrices: elements in the order of their indices, a run of them for each rank.

use std::ops::Range;
use std::path::Path;

use pgas_core::{AsTeam, Member as _, Pod, Team};

use super::manifest::About;
use super::{load, save, saving};
use crate::Result;
use crate::array::{Array, DArray, DMatrix, Distribution};
use crate::object::{Object, Plain};

const ARRAY: &str = "array";
const MATRIX: &str = "matrix";

/// This rank's run of `n` elements.
fn share(team: &Team, n: usize) -> Range<usize> {
    let (rank, n_ranks) = (team.rank() as usize, team.n_ranks() as usize);
    let start = |rank: usize| n / n_ranks * rank + (n % n_ranks).min(rank);
    start(rank)..start(rank + 1)
}

#[track_caller]
fn save_array<T: Object>(
    team: &Team,
    dir: &Path,
    len: usize,
    get: impl Fn(usize) -> Result<T>,
) -> Result<()> {
    team.barrier_within()?;
    let about = About::of::<T>(&[len as u64]);
    let mine = share(team, len);
    save(team, dir, ARRAY, (&[about], mine.len() as u64), |parts| {
        mine.clone().try_for_each(|i| parts[0].push(&get(i)?))
    })
}

#[track_caller]
fn load_array<T: Object, A>(
    team: &Team,
    dir: &Path,
    (are_bad, make): (bool, impl Fn(usize) -> Result<A>),
    put: impl Fn(&A, usize, &T) -> Result<()>,
) -> Result<A> {
    load(team, dir, (ARRAY, &[About::of::<T>(&[0])]), |saved| {
        let len = saved.size(0)?;
        saved.expect(Some(len as u64))?;
        let array = saved.made_with(are_bad, make(len))?;
        saved.for_each(team, 0, |i, element| put(&array, i, &element))?;
        team.barrier_within()?;
        Ok(array)
    })
}

impl<T: Object> DArray<T> {
    /// Writes the elements to a directory, from which any number of ranks may load them, into an
    /// [`Array`](Array::load) or a [`DArray`](Self::load).
    ///
    /// # Cost
    ///
    /// A [`get`](Self::get) for each element, divided among the ranks, and B + 5 collectives.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage), which names the file, if one
    /// cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::DArray;
    /// use pgas_containers::array::Distribution;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # let dir = std::env::temp_dir().join(format!("pgas-doc-darray-{}", std::process::id()));
    /// let squares = DArray::from_fn(&world, 10, Distribution::Block, |i| (i * i) as u64)?;
    /// squares.save(&dir)?; // collective
    /// // By any number of ranks:
    /// let again = DArray::<u64>::load(&world, &dir, Distribution::Cyclic, &0)?;
    /// assert_eq!(again.get(9)?, 81);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let _waits = saving(self.identity());
        save_array(self.team(), dir.as_ref(), self.len(), |i| self.get(i))
    }

    /// The array that was saved in a directory, dealt out as `distribution` says. All elements are
    /// loaded; `initial` only fills the memory before.
    ///
    /// # Cost
    ///
    /// That of [`new`](Self::new), a [`put`](Self::put) for each element, divided among the ranks,
    /// and B + 4 collectives. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no array of
    /// such elements, if a file cannot be read or is not as it was written, or if there is no room
    /// for the array; those of [`new`](Self::new) for arguments that differ or cannot be used.
    #[track_caller]
    pub fn load(
        on: &impl AsTeam,
        dir: impl AsRef<Path>,
        distribution: Distribution,
        initial: &T,
    ) -> Result<Self> {
        let make = |len| Self::new(on, len, distribution, initial);
        let are_bad = distribution == Distribution::BlockCyclic(0);
        load_array(&on.as_team(), dir.as_ref(), (are_bad, make), Self::put)
    }
}

impl<T: Object> Array<T> {
    /// Writes the elements to a directory, as [`DArray::save`].
    ///
    /// # Cost
    ///
    /// As [`DArray::save`].
    ///
    /// # Errors
    ///
    /// As [`DArray::save`].
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::Array;
    /// use pgas_core::Rank;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # let dir = std::env::temp_dir().join(format!("pgas-doc-array-{}", std::process::id()));
    /// let names = Array::new(&world, Rank::ZERO, 3, &String::new())?;
    /// names.put(2, &"two".to_owned())?;
    /// names.save(&dir)?; // collective
    /// let again = Array::<String>::load(&world, &dir, Rank::ZERO, &String::new())?;
    /// assert_eq!(again.get(2)?, "two");
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let _waits = saving(self.identity());
        save_array(self.team(), dir.as_ref(), self.len(), |i| self.get(i))
    }

    /// The array that was saved in a directory, on `host`; otherwise as [`DArray::load`].
    ///
    /// # Cost
    ///
    /// As [`DArray::load`].
    ///
    /// # Errors
    ///
    /// As [`DArray::load`].
    #[track_caller]
    pub fn load<G: AsTeam>(
        on: &G,
        dir: impl AsRef<Path>,
        host: G::Member,
        initial: &T,
    ) -> Result<Self> {
        let team = &on.as_team();
        let make = |len| Self::new(on, host, len, initial);
        let are_bad = host.number() >= team.n_ranks();
        load_array(team, dir.as_ref(), (are_bad, make), Self::put)
    }
}

impl<T: Pod + Object<Repr = Plain>> DMatrix<T> {
    /// Writes the elements to a directory, from which any number of ranks may [`load`](Self::load)
    /// them, into tiles of any shape.
    ///
    /// # Cost
    ///
    /// A [`get_block`](Self::get_block) for each row, divided among the ranks, and B + 5
    /// collectives. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage), which names the file, if one
    /// cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::DMatrix;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # let dir = std::env::temp_dir().join(format!("pgas-doc-matrix-{}", std::process::id()));
    /// let matrix = DMatrix::new(&world, [10, 10], [4, 4], 1.5_f64)?;
    /// matrix.save(&dir)?; // collective
    /// let again = DMatrix::<f64>::load(&world, &dir, [5, 5])?; // in other tiles
    /// assert_eq!((again.shape(), again.get(9, 9)?), ([10, 10], 1.5));
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let _waits = saving(self.identity());
        let (team, [rows, columns]) = (self.team(), self.shape());
        let sizes = [rows as u64, columns as u64];
        team.barrier_within()?;
        let about = About::of::<T>(&sizes);
        // Rows without elements may be as many as a number can say.
        let mine = share(team, if columns > 0 { rows } else { 0 });
        let n = (mine.len() as u64).saturating_mul(columns as u64);
        save(team, dir.as_ref(), MATRIX, (&[about], n), |parts| {
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
    /// That of [`new`](Self::new), a [`put`](Self::put) for each element, divided among the ranks,
    /// and B + 4 collectives. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no matrix of
    /// such elements, if a file cannot be read or is not as it was written, or if there is no room
    /// for the matrix; those of [`new`](Self::new) for arguments that differ or cannot be used.
    #[track_caller]
    pub fn load(on: &impl AsTeam, dir: impl AsRef<Path>, tile: [usize; 2]) -> Result<Self> {
        let team = &on.as_team();
        let abouts = [About::of::<T>(&[0, 0])];
        load(team, dir.as_ref(), (MATRIX, &abouts), |saved| {
            let (rows, columns) = (saved.size(0)?, saved.size(1)?);
            saved.expect((rows as u64).checked_mul(columns as u64))?;
            let matrix = Self::new(team, [rows, columns], tile, T::new_zeroed());
            let matrix = saved.made_with(tile.contains(&0), matrix)?;
            saved.for_each(team, 0, |i, element| {
                matrix.put(i / columns, i % columns, element)
            })?;
            team.barrier_within()?;
            Ok(matrix)
        })
    }
}
