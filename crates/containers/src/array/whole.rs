//! Operations on all elements of a distributed array, each rank on its own.

use pgas_core::collective::ReduceOp;
use pgas_core::collective::op::{Max, Min, Product, Sum};
use pgas_core::{AsTeam, GlobalPtr, Pod, Team};

use super::distributed::DArray;
use super::elements::{Access, Elements, reductions};
use super::layout::Distribution;
use crate::Result;
use crate::object::{Object, Plain};

impl<T: Object<Repr = Plain> + Pod> Elements<T> for DArray<T> {
    type Index = usize;

    fn members(&self) -> &Team {
        self.team()
    }

    fn first_place(&self) -> GlobalPtr<T> {
        self.local_place(0)
    }

    fn n_places(&self) -> usize {
        self.local_len()
    }

    fn each_element(&self, access: Access, mut each: impl FnMut(usize, &mut T)) -> Result<()> {
        self.each_chunk(access, |place, chunk| {
            for (i, element) in self.indices_from(place).zip(chunk) {
                each(i, element);
            }
            Ok(())
        })
    }
}

impl<T: Object<Repr = Plain> + Pod> DArray<T> {
    /// An array of `len` elements, dealt out as `distribution` says, in which element `i` is
    /// `value(i)`. Each rank computes the elements that it holds.
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
    /// use pgas_containers::DArray;
    /// use pgas_containers::array::Distribution;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let squares = DArray::from_fn(&world, 1000, Distribution::Block, |i| (i * i) as u64)?;
    /// assert_eq!(squares.get(30)?, 900);
    /// assert_eq!(squares.max()?, Some(999 * 999));
    /// assert_eq!(squares.sum()?, (0..1000).map(|i| i * i).sum());
    /// squares.map_local(|i, square| square - i as u64)?; // each rank its own
    /// world.barrier()?;
    /// assert_eq!(squares.get(30)?, 870);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn from_fn(
        on: &impl AsTeam,
        len: usize,
        distribution: Distribution,
        value: impl FnMut(usize) -> T,
    ) -> Result<Self> {
        let _waits = pgas_core::part_of("the making of an array by a function");
        let array = Self::new(on, len, distribution, &T::new_zeroed())?;
        array.compute_all(value)?;
        Ok(array)
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
        let _waits = pgas_core::part_of_object("a fill of an array", self.identity());
        self.fill_all(value)
    }

    /// Replaces each element `x` that this rank holds by `value(i, x)`, where `i` is its index.
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
    pub fn map_local(&self, mut value: impl FnMut(usize, T) -> T) -> Result<()> {
        self.each_element(Access::ReadsAndWrites, |i, element| {
            *element = value(i, *element);
        })
    }

    /// Combines the elements that this rank holds, in order: `step(so_far, i, x)` for each, where
    /// `i` is the index of element `x`.
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
    /// # use pgas_containers::DArray;
    /// # use pgas_containers::array::Distribution;
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = DArray::from_fn(&world, 100, Distribution::Cyclic, |i| i as u32 % 7)?;
    /// let here = array.fold_local(0, |n, _, x| n + u32::from(x == 3))?;
    /// let all = world.allreduce(here, pgas_core::collective::op::Sum)?;
    /// assert_eq!(all, 14);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn fold_local<R>(&self, start: R, step: impl FnMut(R, usize, T) -> R) -> Result<R> {
        self.fold(start, step)
    }

    /// All elements combined by `op`, on all ranks; `None` if the array is empty.
    ///
    /// Each rank combines its own elements in order, then the ranks' results are combined in the
    /// order of the ranks. With the distribution [`Block`](Distribution::Block) this is the order
    /// of the elements; with another one `op` has to be commutative.
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
        let _waits = pgas_core::part_of_object("a reduction of an array", self.identity());
        self.reduce_all(&op)
    }

    reductions!("array");

    /// The dot product with `other`: the sum of the products of elements with the same index, on
    /// all ranks. Integers wrap around.
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
    /// If `other` has another length, is dealt out in another way, or is of another world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::DArray;
    /// # use pgas_containers::array::Distribution;
    /// # let world = pgas_core::backend::loopback::world();
    /// let x = DArray::from_fn(&world, 100, Distribution::Block, |i| i as f64)?;
    /// let y = DArray::new(&world, 100, Distribution::Block, &2.0)?;
    /// assert_eq!(x.dot(&y)?, 9900.0);
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
        let _waits = pgas_core::part_of_object("a product of two arrays", self.identity());
        self.dot_all(other)
    }
}
