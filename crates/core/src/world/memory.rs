//! The segments that this process has mapped, and the addresses of elements in them.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::MutexGuard;

use super::World;
use crate::cost::CostKind;
use crate::global_ptr::GlobalPtr;
use crate::locks::lock;
use crate::rank::Rank;
use crate::raw::map::{Mapped, SegmentMap};
use crate::segment::Heap;
use crate::spares::Spares;
use crate::stats::Counting;

impl World {
    /// Whether loads and stores of this process reach the memory of `rank` without the backend.
    ///
    /// # Panics
    ///
    /// If the job has no such rank.
    #[must_use]
    #[track_caller]
    pub fn is_direct(&self, rank: Rank) -> bool {
        self.assert_rank(rank);
        self.inner.memory.base(rank).is_some()
    }

    /// Whether atomics on mapped memory are CPU atomics; if not, all atomics go through the
    /// backend.
    #[must_use]
    pub fn has_direct_atomics(&self) -> bool {
        self.inner.words.base(self.rank()).is_some()
    }

    /// The address of the `n` elements at `ptr`, if they lie within a segment, are aligned, and are
    /// directly accessible, and operations are not counted. Otherwise the slow path decides.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "all of a direct access besides the access"
    )]
    pub(crate) fn direct<T>(&self, ptr: GlobalPtr<T>, n: usize) -> Option<Mapped<'_, T>> {
        let (place, is_counted) = self.inner.fast_memory.place(ptr, n)?;
        (!is_counted).then_some(place)
    }

    /// As [`direct`](Self::direct), for one element. If operations are counted and this one of
    /// `kind` is counted by one counter of this thread, it is counted here, and the address is
    /// returned, too.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "all of a direct access besides the access"
    )]
    pub(crate) fn direct_one<T>(&self, kind: CostKind, ptr: GlobalPtr<T>) -> Option<Mapped<'_, T>> {
        let (place, is_counted) = self.inner.fast_memory.place(ptr, 1)?;
        if is_counted && !self.count_one(kind, size_of::<T>()) {
            return None;
        }
        Some(place)
    }

    /// As [`direct_one`](Self::direct_one), for an atomic on a word that is changed by CPU atomics.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "all of a direct access besides the access"
    )]
    pub(crate) fn direct_word<T>(&self, ptr: GlobalPtr<T>) -> Option<Mapped<'_, T>> {
        let (place, is_counted) = self.inner.fast_words.place(ptr, 1)?;
        if is_counted && !self.count_one(CostKind::Atomic, size_of::<T>()) {
            return None;
        }
        Some(place)
    }

    /// Counts an operation on a near value of `bytes`, if that takes one counter of this thread.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "an addition behind a few compares")]
    fn count_one(&self, kind: CostKind, bytes: usize) -> bool {
        self.inner.first_set.count_single(kind, bytes, self.purpose)
    }

    /// The address of a block with words and other parts, as that of elements and words. `kinds`
    /// says whether it is found where operations are not counted, and where they are.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "all of a direct access besides the access"
    )]
    pub(crate) fn direct_block(
        &self,
        kinds: [bool; 2],
        ptr: GlobalPtr<u8>,
        (bytes, align): (usize, usize),
    ) -> Option<NonNull<u8>> {
        // A rank whose words are changed by this CPU is also read and written by it.
        let (place, counts) = self.inner.fast_words.block(ptr, bytes, align)?;
        let counts_steps = || self.counting().is_some_and(Counting::counts_steps);
        (kinds[usize::from(counts)] && (!counts || counts_steps())).then_some(place)
    }

    /// As [`direct`](Self::direct) while operations are counted, and counts an operation of `kind`.
    #[inline]
    pub(crate) fn counted<T>(
        &self,
        kind: CostKind,
        ptr: GlobalPtr<T>,
        n: usize,
    ) -> Option<Mapped<'_, T>> {
        let place = self.inner.fast_memory.place(ptr, n)?.0;
        self.count_near(kind, ptr, n);
        Some(place)
    }

    /// As [`direct_word`](Self::direct_word) while operations are counted, and counts an atomic.
    #[inline]
    pub(crate) fn counted_word<T>(&self, ptr: GlobalPtr<T>) -> Option<Mapped<'_, T>> {
        let place = self.inner.fast_words.place(ptr, 1)?.0;
        self.count_near(CostKind::Atomic, ptr, 1);
        Some(place)
    }

    /// As [`direct_word`](Self::direct_word), for a look that does not count.
    #[inline]
    pub(crate) fn uncounted_word<T>(&self, ptr: GlobalPtr<T>) -> Option<Mapped<'_, T>> {
        Some(self.inner.fast_words.place(ptr, 1)?.0)
    }

    /// Counts an operation of this process's own on mapped memory.
    #[inline]
    pub(crate) fn count_near<T>(&self, kind: CostKind, ptr: GlobalPtr<T>, n: usize) {
        if let Some(counting) = self.counting() {
            let bytes = (n * size_of::<T>()) as u64;
            counting.add(kind, (true, self.label()), Some(ptr.rank()), 1, bytes);
        }
    }

    /// The ranks whose words are changed by CPU atomics, counted or not.
    pub(crate) fn direct_ranks(&self) -> Range<u32> {
        self.inner.fast_words.ranks()
    }

    /// The segments that are read and written directly.
    #[inline]
    pub(crate) fn memory(&self) -> &SegmentMap {
        &self.inner.memory
    }

    /// The segments whose words are changed by CPU atomics.
    #[inline]
    pub(crate) fn words(&self) -> &SegmentMap {
        &self.inner.words
    }

    pub(crate) fn symmetric_heap(&self) -> MutexGuard<'_, Heap> {
        lock(&self.inner.symmetric)
    }

    pub(crate) fn local_heap(&self) -> MutexGuard<'_, Heap> {
        lock(&self.inner.local)
    }

    pub(crate) fn spares(&self) -> &Spares {
        &self.inner.spares
    }
}
