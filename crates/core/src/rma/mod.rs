//! One-sided reads and writes: put and get of values and slices, blocking and non-blocking.
//!
//! On the path of an operation this file comes after [`GlobalPtr`] and before the
//! [`Backend`](crate::backend::Backend), or instead of it: a peer whose segment is mapped is loaded
//! from and stored to here.
//!
//! What completion means, for all forms:
//!
//! - A get's result is there when it returns, and what is issued later comes after it.
//! - A put returns when its source may be reused; it is complete at the target after
//!   [`World::flush`] or [`World::barrier`], or when its [`Event`] is complete.
//! - Nothing orders two operations that are in flight together, not even on the same bytes.
//! - Only a word of an [atomic type](crate::atomics) accessed by atomics is never seen in part.
#![expect(unsafe_code, reason = "calls the backend on checked addresses")]

mod cut;
mod fragments;
mod near;
#[cfg(test)]
mod properties;
mod scope;
mod signal;
mod strided;
mod words;

pub use fragments::Fragment;
pub use near::{Block, Near, NearArray, Share};
pub use scope::Scope;
pub use strided::Strides;
pub use words::FourWords;

use std::ptr::NonNull;

use zerocopy::IntoBytes;

use crate::backend::RemoteAddr;
use crate::cost::CostKind;
use crate::raw::copy;
use crate::segment::NULL_BYTES;
use crate::{Event, GlobalPtr, Pod, Result, World};

impl World {
    /// The place that `ptr` names, after checking that `n` elements lie within a segment of the job.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a few compares that vanish into the access"
    )]
    #[track_caller]
    pub(crate) fn checked<T>(&self, ptr: GlobalPtr<T>, n: usize) -> RemoteAddr {
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
            return at;
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
            "{ptr:?}: the job has ranks 0 to {}",
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

impl<T: Pod> GlobalPtr<T> {
    /// Reads the value.
    ///
    /// # Cost
    ///
    /// R; a load on a direct peer. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or outside of a segment.
    #[inline]
    #[track_caller]
    pub fn get(self, world: &World) -> Result<T> {
        if let Some(place) = world.direct(self, 1) {
            // SAFETY: `direct` found the element inside a mapped segment, and aligned.
            return Ok(unsafe { copy::load(place.as_ptr()) });
        }
        let mut value = [T::new_zeroed()];
        self.get_indirectly(world, &mut value)?;
        Ok(value[0])
    }

    /// Writes a value.
    ///
    /// # Cost
    ///
    /// W; a store on a direct peer. One-sided. Complete locally on return, at the target after
    /// [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// What the transport reports.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or outside of a segment.
    #[inline]
    #[track_caller]
    pub fn put(self, world: &World, value: T) -> Result<()> {
        if let Some(place) = world.direct(self, 1) {
            // SAFETY: `direct` found the element inside a mapped segment, and aligned.
            unsafe { copy::store(place.as_ptr(), value) };
            return Ok(());
        }
        self.put_indirectly(world, &[value])
    }

    /// Reads `out.len()` elements into `out`.
    ///
    /// # Cost
    ///
    /// R. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports; then `out` may have been written in part.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or not all elements lie within the segment.
    #[inline]
    #[track_caller]
    pub fn get_slice(self, world: &World, out: &mut [T]) -> Result<()> {
        if let Some(src) = world.direct(self, out.len()) {
            let bytes = out.as_mut_bytes();
            // SAFETY: `direct` found all elements inside a mapped segment; `out` is exclusively ours and
            // no part of a segment, to which no references exist.
            unsafe { copy::from_shared(bytes.as_mut_ptr(), src.as_ptr(), bytes.len()) };
            return Ok(());
        }
        self.get_indirectly(world, out)
    }

    /// Reads `n` elements.
    ///
    /// # Cost
    ///
    /// R. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    ///
    /// # Panics
    ///
    /// As [`get_slice`](Self::get_slice).
    #[track_caller]
    pub fn get_vec(self, world: &World, n: usize) -> Result<Vec<T>> {
        world.checked(self, n);
        let mut out = zeroed_vec(n);
        self.get_slice(world, &mut out)?;
        Ok(out)
    }

    /// Writes the elements of `values`.
    ///
    /// # Cost
    ///
    /// W. One-sided. Complete locally on return, at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// What the transport reports; then a part may have been written.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or not all elements fit within the segment.
    #[inline]
    #[track_caller]
    pub fn put_slice(self, world: &World, values: &[T]) -> Result<()> {
        if let Some(dst) = world.direct(self, values.len()) {
            let bytes = values.as_bytes();
            // SAFETY: `direct` found all elements inside a mapped segment; `values` is private memory
            // and no part of a segment, to which no references exist.
            unsafe { copy::to_shared(dst.as_ptr(), bytes.as_ptr(), bytes.len()) };
            return Ok(());
        }
        self.put_indirectly(world, values)
    }

    /// A get that is refused, counted, or left to the backend.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn get_indirectly(self, world: &World, out: &mut [T]) -> Result<()> {
        let at = world.checked(self, out.len());
        let bytes = out.as_mut_bytes();
        world.count(CostKind::Read, Some(at.rank), 1, bytes.len());
        let Some(src) = world.memory().place(at) else {
            return get_by_backend(world, at, bytes);
        };
        // SAFETY: `checked` found all elements inside the segment, which is mapped, and `out` is
        // exclusively ours and no part of a segment, to which no references exist.
        unsafe { copy::from_shared(bytes.as_mut_ptr(), src.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// A put that is refused, counted, or left to the backend.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn put_indirectly(self, world: &World, values: &[T]) -> Result<()> {
        let at = world.checked(self, values.len());
        let bytes = values.as_bytes();
        world.count(CostKind::Write, Some(at.rank), 1, bytes.len());
        let Some(dst) = world.memory().place(at) else {
            return put_by_backend(world, at, bytes);
        };
        // SAFETY: `checked` found all elements inside the segment, which is mapped, and `values` is
        // private memory and no part of a segment, to which no references exist.
        unsafe { copy::to_shared(dst.as_ptr(), bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Begins to read the value.
    ///
    /// # Cost
    ///
    /// R; no allocation on a direct peer. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    #[inline]
    #[track_caller]
    pub fn get_nb(self, world: &World) -> Result<Event<T>> {
        let at = world.checked(self, 1);
        if world.memory().base(at.rank).is_some() {
            return self.get(world).map(Event::ready);
        }
        world.count(CostKind::Read, Some(at.rank), 1, size_of::<T>());
        // A vector, since its heap memory may be written through a pointer while it is moved.
        let mut buffer = zeroed_vec::<T>(1);
        let out = buffer.as_mut_bytes();
        // SAFETY: `checked` found the element inside a segment; `out` is owned by the event until the
        // operation is complete.
        let op = unsafe { world.backend().get_nb(at, out.as_mut_ptr(), out.len()) }?;
        Ok(Event::pending(world, op, Box::new(move || buffer[0])))
    }

    /// Begins to read `n` elements.
    ///
    /// # Cost
    ///
    /// R. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    ///
    /// # Panics
    ///
    /// As [`get_slice`](Self::get_slice).
    #[track_caller]
    pub fn get_vec_nb(self, world: &World, n: usize) -> Result<Event<Vec<T>>> {
        let at = world.checked(self, n);
        if world.memory().base(at.rank).is_some() || is_long::<T>(world, n) {
            return self.get_vec(world, n).map(Event::ready);
        }
        let mut buffer = zeroed_vec::<T>(n);
        let out = buffer.as_mut_bytes();
        world.count(CostKind::Read, Some(at.rank), 1, out.len());
        // SAFETY: `checked` found the elements inside a segment; `out` is owned by the event until the
        // operation is complete.
        let op = unsafe { world.backend().get_nb(at, out.as_mut_ptr(), out.len()) }?;
        Ok(Event::pending(world, op, Box::new(move || buffer)))
    }

    /// Begins to write a value. The event is complete when the value is at the target.
    ///
    /// # Cost
    ///
    /// W; no allocation on a direct peer. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    ///
    /// # Panics
    ///
    /// As [`put`](Self::put).
    #[inline]
    #[track_caller]
    pub fn put_nb(self, world: &World, value: T) -> Result<Event<()>> {
        let at = world.checked(self, 1);
        if world.memory().base(at.rank).is_some() {
            self.put(world, value)?;
            world.flush(at.rank)?;
            return Ok(Event::ready(()));
        }
        world.count(CostKind::Write, Some(at.rank), 1, size_of::<T>());
        let buffer = vec![value];
        let bytes = buffer.as_bytes();
        // SAFETY: `checked` found the element inside a segment; `bytes` is owned by the event until
        // the operation is complete.
        let op = unsafe { world.backend().put_nb(at, bytes.as_ptr(), bytes.len()) }?;
        Ok(Event::pending(world, op, Box::new(move || drop(buffer))))
    }

    /// Begins to write the elements of `values`. The event is complete when they are at the target,
    /// and gives the vector back.
    ///
    /// # Cost
    ///
    /// W. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    ///
    /// # Panics
    ///
    /// As [`put_slice`](Self::put_slice).
    #[track_caller]
    pub fn put_vec_nb(self, world: &World, values: Vec<T>) -> Result<Event<Vec<T>>> {
        let at = world.checked(self, values.len());
        if world.memory().base(at.rank).is_some() || is_long::<T>(world, values.len()) {
            self.put_slice(world, &values)?;
            world.flush(at.rank)?;
            return Ok(Event::ready(values));
        }
        let bytes = values.as_bytes();
        world.count(CostKind::Write, Some(at.rank), 1, bytes.len());
        // SAFETY: `checked` found the elements inside a segment; `bytes` is owned by the event until
        // the operation is complete.
        let op = unsafe { world.backend().put_nb(at, bytes.as_ptr(), bytes.len()) }?;
        Ok(Event::pending(world, op, Box::new(move || values)))
    }

    /// Where this process has the object mapped, if the peer is direct (UPC++'s `local`).
    ///
    /// Other ranks may access the memory at any time: through the pointer it may only be accessed
    /// atomically, or while the program makes sure that nobody else writes it.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn local(self, world: &World) -> Option<NonNull<T>> {
        let at = world.checked(self, 1);
        world.memory().place(at).map(NonNull::cast)
    }

    /// Asks the memory system to fetch the pointer's cache line for an access that will follow; does
    /// nothing for a peer that is not direct, or for a pointer that could not be accessed.
    ///
    /// # Cost
    ///
    /// ℓ.
    #[inline]
    pub fn prefetch(self, world: &World) {
        let at = self.addr();
        if at.offset < world.segment_bytes()
            && let Some(place) = world.memory().place(at)
        {
            copy::prefetch(place.as_ptr());
        }
    }
}

/// Whether `n` elements are more than the backend takes in one piece; then they are transferred in
/// several, by blocking operations.
pub(crate) fn is_long<T>(world: &World, n: usize) -> bool {
    (size_of::<T>() * n) as u64 > world.capabilities().max_transfer
}

pub(crate) fn zeroed_vec<T: Pod>(n: usize) -> Vec<T> {
    T::new_vec_zeroed(n).expect("memory for the buffer of a get")
}

/// A put through the backend, cut to the length that it takes. The range has been checked.
#[inline]
pub(crate) fn put_by_backend(world: &World, at: RemoteAddr, bytes: &[u8]) -> Result<()> {
    if is_one_piece(world, bytes.len()) {
        // SAFETY: the caller has checked the whole range; `bytes` is a slice.
        return unsafe { world.backend().put(at, bytes.as_ptr(), bytes.len()) };
    }
    put_in_pieces(world, at, bytes)
}

#[inline(never)]
fn put_in_pieces(world: &World, at: RemoteAddr, bytes: &[u8]) -> Result<()> {
    for (piece, start) in pieces(world, bytes.len()) {
        let dst = RemoteAddr {
            offset: at.offset + start as u64,
            ..at
        };
        let src = &bytes[start..start + piece];
        // SAFETY: the caller has checked the whole range; `src` is a slice.
        unsafe { world.backend().put(dst, src.as_ptr(), src.len()) }?;
    }
    Ok(())
}

/// A get through the backend, cut to the length that it takes. The range has been checked.
#[inline]
pub(crate) fn get_by_backend(world: &World, at: RemoteAddr, out: &mut [u8]) -> Result<()> {
    if is_one_piece(world, out.len()) {
        // SAFETY: the caller has checked the whole range; `out` is a slice of our own.
        return unsafe { world.backend().get(at, out.as_mut_ptr(), out.len()) };
    }
    get_in_pieces(world, at, out)
}

#[inline(never)]
fn get_in_pieces(world: &World, at: RemoteAddr, out: &mut [u8]) -> Result<()> {
    for (piece, start) in pieces(world, out.len()) {
        let src = RemoteAddr {
            offset: at.offset + start as u64,
            ..at
        };
        let dst = &mut out[start..start + piece];
        // SAFETY: the caller has checked the whole range; `dst` is a slice of our own.
        unsafe { world.backend().get(src, dst.as_mut_ptr(), dst.len()) }?;
    }
    Ok(())
}

/// Whether `len` bytes are transferred at once, as nearly all transfers are.
#[inline]
fn is_one_piece(world: &World, len: usize) -> bool {
    (1..=cut::longest(world)).contains(&len)
}

/// Lengths and starts of the pieces in which `len` bytes are transferred.
fn pieces(world: &World, len: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
    let longest = cut::longest(world);
    (0..len)
        .step_by(longest)
        .map(move |start| (longest.min(len - start), start))
}
