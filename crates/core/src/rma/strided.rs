//! Strided transfers: sub-boxes of multi-dimensional arrays.

use super::checked::{Checked, Corner};
use super::{cut, parts};
use crate::backend::Shape;
use crate::cost::CostKind;
use crate::{Event, GlobalPtr, Pod, Result, World};

/// A box of `extents` elements, in global memory and in a local slice: for each dimension the
/// distance between neighbours in elements, in global memory (`global`) and in the slice (`local`).
///
/// # Examples
///
/// Two columns of a 4 x 8 row-major array in global memory against a dense 4 x 2 slice:
///
/// ```
/// use pgas_core::rma::Strides;
/// # let world = pgas_core::backend::loopback::world();
/// let array = world.alloc::<u32>(4 * 8)?;
/// array.put_slice(&world, &(0..32).collect::<Vec<u32>>())?;
/// let mut columns = [0; 8];
/// let strides = Strides { extents: [4, 2], global: [8, 1], local: [2, 1] };
/// array.add(3).get_strided(&world, &strides, &mut columns)?;
/// assert_eq!(columns, [3, 4, 11, 12, 19, 20, 27, 28]);
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strides<const N: usize> {
    /// Elements in each dimension.
    pub extents: [usize; N],
    /// Elements between neighbours in global memory.
    pub global: [usize; N],
    /// Elements between neighbours in the local slice.
    pub local: [usize; N],
}

impl<const N: usize> Strides<N> {
    /// The number of elements from the first to one past the last in an array with `strides`;
    /// `None` if that overflows.
    pub(super) fn span(&self, strides: &[usize; N]) -> Option<usize> {
        if self.extents.contains(&0) {
            return Some(0);
        }
        let mut last = 0_usize;
        for (extent, stride) in self.extents.iter().zip(strides) {
            last = last.checked_add((extent - 1).checked_mul(*stride)?)?;
        }
        last.checked_add(1)
    }

    /// The box in bytes, with dimensions that are contiguous on both sides folded into the block.
    pub(super) fn shape(&self, element: usize) -> Shape {
        let mut block = 1_usize;
        // A dimension of one element is never stepped in, so its strides may be anything.
        let mut dims: Vec<usize> = (0..N).filter(|dim| self.extents[*dim] != 1).collect();
        while let Some(&dim) = dims.last()
            && self.global[dim] == block
            && self.local[dim] == block
        {
            block *= self.extents[dim];
            dims.pop();
        }
        let bytes = |strides: &[usize; N]| {
            let distance = |dim: &usize| (strides[*dim] * element).cast_signed();
            dims.iter().map(distance).collect()
        };
        Shape {
            block_bytes: block * element,
            extents: dims.iter().map(|dim| self.extents[*dim]).collect(),
            remote: bytes(&self.global),
            local: bytes(&self.local),
        }
    }

    /// The range of elements that contains the box, counted as one operation; `None` if the box has
    /// no bytes.
    #[track_caller]
    pub(super) fn counted<T: Pod>(
        &self,
        world: &World,
        (ptr, n_local): (GlobalPtr<T>, usize),
        kind: CostKind,
    ) -> Option<Checked<T>> {
        let (checked, n_bytes) = self.check(world, ptr, n_local)?;
        world.count(kind, Some(checked.rank()), 1, n_bytes);
        Some(checked)
    }

    #[track_caller]
    fn check<T: Pod>(
        &self,
        world: &World,
        ptr: GlobalPtr<T>,
        n_local: usize,
    ) -> Option<(Checked<T>, usize)> {
        let Some(span) = self.span(&self.local).filter(|span| *span <= n_local) else {
            panic!("{self:?} reaches beyond the {n_local} elements of the local slice");
        };
        if span == 0 {
            return None;
        }
        let Some(span) = self.span(&self.global) else {
            panic!("{self:?} reaches beyond every segment");
        };
        let checked = world.checked(ptr, span);
        // A stride of 0 has a box of many elements in a few.
        let Some(n_bytes) = self.bytes::<T>() else {
            panic!("{self:?} has more elements than can be counted");
        };
        (n_bytes > 0).then_some((checked, n_bytes))
    }

    /// Cuts the box into parts that the backend takes at once. Calls `carry_out` for each with the
    /// range of elements, the part's corner and its shape.
    #[track_caller]
    fn in_parts<T: Pod>(
        &self,
        world: &World,
        place: (GlobalPtr<T>, usize),
        kind: CostKind,
        mut carry_out: impl FnMut(&Checked<T>, Corner, &Shape) -> Result<()>,
    ) -> Result<()> {
        let Some(checked) = self.counted(world, place, kind) else {
            return Ok(());
        };
        let is_direct = world.memory().base(checked.rank()).is_some();
        let longest = if is_direct {
            usize::MAX
        } else {
            cut::longest(world)
        };
        let shape = self.shape(size_of::<T>());
        cut::shape(&shape, longest, &mut |remote, local, part| {
            carry_out(&checked, Corner { remote, local }, part)
        })
    }
}

impl<T: Pod> GlobalPtr<T> {
    /// Writes a box of elements from `values`. This pointer and the slice's start are its first
    /// corner.
    ///
    /// # Cost
    ///
    /// W, in as many pieces as the transport needs. One-sided. Complete locally on return, at the
    /// target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then a part may have been written.
    ///
    /// # Panics
    ///
    /// If the box reaches beyond the slice or the segment; then nothing was written.
    #[track_caller]
    pub fn put_strided<const N: usize>(
        self,
        world: &World,
        strides: &Strides<N>,
        values: &[T],
    ) -> Result<()> {
        let place = (self, values.len());
        strides.in_parts(world, place, CostKind::Write, |to, corner, part| {
            to.put_box(world, values, corner, part)
        })
    }

    /// Reads a box of elements into `out`. This pointer and the slice's start are its first corner.
    ///
    /// # Cost
    ///
    /// R, in as many pieces as the transport needs. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then a part of `out` may have been written.
    ///
    /// # Panics
    ///
    /// If the box reaches beyond the slice or the segment.
    #[track_caller]
    pub fn get_strided<const N: usize>(
        self,
        world: &World,
        strides: &Strides<N>,
        out: &mut [T],
    ) -> Result<()> {
        let place = (self, out.len());
        strides.in_parts(world, place, CostKind::Read, |from, corner, part| {
            from.get_box(world, out, corner, part)
        })
    }

    /// Begins a [`put_strided`](Self::put_strided). The event is complete when the box is at the
    /// target, and gives the vector back.
    ///
    /// # Cost
    ///
    /// W, in as many pieces as the box has runs of elements that are contiguous on both sides.
    /// One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then a part may be written.
    ///
    /// # Panics
    ///
    /// As [`put_strided`](Self::put_strided).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::rma::Strides;
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = world.alloc::<u32>(4 * 8)?;
    /// array.put_slice(&world, &[0; 32])?;
    /// let column = Strides { extents: [4], global: [8], local: [1] };
    /// let put = array.add(3).put_strided_nb(&world, &column, vec![1, 2, 3, 4])?;
    /// let values = put.wait()?; // the vector again
    /// let get = array.add(3).get_strided_nb(&world, &column, vec![0; 4])?;
    /// assert_eq!(get.wait()?, values);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn put_strided_nb<const N: usize>(
        self,
        world: &World,
        strides: &Strides<N>,
        values: Vec<T>,
    ) -> Result<Event<Vec<T>>> {
        let place = (self, values.len());
        let Some(to) = strides.counted(world, place, CostKind::Write) else {
            return Ok(Event::ready(values));
        };
        let shape = strides.shape(size_of::<T>());
        parts::begin_put_box(world, &to, (Corner::FIRST, &shape), values)
    }

    /// Begins a [`get_strided`](Self::get_strided) into `out`, which the event gives back. What is
    /// between the elements of the box stays as it is.
    ///
    /// # Cost
    ///
    /// R, in as many pieces as the box has runs of elements that are contiguous on both sides.
    /// One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// As [`get_strided`](Self::get_strided).
    #[track_caller]
    pub fn get_strided_nb<const N: usize>(
        self,
        world: &World,
        strides: &Strides<N>,
        out: Vec<T>,
    ) -> Result<Event<Vec<T>>> {
        let place = (self, out.len());
        let Some(from) = strides.counted(world, place, CostKind::Read) else {
            return Ok(Event::ready(out));
        };
        let shape = strides.shape(size_of::<T>());
        parts::begin_get_box(world, &from, (Corner::FIRST, &shape), out)
    }
}

impl<const N: usize> Strides<N> {
    /// The bytes of all elements; `None` if that overflows.
    fn bytes<T>(&self) -> Option<usize> {
        let mut extents = self.extents.iter();
        let n_elements = extents.try_fold(1_usize, |n, extent| n.checked_mul(*extent))?;
        n_elements.checked_mul(size_of::<T>())
    }
}
