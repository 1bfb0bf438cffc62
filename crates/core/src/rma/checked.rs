//! Elements of a segment whose rank, bounds and alignment were checked, and the operations on them:
//! by this process's own instructions if the segment is mapped, else by the backend, whose operands
//! are made here.
#![expect(
    unsafe_code,
    reason = "makes operands and mapped places of what was checked"
)]

use std::marker::PhantomData;

use zerocopy::IntoBytes;

use super::cut;
use crate::backend::{
    self, AtomicCall, Call, Former, Get, GetGrid, OpId, Put, PutGrid, RemoteAddr, Shape, Stage,
};
use crate::event::FinishBrief;
use crate::few_words::{self, FewWords};
use crate::pod::zeroed_vec;
use crate::raw::copy;
use crate::raw::map::Mapped;
use crate::segment::NULL_BYTES;
use crate::{Event, GlobalPtr, Pod, Rank, Result, World};

/// Elements that lie within a segment of the job, aligned. Only [`World::checked`] makes it.
#[derive(Debug)]
pub(crate) struct Checked<T> {
    at: RemoteAddr,
    n: usize,
    elements: PhantomData<fn() -> T>,
}

impl World {
    /// The `n` elements at `ptr`, after checking that they lie within a segment of the job.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a few compares that vanish into the access"
    )]
    #[track_caller]
    pub(crate) fn checked<T>(&self, ptr: GlobalPtr<T>, n: usize) -> Checked<T> {
        let at = ptr.addr();
        let limit = self.segment_bytes() - NULL_BYTES;
        let fits = size_of::<T>()
            .checked_mul(n)
            .and_then(|bytes| limit.checked_sub(bytes as u64))
            .is_some_and(|last| at.offset.wrapping_sub(NULL_BYTES) <= last);
        if fits
            && at.offset.is_multiple_of(align_of::<T>() as u64)
            && at.rank.number() < self.n_ranks()
        {
            return Checked {
                at,
                n,
                elements: PhantomData,
            };
        }
        self.refuse(ptr, n)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse<T>(&self, ptr: GlobalPtr<T>, n: usize) -> ! {
        let (at, n_ranks) = (ptr.addr(), self.n_ranks());
        let (size, align) = (size_of::<T>(), align_of::<T>());
        assert!(!ptr.is_null(), "access through a null global pointer");
        assert!(
            at.rank.number() < n_ranks,
            "{ptr:?} names rank {}, but the job has ranks 0 to {}",
            at.rank,
            n_ranks - 1
        );
        assert!(
            at.offset % align as u64 == 0,
            "{ptr:?} is not aligned to the {align} bytes that its type needs"
        );
        panic!(
            "{n} elements of {size} bytes at {ptr:?} do not lie within a segment, whose usable bytes \
             are {NULL_BYTES} to {}",
            self.segment_bytes()
        );
    }
}

impl<T> Checked<T> {
    /// The rank whose segment it is.
    #[inline]
    pub(crate) fn rank(&self) -> Rank {
        self.at.rank
    }

    /// The number of elements.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.n
    }

    /// The address of the first element.
    #[inline]
    pub(super) fn at(&self) -> RemoteAddr {
        self.at
    }

    /// The elements, if their segment is read and written directly.
    #[inline]
    pub(crate) fn mapped<'w>(&self, world: &'w World) -> Option<Mapped<'w, T>> {
        let place = world.memory().place(self.at)?;
        // SAFETY: `checked` found the elements inside the segment, and aligned. The segment is
        // mapped at that place while the world keeps the backend (promise 1 of `Backend`).
        Some(unsafe { Mapped::new(place, self.n) })
    }

    /// The elements, if their words are changed by CPU atomics.
    #[inline]
    pub(crate) fn words<'w>(&self, world: &'w World) -> Option<Mapped<'w, T>> {
        let place = world.words().place(self.at)?;
        // SAFETY: as in `mapped`.
        Some(unsafe { Mapped::new(place, self.n) })
    }

    /// Performs `call` on the first element, by the CPU or the backend. It counts nothing.
    pub(crate) fn fetch(&self, world: &World, call: AtomicCall) -> Result<u64> {
        match self.words(world) {
            Some(place) => Ok(place.fetch(call)),
            None => world.backend().fetch_atomic(self.atomic(call)),
        }
    }

    /// The operand of `call` on the first element, for the backend.
    #[inline]
    pub(crate) fn atomic<C: Call>(&self, call: C) -> backend::Atomic<C> {
        let bytes = call.ty().bytes();
        let is_one = size_of::<T>() == bytes && align_of::<T>() >= bytes && self.n > 0;
        assert!(is_one, "a word of the call's type");
        // SAFETY: `checked` found the word aligned and inside a segment of the job.
        unsafe { backend::Atomic::new(self.at, call) }
    }
}

impl<T: Pod> Checked<T> {
    /// Writes `values`, which are as many elements, by the backend.
    pub(crate) fn put(&self, world: &World, values: &[T]) -> Result<()> {
        let bytes = values.as_bytes();
        assert_eq!(values.len(), self.n, "as many elements");
        // SAFETY: `checked` found the elements, which are as many, inside a segment of the job, and
        // `values` stays borrowed until the calls below, which are blocking, have returned.
        let put = unsafe { Put::new(self.at, bytes.as_ptr(), bytes.len()) };
        let longest = cut::longest(world);
        if (1..=longest).contains(&put.len()) {
            return world.backend().put(put);
        }
        pieces(put.len(), longest)
            .try_for_each(|(start, len)| world.backend().put(put.part(start, len)))
    }

    /// Reads as many elements as there are into `out` by the backend.
    pub(crate) fn get(&self, world: &World, out: &mut [T]) -> Result<()> {
        assert_eq!(out.len(), self.n, "as many elements");
        let bytes = out.as_mut_bytes();
        // SAFETY: `checked` found the elements, which are as many, inside a segment of the job, and
        // `out` stays borrowed exclusively until the calls below, which are blocking, have
        // returned. No reference to a part of a segment exists.
        let get = unsafe { Get::new(self.at, bytes.as_mut_ptr(), bytes.len()) };
        let longest = cut::longest(world);
        if (1..=longest).contains(&get.len()) {
            return world.backend().get(get);
        }
        pieces(get.len(), longest)
            .try_for_each(|(start, len)| world.backend().get(get.part(start, len)))
    }

    /// Begins to write `values`, which are as many elements, by the backend.
    pub(super) fn begin_put<R: Send + 'static>(
        &self,
        world: &World,
        values: Vec<T>,
        finish: impl FnOnce(Vec<T>) -> R + Send + 'static,
    ) -> Result<Event<R>> {
        assert_eq!(values.len(), self.n, "as many elements");
        let bytes = values.as_bytes();
        // SAFETY: `checked` found the elements, which are as many, inside a segment of the job. The
        // event owns the vector until the operation is complete, or for ever; its memory
        // stays where it is while it moves.
        let put = unsafe { Put::new(self.at, bytes.as_ptr(), bytes.len()) };
        let op = world.backend().put_nb(put)?;
        let finish = Box::new(move || finish(values));
        Ok(Event::pending(world, (op, Stage::Source), finish))
    }

    /// Begins to read the elements by the backend.
    pub(super) fn begin_get<R: Send + 'static>(
        &self,
        world: &World,
        finish: impl FnOnce(Vec<T>) -> R + Send + 'static,
    ) -> Result<Event<R>> {
        let mut buffer = zeroed_vec::<T>(self.n);
        let out = buffer.as_mut_bytes();
        // SAFETY: as in `begin_put`: a vector of as many elements, which the event owns.
        let get = unsafe { Get::new(self.at, out.as_mut_ptr(), out.len()) };
        let op = world.backend().get_nb(get)?;
        let finish = Box::new(move || finish(buffer));
        Ok(Event::pending(world, (op, Stage::Operation), finish))
    }

    /// Begins to write `value`, the only element, by the backend.
    pub(super) fn begin_put_one(&self, world: &World, value: &T) -> Result<Event<()>> {
        if !FewWords::fit::<T>() {
            return self.begin_put(world, vec![*value], drop);
        }
        assert_eq!(self.n, 1, "one element");
        let mut words = FewWords::new();
        let bytes = words.bytes_of::<T>();
        bytes.copy_from_slice(value.as_bytes());
        // SAFETY: `checked` found the element, which has as many bytes, inside a segment of the
        // job. The event owns the words until the operation is complete, or for ever; they stay
        // where they are while it moves.
        let put = unsafe { Put::new(self.at, bytes.as_ptr(), bytes.len()) };
        let op = world.backend().put_nb(put)?;
        Ok(Event::brief(world, op, words, |_| ()))
    }

    /// Begins to read the only element by the backend.
    pub(super) fn begin_get_one(&self, world: &World) -> Result<Event<T>> {
        if !FewWords::fit::<T>() {
            return self.begin_get(world, |values| values[0]);
        }
        assert_eq!(self.n, 1, "one element");
        let mut words = FewWords::new();
        let bytes = words.bytes_of::<T>();
        // SAFETY: as in `begin_put_one`.
        let get = unsafe { Get::new(self.at, bytes.as_mut_ptr(), bytes.len()) };
        let op = world.backend().get_nb(get)?;
        Ok(Event::brief(world, op, words, few_words::value_of::<T>))
    }

    /// Writes `values`, which are as many elements, by the backend, and then performs `signal`, on
    /// the same rank. If they are too long for one put, the first pieces are put and flushed before
    /// the last one.
    pub(super) fn put_signal(
        &self,
        world: &World,
        values: &[T],
        signal: backend::Atomic,
    ) -> Result<()> {
        let bytes = values.as_bytes();
        assert_eq!(values.len(), self.n, "as many elements");
        assert_eq!(signal.target().rank, self.at.rank, "on the same rank");
        // SAFETY: as in `put`.
        let put = unsafe { Put::new(self.at, bytes.as_ptr(), bytes.len()) };
        let longest = cut::longest(world);
        let ahead = put.len().saturating_sub(1) / longest * longest;
        for (start, len) in pieces(ahead, longest) {
            world.backend().put(put.part(start, len))?;
        }
        if ahead > 0 {
            world.flush(self.at.rank)?;
        }
        let last = put.part(ahead, put.len() - ahead);
        world.backend().put_signal(last, signal)
    }
}

/// The corner of a box, in bytes from the first element, in the segment and in local memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Corner {
    pub(super) remote: isize,
    pub(super) local: isize,
}

impl Corner {
    /// At the first element of either side.
    pub(super) const FIRST: Self = Self {
        remote: 0,
        local: 0,
    };
}

/// Asserts that all blocks of a box lie within `bytes` bytes. The first block begins at byte
/// `first`, and `strides` has the distances to the others.
pub(super) fn assert_within(bytes: usize, first: isize, shape: &Shape, strides: &[isize]) {
    let farthest = |end: fn(isize) -> isize| {
        let mut dims = shape.extents.iter().zip(strides);
        dims.try_fold(first, |at, (extent, stride)| {
            let steps = isize::try_from(extent.checked_sub(1)?).ok()?;
            at.checked_add(end(stride.checked_mul(steps)?))
        })
    };
    let lowest = farthest(|distance| distance.min(0));
    let highest = farthest(|distance| distance.max(0))
        .and_then(|at| usize::try_from(at).ok())
        .and_then(|at| at.checked_add(shape.block_bytes));
    assert!(
        strides.len() == shape.extents.len()
            && lowest.is_some_and(|at| at >= 0)
            && highest.is_some_and(|end| end <= bytes),
        "{shape:?} lies within {bytes} bytes"
    );
}

impl<T: Pod> Checked<T> {
    /// The address of the box's corner in the segment. Asserts that the box lies among the
    /// elements.
    pub(super) fn corner(&self, corner: Corner, shape: &Shape) -> RemoteAddr {
        let bytes = self.n * size_of::<T>();
        assert_within(bytes, corner.remote, shape, &shape.remote);
        let offset = self.at.offset.wrapping_add_signed(corner.remote as i64);
        RemoteAddr { offset, ..self.at }
    }

    /// Writes a box of `values`.
    pub(super) fn put_box(
        &self,
        world: &World,
        values: &[T],
        corner: Corner,
        shape: &Shape,
    ) -> Result<()> {
        let (to, bytes) = (self.corner(corner, shape), values.as_bytes());
        assert_within(bytes.len(), corner.local, shape, &shape.local);
        let from = bytes.as_ptr().wrapping_offset(corner.local);
        // SAFETY: all blocks lie among the elements, which are inside of a segment of the job, and
        // in the slice, as was asserted of both; it stays borrowed until the calls below, which are
        // blocking, have returned.
        let grid = unsafe { PutGrid::new(to, from, shape) };
        if world.memory().base(to.rank).is_none() {
            return world.backend().put_strided(grid);
        }
        grid.for_each(|block| {
            put_directly(world, block);
            Ok(())
        })
    }

    /// Reads a box into `out`.
    pub(super) fn get_box(
        &self,
        world: &World,
        out: &mut [T],
        corner: Corner,
        shape: &Shape,
    ) -> Result<()> {
        let (from, bytes) = (self.corner(corner, shape), out.as_mut_bytes());
        assert_within(bytes.len(), corner.local, shape, &shape.local);
        let to = bytes.as_mut_ptr().wrapping_offset(corner.local);
        // SAFETY: as in `put_box`, and the slice is borrowed exclusively.
        let grid = unsafe { GetGrid::new(from, to, shape) };
        if world.memory().base(from.rank).is_none() {
            return world.backend().get_strided(grid);
        }
        grid.for_each(|block| {
            get_directly(world, block);
            Ok(())
        })
    }
}

impl World {
    /// Begins an atomic by `begin`. Its event gives the result of `finish` on the former bits and
    /// `given`.
    pub(crate) fn begin_atomic<R: Send + 'static>(
        &self,
        given: u64,
        begin: impl FnOnce(Former) -> Result<OpId>,
        finish: FinishBrief<R>,
    ) -> Result<Event<R>> {
        let mut buffer = FewWords::new();
        let words = buffer.words();
        words.copy_from_slice(&[0, given]);
        // SAFETY: the event owns the words until the operation is complete, or for ever; they stay
        // where they are while it moves.
        let op = begin(unsafe { Former::new(words.as_mut_ptr()) })?;
        Ok(Event::brief(self, op, buffer, finish))
    }
}

/// Writes to each of the places as many elements by the backend.
pub(super) fn put_all<T: Pod>(world: &World, pieces: &[(Checked<T>, &[T])]) -> Result<()> {
    let puts = pieces.iter().map(|(to, values)| {
        assert_eq!(values.len(), to.n, "as many elements");
        let bytes = values.as_bytes();
        // SAFETY: as in `put`; `pieces` is borrowed until the call below has returned.
        unsafe { Put::new(to.at, bytes.as_ptr(), bytes.len()) }
    });
    let puts: Vec<Put> = puts.collect();
    cut::fragments(&puts, cut::longest(world), |list| {
        world.backend().put_fragments(list)
    })
}

/// Reads from each of the places as many elements by the backend.
pub(super) fn get_all<T: Pod>(
    world: &World,
    mut pieces: Vec<(Checked<T>, &mut [T])>,
) -> Result<()> {
    let gets = pieces.iter_mut().map(|(from, out)| {
        assert_eq!(out.len(), from.n, "as many elements");
        let bytes = out.as_mut_bytes();
        // SAFETY: as in `get`; each slice is exclusively borrowed, so that they are apart, until
        // after the call below has returned.
        unsafe { Get::new(from.at, bytes.as_mut_ptr(), bytes.len()) }
    });
    let gets: Vec<Get> = gets.collect();
    cut::fragments(&gets, cut::longest(world), |list| {
        world.backend().get_fragments(list)
    })
}

/// Carries a put out by this process's own instructions, if its segment is mapped.
pub(super) fn put_directly(world: &World, put: Put) -> bool {
    let Some(dst) = world.memory().place(put.dst()) else {
        return false;
    };
    // SAFETY: the maker of the put promised that it lies in a segment of the job, which is mapped
    // at `dst`, and that as many bytes can be read at its source. The source is not part of a
    // segment, since core makes puts of references only.
    unsafe { copy::to_shared(dst.as_ptr(), put.src(), put.len()) };
    true
}

/// Carries a get out by this process's own instructions, if its segment is mapped.
pub(super) fn get_directly(world: &World, get: Get) -> bool {
    let Some(src) = world.memory().place(get.src()) else {
        return false;
    };
    // SAFETY: the maker of the get promised that it lies in a segment of the job, which is mapped
    // at `src`, and that as many bytes can be written at its destination, which is not part of a
    // segment.
    unsafe { copy::from_shared(get.dst(), src.as_ptr(), get.len()) };
    true
}

/// Starts and lengths of the pieces in which `len` bytes are transferred.
pub(super) fn pieces(len: usize, longest: usize) -> impl Iterator<Item = (usize, usize)> {
    let starts = (0..len).step_by(longest);
    starts.map(move |start| (start, longest.min(len - start)))
}
