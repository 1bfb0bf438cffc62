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
        // SAFETY: the caller's promises are the same.
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
            ty: &byte,
        };
        let to = (target_of(dst), layout);
        // SAFETY: the caller's promises are the same.
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
        // SAFETY: the caller's promises are the same.
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
            ty: &byte,
        };
        let from = (target_of(src), layout);
        self.turn_to(mpi, src.rank.number())?;
        // SAFETY: the caller's promises are the same.
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
        // SAFETY: the caller's promises are the same.
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
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_with_care(dst, src, len) }
        } else if len <= Staging::LONGEST {
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_staged(dst, src, len) }
        } else {
            // SAFETY: the caller's promises are the same.
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
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.put(near, src, len) };
        }
        if self.is_polite {
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_politely(dst, src, len) }
        } else if len <= Staging::LONGEST {
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_staged(dst, src, len) }
        } else {
            // SAFETY: the caller's promises are the same.
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
        // SAFETY: the caller's promises are the same; the source outlives the local completion below.
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
            // SAFETY: the caller's promises are the same.
            return unsafe { self.get_with_care(src, dst, len) };
        }
        // SAFETY: the caller's promises are the same.
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
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.get(near, dst, len) };
        }
        if self.is_polite {
            // SAFETY: the caller's promises are the same.
            return unsafe { self.get_politely(src, dst, len) };
        }
        // SAFETY: the caller's promises are the same.
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
        // SAFETY: the caller's promises are the same; the destination outlives the local completion below.
        unsafe { self.issue_get(&mut mpi, src, dst, len) }?;
        self.flush_here(&mut mpi, src.rank.number())
    }

    /// # Safety
    ///
    /// As [`Backend::put`].
    #[cold]
    unsafe fn put_politely(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: the caller's promises are the same; the source outlives the waiting below.
        let op = unsafe { self.begin_put(dst, src, len) }?;
        self.wait_politely(op, Stage::Source)
    }

    /// # Safety
    ///
    /// As [`Backend::get`].
    #[cold]
    unsafe fn get_politely(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        // SAFETY: the caller's promises are the same; the destination outlives the waiting below.
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
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.put_nb(near, src, len) };
        }
        if len <= SHORT && !self.is_polite {
            let mut mpi = sys::enter()?;
            // SAFETY: the caller's promises are the same.
            return Ok(unsafe { self.leave_put(&mut mpi, dst, src, len) }?.id());
        }
        // SAFETY: the caller's promises are the same.
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
            // SAFETY: the caller's promises are the same; the source outlives the completion below.
            return Ok(unsafe { self.leave_put(&mut mpi, dst, src, len) }?.id());
        };
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: &byte,
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
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.get_nb(near, dst, len) };
        }
        if len <= SHORT && !self.is_polite {
            let mut mpi = sys::enter()?;
            // SAFETY: the caller's promises are the same.
            return Ok(unsafe { self.leave_get(&mut mpi, src, dst, len) }?.id());
        }
        // SAFETY: the caller's promises are the same.
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
            // SAFETY: the caller's promises are the same.
            return Ok(unsafe { self.leave_get(&mut mpi, src, dst, len) }?.id());
        };
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: &byte,
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
