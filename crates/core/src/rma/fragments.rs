//! Vector and indexed transfers: many pieces of global memory against one piece of local memory.
#![expect(unsafe_code, reason = "calls the backend on checked addresses")]

use zerocopy::IntoBytes;

use super::cut;
use crate::backend::{GetFragment, PutFragment};
use crate::cost::CostKind;
use crate::raw::copy;
use crate::{GlobalPtr, Pod, Result, World};

/// A run of `len` elements in global memory.
#[derive(Debug)]
pub struct Fragment<T> {
    /// The first element.
    pub ptr: GlobalPtr<T>,
    /// The number of elements.
    pub len: usize,
}

impl<T> Clone for Fragment<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Fragment<T> {}

impl World {
    /// Writes the elements of `values`, in order, to the fragments, which may lie on several ranks
    /// (UPC++'s `rput_irregular`).
    ///
    /// # Cost
    ///
    /// W a fragment. One-sided. Complete locally on return, at the targets after
    /// [`flush_all`](Self::flush_all).
    ///
    /// # Errors
    ///
    /// What the transport reports; then some fragments may have been written.
    ///
    /// # Panics
    ///
    /// If the fragments' lengths do not add up to `values.len()`, or a fragment is null, misaligned or
    /// outside of a segment; then nothing was written.
    #[track_caller]
    pub fn put_fragments<T: Pod>(&self, fragments: &[Fragment<T>], values: &[T]) -> Result<()> {
        let pieces = self.split(fragments, values.len());
        let mut through_backend = Vec::new();
        for (fragment, start) in pieces {
            let at = fragment.ptr.addr();
            let src = values[start..start + fragment.len].as_bytes();
            self.count(CostKind::Write, Some(at.rank), 1, src.len());
            let Some(dst) = self.memory().place(at) else {
                through_backend.push(PutFragment {
                    dst: at,
                    src: src.as_ptr(),
                    len: src.len(),
                });
                continue;
            };
            // SAFETY: `split` found the fragment inside the segment, which is mapped; `src` is
            // private memory, no part of a segment.
            unsafe { copy::to_shared(dst.as_ptr(), src.as_ptr(), src.len()) };
        }
        if through_backend.is_empty() {
            return Ok(());
        }
        cut::fragments(&through_backend, cut::longest(self), |list| {
            // SAFETY: `split` found every fragment inside a segment, and its source is a part of
            // `values`, of the same length, which stays borrowed while the call runs.
            unsafe { self.backend().put_fragments(list) }
        })
    }

    /// Reads the fragments, in order, into `out` (UPC++'s `rget_irregular`).
    ///
    /// # Cost
    ///
    /// R a fragment. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports; then some of `out` may have been written.
    ///
    /// # Panics
    ///
    /// As [`put_fragments`](Self::put_fragments).
    #[track_caller]
    pub fn get_fragments<T: Pod>(&self, fragments: &[Fragment<T>], out: &mut [T]) -> Result<()> {
        let pieces = self.split(fragments, out.len());
        let mut through_backend = Vec::new();
        // Cut off piece by piece: a second reference to all of it would end what the pointers to
        // former pieces may do.
        let mut rest = out;
        for (fragment, _) in pieces {
            let at = fragment.ptr.addr();
            let (dst, behind) = rest.split_at_mut(fragment.len);
            rest = behind;
            let dst = dst.as_mut_bytes();
            self.count(CostKind::Read, Some(at.rank), 1, dst.len());
            let Some(src) = self.memory().place(at) else {
                through_backend.push(GetFragment {
                    src: at,
                    dst: dst.as_mut_ptr(),
                    len: dst.len(),
                });
                continue;
            };
            // SAFETY: `split` found the fragment inside the segment, which is mapped; `dst` is
            // borrowed exclusively, and no part of a segment.
            unsafe { copy::from_shared(dst.as_mut_ptr(), src.as_ptr(), dst.len()) };
        }
        if through_backend.is_empty() {
            return Ok(());
        }
        cut::fragments(&through_backend, cut::longest(self), |list| {
            // SAFETY: `split` found every fragment inside a segment, and its destination is a part
            // of `out` of its own, of the same length, which stays borrowed while the call runs.
            unsafe { self.backend().get_fragments(list) }
        })
    }

    /// Writes `values`, `block` elements at a time, to the blocks that begin at `base` + each index
    /// (UPC++'s `rput_regular`).
    ///
    /// # Cost
    ///
    /// W a block. One-sided. Complete locally on return, at the target after [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// As [`put_fragments`](Self::put_fragments).
    ///
    /// # Panics
    ///
    /// As [`put_fragments`](Self::put_fragments).
    #[track_caller]
    pub fn put_indexed<T: Pod>(
        &self,
        base: GlobalPtr<T>,
        indices: &[usize],
        block: usize,
        values: &[T],
    ) -> Result<()> {
        self.put_fragments(&blocks(base, indices, block), values)
    }

    /// Reads the blocks of `block` elements that begin at `base` + each index into `out`.
    ///
    /// # Cost
    ///
    /// R a block. One-sided.
    ///
    /// # Errors
    ///
    /// As [`get_fragments`](Self::get_fragments).
    ///
    /// # Panics
    ///
    /// As [`get_fragments`](Self::get_fragments).
    #[track_caller]
    pub fn get_indexed<T: Pod>(
        &self,
        base: GlobalPtr<T>,
        indices: &[usize],
        block: usize,
        out: &mut [T],
    ) -> Result<()> {
        self.get_fragments(&blocks(base, indices, block), out)
    }

    /// Checks all fragments and pairs each with its start in local memory.
    #[track_caller]
    fn split<'a, T>(
        &self,
        fragments: &'a [Fragment<T>],
        n: usize,
    ) -> impl Iterator<Item = (&'a Fragment<T>, usize)> + use<'a, T> {
        let mut total = 0_usize;
        for fragment in fragments {
            self.checked(fragment.ptr, fragment.len);
            total = total.saturating_add(fragment.len);
        }
        assert_eq!(
            total, n,
            "the fragments have {total} elements, the local slice {n}"
        );
        fragments.iter().scan(0, |start, fragment| {
            let at = *start;
            *start += fragment.len;
            Some((fragment, at))
        })
    }
}

#[track_caller]
fn blocks<T>(base: GlobalPtr<T>, indices: &[usize], block: usize) -> Vec<Fragment<T>> {
    indices
        .iter()
        .map(|&i| Fragment {
            ptr: base.offset(i),
            len: block,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::loopback;

    /// Under Miri also: that no piece of `out` is written through a pointer that has ended.
    #[test]
    fn pieces_of_one_slice_are_filled_in_order_also_by_the_backend() {
        let world = loopback::world();
        let cells = world.alloc::<u16>(12).unwrap();
        let values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        cells.put_slice(&world, &values).unwrap();
        let piece = |at: usize, len| Fragment {
            ptr: cells.offset(at),
            len,
        };
        let pieces = [piece(8, 2), piece(0, 0), piece(3, 1), piece(8, 3)];
        let mut out = [0; 6];
        world.get_fragments(&pieces, &mut out).unwrap();
        assert_eq!(out, [9, 10, 4, 9, 10, 11]);
        world
            .put_fragments(&[piece(11, 1), piece(0, 2)], &out[..3])
            .unwrap();
        assert_eq!(cells.get_vec(&world, 12).unwrap()[..3], [10, 4, 3]);
        assert_eq!(cells.offset(11).get(&world).unwrap(), 9);
    }
}
