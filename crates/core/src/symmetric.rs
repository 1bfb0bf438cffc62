//! Symmetric allocations: the same offset in the segment of every member of a team.

use std::marker::PhantomData;

use crate::global_ptr::GlobalPtr;
use crate::pod::Pod;
use crate::rank::Rank;
use crate::team::Team;
use crate::world::World;

/// An array of `T` at the same offset of the segment of every member of a team, made by
/// [`World::alloc_symmetric`] on all ranks, or by [`Team::alloc_symmetric`].
///
/// Dropping the handle is not collective and may happen at any time. The memory is free again at
/// the team's next allocation, or [`Team::reclaim`], at which *every* member has dropped its
/// handle. So no rank can free memory that another one still uses.
///
/// If all handles on a team are dropped, too, its memory goes back to the team that was split. It
/// is free at the next allocation, split or reclaim of that team at which every rank that took part
/// in the split has dropped its handles.
///
/// # Examples
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let array = world.alloc_symmetric::<u64>(10)?; // collective: ten on each rank
/// let next = world.rank_after(world.rank());
/// array.on(next).put(array.world(), 7)?;
/// world.barrier()?;
/// assert_eq!(array.here().get(&world)?, 7);
/// assert_eq!(array.member(0), array.on(array.team().world_rank(0)));
/// assert!(array.len() == 10 && !array.is_empty());
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Symmetric<T> {
    team: Team,
    offset: u64,
    len: usize,
    is_of_world: bool,
    /// The bits of the pointer for the first member, and their distance from one member to the
    /// next, which holds for the first `n_regular` members.
    first: u64,
    step: u64,
    n_regular: u32,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> Symmetric<T> {
    pub(crate) fn new(team: Team, offset: u64, len: usize) -> Self {
        let bits = |rank, offset| GlobalPtr::<u8>::new(Rank::new(rank), offset).to_bits();
        let (first, stride, n_regular) = match team.shared().spacing() {
            Some((first, stride)) => (first, stride, team.n_ranks()),
            None => (0, 0, 0),
        };
        Self {
            offset,
            len,
            is_of_world: team.is_world(),
            first: bits(first, offset),
            step: bits(1, 0).wrapping_mul(i64::from(stride).cast_unsigned()),
            n_regular,
            element: PhantomData,
            team,
        }
    }

    /// The first element of the part of `rank`.
    ///
    /// # Panics
    ///
    /// If the array belongs to a team other than that of all ranks, and `rank` is not a member.
    /// (For an array on all ranks the accesses check the rank.)
    #[must_use]
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a compare and an addition; a call took ten instructions beside the 50 of a put"
    )]
    #[track_caller]
    pub fn on(&self, rank: Rank) -> GlobalPtr<T> {
        if !self.is_of_world {
            self.assert_has(rank);
        }
        GlobalPtr::new(rank, self.offset)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn assert_has(&self, rank: Rank) {
        let team = &self.team;
        let is_member = team.team_rank(rank).is_some();
        assert!(is_member, "rank {rank} is no member of {team:?}");
    }

    /// The first element of the part of member `i`. If the array is on all ranks, that is rank `i`.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn member(&self, i: u32) -> GlobalPtr<T> {
        if i < self.n_regular {
            return GlobalPtr::from_bits(self.first.wrapping_add(self.step.wrapping_mul(i.into())));
        }
        self.member_by_table(i)
    }

    /// As [`member`](Self::member), for a team whose ranks are not evenly spaced.
    #[inline(never)]
    #[track_caller]
    fn member_by_table(&self, i: u32) -> GlobalPtr<T> {
        GlobalPtr::new(self.team.world_rank(i), self.offset)
    }

    /// The first element of this rank's own part.
    #[must_use]
    #[inline]
    pub fn here(&self) -> GlobalPtr<T> {
        GlobalPtr::new(self.world().rank(), self.offset)
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
        self.team.world()
    }

    /// The team whose members' segments hold the array.
    #[must_use]
    #[inline]
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Gives `blocks`, which [`World::alloc`] returned on this rank, to the array: they are freed
    /// together with it, when no rank has a handle on it any more. A container uses this for parts
    /// that are not in symmetric memory, when its handle is dropped.
    ///
    /// # Cost
    ///
    /// ℓ. Not collective.
    ///
    /// # Panics
    ///
    /// As [`World::free`], also for a block that was given away already.
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
    #[track_caller]
    pub fn bequeath(&self, blocks: impl IntoIterator<Item = GlobalPtr<u8>>) {
        let mut retired = Vec::new();
        for block in blocks {
            retired.push(self.world().retire(block));
        }
        let (shared, team) = (self.team.shared(), self.team.id());
        shared.ledgers().bequeath(team, self.offset, retired);
    }
}

impl<T> Drop for Symmetric<T> {
    fn drop(&mut self) {
        let (shared, team) = (self.team.shared(), self.team.id());
        shared.ledgers().drop_handle(team, self.offset);
    }
}
