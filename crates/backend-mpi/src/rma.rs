//! Where the bytes move: puts and gets through the window.
#![expect(unsafe_code, reason = "calls MPI on places that core has checked")]

use std::ffi::c_int;

use pgas_core::Result;
use pgas_core::backend::{Backend, OpId, RemoteAddr, Stage};

use crate::network::Network;
use crate::ops::{Flight, Plain};
use crate::session::c_rank;
use crate::staging::Staging;
use crate::sys::{self, Datatype, Layout, Mpi, Target};

/// Up to this length an operation that nobody waits for has no request of its own, so that a flood of them costs no
/// more than MPI's. Longer ones can be tested without waiting for a flush.
const SHORT: usize = 8 << 10;

pub(crate) fn target_of(at: RemoteAddr) -> Target {
    Target {
        rank: c_rank(at.rank.number()),
        offset: at.offset,
    }
}

/// So many bytes: core cuts transfers to what fits.
pub(crate) fn count_of(len: usize) -> c_int {
    c_int::try_from(len).expect("core keeps to max_transfer")
}

impl Network {
    /// Begins a short put of a copy of its source.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for its callers")]
    unsafe fn put_staged(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        let (rank, staging) = (dst.rank.number(), &self.staging);
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, rank)?;
        if !self.flushes.get(&mut mpi).has_staged() {
            staging.get(&mut mpi).clear();
        }
        let copy = match staging.get(&mut mpi).take(len) {
            Some(copy) => copy,
            None => {
                self.unstage(&mut mpi)?;
                let staging = staging.get(&mut mpi);
                staging.clear();
                staging.take(len).expect("room for a short put")
            }
        };
        if len == size_of::<u64>() {
            // SAFETY: as below; a length that the compiler knows needs no call.
            unsafe { copy.copy_from_nonoverlapping(src, size_of::<u64>()) };
        } else {
            // SAFETY: the caller promises the source; the copy's place is this put's alone.
            unsafe { copy.copy_from_nonoverlapping(src, len) };
        }
        // SAFETY: the caller promises the target; the copy is left alone until a flush of the rank.
        unsafe { self.call_put(&mpi, dst, copy, len) }?;
        self.flushes.get(&mut mpi).stage(rank);
        Ok(())
    }

    /// Begins a put, which a flush completes here and there. The caller notes that it is under way.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`], until local completion.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a call more is felt beside MPI's own put"
    )]
    unsafe fn issue_put(
        &self,
        mpi: &mut Mpi,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<()> {
        self.turn_to(mpi, dst.rank.number())?;
        // SAFETY: `call_put` asks for what this function does: both places, and the source until
        // local completion.
        unsafe { self.call_put(mpi, dst, src, len) }
    }

    /// As [`issue_put`](Self::issue_put), where this rank has turned to the target.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`], until local completion.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for its caller")]
    unsafe fn call_put(
        &self,
        mpi: &Mpi,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<()> {
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: byte,
        };
        let to = (target_of(dst), layout);
        // SAFETY: `sys::put` asks for the source until local completion and for bytes of the window
        // at the target: the caller promises both, since the window is all of a segment. The layout
        // is as many bytes.
        unsafe { sys::put(mpi, &self.window, (src, layout), to) }
    }

    /// Begins a put that nobody flushes before the next operation begins.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`], until local completion.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put alone")]
    pub(crate) unsafe fn leave_put(
        &self,
        mpi: &mut Mpi,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<Plain> {
        // SAFETY: `issue_put` asks for what this function does: both places, and the source until
        // local completion.
        unsafe { self.issue_put(mpi, dst, src, len) }?;
        let rank = dst.rank.number();
        Ok(Plain {
            is_get: false,
            rank,
            n_flushes: self.flushes.get(mpi).begin_unsent(rank),
        })
    }

    /// Begins a get, which a local flush completes.
    ///
    /// # Safety
    ///
    /// As [`Backend::get`], until local completion.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a call more is felt beside MPI's own get"
    )]
    unsafe fn issue_get(
        &self,
        mpi: &mut Mpi,
        src: RemoteAddr,
        dst: *mut u8,
        len: usize,
    ) -> Result<()> {
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: byte,
        };
        let from = (target_of(src), layout);
        self.turn_to(mpi, src.rank.number())?;
        // SAFETY: `sys::get` asks for the destination until local completion and for bytes of the
        // window at the target: the caller promises both, since the window is all of a segment. The
        // layout is as many bytes.
        unsafe { sys::get(mpi, &self.window, (dst, layout), from) }
    }

    /// Begins a get that nobody flushes before the next operation begins.
    ///
    /// # Safety
    ///
    /// As [`Backend::get`], until local completion.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a get alone")]
    pub(crate) unsafe fn leave_get(
        &self,
        mpi: &mut Mpi,
        src: RemoteAddr,
        dst: *mut u8,
        len: usize,
    ) -> Result<Plain> {
        // SAFETY: `issue_get` asks for what this function does: both places, and the destination
        // until local completion.
        unsafe { self.issue_get(mpi, src, dst, len) }?;
        let rank = src.rank.number();
        Ok(Plain {
            is_get: true,
            rank,
            n_flushes: self.flushes.get(mpi).leave_open(rank),
        })
    }

    /// # Safety
    ///
    /// As [`Backend::put`].
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a put that is a call of MPI and some tens of instructions notices each call in between"
    )]
    pub(crate) unsafe fn put_bytes(
        &self,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<()> {
        if self.is_direct || self.is_polite {
            // SAFETY: `put_with_care` asks for what `Backend::put` does, as this function: `len`
            // readable bytes at `src`, and as many in a segment at `dst`, until it returns.
            unsafe { self.put_with_care(dst, src, len) }
        } else if len <= Staging::LONGEST {
            // SAFETY: `put_staged` asks for what `Backend::put` does, as this function: `len`
            // readable bytes at `src`, and as many in a segment at `dst`, until it returns.
            unsafe { self.put_staged(dst, src, len) }
        } else {
            // SAFETY: `put_whole` asks for what `Backend::put` does, as this function: `len`
            // readable bytes at `src`, and as many in a segment at `dst`, until it returns.
            unsafe { self.put_whole(dst, src, len) }
        }
    }

    /// A put that may not be one through the window, or must not wait inside of MPI.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`].
    #[inline(never)]
    unsafe fn put_with_care(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        if let Some(near) = self.near_place(dst) {
            // SAFETY: `near` is the member's name of the same place in the same segment
            // (`near_place`), and the source is the caller's, so that `put` gets what the caller
            // promises.
            return unsafe { self.member.put(near, src, len) };
        }
        if self.is_polite {
            // SAFETY: `put_politely` asks for what `Backend::put` does, as this function: `len`
            // readable bytes at `src`, and as many in a segment at `dst`, until it returns.
            unsafe { self.put_politely(dst, src, len) }
        } else if len <= Staging::LONGEST {
            // SAFETY: `put_staged` asks for what `Backend::put` does, as this function: `len`
            // readable bytes at `src`, and as many in a segment at `dst`, until it returns.
            unsafe { self.put_staged(dst, src, len) }
        } else {
            // SAFETY: `put_whole` asks for what `Backend::put` does, as this function: `len`
            // readable bytes at `src`, and as many in a segment at `dst`, until it returns.
            unsafe { self.put_whole(dst, src, len) }
        }
    }

    /// A put that waits for MPI to take its source.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`].
    #[inline(never)]
    unsafe fn put_whole(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        let mut mpi = sys::enter()?;
        // SAFETY: the caller promises both places, and the source until this returns, which is
        // after the local completion that `flush_here` waits for.
        unsafe { self.issue_put(&mut mpi, dst, src, len) }?;
        self.flushes.get(&mut mpi).begin(dst.rank.number());
        self.flush_here(&mut mpi, dst.rank.number())
    }

    /// # Safety
    ///
    /// As [`Backend::get`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put")]
    pub(crate) unsafe fn get_bytes(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        if self.is_direct || self.is_polite {
            // SAFETY: `get_with_care` asks for what `Backend::get` does, as this function: `len`
            // bytes in a segment at `src`, and as many writable ones at `dst`, until it returns.
            return unsafe { self.get_with_care(src, dst, len) };
        }
        // SAFETY: `get_whole` asks for what `Backend::get` does, as this function: `len` bytes in a
        // segment at `src`, and as many writable ones at `dst`, until it returns.
        unsafe { self.get_whole(src, dst, len) }
    }

    /// A get that may not be one through the window, or must not wait inside of MPI.
    ///
    /// # Safety
    ///
    /// As [`Backend::get`].
    #[inline(never)]
    unsafe fn get_with_care(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        if let Some(near) = self.near_place(src) {
            // SAFETY: `near` is the member's name of the same place in the same segment
            // (`near_place`), and the destination is the caller's, so that `get` gets what the
            // caller promises.
            return unsafe { self.member.get(near, dst, len) };
        }
        if self.is_polite {
            // SAFETY: `get_politely` asks for what `Backend::get` does, as this function: `len`
            // bytes in a segment at `src`, and as many writable ones at `dst`, until it returns.
            return unsafe { self.get_politely(src, dst, len) };
        }
        // SAFETY: `get_whole` asks for what `Backend::get` does, as this function: `len` bytes in a
        // segment at `src`, and as many writable ones at `dst`, until it returns.
        unsafe { self.get_whole(src, dst, len) }
    }

    /// A get that waits for its bytes inside of MPI.
    ///
    /// # Safety
    ///
    /// As [`Backend::get`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put")]
    unsafe fn get_whole(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        let mut mpi = sys::enter()?;
        // SAFETY: the caller promises both places, and the destination until this returns, which is
        // after the local completion that `flush_here` waits for.
        unsafe { self.issue_get(&mut mpi, src, dst, len) }?;
        self.flush_here(&mut mpi, src.rank.number())
    }

    /// # Safety
    ///
    /// As [`Backend::put`].
    #[cold]
    unsafe fn put_politely(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: the caller promises both places, and the source until this returns, which is
        // after `wait_politely` has seen that the source is free.
        let op = unsafe { self.begin_put(dst, src, len) }?;
        self.wait_politely(op, Stage::Source)
    }

    /// # Safety
    ///
    /// As [`Backend::get`].
    #[cold]
    unsafe fn get_politely(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        // SAFETY: the caller promises both places, and the destination until this returns, which is
        // after `wait_politely` has seen that the operation is complete, or has failed and is over.
        let op = unsafe { self.begin_get(src, dst, len) }?;
        self.wait_politely(op, Stage::Operation)
    }

    /// # Safety
    ///
    /// As [`Backend::put_nb`].
    pub(crate) unsafe fn begin_put(
        &self,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<OpId> {
        if let Some(near) = self.near_place(dst) {
            // SAFETY: `near` is the member's name of the same place in the same segment
            // (`near_place`), and the source is the caller's, so that `put_nb` gets what the caller
            // promises.
            return unsafe { self.member.put_nb(near, src, len) };
        }
        if len <= SHORT && !self.is_polite {
            let mut mpi = sys::enter()?;
            // SAFETY: the caller promises both places, and the source until it is reported free,
            // which for a plain put is after a local flush: after local completion.
            return Ok(unsafe { self.leave_put(&mut mpi, dst, src, len) }?.id());
        }
        // SAFETY: `request_put` asks for what `Backend::put_nb` does, as this function.
        unsafe { self.request_put(dst, src, len) }
    }

    /// Begins a put that can be tested, if there may be one more of these.
    ///
    /// # Safety
    ///
    /// As [`Backend::put_nb`].
    #[inline(never)]
    unsafe fn request_put(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<OpId> {
        let mut state = self.state();
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, dst.rank.number())?;
        let Some(index) = state.ops.reserve() else {
            // SAFETY: the caller promises both places, and the source until it is reported free,
            // which for a plain put is after a local flush: after local completion.
            return Ok(unsafe { self.leave_put(&mut mpi, dst, src, len) }?.id());
        };
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: byte,
        };
        // SAFETY: the caller promises both places, until the request is complete.
        match unsafe { sys::rput(&mpi, &self.window, src, target_of(dst), layout) } {
            Ok(request) => {
                let rank = dst.rank.number();
                let n_flushes = self.flushes.get(&mut mpi).begin(rank);
                let flight = Flight::Put {
                    request,
                    rank,
                    n_flushes,
                    behind: None,
                };
                Ok(state.ops.begin(index, flight))
            }
            Err(error) => {
                state.ops.release(index);
                Err(error)
            }
        }
    }

    /// # Safety
    ///
    /// As [`Backend::get_nb`].
    pub(crate) unsafe fn begin_get(
        &self,
        src: RemoteAddr,
        dst: *mut u8,
        len: usize,
    ) -> Result<OpId> {
        if let Some(near) = self.near_place(src) {
            // SAFETY: `near` is the member's name of the same place in the same segment
            // (`near_place`), and the destination is the caller's, so that `get_nb` gets what the
            // caller promises.
            return unsafe { self.member.get_nb(near, dst, len) };
        }
        if len <= SHORT && !self.is_polite {
            let mut mpi = sys::enter()?;
            // SAFETY: the caller promises both places, and the destination until the operation is
            // reported, which for a plain get is after a local flush: after local completion.
            return Ok(unsafe { self.leave_get(&mut mpi, src, dst, len) }?.id());
        }
        // SAFETY: `request_get` asks for what `Backend::get_nb` does, as this function.
        unsafe { self.request_get(src, dst, len) }
    }

    /// Begins a get that can be tested, if there may be one more of these.
    ///
    /// # Safety
    ///
    /// As [`Backend::get_nb`].
    #[inline(never)]
    unsafe fn request_get(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<OpId> {
        let mut state = self.state();
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, src.rank.number())?;
        let Some(index) = state.ops.reserve() else {
            // SAFETY: the caller promises both places, and the destination until the operation is
            // reported, which for a plain get is after a local flush: after local completion.
            return Ok(unsafe { self.leave_get(&mut mpi, src, dst, len) }?.id());
        };
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: byte,
        };
        // SAFETY: the caller promises both places, until the request is complete.
        match unsafe { sys::rget(&mpi, &self.window, dst, target_of(src), layout) } {
            Ok(request) => Ok(state.ops.begin(index, Flight::Get { request })),
            Err(error) => {
                state.ops.release(index);
                Err(error)
            }
        }
    }
}
