//! An array over the memory of all ranks.

use std::fmt;
use std::ops::Range;

use pgas_core::{AsTeam, GlobalPtr, Pod, Rank, Symmetric, Team, World};

use super::cells::Cells;
use super::layout::{Deal, Distribution};
use super::{agree_on_value, are_same_members, checked_run, copies, index_check, range_check};
use crate::error::agree;
use crate::object::{self, Heap, Object, Plain, SlotOf};
use crate::scattered::{self, Served};
use crate::{Error, Result, prices};

/// An array of a fixed length whose elements are dealt out to all ranks.
///
/// The rules for elements of an [`Array`](super::Array) hold here, too.
///
/// # Examples
///
/// ```
/// use pgas_containers::DArray;
/// use pgas_containers::array::Distribution;
///
/// # let world = pgas_core::backend::loopback::world();
/// let squares = DArray::new(&world, 1000, Distribution::BlockCyclic(16), &0_u64)?; // collective
/// for i in squares.local_elements() {
///     squares.put(i, &(i as u64 * i as u64))?; // each rank its own
/// }
/// world.barrier()?;
/// assert_eq!(squares.get_range(30..33)?, [900, 961, 1024]);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// Runs of elements, pointers, all elements, and the local phase:
///
/// ```
/// use pgas_containers::DArray;
/// use pgas_containers::array::Distribution;
/// use pgas_core::collective::op::Max;
///
/// # let world = pgas_core::backend::loopback::world();
/// let array = DArray::new(&world, 100, Distribution::Block, &1_u64)?; // collective
/// assert!(!array.is_empty() && array.rank_of(0) == array.team().world_rank(0));
/// array.put_slice(10, &[7, 8, 9])?;
/// array.ptr(99).fetch_add(array.world(), 4)?;
/// world.barrier()?;
/// assert_eq!((array.min()?, array.reduce(Max)?), (Some(1), Some(9))); // collective
/// let mut local = array.into_local()?; // collective
/// local.sort_unstable();
/// let array = local.into_shared()?;
/// array.fill(3)?; // collective
/// assert_eq!(array.get(50)?, 3);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct DArray<T: Object> {
    parts: Symmetric<u8>,
    cells: Cells<T>,
    deal: Deal,
    distribution: Distribution,
    served: Option<Served>,
}

impl<T: Object> DArray<T> {
    /// An array of `len` copies of `initial`, dealt out as `distribution` says.
    ///
    /// # Cost
    ///
    /// 2B + 4 allreduces; an allreduce more with `PGAS_CHECK=1`. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Mismatch`] if the ranks give different lengths or distributions, and
    /// with `PGAS_CHECK=1` if they give different values; [`Error::Argument`] for blocks of no
    /// elements, [`Exhausted`](pgas_core::Error::Exhausted) if the symmetric heap has no room; [`Error::Codec`] if `initial` cannot be encoded, and
    /// [`Elsewhere`](pgas_core::Error::Elsewhere) on ranks where it can.
    #[track_caller]
    pub fn new(
        on: &impl AsTeam,
        len: usize,
        distribution: Distribution,
        initial: &T,
    ) -> Result<Self> {
        let team = &on.as_team();
        let deal = Deal::new(distribution, len, team.n_ranks() as usize);
        let block = deal.map_or(0, |deal| deal.block);
        agree(team, "the length of a distributed array", len as u64)?;
        agree(team, "the block of a distributed array", block as u64)?;
        let Some(deal) = deal else {
            let text = "a distributed array was to be dealt out in blocks of 0 elements";
            return Err(Error::Argument(text.into()));
        };
        let (bytes, align) = Cells::<T>::layout(deal.most());
        let parts = team.alloc_symmetric_aligned(bytes, align)?;
        let heap = Heap::of::<T>(team)?;
        let fill = || -> Result<SlotOf<T>> {
            let initial = object::to_slot(initial, &heap)?;
            if !object::has_heap::<T>() {
                let n = deal.local_len(team.rank() as usize, len);
                copies(team.world(), parts.here().cast(), initial, n)?;
            }
            Ok(initial)
        };
        let slot = team.all_try("filling an array", fill)?;
        agree_on_value::<T, T::Repr>(team, initial)?;
        team.barrier_within()?;
        Ok(Self {
            parts,
            cells: Cells::new(heap, slot),
            deal,
            distribution,
            served: scattered::serve(team),
        })
    }

    /// Writes element `i`.
    ///
    /// # Cost
    ///
    /// W for a plain element, complete at the target after [`flush`](World::flush); 3A + R + W for
    /// others, complete on return, and W more for one with a long encoding. One-sided.
    ///
    /// # Errors
    ///
    /// As [`Array::put`](super::Array::put).
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[inline]
    #[track_caller]
    pub fn put(&self, i: usize, value: &T) -> Result<()> {
        self.cells
            .put(self.world(), self.cell(i), value, &prices::DARRAY_PUT)
    }

    /// Reads element `i`.
    ///
    /// # Cost
    ///
    /// R for a plain element, 2A + R for others, R + A more for one with a long encoding.
    /// One-sided.
    ///
    /// # Errors
    ///
    /// As [`Array::get`](super::Array::get).
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[inline]
    #[track_caller]
    pub fn get(&self, i: usize) -> Result<T> {
        self.cells
            .get(self.world(), self.cell(i), &prices::DARRAY_GET)
    }

    #[inline]
    #[track_caller]
    fn cell(&self, i: usize) -> GlobalPtr<u8> {
        index_check(i, self.deal.len);
        let (rank, local) = self.deal.place(i);
        self.part(rank)
            .byte_add((local * Cells::<T>::STRIDE) as u64)
    }

    fn part(&self, rank: usize) -> GlobalPtr<u8> {
        #[expect(clippy::cast_possible_truncation, reason = "the number of a rank")]
        let member = rank as u32;
        self.parts.member(member).cast()
    }

    /// A number that identifies this array, the same on all ranks.
    pub(crate) fn identity(&self) -> u64 {
        self.parts.member(0).to_bits()
    }

    /// The rank that holds element `i`.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[must_use]
    #[track_caller]
    pub fn rank_of(&self, i: usize) -> Rank {
        self.cell(i).rank()
    }

    /// The indices of the elements that this rank holds, in ascending order.
    pub fn local_elements(&self) -> impl ExactSizeIterator<Item = usize> + use<T> {
        let (deal, rank) = (self.deal, self.team().rank() as usize);
        (0..deal.local_len(rank, deal.len)).map(move |local| deal.element(rank, local))
    }

    /// The number of elements over all ranks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.deal.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deal.len == 0
    }

    /// The world whose ranks share the array.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        self.parts.world()
    }

    /// The team whose members share the array: all ranks if it was made on the world.
    #[must_use]
    #[inline]
    pub fn team(&self) -> &Team {
        self.parts.team()
    }
}

impl<T: Object<Repr = Plain> + Pod> DArray<T> {
    /// A pointer to element `i`, for atomics, non-blocking and strided transfers.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[must_use]
    #[track_caller]
    pub fn ptr(&self, i: usize) -> GlobalPtr<T> {
        self.cell(i).cast()
    }

    /// Writes `values` from element `start` on.
    ///
    /// # Cost
    ///
    /// W for each rank that holds some of them. One-sided. Complete at the targets after
    /// [`flush_all`](World::flush_all).
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If they reach beyond the end.
    #[track_caller]
    pub fn put_slice(&self, start: usize, values: &[T]) -> Result<()> {
        let elements = checked_run(start, values.len(), self.len());
        let (world, row) = (self.world(), &prices::DARRAY_PUT_SLICE);
        for (rank, places) in self.shares(&elements) {
            let at = self.part(rank).cast::<T>().add(places.start);
            if self.is_one_run(rank, &places) {
                let first = self.deal.element(rank, places.start) - start;
                at.put_slice_as(world, &values[first..first + places.len()], row)?;
                continue;
            }
            let value = |local| values[self.deal.element(rank, local) - start];
            let share: Vec<T> = places.map(value).collect();
            at.put_slice_as(world, &share, row)?;
        }
        Ok(())
    }

    /// Reads a range of elements.
    ///
    /// # Cost
    ///
    /// R for each rank that holds some of them. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If the range reaches beyond the end, or ends before its start.
    #[track_caller]
    pub fn get_range(&self, elements: Range<usize>) -> Result<Vec<T>> {
        range_check(&elements, self.len());
        let mut out = T::new_vec_zeroed(elements.len()).expect("memory for the elements");
        let (world, row) = (self.world(), &prices::DARRAY_GET_RANGE);
        for (rank, places) in self.shares(&elements) {
            let at = self.part(rank).cast::<T>().add(places.start);
            if self.is_one_run(rank, &places) {
                let first = self.deal.element(rank, places.start) - elements.start;
                at.get_slice_as(world, &mut out[first..first + places.len()], row)?;
                continue;
            }
            let mut share = T::new_vec_zeroed(places.len()).expect("memory for the elements");
            at.get_slice_as(world, &mut share, row)?;
            for (local, value) in places.zip(share) {
                out[self.deal.element(rank, local) - elements.start] = value;
            }
        }
        Ok(out)
    }

    /// The object that requests name, if ranks serve them.
    pub(super) fn served(&self) -> Option<&Served> {
        self.served.as_ref()
    }

    /// The number of elements of this rank.
    pub(super) fn local_len(&self) -> usize {
        self.deal
            .local_len(self.team().rank() as usize, self.deal.len)
    }

    /// A pointer to this rank's elements from number `place` on.
    pub(super) fn local_place(&self, place: usize) -> GlobalPtr<T> {
        self.parts.here().cast::<T>().add(place)
    }

    /// `n` elements of this rank from a place on.
    pub(super) fn local_chunk(&self, place: usize, n: usize) -> Result<Vec<T>> {
        self.local_place(place).get_vec(self.world(), n)
    }

    /// The indices of this rank's elements from a place on.
    pub(super) fn indices_from(&self, place: usize) -> impl Iterator<Item = usize> + use<T> {
        (place..self.local_len()).map(self.to_index())
    }

    /// The index of the element at a place of this rank.
    pub(super) fn index_at(&self, place: usize) -> usize {
        self.to_index()(place)
    }

    /// Maps a place of this rank to the index of its element.
    pub(super) fn to_index(&self) -> impl Fn(usize) -> usize + Copy + Send + Sync + use<T> {
        let (deal, rank) = (self.deal, self.team().rank() as usize);
        move |place| deal.element(rank, place)
    }

    /// The distribution that the array was made with.
    pub(super) fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// The number of elements that are dealt out together.
    pub(super) fn block(&self) -> usize {
        self.deal.block
    }

    /// Whether both have the same length and are dealt out in the same way, to the same ranks.
    pub(super) fn is_dealt_as(&self, other: &Self) -> bool {
        self.deal == other.deal && are_same_members(self.team(), other.team())
    }

    /// The ranks that hold some of `elements`, and the places of these on each.
    fn shares(&self, elements: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let (deal, elements) = (self.deal, elements.clone());
        // A short run lies on few ranks, whose numbers are consecutive.
        let n_blocks = elements.len().div_ceil(deal.block) + 1;
        let first = elements.start / deal.block;
        (0..n_blocks.min(deal.n_ranks)).filter_map(move |i| {
            let rank = (first + i) % deal.n_ranks;
            let places = deal.places(rank, &elements);
            (!places.is_empty()).then_some((rank, places))
        })
    }

    /// Whether the elements at these places of a rank are consecutive in the array.
    fn is_one_run(&self, rank: usize, places: &Range<usize>) -> bool {
        let ends = [places.start, places.end - 1].map(|local| self.deal.element(rank, local));
        ends[1] - ends[0] + 1 == places.len()
    }
}

impl<T: Object> fmt::Debug for DArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Deal { len, block, .. } = self.deal;
        write!(f, "DArray({len} elements in blocks of {block})")
    }
}
