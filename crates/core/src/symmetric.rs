//! Symmetric allocations: the same offset in every rank's segment.

use std::marker::PhantomData;

use crate::global_ptr::GlobalPtr;
use crate::pod::Pod;
use crate::rank::Rank;
use crate::world::World;

/// An array of `T` at the same offset of every rank's segment, made by
/// [`World::alloc_symmetric`].
///
/// Dropping the handle is not collective and may happen at any time: the memory is reused after the
/// next [`World::alloc_symmetric`] or [`World::reclaim`] at which *every* rank has dropped its
/// handle, so that no rank can free what another one still uses.
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

    /// Leaves `blocks`, which [`World::alloc`] returned on this rank, to the array: they are freed
    /// when it is, so when no rank has a handle on it any more. A container whose parts have no
    /// place in symmetric memory gives them away like this when its handle is dropped.
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
