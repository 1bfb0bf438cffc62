//! The local phase of arrays: a rank's own elements as slices.
//!
//! There are no references into a segment, whose memory others may write at any time. So the
//! elements are copied to private memory when the phase begins, and back when it ends.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use pgas_core::{GlobalPtr, InPhase, Pod, Team, World};

use super::{DArray, DMatrix};
use crate::object::{Object, Plain};
use crate::{ChangeError, Error, Result};

/// The `n` elements of this rank from `at` on in private memory, with all that was written before.
/// Collective.
#[track_caller]
pub(super) fn take_out<T: Pod>(
    team: &Team,
    what: &'static str,
    (at, n): (GlobalPtr<T>, usize),
) -> Result<Vec<T>> {
    team.barrier_within()?;
    team.all_try(what, || {
        let mut elements = T::new_vec_zeroed(n).map_err(|_| {
            let n_bytes = n.saturating_mul(size_of::<T>());
            Error::Argument(format!("no memory for {n_bytes} bytes of an array").into())
        })?;
        at.get_slice(team.world(), &mut elements)?;
        Ok(elements)
    })
}

/// Writes this rank's elements back, and waits until all members have.
#[track_caller]
fn put_back<T: Pod>(team: &Team, at: GlobalPtr<T>, elements: &[T]) -> Result<()> {
    team.all_try("the end of a local phase", || {
        at.put_slice(team.world(), elements)
    })?;
    team.barrier_within()
}

/// A [`DArray`] in its local phase: the elements of this rank are a slice, `&mut [T]`.
///
/// It derefs to the slice: index it, iterate over it, sort it, hand it to rayon's `par_iter_mut`.
/// No rank reaches the elements of another. A put through a pointer that was made before the phase
/// is lost.
///
/// # Examples
///
/// ```
/// use pgas_containers::DArray;
/// use pgas_containers::array::Distribution;
///
/// # let world = pgas_core::backend::loopback::world();
/// let array = DArray::from_fn(&world, 1000, Distribution::Block, |i| i as f64)?;
/// let mut local = array.into_local()?; // collective
/// local.iter_mut().for_each(|x| *x = x.sqrt());
/// local.reverse();
/// for (i, x) in local.indexed_mut() {
///     *x += i as f64;
/// }
/// let array = local.into_shared()?; // collective: others see it
/// assert_eq!(array.get(999)?, 999.0);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// Blocks of consecutive elements, and the indices of elements:
///
/// ```
/// use pgas_containers::DArray;
/// use pgas_containers::array::Distribution;
///
/// # let world = pgas_core::backend::loopback::world();
/// let array = DArray::from_fn(&world, 8, Distribution::BlockCyclic(3), |i| i as u32)?;
/// let mut local = array.into_local()?;
/// assert_eq!((local.global_len(), local.team().n_ranks()), (8, local.world().n_ranks()));
/// assert_eq!(local.index_of(4), 4); // of the one rank of this example
/// assert!(local.indexed().all(|(i, x)| i as u32 == *x));
/// for (elements, block) in local.blocks_mut() {
///     block.fill(elements.start as u32);
/// }
/// assert_eq!(*local, [0, 0, 0, 3, 3, 3, 6, 6]);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
#[must_use = "the elements come back to the array when the phase ends"]
pub struct LocalArray<T: Object<Repr = Plain> + Pod> {
    pub(super) array: DArray<T>,
    pub(super) elements: Vec<T>,
    /// In traces.
    _phase: InPhase,
}

impl<T: Object<Repr = Plain> + Pod> DArray<T> {
    /// Begins the local phase.
    ///
    /// # Cost
    ///
    /// B, an allreduce, and ℓ for each element of this rank. The elements take twice their memory
    /// until the phase ends. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank, with the array as it was: [`Error::Argument`] if it has no memory for its
    /// elements, [`Elsewhere`](pgas_core::Error::Elsewhere) if another one has none.
    #[track_caller]
    pub fn into_local(self) -> Result<LocalArray<T>, ChangeError<Self>> {
        let _waits = pgas_core::part_of_object(
            "the beginning of the local phase of an array",
            self.identity(),
        );
        let own = (self.local_place(0), self.local_len());
        match take_out(self.team(), "the local phase of an array", own) {
            Ok(elements) => Ok(LocalArray {
                _phase: self.world().phase("array", self.identity(), "local"),
                array: self,
                elements,
            }),
            Err(error) => Err(ChangeError::new(self, error)),
        }
    }
}

impl<T: Object<Repr = Plain> + Pod> LocalArray<T> {
    /// Ends the local phase: all ranks see what each has written.
    ///
    /// # Cost
    ///
    /// B, an allreduce, and ℓ for each element of this rank. Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport, on every rank; then the elements are lost, and so they are on a
    /// rank that calls this in a handler.
    #[track_caller]
    pub fn into_shared(self) -> Result<DArray<T>> {
        let _waits = pgas_core::part_of_object(
            "the end of the local phase of an array",
            self.array.identity(),
        );
        let Self {
            array, elements, ..
        } = self;
        put_back(array.team(), array.local_place(0), &elements)?;
        Ok(array)
    }

    /// The index in the whole array of the element at `place` of the slice.
    ///
    /// # Panics
    ///
    /// If the slice has no such place.
    #[must_use]
    #[track_caller]
    pub fn index_of(&self, place: usize) -> usize {
        super::index_check(place, self.elements.len());
        self.array.index_at(place)
    }

    /// The elements with their indices in the whole array, in order.
    pub fn indexed(&self) -> impl Iterator<Item = (usize, &T)> {
        self.array.indices_from(0).zip(&self.elements)
    }

    /// The elements, mutable, with their indices in the whole array, in order. With the feature
    /// `rayon` all threads share them by `par_indexed_mut`.
    pub fn indexed_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.array.indices_from(0).zip(&mut self.elements)
    }

    /// The blocks of this rank, in order: the range of indices in the whole array, and the
    /// elements. There is one if the distribution is [`Block`](super::Distribution::Block).
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = (Range<usize>, &mut [T])> {
        let (array, n) = (&self.array, self.array.block());
        let blocks = self.elements.chunks_mut(n).enumerate();
        blocks.map(move |(i, block)| {
            let first = array.index_at(i * n);
            (first..first + block.len(), block)
        })
    }

    /// The team whose members share the array.
    #[must_use]
    pub fn team(&self) -> &Team {
        self.array.team()
    }

    /// The number of elements over all ranks.
    #[must_use]
    pub fn global_len(&self) -> usize {
        self.array.len()
    }

    /// The world whose ranks share the array.
    #[must_use]
    pub fn world(&self) -> &World {
        self.array.world()
    }
}

impl<T: Object<Repr = Plain> + Pod> Deref for LocalArray<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T: Object<Repr = Plain> + Pod> DerefMut for LocalArray<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

impl<T: Object<Repr = Plain> + Pod> fmt::Debug for LocalArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({:?}, {} here)", self.array, self.elements.len())
    }
}

/// A [`DMatrix`] in its local phase: the rows of this rank's tiles are slices.
///
/// # Examples
///
/// ```
/// use pgas_containers::DMatrix;
///
/// # let world = pgas_core::backend::loopback::world();
/// let matrix = DMatrix::new(&world, [100, 80], [16, 16], 1.0_f64)?;
/// let mut local = matrix.into_local()?; // collective
/// for mut tile in local.tiles_mut() {
///     for row in tile.rows() {
///         let first = tile.columns().start;
///         for (column, x) in (first..).zip(tile.row_mut(row)) {
///             *x += (row * 80 + column) as f64;
///         }
///     }
/// }
/// let matrix = local.into_shared()?; // collective: others see it
/// assert_eq!(matrix.get(99, 79)?, 8000.0);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// All tiles of this rank:
///
/// ```
/// use pgas_containers::DMatrix;
///
/// # let world = pgas_core::backend::loopback::world();
/// let matrix = DMatrix::new(&world, [4, 6], [2, 3], 1_u32)?;
/// let mut local = matrix.into_local()?;
/// assert_eq!((local.shape(), local.team().n_ranks()), ([4, 6], local.world().n_ranks()));
/// for mut tile in local.tiles_mut() {
///     let (row, columns) = (tile.rows().start, tile.columns());
///     tile.row_mut(row)[0] += columns.start as u32;
///     assert_eq!(tile.row(row).len(), 3);
/// }
/// let corners = local.tiles().map(|tile| tile.row(tile.rows().start)[0]);
/// assert_eq!(corners.collect::<Vec<_>>(), [1, 4, 1, 4]); // of the one rank of this example
/// assert!(local.tiles().all(|tile| tile.columns().len() == 3));
/// # Ok::<(), pgas_containers::Error>(())
/// ```
#[must_use = "the elements come back to the matrix when the phase ends"]
pub struct LocalMatrix<T: Pod> {
    matrix: DMatrix<T>,
    /// The tiles of this rank, one behind the other, each as large as a whole one.
    elements: Vec<T>,
    /// In traces.
    _phase: InPhase,
}

impl<T: Pod> DMatrix<T> {
    /// Begins the local phase.
    ///
    /// # Cost
    ///
    /// B, an allreduce, and ℓ for each element of this rank. The elements take twice their memory
    /// until the phase ends. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`DArray::into_local`], with the matrix as it was.
    #[track_caller]
    pub fn into_local(self) -> Result<LocalMatrix<T>, ChangeError<Self>> {
        let _waits = pgas_core::part_of_object(
            "the beginning of the local phase of a matrix",
            self.identity(),
        );
        let n = self.local_tiles().count() * self.tile_len();
        let own = (self.local_start(), n);
        match take_out(self.team(), "the local phase of a matrix", own) {
            Ok(elements) => Ok(LocalMatrix {
                _phase: self.world().phase("matrix", self.identity(), "local"),
                matrix: self,
                elements,
            }),
            Err(error) => Err(ChangeError::new(self, error)),
        }
    }
}

impl<T: Pod> LocalMatrix<T> {
    /// Ends the local phase: all ranks see what each has written.
    ///
    /// # Cost
    ///
    /// B, an allreduce, and ℓ for each element of this rank. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`LocalArray::into_shared`].
    #[track_caller]
    pub fn into_shared(self) -> Result<DMatrix<T>> {
        let _waits = pgas_core::part_of_object(
            "the end of the local phase of a matrix",
            self.matrix.identity(),
        );
        let Self {
            matrix, elements, ..
        } = self;
        put_back(matrix.team(), matrix.local_start(), &elements)?;
        Ok(matrix)
    }

    /// The tiles of this rank.
    pub fn tiles(&self) -> impl Iterator<Item = Tile<'_, T>> {
        let width = self.matrix.tile_shape()[1];
        let tiles = self.elements.chunks(self.matrix.tile_len());
        let places = self.matrix.local_tiles().zip(tiles);
        places.map(move |((rows, columns), elements)| Tile {
            rows,
            columns,
            width,
            elements,
        })
    }

    /// The tiles of this rank, mutable.
    pub fn tiles_mut(&mut self) -> impl Iterator<Item = TileMut<'_, T>> {
        let width = self.matrix.tile_shape()[1];
        let tiles = self.elements.chunks_mut(self.matrix.tile_len());
        let places = self.matrix.local_tiles().zip(tiles);
        places.map(move |((rows, columns), elements)| TileMut {
            rows,
            columns,
            width,
            elements,
        })
    }

    /// The team whose members share the matrix.
    #[must_use]
    pub fn team(&self) -> &Team {
        self.matrix.team()
    }

    /// The shape of the whole matrix: `[rows, columns]`.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.matrix.shape()
    }

    /// The world whose ranks share the matrix.
    #[must_use]
    pub fn world(&self) -> &World {
        self.matrix.world()
    }
}

impl<T: Pod> fmt::Debug for LocalMatrix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({:?})", self.matrix)
    }
}

/// The range of a tile's row in the tile's memory.
#[track_caller]
fn row_of(row: usize, rows: &Range<usize>, columns: &Range<usize>, width: usize) -> Range<usize> {
    assert!(rows.contains(&row), "row {row} of a tile of rows {rows:?}");
    let first = (row - rows.start) * width;
    first..first + columns.len()
}

/// A tile of this rank in a [`LocalMatrix`].
///
/// # Examples
///
/// See [`LocalMatrix`].
#[derive(Clone, Debug)]
pub struct Tile<'a, T> {
    rows: Range<usize>,
    columns: Range<usize>,
    width: usize,
    elements: &'a [T],
}

impl<'a, T> Tile<'a, T> {
    /// The rows of the whole matrix that the tile has.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The columns of the whole matrix that the tile has.
    #[must_use]
    pub fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// The elements in this tile of a row, which has its number in the whole matrix.
    ///
    /// # Panics
    ///
    /// If the tile has no such row.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn row(&self, row: usize) -> &'a [T] {
        &self.elements[row_of(row, &self.rows, &self.columns, self.width)]
    }
}

/// A mutable tile of this rank in a [`LocalMatrix`], or of a [`Halo`](super::Halo) that is updated.
///
/// # Examples
///
/// See [`LocalMatrix`].
#[derive(Debug)]
pub struct TileMut<'a, T> {
    rows: Range<usize>,
    columns: Range<usize>,
    width: usize,
    elements: &'a mut [T],
}

impl<'a, T> TileMut<'a, T> {
    /// A tile whose rows lie one behind the other.
    pub(super) fn new(rows: Range<usize>, columns: Range<usize>, elements: &'a mut [T]) -> Self {
        let width = columns.len();
        Self {
            rows,
            columns,
            width,
            elements,
        }
    }
}

impl<T> TileMut<'_, T> {
    /// The rows of the whole matrix that the tile has.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The columns of the whole matrix that the tile has.
    #[must_use]
    pub fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// The elements in this tile of a row, which has its number in the whole matrix.
    ///
    /// # Panics
    ///
    /// If the tile has no such row.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn row(&self, row: usize) -> &[T] {
        &self.elements[row_of(row, &self.rows, &self.columns, self.width)]
    }

    /// As [`row`](Self::row), mutable.
    ///
    /// # Panics
    ///
    /// If the tile has no such row.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.elements[row_of(row, &self.rows, &self.columns, self.width)]
    }
}
