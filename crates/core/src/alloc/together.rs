//! Allocation by all members of a team.

use super::bytes_and_align;
use crate::error::Result;
use crate::handler::refuse_in_handler;
use crate::pod::Pod;
use crate::segment::{Block, Freed};
use crate::symmetric::Symmetric;
use crate::team::Team;
use crate::waits::part_of;
use crate::world::World;

/// What its waits are parts of.
const ALLOCATION: &str = "a symmetric allocation";

impl Team {
    /// Allocates `n` zeroed elements at one offset of every member's segment. Other ranks take no
    /// part in it, and none of their memory is used.
    ///
    /// The team of all ranks allocates in the symmetric heaps, as
    /// [`World::alloc_symmetric`](crate::World::alloc_symmetric) does. Other teams allocate in the
    /// members' local heaps, at the highest offset that is free on all of them. So a rank may be in
    /// any number of teams, also overlapping or nested ones, and may allocate and drop in any
    /// order.
    ///
    /// # Cost
    ///
    /// The team of all ranks: B and an allreduce; if the memory was used before, also its zeroing
    /// and another allreduce. Other teams: 3 allreduces, and one more for each offset tried that is
    /// not free on all members. Collective over the team.
    ///
    /// # Errors
    ///
    /// [`Error::Exhausted`](crate::Error::Exhausted) on members without room, and
    /// [`Error::Elsewhere`](crate::Error::Elsewhere) on the others; with `PGAS_CHECK=1`
    /// [`Error::Mismatch`](crate::Error::Mismatch) if members ask for different sizes or alignments;
    /// the failure of the job.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(4, |world| {
    ///     let half = world.team().split(Some(world.rank().number() / 2), 0)?.unwrap();
    ///     let inbox = half.alloc_symmetric::<u32>(1)?; // by two ranks
    ///     inbox.member(1 - half.rank()).put(&world, world.rank().number())?;
    ///     half.barrier()?;
    ///     assert_eq!(inbox.here().get(&world)?, world.rank().number() ^ 1);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
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
    /// As [`alloc_symmetric`](Self::alloc_symmetric). Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`alloc_symmetric`](Self::alloc_symmetric).
    ///
    /// # Panics
    ///
    /// As [`World::alloc_aligned`](crate::World::alloc_aligned).
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let team = world.team();
    /// let counters = team.alloc_symmetric_aligned::<u64>(8, 64)?; // a cache line of its own
    /// counters.here().put(&world, 7)?;
    /// drop(counters);
    /// team.reclaim()?; // now the memory is free
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn alloc_symmetric_aligned<T: Pod>(&self, n: usize, align: usize) -> Result<Symmetric<T>> {
        let (bytes, align) = bytes_and_align::<T>(n, align);
        refuse_in_handler(ALLOCATION)?;
        let _waits = part_of(ALLOCATION);
        // What frees memory that is kept may be the program's, and may panic.
        let _step = self.world().in_step(ALLOCATION);
        self.agree("the bytes of a symmetric allocation", bytes)?;
        self.agree("the alignment of a symmetric allocation", align)?;
        self.reclaim()?;
        let block = if self.is_world() {
            self.block_by_order(bytes, align)?
        } else {
            self.block_by_search(bytes, align)?
        };
        let start = block.range.start;
        self.shared().ledgers().add(self.id(), block.range.clone());
        let symmetric = Symmetric::new(self.clone(), start, n);
        // All ranks have allocated and freed the same blocks, so either all or none have something
        // to zero. Members of a smaller team may differ in that.
        if !self.is_world() || !block.is_fresh() {
            let zeroed = self.world().zero(&block);
            self.all_succeeded("zeroing a symmetric allocation", zeroed)?;
        }
        if self.is_world() {
            self.barrier_within()?;
        }
        Ok(symmetric)
    }

    /// A block of the symmetric heap. All ranks get the same one, since they make the same requests
    /// in the same order.
    fn block_by_order(&self, bytes: u64, align: u64) -> Result<Block> {
        let world = self.world();
        let block = world
            .symmetric_heap()
            .allocate(world.rank(), bytes, align)?;
        if let Some(counting) = world.counting() {
            counting.set_heaps(None, Some(world.symmetric_heap().usage().used));
        }
        Ok(block)
    }

    /// A block of the local heap at an offset that is free on all members. Each member takes its
    /// highest free block. While these differ, all give theirs back, and try again below the lowest
    /// of them.
    #[track_caller]
    fn block_by_search(&self, bytes: u64, align: u64) -> Result<Block> {
        let world = self.world();
        let mut end = u64::MAX;
        loop {
            let take = || world.local_heap().take_highest(bytes, align, end);
            let taken = match take() {
                None if world.spares().free_unused() => take(),
                taken => taken,
            };
            // No block begins at 0.
            let start = taken.as_ref().map_or(0, |block| block.range.start);
            let mut bounds = [start, !start];
            let compared = self.allreduce_slice(&mut bounds, |a: u64, b: u64| a.min(b));
            let [lowest, not_highest] = bounds;
            let of_all = taken.filter(|block| {
                let is_common = compared.is_ok() && lowest == !not_highest;
                if !is_common {
                    world.local_heap().give_back(block.range.clone());
                }
                is_common
            });
            compared?;
            if let Some(block) = of_all {
                world.count_local_heap();
                return Ok(block);
            }
            if lowest == 0 {
                let exhausted = || world.local_heap().exhausted(world.rank(), bytes, align);
                let own = if start == 0 { Err(exhausted()) } else { Ok(()) };
                self.all_succeeded("a symmetric allocation", own)?;
                return Err(exhausted());
            }
            end = lowest.saturating_add(bytes.max(1).next_multiple_of(64));
        }
    }

    /// Frees the symmetric allocations of the team whose handles every member has dropped. Also
    /// frees the memory of teams that were split from this one, if all handles on them and on their
    /// memory are dropped.
    ///
    /// # Cost
    ///
    /// An allreduce, and a flush on members that have dropped something, which also waits for the
    /// signals of puts in flight. Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    #[track_caller]
    pub fn reclaim(&self) -> Result<()> {
        refuse_in_handler("a reclaim of symmetric memory")?;
        let world = self.world();
        let mut dropped = self.shared().ledgers().dropped(self.id());
        if dropped.iter().any(|word| *word != 0) {
            // This rank's puts in flight would otherwise land in the memory of its next user.
            world.flush_signals_for_all()?;
        }
        self.allreduce_slice(&mut dropped, |a: u64, b: u64| a & b)?;
        let Freed { ranges, local } = self.shared().ledgers().reclaim(self.id(), &dropped);
        for range in ranges {
            if self.is_world() {
                world.symmetric_heap().retire(range.start);
                world.vacate(World::symmetric_heap, range);
            } else {
                world.vacate(World::local_heap, range);
            }
        }
        for range in local {
            world.vacate(World::local_heap, range);
        }
        Ok(())
    }
}
