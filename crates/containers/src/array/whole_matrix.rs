//! Operations on all elements of a matrix, each rank on its own, and on those of an array of one
//! rank.

use pgas_core::collective::ReduceOp;
use pgas_core::collective::op::{Max, Min, Product, Sum};
use pgas_core::{AsTeam, GlobalPtr, Pod, Team, part_of, part_of_object};

use super::elements::{Access, Elements, reductions};
use super::hosted::Array;
use super::matrix::DMatrix;
use crate::Result;
use crate::object::{Object, Plain};

impl<T: Pod> Elements<T> for DMatrix<T> {
    /// The row and the column.
    type Index = (usize, usize);

    fn members(&self) -> &Team {
        self.team()
    }

    fn first_place(&self) -> GlobalPtr<T> {
        self.local_start()
    }

    fn n_places(&self) -> usize {
        self.local_tiles().count() * self.tile_len()
    }

    fn are_elements(&self) -> impl Iterator<Item = bool> {
        self.indices().map(|index| index.is_some())
    }

    fn each_element(
        &self,
        access: Access,
        mut each: impl FnMut((usize, usize), &mut T),
    ) -> Result<()> {
        let mut indices = self.indices();
        self.each_chunk(access, |_, chunk| {
            for (element, index) in chunk.iter_mut().zip(&mut indices) {
                if let Some(index) = index {
                    each(index, element);
                }
            }
            Ok(())
        })
    }
}

impl<T: Pod> DMatrix<T> {
    /// A matrix of `[rows, columns]`, in tiles of `[rows, columns]`, whose element in a row and a
    /// column is `value(row, column)`. Each rank computes the elements that it holds.
    ///
    /// # Cost
    ///
    /// That of [`new`](Self::new), B, an allreduce, and `value` for each element of this rank.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::DMatrix;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let table = DMatrix::from_fn(&world, [10, 9], [4, 4], |i, j| (i * j) as u64)?; // collective
    /// assert_eq!(table.get(7, 6)?, 42);
    /// assert_eq!((table.sum()?, table.max()?), (45 * 36, Some(72)));
    /// table.map_local(|i, j, product| product + (i + j) as u64)?; // each rank its own
    /// world.barrier()?;
    /// assert_eq!(table.get(7, 6)?, 55);
    /// table.fill(3)?; // collective
    /// assert_eq!(table.min()?, Some(3));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn from_fn(
        on: &impl AsTeam,
        shape: [usize; 2],
        tile: [usize; 2],
        mut value: impl FnMut(usize, usize) -> T,
    ) -> Result<Self> {
        let _waits = part_of("the making of a matrix by a function");
        let matrix = Self::new(on, shape, tile, T::new_zeroed())?;
        matrix.compute_all(|(row, column)| value(row, column))?;
        Ok(matrix)
    }

    /// Writes `value` to all elements.
    ///
    /// # Cost
    ///
    /// 2B, an allreduce, and ℓ for each element of this rank; an allreduce more with
    /// `PGAS_CHECK=1`. Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport, on every rank; with `PGAS_CHECK=1`
    /// [`Mismatch`](pgas_core::Error::Mismatch) if the ranks give different values.
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        let _waits = part_of_object("a fill of a matrix", self.identity());
        self.fill_all(value)
    }

    /// Replaces each element `x` that this rank holds by `value(row, column, x)`.
    ///
    /// Other ranks see the new values after the next barrier. Their writes to these elements
    /// meanwhile may be lost.
    ///
    /// # Cost
    ///
    /// ℓ for each element of this rank. Not collective.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    pub fn map_local(&self, mut value: impl FnMut(usize, usize, T) -> T) -> Result<()> {
        self.each_element(Access::ReadsAndWrites, |(row, column), element| {
            *element = value(row, column, *element);
        })
    }

    /// Combines the elements that this rank holds, tile by tile and row by row in each:
    /// `step(so_far, row, column, x)` for each element `x`.
    ///
    /// # Cost
    ///
    /// ℓ for each element of this rank. Not collective.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::DMatrix;
    /// # let world = pgas_core::backend::loopback::world();
    /// let matrix = DMatrix::from_fn(&world, [50, 50], [8, 8], |i, j| (i + j) as f64)?;
    /// let here = matrix.fold_local(0.0, |sum, i, j, x| if i == j { sum + x } else { sum })?;
    /// let trace = world.allreduce(here, pgas_core::collective::op::Sum)?;
    /// assert_eq!(trace, 2450.0);
    /// let largest = matrix.reduce(f64::max)?; // collective
    /// assert_eq!(largest, Some(98.0));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn fold_local<R>(
        &self,
        start: R,
        mut step: impl FnMut(R, usize, usize, T) -> R,
    ) -> Result<R> {
        self.fold(start, |so_far, (row, column), value| {
            step(so_far, row, column, value)
        })
    }

    /// All elements combined by `op`, which has to be commutative, on all ranks; `None` if the
    /// matrix is empty.
    ///
    /// # Cost
    ///
    /// B, an allreduce, and ℓ for each element of this rank. Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operators are given as those of collectives are"
    )]
    #[track_caller]
    pub fn reduce(&self, op: impl ReduceOp<T>) -> Result<Option<T>> {
        let _waits = part_of_object("a reduction of a matrix", self.identity());
        self.reduce_all(&op)
    }

    reductions!("matrix");

    /// The inner product with `other`: the sum of the products of elements with the same row and
    /// column, on all ranks. Integers wrap around.
    ///
    /// # Cost
    ///
    /// B, an allreduce, and ℓ for each element of this rank in both. Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If `other` has another shape, other tiles, or other members, or is of another world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::DMatrix;
    /// # let world = pgas_core::backend::loopback::world();
    /// let errors = DMatrix::from_fn(&world, [30, 20], [8, 8], |i, j| (i + j) as f64)?;
    /// let norm = errors.dot(&errors)?.sqrt(); // collective
    /// let weights = DMatrix::new(&world, [30, 20], [8, 8], 0.5)?;
    /// assert_eq!(errors.dot(&weights)?, errors.sum()? / 2.0);
    /// # assert!((norm - 640.703).abs() < 1e-3);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn dot(&self, other: &Self) -> Result<T>
    where
        Sum: ReduceOp<T>,
        Product: ReduceOp<T>,
    {
        assert!(
            self.is_dealt_as(other),
            "the product of {self:?} with {other:?}, which is dealt out in another way"
        );
        let _waits = part_of_object("a product of two matrices", self.identity());
        self.dot_all(other)
    }

    /// The row and the column of what lies in each of this rank's places, in their order: a tile
    /// at an edge of the matrix has the places of a whole one, some without an element.
    fn indices(&self) -> impl Iterator<Item = Option<(usize, usize)>> + use<T> {
        let [height, width] = self.tile_shape();
        self.local_tiles().flat_map(move |(rows, columns)| {
            (rows.start..rows.start + height).flat_map(move |row| {
                let (is_row, end) = (row < rows.end, columns.end);
                let columns = columns.start..columns.start + width;
                columns.map(move |column| (is_row && column < end).then_some((row, column)))
            })
        })
    }

    /// Whether elements with one row and column lie in the same place of the same rank.
    fn is_dealt_as(&self, other: &Self) -> bool {
        (self.shape(), self.tile_shape()) == (other.shape(), other.tile_shape())
            && super::are_same_members(self.team(), other.team())
    }
}

impl<T: Object<Repr = Plain> + Pod> Elements<T> for Array<T> {
    type Index = usize;

    fn members(&self) -> &Team {
        self.team()
    }

    fn first_place(&self) -> GlobalPtr<T> {
        self.first()
    }

    fn n_places(&self) -> usize {
        if self.host() == self.world().rank() {
            self.len()
        } else {
            0
        }
    }

    fn each_element(&self, access: Access, mut each: impl FnMut(usize, &mut T)) -> Result<()> {
        self.each_chunk(access, |place, chunk| {
            for (i, element) in (place..).zip(chunk) {
                each(i, element);
            }
            Ok(())
        })
    }
}

impl<T: Object<Repr = Plain> + Pod> Array<T> {
    /// Writes `value` to all elements.
    ///
    /// # Cost
    ///
    /// 2B, an allreduce, and ℓ for each element on their host; an allreduce more with
    /// `PGAS_CHECK=1`. Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport, on every rank; with `PGAS_CHECK=1`
    /// [`Mismatch`](pgas_core::Error::Mismatch) if the ranks give different values.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::Array;
    /// # use pgas_core::Rank;
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = Array::new(&world, Rank::ZERO, 10, &0_u64)?; // collective
    /// array.fill(7)?; // collective
    /// assert_eq!(array.get_range(8..10)?, [7, 7]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        let _waits = part_of_object("a fill of an array", self.identity());
        self.fill_all(value)
    }
}
