//! An array in the memory of one rank.

use std::fmt;
use std::ops::Range;

use pgas_core::{AsTeam, GlobalPtr, Member as _, Pod, Rank, Symmetric, Team, World};

use super::cells::Cells;
use super::{agree_on_value, checked_run, copies, index_check, range_check};
use crate::error::agree;
use crate::object::{self, Heap, Object, Plain, SlotOf};
use crate::scattered::{self, Served};
use crate::team::check_host;
use crate::{Result, prices};

/// An array of a fixed length in the memory of one rank, which all ranks read and write.
///
/// Elements that are words are read and written whole. A larger plain element (one without memory
/// of its own: a byte-copyable value, or a tuple or array of these) that is read while another rank
/// writes it may be seen in part. Elements of other types (strings and the like) are always seen
/// whole.
///
/// # Examples
///
/// ```
/// use pgas_containers::Array;
/// use pgas_core::Rank;
///
/// # let world = pgas_core::backend::loopback::world();
/// let names = Array::new(&world, Rank::ZERO, 10, &String::new())?; // collective
/// names.put(3, &"three".to_owned())?;
/// assert_eq!(names.get(3)?, "three");
/// assert_eq!(names.get(4)?, "");
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// Byte-copyable elements are also reached many at a time, and by pointers:
///
/// ```
/// use pgas_containers::Array;
/// use pgas_core::Rank;
///
/// # let world = pgas_core::backend::loopback::world();
/// let array = Array::new(&world, Rank::ZERO, 10, &0_u64)?; // collective
/// array.put_slice(2, &[20, 30, 40])?;
/// array.put_many(&[(7, 70), (0, 1)])?;
/// array.add_many(&[7, 0, 7], 1)?;
/// assert_eq!(array.swap_many(&[(0, 5)])?, [2]);
/// array.ptr(9).fetch_add(array.world(), 9)?;
/// world.barrier()?;
/// assert_eq!(array.get_range(2..5)?, [20, 30, 40]);
/// assert_eq!(array.get_many(&[7, 0, 9])?, [72, 5, 9]);
/// assert_eq!((array.host(), array.len(), array.is_empty()), (Rank::ZERO, 10, false));
/// assert_eq!(array.team().n_ranks(), world.n_ranks());
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct Array<T: Object> {
    /// An unused word on each rank. Its memory is released when no rank has the array any more, and
    /// so is the host's block.
    handle: Symmetric<u64>,
    cells: Cells<T>,
    block: GlobalPtr<u8>,
    len: usize,
    served: Option<Served>,
}

impl<T: Object> Array<T> {
    /// An array of `len` copies of `initial` on `host`: a [`Rank`] if it is made on the world, the
    /// number of a member if on a team.
    ///
    /// # Cost
    ///
    /// 2B + 5 allreduces or broadcasts; an allreduce more with `PGAS_CHECK=1`. Collective over the
    /// team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Mismatch`](crate::Error::Mismatch) if the ranks give different
    /// lengths or hosts, and with `PGAS_CHECK=1` if they give different values;
    /// [`Error::Argument`](crate::Error::Argument) if there is no such host;
    /// [`Exhausted`](pgas_core::Error::Exhausted) if it has no room, or
    /// [`Error::Codec`](crate::Error::Codec) if `initial` cannot be encoded, and
    /// [`Elsewhere`](pgas_core::Error::Elsewhere) on ranks that have not failed themselves.
    #[track_caller]
    pub fn new<G: AsTeam>(on: &G, host: G::Member, len: usize, initial: &T) -> Result<Self> {
        let (team, host) = (&on.as_team(), host.number());
        agree(team, "the length of an array", len as u64)?;
        agree(team, "the host of an array", host.into())?;
        check_host(team, "an array", host)?;
        let (world, is_host) = (team.world(), team.rank() == host);
        let handle = team.alloc_symmetric(1)?;
        let heap = Heap::of::<T>(team)?;
        let make = || -> Result<(SlotOf<T>, GlobalPtr<u8>)> {
            let initial = object::to_slot(initial, &heap)?;
            if !is_host {
                return Ok((initial, GlobalPtr::NULL));
            }
            let block = Self::block(world, len, initial)?;
            // From here on it is freed with the handle.
            handle.bequeath([block]);
            Ok((initial, block))
        };
        let (slot, block) = team.all_try("making an array", make)?;
        agree_on_value::<T, T::Repr>(team, initial)?;
        let block = GlobalPtr::from_bits(team.broadcast(host, block.to_bits())?);
        team.barrier_within()?;
        Ok(Self {
            handle,
            cells: Cells::new(heap, slot),
            block,
            len,
            served: scattered::serve(team),
        })
    }

    /// The host's memory for `len` elements.
    fn block(world: &World, len: usize, initial: SlotOf<T>) -> Result<GlobalPtr<u8>> {
        let (bytes, align) = Cells::<T>::layout(len);
        let block = world.alloc_aligned(bytes, align)?;
        if !object::has_heap::<T>() {
            copies(world, block.cast(), initial, len).inspect_err(|_| world.free(block))?;
        }
        Ok(block)
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
    /// Errors of the transport; [`Error::Codec`](crate::Error::Codec) if the value cannot be
    /// encoded; the failure of the job while waiting for another writer, or in a handler
    /// [`InHandler`](pgas_core::Error::InHandler) if it would have to wait for one.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[inline]
    #[track_caller]
    pub fn put(&self, i: usize, value: &T) -> Result<()> {
        self.cells
            .put(self.world(), self.cell(i), value, &prices::ARRAY_PUT)
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
    /// Errors of the transport; the failure of the job while waiting for a writer, or in a handler
    /// [`InHandler`](pgas_core::Error::InHandler) if it would have to wait for one.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[inline]
    #[track_caller]
    pub fn get(&self, i: usize) -> Result<T> {
        self.cells
            .get(self.world(), self.cell(i), &prices::ARRAY_GET)
    }

    #[inline]
    #[track_caller]
    fn cell(&self, i: usize) -> GlobalPtr<u8> {
        index_check(i, self.len);
        self.block.byte_add((i * Cells::<T>::STRIDE) as u64)
    }

    /// The version of an element that is not plain.
    #[cfg(test)]
    pub(super) fn version(&self, i: usize) -> GlobalPtr<u64> {
        self.cell(i).cast()
    }

    /// A number that identifies this array, the same on all ranks.
    pub(crate) fn identity(&self) -> u64 {
        self.handle.member(0).to_bits()
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rank whose memory holds the elements.
    #[must_use]
    pub fn host(&self) -> Rank {
        self.block.rank()
    }

    /// The world whose ranks share the array.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        self.handle.world()
    }

    /// The team whose members share the array: all ranks if it was made on the world.
    #[must_use]
    #[inline]
    pub fn team(&self) -> &Team {
        self.handle.team()
    }
}

impl<T: Object<Repr = Plain> + Pod> Array<T> {
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
    /// W. One-sided. Complete at the target after [`flush`](World::flush).
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
        let _in_bounds = checked_run(start, values.len(), self.len());
        self.first()
            .add(start)
            .put_slice_as(self.world(), values, &prices::ARRAY_PUT_SLICE)
    }

    /// Reads a range of elements.
    ///
    /// # Cost
    ///
    /// R. One-sided.
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
        self.first().add(elements.start).get_slice_as(
            self.world(),
            &mut out,
            &prices::ARRAY_GET_RANGE,
        )?;
        Ok(out)
    }

    /// A pointer to the first element, if there is one.
    pub(super) fn first(&self) -> GlobalPtr<T> {
        self.block.cast()
    }

    /// The object that requests name, if ranks serve them.
    pub(super) fn served(&self) -> Option<&Served> {
        self.served.as_ref()
    }
}

impl<T: Object> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} elements on rank {})", self.len, self.host())
    }
}
