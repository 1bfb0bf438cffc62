//! Maps of the segments that this process can access: a table of their addresses, and, if they lie
//! in one mapping, an arithmetic map. Nearly every access uses the latter.
#![expect(
    unsafe_code,
    reason = "finds places in mapped segments, reads them and writes them"
)]

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use zerocopy::IntoBytes;

use super::{copy, wide, word};
use crate::backend::{AtomicCall, AtomicType, Backend, RemoteAddr, SwapCall};
use crate::segment::{MIN_SEGMENT_BYTES, NULL_BYTES};
use crate::{GlobalPtr, Pod, Rank};

/// A place in a segment that is mapped into this process, on any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared(pub(crate) NonNull<u8>);

// SAFETY: an address gives no access by itself. Each access is in an `unsafe` block which says that
// the place is mapped, and goes through `raw`, whose accesses are atomic, so any thread may make
// them.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`; it cannot be changed by a shared reference.
unsafe impl Sync for Shared {}

/// Elements in a segment that is mapped into this process: all of them lie in it, they are aligned,
/// and it stays mapped for `'w`. All access to them is atomic, as by others ([`raw`](super)).
#[derive(Debug)]
pub(crate) struct Mapped<'w, T> {
    place: NonNull<u8>,
    n: usize,
    /// Borrows what keeps the segment mapped.
    mapping: PhantomData<&'w ()>,
    elements: PhantomData<fn() -> T>,
}

impl<T> Mapped<'_, T> {
    /// The `n` elements at `place`.
    ///
    /// # Safety
    ///
    /// They lie in a mapped segment, `place` is aligned for them, and it stays mapped for the
    /// lifetime.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    pub(crate) unsafe fn new(place: NonNull<u8>, n: usize) -> Self {
        Self {
            place,
            n,
            mapping: PhantomData,
            elements: PhantomData,
        }
    }

    /// The address of the first one.
    pub(crate) fn address(&self) -> NonNull<T> {
        self.place.cast()
    }

    /// Performs `call` on the first element by a CPU atomic, and returns the former bits.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one instruction")]
    pub(crate) fn fetch(&self, call: AtomicCall) -> u64 {
        self.assert_word(call.ty);
        // SAFETY: the element is readable, writable, and aligned for the call's type, as was just
        // asserted. Others access segments only by the atomics and racing copies of `raw`.
        unsafe { word::fetch(self.place.as_ptr(), call) }
    }

    /// A compare-and-swap. Returns the former bits, as `Ok` if they were replaced.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one instruction")]
    pub(crate) fn compare_swap(&self, call: SwapCall) -> Result<u64, u64> {
        self.assert_word(call.ty);
        // SAFETY: as in `fetch`.
        unsafe { word::compare_swap(self.place.as_ptr(), call) }
    }

    /// A compare-and-swap of 16 bytes. Returns the former ones.
    ///
    /// # Panics
    ///
    /// If the processor has none.
    pub(crate) fn compare_swap_wide(&self, current: u128, new: u128) -> u128 {
        let is_one = size_of::<T>() == 16 && align_of::<T>() >= 16 && self.n > 0;
        assert!(is_one, "an element of 16 bytes, aligned to as many");
        // SAFETY: as in `fetch`, with 16 bytes.
        unsafe { wide::compare_swap(self.place.as_ptr(), current, new) }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compares constants")]
    fn assert_word(&self, ty: AtomicType) {
        let is_one = size_of::<T>() == ty.bytes() && align_of::<T>() >= ty.bytes() && self.n > 0;
        assert!(is_one, "a word of the call's type");
    }
}

impl<T: Pod> Mapped<'_, T> {
    /// Loads the first element; later accesses of this thread come after.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one load")]
    pub(crate) fn load(&self) -> T {
        assert!(self.n > 0, "an element");
        // SAFETY: the first element is readable and aligned.
        unsafe { copy::load(self.place.as_ptr()) }
    }

    /// A read without ordering.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one load")]
    pub(crate) fn read(&self) -> T {
        assert!(self.n > 0, "an element");
        // SAFETY: as in `load`.
        unsafe { copy::read(self.place.as_ptr()) }
    }

    /// Stores the first element.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one store")]
    pub(crate) fn store(&self, value: T) {
        assert!(self.n > 0, "an element");
        // SAFETY: the first element is writable and aligned.
        unsafe { copy::store(self.place.as_ptr(), value) }
    }

    /// Copies all elements to `out`, which has as many.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call")]
    pub(crate) fn copy_to(&self, out: &mut [T]) {
        assert_eq!(out.len(), self.n, "as many elements");
        let bytes = out.as_mut_bytes();
        // SAFETY: as many bytes are readable here. `out` is exclusively ours and no part of a
        // segment, to which no references exist.
        unsafe { copy::from_shared(bytes.as_mut_ptr(), self.place.as_ptr(), bytes.len()) };
    }

    /// Copies `values`, which are as many, here.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call")]
    pub(crate) fn copy_from(&self, values: &[T]) {
        assert_eq!(values.len(), self.n, "as many elements");
        let bytes = values.as_bytes();
        // SAFETY: as many bytes are writable here. `values` is private memory that nobody writes,
        // and no part of a segment, to which no references exist.
        unsafe { copy::to_shared(self.place.as_ptr(), bytes.as_ptr(), bytes.len()) };
    }
}

/// The segments that are mapped into this process: one entry for each rank of this host's range, so
/// its size does not grow with the job.
#[derive(Debug)]
pub(crate) struct SegmentMap {
    first: u32,
    bases: Box<[Option<Shared>]>,
}

impl SegmentMap {
    /// A table that sends everything through the backend.
    pub(crate) fn empty() -> Self {
        Self {
            first: 0,
            bases: Box::new([]),
        }
    }

    /// The mapped segments among those of `ranks`.
    pub(crate) fn of(backend: &dyn Backend, ranks: Range<u32>) -> Self {
        let base = |rank| backend.mapped(Rank::new(rank)).map(Shared);
        Self {
            first: ranks.start,
            bases: ranks.map(base).collect(),
        }
    }

    /// Whether each of `n_ranks` ranks is in the table.
    pub(crate) fn covers(&self, n_ranks: u32) -> bool {
        self.first == 0
            && self.bases.len() == n_ranks as usize
            && self.bases.iter().all(Option::is_some)
    }

    /// The address of the segment of `rank`, if it is mapped.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the whole of a direct access besides the access"
    )]
    pub(crate) fn base(&self, rank: Rank) -> Option<NonNull<u8>> {
        let index = rank.number().wrapping_sub(self.first);
        Some((*self.bases.get(index as usize)?)?.0)
    }

    /// The address of `at`, if its segment is mapped.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below the size of a mapped segment"
    )]
    pub(crate) fn place(&self, at: RemoteAddr) -> Option<NonNull<u8>> {
        let base = self.base(at.rank)?;
        NonNull::new(base.as_ptr().wrapping_add(at.offset as usize))
    }
}

/// Says that a branch is seldom taken.
#[cold]
#[inline]
fn cold_path() {}

/// The segments of a range of ranks in one mapping. A place in them is found by arithmetic on a few
/// words of one cache line, without a table, so that an access waits for no chain of loads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvenMap {
    start: Shared,
    stride: usize,
    segment_bytes: u64,
    first: u32,
    /// The number of ranks, if accesses are not counted; else 0. So an access that is not counted
    /// pays nothing for those that are.
    n: u32,
    /// The number of ranks, if accesses are counted; else 0.
    n_counted: u32,
}

impl EvenMap {
    /// A map in which nothing is found.
    pub(crate) fn empty() -> Self {
        Self {
            start: Shared(NonNull::dangling()),
            stride: 0,
            segment_bytes: MIN_SEGMENT_BYTES,
            first: 0,
            n: 0,
            n_counted: 0,
        }
    }

    /// The mapped segments among those of `ranks`, if they lie in one mapping.
    pub(crate) fn of(backend: &dyn Backend, ranks: Range<u32>, is_counted: bool) -> Self {
        let start = (!ranks.is_empty()).then(|| backend.mapped(Rank::new(ranks.start)));
        let n = ranks.end - ranks.start;
        let (n, n_counted) = if is_counted { (0, n) } else { (n, 0) };
        match (backend.mapped_stride(), start.flatten()) {
            (Some(stride), Some(start)) => Self {
                start: Shared(start),
                stride,
                segment_bytes: backend.segment_bytes(),
                first: ranks.start,
                n,
                n_counted,
            },
            _ => Self::empty(),
        }
    }

    /// The ranks whose segments are mapped, whether accesses are counted or not.
    pub(crate) fn ranks(&self) -> Range<u32> {
        self.first..self.first + self.n + self.n_counted
    }

    /// The address of the `n` elements at `ptr`, if their rank is mapped, its segment holds all of
    /// them, and they are aligned; and whether accesses are counted.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the whole of a direct access besides the access"
    )]
    pub(crate) fn place<T>(&self, ptr: GlobalPtr<T>, n: usize) -> Option<(Mapped<'_, T>, bool)> {
        let bytes = size_of::<T>().checked_mul(n)?;
        let (place, is_counted) = self.block(ptr.cast(), bytes, align_of::<T>())?;
        // SAFETY: `block` has found the elements in a mapped segment, and aligned. It stays mapped
        // while the backend lives (promise 1 of `Backend`), which the world that has this map
        // keeps.
        Some((unsafe { Mapped::new(place, n) }, is_counted))
    }

    /// The address of the block of `bytes` at `ptr`, if its rank is mapped, its segment holds all
    /// of it, and it is aligned to `align`; and whether accesses are counted.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the whole of a direct access besides the access"
    )]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below the size of a mapped segment"
    )]
    pub(crate) fn block(
        &self,
        ptr: GlobalPtr<u8>,
        bytes: usize,
        align: usize,
    ) -> Option<(NonNull<u8>, bool)> {
        let index = ptr.rank().number().wrapping_sub(self.first);
        let offset = ptr.offset_bytes();
        let bytes = bytes as u64;
        // No segment is smaller than that, which spares small blocks of a constant size a check.
        if bytes > MIN_SEGMENT_BYTES - NULL_BYTES && bytes > self.segment_bytes - NULL_BYTES {
            return None;
        }
        let last = (self.segment_bytes - NULL_BYTES) - bytes;
        let fits = offset.wrapping_sub(NULL_BYTES) <= last;
        if !fits || !offset.is_multiple_of(align as u64) {
            return None;
        }
        let is_counted = index >= self.n;
        if is_counted {
            cold_path();
            if index >= self.n_counted {
                return None;
            }
        }
        // SAFETY: `index` is below one of the two numbers of ranks, and so below the number of
        // mapped ranks, whose segments lie in one mapping,
        // `stride` bytes from one to the next (`Backend::mapped_stride`), and `fits` says that the
        // offset is inside of this one.
        let place = unsafe {
            self.start
                .0
                .add(index as usize * self.stride + offset as usize)
        };
        Some((place, is_counted))
    }
}
