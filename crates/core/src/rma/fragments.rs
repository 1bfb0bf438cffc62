//! Vector and indexed transfers between many pieces of global memory and local memory.

use super::checked::{Checked, get_all, put_all};
use super::parts;
use crate::cost::CostKind;
use crate::pod::zeroed_vec;
use crate::{Event, GlobalPtr, Pod, Result, World};

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
        let mut rest = values;
        let places = self.check(fragments, values.len()).into_iter();
        self.put_pieces(places.map(|to| {
            let (piece, behind) = rest.split_at(to.len());
            rest = behind;
            (to, piece)
        }))
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
        let n = out.len();
        let mut rest = out;
        let places = self.check(fragments, n).into_iter();
        self.get_pieces(places.map(|from| {
            let (piece, behind) = std::mem::take(&mut rest).split_at_mut(from.len());
            rest = behind;
            (from, piece)
        }))
    }

    /// Writes `values` to blocks of `block` elements each, which begin at `base` + each index
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

    /// Reads blocks of `block` elements each, which begin at `base` + each index, into `out`
    /// (UPC++'s `rget_regular`).
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

    /// Writes each slice to its pointer: a transfer that is scattered on both sides (GASNet's
    /// vector put).
    ///
    /// # Cost
    ///
    /// W a slice. One-sided. Complete locally on return, at the targets after
    /// [`flush_all`](Self::flush_all).
    ///
    /// # Errors
    ///
    /// As [`put_fragments`](Self::put_fragments).
    ///
    /// # Panics
    ///
    /// If a pointer is null or misaligned, or its elements do not fit within the segment; then
    /// nothing was written.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = world.alloc::<u64>(8)?;
    /// array.put_slice(&world, &[0; 8])?;
    /// let (head, tail) = ([1, 2], [3]);
    /// world.put_each(&[(array.add(5), &head), (array, &tail)])?;
    /// let (mut a, mut b) = ([0; 1], [0; 2]);
    /// world.get_each(&mut [(array, &mut a), (array.add(5), &mut b)])?;
    /// assert_eq!((a, b), (tail, head));
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn put_each<T: Pod>(&self, pieces: &[(GlobalPtr<T>, &[T])]) -> Result<()> {
        let mut places = Vec::with_capacity(pieces.len());
        for (to, values) in pieces {
            places.push(self.checked(*to, values.len()));
        }
        let slices = pieces.iter().map(|(_, values)| *values);
        self.put_pieces(places.into_iter().zip(slices))
    }

    /// Reads into each slice from its pointer: a transfer that is scattered on both sides (GASNet's
    /// vector get). See [`put_each`](Self::put_each).
    ///
    /// # Cost
    ///
    /// R a slice. One-sided.
    ///
    /// # Errors
    ///
    /// As [`get_fragments`](Self::get_fragments).
    ///
    /// # Panics
    ///
    /// If a pointer is null or misaligned, or its elements do not lie within the segment.
    #[track_caller]
    pub fn get_each<T: Pod>(&self, pieces: &mut [(GlobalPtr<T>, &mut [T])]) -> Result<()> {
        let mut places = Vec::with_capacity(pieces.len());
        for (from, out) in &*pieces {
            places.push(self.checked(*from, out.len()));
        }
        let slices = pieces.iter_mut().map(|(_, out)| &mut **out);
        self.get_pieces(places.into_iter().zip(slices))
    }

    #[expect(single_use_lifetimes, reason = "one without a name is refused here")]
    fn put_pieces<'a, T: Pod>(
        &self,
        pieces: impl Iterator<Item = (Checked<T>, &'a [T])>,
    ) -> Result<()> {
        let mut through_backend = Vec::new();
        for (to, piece) in pieces {
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

    #[expect(single_use_lifetimes, reason = "one without a name is refused here")]
    fn get_pieces<'a, T: Pod>(
        &self,
        pieces: impl Iterator<Item = (Checked<T>, &'a mut [T])>,
    ) -> Result<()> {
        let mut through_backend = Vec::new();
        for (from, piece) in pieces {
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

    /// Begins a [`put_fragments`](Self::put_fragments). The event is complete when all fragments
    /// are at their targets, and gives the vector back.
    ///
    /// # Cost
    ///
    /// W a fragment. One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then some fragments may be written.
    ///
    /// # Panics
    ///
    /// As [`put_fragments`](Self::put_fragments).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::rma::Fragment;
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = world.alloc::<u64>(8)?;
    /// let ends = [array, array.add(6)].map(|ptr| Fragment { ptr, len: 2 });
    /// let values = world.put_fragments_nb(&ends, vec![1, 2, 3, 4])?.wait()?;
    /// assert_eq!(world.get_fragments_nb(&ends)?.wait()?, values);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn put_fragments_nb<T: Pod>(
        &self,
        fragments: &[Fragment<T>],
        values: Vec<T>,
    ) -> Result<Event<Vec<T>>> {
        let places = self.check_counted(fragments, values.len(), CostKind::Write);
        parts::begin_puts(self, &places, values, None)
    }

    /// Begins a [`get_fragments`](Self::get_fragments). The event gives the elements, in order.
    ///
    /// # Cost
    ///
    /// R a fragment. One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If a fragment is null, misaligned or outside of a segment.
    #[track_caller]
    pub fn get_fragments_nb<T: Pod>(&self, fragments: &[Fragment<T>]) -> Result<Event<Vec<T>>> {
        let n = n_elements(fragments);
        let places = self.check_counted(fragments, n, CostKind::Read);
        parts::begin_gets(self, &places, zeroed_vec(n))
    }

    /// Begins a [`put_each`](Self::put_each), whose event gives the vectors back.
    ///
    /// # Cost
    ///
    /// W a piece. One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// As [`put_fragments_nb`](Self::put_fragments_nb).
    ///
    /// # Panics
    ///
    /// As [`put_each`](Self::put_each).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::rma::Fragment;
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = world.alloc::<u64>(8)?;
    /// let put = world.put_each_nb(vec![(array.add(5), vec![1, 2]), (array, vec![3])])?;
    /// let vectors = put.wait()?; // may be filled again
    /// let places = [(array.add(5), 2), (array, 1)].map(|(ptr, len)| Fragment { ptr, len });
    /// assert_eq!(world.get_each_nb(&places)?.wait()?, vectors);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn put_each_nb<T: Pod>(
        &self,
        pieces: Vec<(GlobalPtr<T>, Vec<T>)>,
    ) -> Result<Event<Vec<Vec<T>>>> {
        let (ptrs, values): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        let mut fragments = Vec::with_capacity(ptrs.len());
        for (ptr, values) in ptrs.into_iter().zip(&values) {
            let len = values.len();
            fragments.push(Fragment { ptr, len });
        }
        let n = n_elements(&fragments);
        let places = self.check_counted(&fragments, n, CostKind::Write);
        parts::begin_put_each(self, &places, values)
    }

    /// Begins to read the fragments, each into a vector of its own. The event gives the vectors.
    /// See [`put_each_nb`](Self::put_each_nb).
    ///
    /// # Cost
    ///
    /// R a fragment. One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If a fragment is null, misaligned or outside of a segment.
    #[track_caller]
    pub fn get_each_nb<T: Pod>(&self, fragments: &[Fragment<T>]) -> Result<Event<Vec<Vec<T>>>> {
        let n = n_elements(fragments);
        let places = self.check_counted(fragments, n, CostKind::Read);
        parts::begin_get_each(self, &places)
    }

    /// Begins a [`put_indexed`](Self::put_indexed), whose event gives the vector back.
    ///
    /// # Cost
    ///
    /// W a block. One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// As [`put_fragments_nb`](Self::put_fragments_nb).
    ///
    /// # Panics
    ///
    /// As [`put_fragments`](Self::put_fragments).
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = world.alloc::<u64>(8)?;
    /// let values = world.put_indexed_nb(array, &[6, 0], 2, vec![1, 2, 3, 4])?.wait()?;
    /// assert_eq!(world.get_indexed_nb(array, &[6, 0], 2)?.wait()?, values);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn put_indexed_nb<T: Pod>(
        &self,
        base: GlobalPtr<T>,
        indices: &[usize],
        block: usize,
        values: Vec<T>,
    ) -> Result<Event<Vec<T>>> {
        self.put_fragments_nb(&blocks(base, indices, block), values)
    }

    /// Begins a [`get_indexed`](Self::get_indexed), whose event gives the elements of the blocks,
    /// in order.
    ///
    /// # Cost
    ///
    /// R a block. One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// As [`get_fragments_nb`](Self::get_fragments_nb).
    ///
    /// # Panics
    ///
    /// As [`get_fragments_nb`](Self::get_fragments_nb).
    #[track_caller]
    pub fn get_indexed_nb<T: Pod>(
        &self,
        base: GlobalPtr<T>,
        indices: &[usize],
        block: usize,
    ) -> Result<Event<Vec<T>>> {
        self.get_fragments_nb(&blocks(base, indices, block))
    }

    /// As [`check`](Self::check), and counts an operation for each fragment.
    #[track_caller]
    pub(super) fn check_counted<T>(
        &self,
        fragments: &[Fragment<T>],
        n: usize,
        kind: CostKind,
    ) -> Vec<Checked<T>> {
        let places = self.check(fragments, n);
        for place in &places {
            self.count(kind, Some(place.rank()), 1, place.len() * size_of::<T>());
        }
        places
    }

    /// Checks all fragments, before any is transferred.
    #[track_caller]
    fn check<T>(&self, fragments: &[Fragment<T>], n: usize) -> Vec<Checked<T>> {
        // Not in a closure, in which a panic would be at a line of the library.
        let mut checked = Vec::with_capacity(fragments.len());
        for fragment in fragments {
            checked.push(self.checked(fragment.ptr, fragment.len));
        }
        let total = n_elements(fragments);
        assert_eq!(
            total, n,
            "the fragments have {total} elements, the local slice {n}"
        );
        checked
    }
}

fn n_elements<T>(fragments: &[Fragment<T>]) -> usize {
    let lens = fragments.iter().map(|fragment| fragment.len);
    lens.fold(0_usize, usize::saturating_add)
}

#[track_caller]
pub(super) fn blocks<T>(base: GlobalPtr<T>, indices: &[usize], block: usize) -> Vec<Fragment<T>> {
    let mut blocks = Vec::with_capacity(indices.len());
    for &i in indices {
        let ptr = base.add(i);
        blocks.push(Fragment { ptr, len: block });
    }
    blocks
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
