//! Allocation in the two heaps of a segment.

#[cfg(test)]
mod discard_tests;
#[cfg(test)]
mod tests;
mod together;

use std::ops::Range;
use std::sync::{MutexGuard, Weak};

use crate::backend::SEGMENT_ALIGN;
use crate::error::Result;
use crate::global_ptr::GlobalPtr;
use crate::pod::Pod;
use crate::segment::{Block, Heap, HeapUse};
use crate::spares::Spare;
use crate::symmetric::Symmetric;
use crate::world::World;

/// The layout of `n` elements with an alignment of `align` bytes.
#[track_caller]
fn bytes_and_align<T>(n: usize, align: usize) -> (u64, u64) {
    // What was asked for as well as the type's own, which may be larger.
    for align in [align, align_of::<T>()] {
        assert!(
            align.is_power_of_two() && align <= SEGMENT_ALIGN,
            "memory aligned to {align} bytes, which is no power of two up to {SEGMENT_ALIGN}"
        );
    }
    let align = align.max(align_of::<T>());
    let bytes = (size_of::<T>() as u64).saturating_mul(n as u64);
    (bytes, align as u64)
}

/// Freed ranges of at least this size are returned to the system.
const DISCARD_BYTES: u64 = 1 << 20;

impl World {
    /// Allocates `n` zeroed elements in this rank's own segment.
    ///
    /// # Cost
    ///
    /// ℓ: proportional to the number of free pieces of the local heap, and to the memory that must
    /// be zeroed because it was used before. Not collective.
    ///
    /// # Errors
    ///
    /// [`Error::Exhausted`](crate::Error::Exhausted), which names the request, the free memory and
    /// the setting to raise.
    ///
    /// # Panics
    ///
    /// If the type's alignment is more than 4096 bytes, that of the segments themselves.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let cells = world.alloc::<u64>(8)?;
    /// cells.add(3).put(&world, 7)?;
    /// assert_eq!(cells.get_vec(&world, 8)?, [0, 0, 0, 7, 0, 0, 0, 0]);
    /// world.free(cells);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn alloc<T: Pod>(&self, n: usize) -> Result<GlobalPtr<T>> {
        self.alloc_aligned(n, align_of::<T>())
    }

    /// Allocates as [`alloc`](Self::alloc), with an alignment of `align` bytes, or of the type if
    /// that is larger: a cache line, a page.
    ///
    /// # Cost
    ///
    /// As [`alloc`](Self::alloc).
    ///
    /// # Errors
    ///
    /// As [`alloc`](Self::alloc).
    ///
    /// # Panics
    ///
    /// If `align` is no power of two, or more than 4096, the alignment of the segments themselves.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let line = world.alloc_aligned::<u64>(8, 64)?;
    /// assert_eq!(line.offset_bytes() % 64, 0);
    /// world.free(line);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn alloc_aligned<T: Pod>(&self, n: usize, align: usize) -> Result<GlobalPtr<T>> {
        let (bytes, align) = bytes_and_align::<T>(n, align);
        let allocate = || self.local_heap().allocate(self.rank(), bytes, align);
        let block = match allocate() {
            Err(_) if self.spares().free_unused() => allocate(),
            done => done,
        }?;
        self.count_local_heap();
        self.zero(&block)?;
        Ok(GlobalPtr::new(self.rank(), block.range.start))
    }

    /// Has `spare` free what it does not use, before an allocation in the local heap fails. So
    /// memory that a container keeps for later use is there for others.
    ///
    /// # Cost
    ///
    /// ℓ. Not collective.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::{Arc, Mutex, Weak};
    ///
    /// use pgas_core::{GlobalPtr, Spare, World};
    ///
    /// struct Kept(World, Mutex<Option<GlobalPtr<u8>>>);
    ///
    /// impl Spare for Kept {
    ///     fn free_unused(&self) -> bool {
    ///         let unused = self.1.try_lock().ok().and_then(|mut kept| kept.take());
    ///         unused.inspect(|unused| self.0.free(*unused)).is_some()
    ///     }
    /// }
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let all = world.local_heap_use().largest as usize;
    /// let kept = Arc::new(Kept(world.clone(), Mutex::new(Some(world.alloc(all)?))));
    /// let as_spare: Arc<dyn Spare> = kept.clone();
    /// world.on_exhausted(Arc::downgrade(&as_spare));
    /// let block = world.alloc::<u8>(all)?; // would have failed
    /// assert_eq!(*kept.1.lock().unwrap(), None);
    /// # world.free(block);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    pub fn on_exhausted(&self, spare: Weak<dyn Spare>) {
        self.spares().add(spare);
    }

    /// Frees an allocation of [`alloc`](Self::alloc), on the rank that made it. Another rank asks
    /// that rank by a call: `world.rpc_ff(ptr.rank(), |(here, ptr)| here.world().free(ptr),
    /// (Here::new(&world), ptr))`, of the crate `pgas-am`.
    ///
    /// # Cost
    ///
    /// ℓ. Not collective.
    ///
    /// # Panics
    ///
    /// If the pointer is on another rank, or is not the start of a live allocation of the local
    /// heap, for example because it was freed already.
    #[track_caller]
    pub fn free<T>(&self, ptr: GlobalPtr<T>) {
        self.vacate(Self::local_heap, self.retire(ptr));
    }

    /// Allocates `n` zeroed elements at one offset of every rank's segment.
    /// [`Team::alloc_symmetric`](crate::Team::alloc_symmetric) does so on the members of a team
    /// alone.
    ///
    /// # Cost
    ///
    /// B and an allreduce. If the memory was used before: also its zeroing, and another allreduce.
    /// Collective over the world.
    ///
    /// # Errors
    ///
    /// [`Error::Exhausted`](crate::Error::Exhausted), on every rank; with `PGAS_CHECK=1`
    /// [`Error::Mismatch`](crate::Error::Mismatch) if ranks ask for different sizes or alignments;
    /// the failure of the job.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::Rank;
    /// # let world = pgas_core::backend::loopback::world();
    /// let inbox = world.alloc_symmetric::<u64>(4)?;
    /// inbox.on(Rank::ZERO).put(&world, 42)?;
    /// world.barrier()?;
    /// assert_eq!(inbox.here().get(&world)?, 42);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn alloc_symmetric<T: Pod>(&self, n: usize) -> Result<Symmetric<T>> {
        self.alloc_symmetric_aligned(n, align_of::<T>())
    }

    /// Allocates as [`alloc_symmetric`](Self::alloc_symmetric), with an alignment of `align` bytes,
    /// or of the type if that is larger.
    ///
    /// # Cost
    ///
    /// As [`alloc_symmetric`](Self::alloc_symmetric). Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`alloc_symmetric`](Self::alloc_symmetric).
    ///
    /// # Panics
    ///
    /// As [`alloc_aligned`](Self::alloc_aligned).
    #[track_caller]
    pub fn alloc_symmetric_aligned<T: Pod>(&self, n: usize, align: usize) -> Result<Symmetric<T>> {
        self.team().alloc_symmetric_aligned(n, align)
    }

    /// [`Team::reclaim`](crate::Team::reclaim) over all ranks.
    ///
    /// # Cost
    ///
    /// An allreduce, and a flush if this rank has dropped something. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    #[track_caller]
    pub fn reclaim(&self) -> Result<()> {
        self.team().reclaim()
    }

    /// The use of this rank's local heap, in bytes. The symmetric allocations of teams lie in it,
    /// too.
    #[must_use]
    pub fn local_heap_use(&self) -> HeapUse {
        self.local_heap().usage()
    }

    /// The use of the symmetric heap, in bytes; the same on every rank.
    #[must_use]
    pub fn symmetric_heap_use(&self) -> HeapUse {
        self.symmetric_heap().usage()
    }

    fn count_local_heap(&self) {
        if let Some(counting) = self.counting() {
            counting.set_heaps(Some(self.local_heap().usage().used), None);
        }
    }

    /// Zeroes the parts of a block in this rank's segment that were in use before.
    fn zero(&self, block: &Block) -> Result<()> {
        const ZEROS: [u64; 512] = [0; 512];
        for Range { start, end } in block.stale.clone() {
            let mut at = start;
            while at < end {
                let words = ((end - at) / 8).min(ZEROS.len() as u64);
                let here = GlobalPtr::<u64>::new(self.rank(), at);
                here.put_slice(self, &ZEROS[..usize::try_from(words).expect("at most 512")])?;
                at += words * 8;
            }
        }
        self.flush(self.rank())
    }

    /// Ends an allocation, whose memory stays taken until it is [vacated](Self::vacate). Panics as
    /// [`free`](Self::free).
    #[track_caller]
    pub(crate) fn retire<T>(&self, ptr: GlobalPtr<T>) -> Range<u64> {
        assert_eq!(
            ptr.rank(),
            self.rank(),
            "{ptr:?} is freed by a rank that does not own it"
        );
        let retired = self.local_heap().retire(ptr.offset_bytes());
        let Some(range) = retired else {
            panic!("{ptr:?} is not a live allocation of the local heap");
        };
        range
    }

    /// Gives a range back to its heap. The memory of a large one returns to the system first: once
    /// the range is free, another thread may take it and write to it.
    fn vacate(&self, heap: fn(&Self) -> MutexGuard<'_, Heap>, range: Range<u64>) {
        if range.end - range.start >= DISCARD_BYTES {
            self.backend().discard(range.start, range.end - range.start);
        }
        heap(self).give_back(range);
    }
}
