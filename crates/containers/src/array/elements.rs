//! The elements that this rank holds of an array or matrix, some at a time.

use pgas_core::collective::ReduceOp;
use pgas_core::collective::op::{Product, Sum};
use pgas_core::{GlobalPtr, Pod, Team};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Result;
use crate::object::Plain;

/// Elements that are in private memory at a time.
const CHUNK: usize = 4096;

/// The use of elements while they are in private memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
    ReadsAndWrites,
}

/// An optional value in a reduction.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
struct Maybe<T> {
    value: T,
    is_there: u8,
}

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
pub(super) fn both<T>(before: Option<T>, after: Option<T>, op: &impl ReduceOp<T>) -> Option<T> {
    match (before, after) {
        (Some(before), Some(after)) => Some(op.combine(before, after)),
        (before, after) => before.or(after),
    }
}

/// The reductions that have names, of an array or a matrix.
macro_rules! reductions {
    ($whole:literal) => {
        #[doc = concat!(
            "The sum of all elements, on all ranks; 0 if the ", $whole, " is empty. Integers wrap around."
        )]
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

        #[doc = concat!("The smallest element, on all ranks; `None` if the ", $whole, " is empty.")]
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

        #[doc = concat!("The largest element, on all ranks; `None` if the ", $whole, " is empty.")]
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
    };
}
pub(super) use reductions;

/// A container of elements that lie in places of the ranks' memory.
pub(super) trait Elements<T: Pod> {
    /// What names an element.
    type Index;

    fn members(&self) -> &Team;

    /// A pointer to this rank's first place.
    fn first_place(&self) -> GlobalPtr<T>;

    /// The number of this rank's places.
    fn n_places(&self) -> usize;

    /// Hands `each` the elements of this rank, in the order of their places.
    fn each_element(&self, access: Access, each: impl FnMut(Self::Index, &mut T)) -> Result<()>;

    /// Whether an element lies in each of this rank's places, in their order.
    fn are_elements(&self) -> impl Iterator<Item = bool> {
        std::iter::repeat_n(true, self.n_places())
    }

    /// Hands `each` what is in this rank's places, some at a time, with the number of the first.
    fn each_chunk(
        &self,
        access: Access,
        mut each: impl FnMut(usize, &mut [T]) -> Result<()>,
    ) -> Result<()> {
        let (n, world) = (self.n_places(), self.members().world());
        let mut chunk = vec![T::new_zeroed(); CHUNK.min(n)];
        for place in (0..n).step_by(CHUNK) {
            let chunk = &mut chunk[..CHUNK.min(n - place)];
            let at = self.first_place().add(place);
            if access != Access::Writes {
                at.get_slice(world, chunk)?;
            }
            each(place, chunk)?;
            if access != Access::Reads {
                at.put_slice(world, chunk)?;
            }
        }
        Ok(())
    }

    /// Combines the elements of this rank, in the order of their places.
    fn fold<R>(&self, start: R, mut step: impl FnMut(R, Self::Index, T) -> R) -> Result<R> {
        let mut so_far = Some(start);
        self.each_element(Access::Reads, |index, value| {
            so_far = so_far.take().map(|so_far| step(so_far, index, *value));
        })?;
        match so_far {
            Some(so_far) => Ok(so_far),
            None => unreachable!("each step leaves a value"),
        }
    }

    /// Computes the elements of all ranks, each rank its own; an error of one is one of all.
    #[track_caller]
    fn compute_all(&self, mut value: impl FnMut(Self::Index) -> T) -> Result<()> {
        self.write_all(|| {
            self.each_element(Access::Writes, |index, element| *element = value(index))
        })
    }

    /// Writes this rank's elements by `write`, and waits until all members have.
    #[track_caller]
    fn write_all(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        self.members().all_try("filling an array", write)?;
        self.members().barrier_within()
    }

    /// Writes `value` to the elements of all ranks.
    #[track_caller]
    fn fill_all(&self, value: T) -> Result<()> {
        super::agree_on_value::<T, Plain>(self.members(), &value)?;
        self.members().barrier_within()?;
        self.write_all(|| {
            self.each_chunk(Access::Writes, |_, chunk| {
                chunk.fill(value);
                Ok(())
            })
        })
    }

    /// The elements of all ranks combined.
    #[track_caller]
    fn reduce_all(&self, op: &impl ReduceOp<T>) -> Result<Option<T>> {
        self.members().barrier_within()?;
        let own = || {
            self.fold(None, |so_far, _, value| {
                both(so_far, Some(op.alone(value)), op)
            })
        };
        self.combine(own, op)
    }

    /// The sum of the products of the elements of all ranks with those of `other` in the same
    /// places.
    #[track_caller]
    fn dot_all(&self, other: &Self) -> Result<T>
    where
        Sum: ReduceOp<T>,
        Product: ReduceOp<T>,
    {
        self.members().barrier_within()?;
        let own = || {
            let mut own = None;
            let mut are_elements = self.are_elements();
            self.each_chunk(Access::Reads, |place, chunk| {
                let theirs = other.first_place().add(place);
                let theirs = theirs.get_vec(self.members().world(), chunk.len())?;
                let products = chunk.iter().zip(theirs).zip(&mut are_elements);
                for ((x, y), _) in products.filter(|(_, is_element)| *is_element) {
                    own = both(own, Some(Product.combine(*x, y)), &Sum);
                }
                Ok(())
            })?;
            Ok(own)
        };
        Ok(self.combine(own, &Sum)?.unwrap_or_else(T::new_zeroed))
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
        let combined = self
            .members()
            .all_try_reduce("reducing an array", own, op)?;
        Ok(combined.get())
    }
}
