//! Strided transfers: sub-boxes of multi-dimensional arrays.
#![expect(unsafe_code, reason = "calls the backend on checked addresses")]

use zerocopy::IntoBytes;

use super::checked::{get_directly, put_directly};
use super::cut;
use crate::backend::{GetGrid, PutGrid, RemoteAddr, Shape};
use crate::cost::CostKind;
use crate::{GlobalPtr, Pod, Result, World};

/// A box of `extents` elements in two arrays: in each dimension, the distance in elements between
/// neighbours in global memory (`global`) and in the local slice (`local`).
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
/// array.offset(3).get_strided(&world, &strides, &mut columns)?;
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
    /// The number of elements from the first to one past the last in an array with `strides`; `None`
    /// if that overflows.
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

    #[track_caller]
    fn check<T: Pod>(
        &self,
        world: &World,
        ptr: GlobalPtr<T>,
        n_local: usize,
    ) -> Option<RemoteAddr> {
        let Some(span) = self.span(&self.local).filter(|span| *span <= n_local) else {
            panic!("{self:?} reaches beyond the {n_local} elements of the local slice");
        };
        if span == 0 {
            return None;
        }
        let Some(span) = self.span(&self.global) else {
            panic!("{self:?} reaches beyond every segment");
        };
        Some(world.checked(ptr, span).at())
    }

    /// Cuts the box into parts that go in one piece each, and calls `carry_out` with the remote and the
    /// local corner of each, the latter in bytes from the slice's start, its shape, and whether its
    /// memory is mapped. All blocks of a part lie inside of a segment of the job and of the slice.
    #[track_caller]
    fn in_parts<T: Pod>(
        &self,
        world: &World,
        (ptr, n_local): (GlobalPtr<T>, usize),
        kind: CostKind,
        mut carry_out: impl FnMut(RemoteAddr, isize, &Shape, bool) -> Result<()>,
    ) -> Result<()> {
        let Some(at) = self.check(world, ptr, n_local) else {
            return Ok(());
        };
        world.count(kind, Some(at.rank), 1, self.bytes::<T>());
        let is_direct = world.memory().base(at.rank).is_some();
        let longest = if is_direct {
            usize::MAX
        } else {
            cut::longest(world)
        };
        let shape = self.shape(size_of::<T>());
        cut::shape(&shape, longest, &mut |remote, local, part| {
            carry_out(moved(at, remote), local, part, is_direct)
        })
    }
}

impl<T: Pod> GlobalPtr<T> {
    /// Writes a box of elements from `values`. This pointer and the slice's start are its first corner.
    ///
    /// # Cost
    ///
    /// W, in as many pieces as the transport needs. One-sided. Complete locally on return, at the
    /// target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// What the transport reports; then a part may have been written.
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
        let (place, src) = ((self, values.len()), values.as_bytes().as_ptr());
        strides.in_parts(
            world,
            place,
            CostKind::Write,
            |dst, local, part, is_direct| {
                // SAFETY: `in_parts` promises that all blocks of the part, from these two corners on, lie
                // inside of a segment of the job and of the slice, which stays borrowed until the calls
                // below, which are blocking, have returned.
                let grid = unsafe { PutGrid::new(dst, src.wrapping_offset(local), part) };
                if !is_direct {
                    return world.backend().put_strided(grid);
                }
                grid.for_each(|block| {
                    put_directly(world, block);
                    Ok(())
                })
            },
        )
    }

    /// Reads a box of elements into `out`. This pointer and the slice's start are its first corner.
    ///
    /// # Cost
    ///
    /// R, in as many pieces as the transport needs. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports; then a part of `out` may have been written.
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
        let (place, dst) = ((self, out.len()), out.as_mut_bytes().as_mut_ptr());
        strides.in_parts(
            world,
            place,
            CostKind::Read,
            |src, local, part, is_direct| {
                // SAFETY: as in `put_strided`, and the slice is borrowed exclusively.
                let grid = unsafe { GetGrid::new(src, dst.wrapping_offset(local), part) };
                if !is_direct {
                    return world.backend().get_strided(grid);
                }
                grid.for_each(|block| {
                    get_directly(world, block);
                    Ok(())
                })
            },
        )
    }
}

/// The place `bytes` bytes further, inside the same box.
fn moved(at: RemoteAddr, bytes: isize) -> RemoteAddr {
    let offset = at.offset.wrapping_add_signed(bytes as i64);
    RemoteAddr { offset, ..at }
}

impl<const N: usize> Strides<N> {
    fn bytes<T>(&self) -> usize {
        self.extents.iter().product::<usize>() * size_of::<T>()
    }
}
