//! Vector and indexed transfers: many pieces of global memory against one piece of local memory.

use super::checked::{Checked, get_all, put_all};
use crate::cost::CostKind;
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
    /// Errors of the transport; then some fragments may have been written.
    ///
    /// # Panics
    ///
    /// If the fragments' lengths do not add up to `values.len()`, or a fragment is null, misaligned
    /// or outside of a segment; then nothing was written.
    #[track_caller]
    pub fn put_fragments<T: Pod>(&self, fragments: &[Fragment<T>], values: &[T]) -> Result<()> {
        let mut through_backend = Vec::new();
        let mut rest = values;
        for to in self.check(fragments, values.len()) {
            let (piece, behind) = rest.split_at(to.len());
            rest = behind;
            self.count(CostKind::Write, Some(to.rank()), 1, size_of_val(piece));
            match to.mapped(self) {
                Some(dst) => dst.copy_from(piece),
                None => through_backend.push((to, piece)),
            }
        }
        if through_backend.is_empty() {
            return Ok(());
        }
        put_all(self, &through_backend)
    }

    /// Reads the fragments, in order, into `out` (UPC++'s `rget_irregular`).
    ///
    /// # Cost
    ///
    /// R a fragment. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then some of `out` may have been written.
    ///
    /// # Panics
    ///
    /// As [`put_fragments`](Self::put_fragments).
    #[track_caller]
    pub fn get_fragments<T: Pod>(&self, fragments: &[Fragment<T>], out: &mut [T]) -> Result<()> {
        let mut through_backend = Vec::new();
        let n = out.len();
        let mut rest = out;
        for from in self.check(fragments, n) {
            let (piece, behind) = rest.split_at_mut(from.len());
            rest = behind;
            self.count(CostKind::Read, Some(from.rank()), 1, size_of_val(piece));
            match from.mapped(self) {
                Some(src) => src.copy_to(piece),
                None => through_backend.push((from, piece)),
            }
        }
        if through_backend.is_empty() {
            return Ok(());
        }
        get_all(self, through_backend)
    }

    /// Writes `values`, `block` elements at a time, to the blocks that begin at `base` + each index
    /// (UPC++'s `rput_regular`).
    ///
    /// # Cost
    ///
    /// W a block. One-sided. Complete locally on return, at the target after
    /// [`flush`](Self::flush).
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

    /// Checks all fragments, before anything is done with one.
    #[track_caller]
    fn check<T>(&self, fragments: &[Fragment<T>], n: usize) -> Vec<Checked<T>> {
        let check = |fragment: &Fragment<T>| self.checked(fragment.ptr, fragment.len);
        let checked: Vec<_> = fragments.iter().map(check).collect();
        let lens = fragments.iter().map(|fragment| fragment.len);
        let total = lens.fold(0_usize, usize::saturating_add);
        assert_eq!(
            total, n,
            "the fragments have {total} elements, the local slice {n}"
        );
        checked
    }
}

#[track_caller]
fn blocks<T>(base: GlobalPtr<T>, indices: &[usize], block: usize) -> Vec<Fragment<T>> {
    indices
        .iter()
        .map(|&i| Fragment {
            ptr: base.add(i),
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
            ptr: cells.add(at),
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
        assert_eq!(cells.add(11).get(&world).unwrap(), 9);
    }
}
