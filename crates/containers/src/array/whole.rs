//! Operations on all elements of a distributed array, each rank on its own.

use pgas_core::collective::ReduceOp;
use pgas_core::collective::op::{Max, Min, Product, Sum};
use pgas_core::{AsTeam, Pod};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::distributed::DArray;
use super::layout::Distribution;
use crate::Result;
use crate::object::{Object, Plain};

/// Elements that are in private memory at a time.
const CHUNK: usize = 4096;

/// The use of elements while they are in private memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Writes,
    ReadsAndWrites,
}

/// An optional value in a reduction.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
struct Maybe<T> {
    value: T,
    is_there: u8,
}

impl<T: Copy> Clone for Maybe<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy> Copy for Maybe<T> {}

impl<T: Pod> Maybe<T> {
    fn of(value: Option<T>) -> Self {
        Self {
            value: value.unwrap_or_else(T::new_zeroed),
            is_there: u8::from(value.is_some()),
        }
    }

    fn get(self) -> Option<T> {
        (self.is_there != 0).then_some(self.value)
    }
}

/// The values combined, or the one that is there.
fn both<T>(before: Option<T>, after: Option<T>, op: &impl ReduceOp<T>) -> Option<T> {
    match (before, after) {
        (Some(before), Some(after)) => Some(op.combine(before, after)),
        (before, after) => before.or(after),
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
        mut value: impl FnMut(usize) -> T,
    ) -> Result<Self> {
        let _waits = pgas_core::part_of("the making of an array by a function");
        let array = Self::new(on, len, distribution, &T::new_zeroed())?;
        array.team().all_try("filling an array", || {
            array.write_local(Access::Writes, |i, _| value(i))
        })?;
        array.team().barrier_within()?;
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
        super::agree_on_value::<T, Plain>(self.team(), &value)?;
        self.team().barrier_within()?;
        self.team().all_try("filling an array", || {
            self.write_local(Access::Writes, |_, _| value)
        })?;
        self.team().barrier_within()
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
    pub fn map_local(&self, value: impl FnMut(usize, T) -> T) -> Result<()> {
        self.write_local(Access::ReadsAndWrites, value)
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
    pub fn fold_local<R>(&self, start: R, mut step: impl FnMut(R, usize, T) -> R) -> Result<R> {
        let mut so_far = Some(start);
        self.each_chunk(Access::Reads, |place, chunk| {
            for (i, value) in self.indices_from(place).zip(chunk) {
                so_far = so_far.take().map(|so_far| step(so_far, i, *value));
            }
            Ok(())
        })?;
        match so_far {
            Some(so_far) => Ok(so_far),
            None => unreachable!("each step leaves a value"),
        }
    }

    fn write_local(&self, access: Access, mut value: impl FnMut(usize, T) -> T) -> Result<()> {
        self.each_chunk(access, |place, chunk| {
            for (i, element) in self.indices_from(place).zip(chunk) {
                *element = value(i, *element);
            }
            Ok(())
        })
    }

    /// Hands `each` the elements of this rank, some at a time, with the place of the first one.
    fn each_chunk(
        &self,
        access: Access,
        mut each: impl FnMut(usize, &mut [T]) -> Result<()>,
    ) -> Result<()> {
        let n = self.local_len();
        let mut chunk = vec![T::new_zeroed(); CHUNK.min(n)];
        for place in (0..n).step_by(CHUNK) {
            let chunk = &mut chunk[..CHUNK.min(n - place)];
            let at = self.local_place(place);
            if access != Access::Writes {
                at.get_slice(self.world(), chunk)?;
            }
            each(place, chunk)?;
            if access != Access::Reads {
                at.put_slice(self.world(), chunk)?;
            }
        }
        Ok(())
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
        self.team().barrier_within()?;
        let own = || self.fold_local(None, |so_far, _, value| both(so_far, Some(value), &op));
        self.combine(own, &op)
    }

    /// The sum of all elements, on all ranks; 0 if the array is empty. Integers wrap around.
    ///
    /// # Cost
    ///
    /// As [`reduce`](Self::reduce). Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[track_caller]
    pub fn sum(&self) -> Result<T>
    where
        Sum: ReduceOp<T>,
    {
        Ok(self.reduce(Sum)?.unwrap_or_else(T::new_zeroed))
    }

    /// The smallest element, on all ranks; `None` if the array is empty.
    ///
    /// # Cost
    ///
    /// As [`reduce`](Self::reduce). Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[track_caller]
    pub fn min(&self) -> Result<Option<T>>
    where
        Min: ReduceOp<T>,
    {
        self.reduce(Min)
    }

    /// The largest element, on all ranks; `None` if the array is empty.
    ///
    /// # Cost
    ///
    /// As [`reduce`](Self::reduce). Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[track_caller]
    pub fn max(&self) -> Result<Option<T>>
    where
        Max: ReduceOp<T>,
    {
        self.reduce(Max)
    }

    /// The dot product with `other`: the sum of the products of elements with the same index, on
    /// all ranks. Integers wrap around.
    ///
    /// # Cost
    ///
    /// As [`reduce`](Self::reduce) of both. Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If `other` has another length, or is dealt out in another way.
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
        self.team().barrier_within()?;
        let product = || {
            let mut own = None;
            self.each_chunk(Access::Reads, |place, chunk| {
                let theirs = other.local_chunk(place, chunk.len())?;
                for (x, y) in chunk.iter().zip(theirs) {
                    own = both(own, Some(Product.combine(*x, y)), &Sum);
                }
                Ok(())
            })?;
            Ok(own)
        };
        let sum = self.combine(product, &Sum)?;
        Ok(sum.unwrap_or_else(T::new_zeroed))
    }

    /// The results of all ranks combined; an error of one is one of all.
    #[track_caller]
    fn combine(
        &self,
        own: impl FnOnce() -> Result<Option<T>>,
        op: &impl ReduceOp<T>,
    ) -> Result<Option<T>> {
        let own = || own().map(Maybe::of);
        let op = |before: Maybe<T>, after: Maybe<T>| Maybe::of(both(before.get(), after.get(), op));
        let combined = self.team().all_try_reduce("reducing an array", own, op)?;
        Ok(combined.get())
    }
}
