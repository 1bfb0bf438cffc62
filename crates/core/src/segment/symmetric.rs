//! Symmetric allocations: the same offset in every rank's segment.

use std::marker::PhantomData;

use super::heap::{Block, Heap, HeapUse};
use crate::{GlobalPtr, Pod, Rank, Result, World};

/// An array of `T` at the same offset of every rank's segment, made by
/// [`World::alloc_symmetric`].
///
/// Dropping the handle is not collective and may happen at any time: the memory is reused after the
/// next [`World::alloc_symmetric`] or [`World::reclaim`] at which *every* rank has dropped its handle,
/// so that no rank can free what another one still uses.
#[derive(Debug)]
pub struct Symmetric<T> {
    world: World,
    offset: u64,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> Symmetric<T> {
    pub(crate) fn new(world: World, offset: u64, len: usize) -> Self {
        Self {
            world,
            offset,
            len,
            element: PhantomData,
        }
    }

    /// The first element of the part of `rank`.
    #[must_use]
    #[inline]
    pub fn on(&self, rank: Rank) -> GlobalPtr<T> {
        GlobalPtr::new(rank, self.offset)
    }

    /// The first element of this rank's own part.
    #[must_use]
    #[inline]
    pub fn here(&self) -> GlobalPtr<T> {
        self.on(self.world.rank())
    }

    /// The number of elements on each rank.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The world whose segments hold the array.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Leaves `blocks`, which [`World::alloc`] returned on this rank, to the array: they are freed when
    /// it is, so when no rank has a handle on it any more. A container whose parts have no place in
    /// symmetric memory gives them away like this when its handle is dropped.
    ///
    /// # Cost
    ///
    /// ℓ. Not collective.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let directory = world.alloc_symmetric::<u64>(1)?;
    /// let part = world.alloc::<u64>(100)?;
    /// directory.here().put(&world, part.to_bits())?;
    /// directory.bequeath([part.cast()]);
    /// drop(directory);
    /// world.reclaim()?; // collective
    /// assert_eq!(world.local_heap_use().used, 0);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    pub fn bequeath(&self, blocks: impl IntoIterator<Item = GlobalPtr<u8>>) {
        self.world
            .symmetric_heap()
            .bequeath(self.offset, blocks.into_iter().map(GlobalPtr::offset_bytes));
    }
}

impl<T> Drop for Symmetric<T> {
    fn drop(&mut self) {
        self.world.symmetric_heap().drop_handle(self.offset);
    }
}

/// The symmetric heap, and which of its allocations this rank has dropped.
#[derive(Debug)]
pub(crate) struct SymmetricHeap {
    heap: Heap,
    /// Live allocations in the order in which they were made, which is the same on every rank.
    live: Vec<Live>,
}

/// What ends when allocations are reclaimed.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    /// The memory of the allocations.
    pub(crate) ranges: Vec<std::ops::Range<u64>>,
    /// The allocations of the local heap that were left to them.
    pub(crate) local: Vec<u64>,
}

#[derive(Debug)]
struct Live {
    offset: u64,
    dropped: bool,
    /// Allocations of the local heap that end with this one.
    heirlooms: Vec<u64>,
}

impl SymmetricHeap {
    pub(crate) fn new(heap: Heap) -> Self {
        Self {
            heap,
            live: Vec::new(),
        }
    }

    pub(crate) fn allocate(&mut self, rank: Rank, bytes: u64, align: u64) -> Result<Block> {
        let block = self.heap.allocate(rank, bytes, align)?;
        self.live.push(Live {
            offset: block.range.start,
            dropped: false,
            heirlooms: Vec::new(),
        });
        Ok(block)
    }

    pub(super) fn drop_handle(&mut self, offset: u64) {
        if let Some(live) = self.live.iter_mut().find(|live| live.offset == offset) {
            live.dropped = true;
        }
    }

    fn bequeath(&mut self, offset: u64, blocks: impl Iterator<Item = u64>) {
        if let Some(live) = self.live.iter_mut().find(|live| live.offset == offset) {
            live.heirlooms.extend(blocks);
        }
    }

    /// One bit for each live allocation: whether this rank has dropped its handle.
    pub(crate) fn dropped(&self) -> Vec<u64> {
        let mut words = vec![0; self.live.len().div_ceil(64)];
        for (i, live) in self.live.iter().enumerate() {
            words[i / 64] |= u64::from(live.dropped) << (i % 64);
        }
        words
    }

    /// Frees the allocations whose bit is set, which must be the same ones on every rank.
    pub(crate) fn reclaim(&mut self, words: &[u64]) -> Freed {
        let mut freed = Freed::default();
        let mut index = 0;
        let heap = &mut self.heap;
        self.live.retain_mut(|live| {
            let gone = words[index / 64] >> (index % 64) & 1 == 1;
            index += 1;
            if gone {
                freed.ranges.extend(heap.free(live.offset));
                freed.local.append(&mut live.heirlooms);
            }
            !gone
        });
        freed
    }

    pub(crate) fn usage(&self) -> HeapUse {
        self.heap.usage()
    }
}
