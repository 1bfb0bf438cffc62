//! Windows and one-sided calls.
#![expect(unsafe_code, reason = "lends buffers and segments to MPI")]

use std::ffi::c_int;
use std::sync::Arc;

use mpi::ffi;
use pgas_core::backend::Backend as _;
use pgas_core::backend::{Get, Put, RemoteAddr};
use pgas_core::{Rank, Result};
use pgas_smp::Member;

use super::ffi::{
    Handle, MPI_Win_flush, MPI_Win_flush_all, MPI_Win_flush_local, MPI_Win_flush_local_all,
    MPI_Win_free, MPI_Win_lock_all, MPI_Win_set_errhandler, MPI_Win_unlock_all,
    RSMPI_ERRORS_RETURN, Windows, pgas_mpi_is_unified,
};
use super::{Call, Comm, Datatype, Info, Mpi, Request, begin_wait, check};

/// The rank and the offset of an address, as MPI's types.
#[inline]
fn target(at: RemoteAddr) -> (c_int, ffi::MPI_Aint) {
    let rank = c_int::try_from(at.rank.number()).expect("MPI counts its ranks with such integers");
    let disp = ffi::MPI_Aint::try_from(at.offset).expect("a segment has at most a terabyte");
    (rank, disp)
}

/// A number of bytes as MPI's type. It fits, since core cuts longer transfers.
#[inline]
pub(crate) fn count_of(len: usize) -> c_int {
    c_int::try_from(len).expect("core keeps to max_transfer")
}

/// A number of elements of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) count: c_int,
    pub(crate) ty: &'a Datatype,
}

impl Layout<'_> {
    fn raw(self) -> (c_int, ffi::MPI_Datatype) {
        (self.count, self.ty.raw())
    }
}

/// A window over each rank's segment, with the memory that this rank's lies in: it is kept until
/// the window is freed, or for ever.
#[derive(Debug)]
pub(crate) struct Window {
    of_mpi: super::ffi::Window,
    memory: Option<Arc<Member>>,
}

impl Window {
    #[inline]
    fn handle(&self) -> Handle<'_, Windows> {
        self.of_mpi.handle()
    }

    #[inline]
    fn raw(&self) -> ffi::MPI_Win {
        self.of_mpi.raw()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // MPI may still read and write it.
        let _ = self.memory.take().map(Arc::into_raw);
    }
}

/// Exposes the segment of `rank`, by its number on this host, and opens access to the segments of
/// the other ranks, until the window is freed; collective.
pub(crate) fn win_create(
    _: &Mpi,
    comm: &Comm,
    (member, rank): (&Arc<Member>, Rank),
    hints: &Info,
) -> Result<Window> {
    let base = member
        .mapped(rank)
        .expect("a segment of this host")
        .as_ptr();
    let bytes = ffi::MPI_Aint::try_from(member.segment_bytes());
    let bytes = bytes.expect("a segment has at most a terabyte");
    let mut window = super::ffi::Window::null();
    let (of, info, to) = (comm.raw(), hints.raw(), window.place());
    begin_wait(Call::WinCreate, None);
    // SAFETY: MPI reads and writes the `bytes` bytes at `base`, a segment, until the window is
    // freed. It is mapped as long as the member lives, which the window keeps for so long, or for
    // ever, as here below. The window's name is written during the call.
    let code = unsafe { ffi::MPI_Win_create(base.cast(), bytes, 1, info, of, to) };
    check(Call::WinCreate, code)?;
    let window = Window {
        of_mpi: window,
        memory: Some(Arc::clone(member)),
    };
    let code = MPI_Win_set_errhandler(window.handle(), RSMPI_ERRORS_RETURN.handle());
    check(Call::WinSetErrhandler, code)?;
    // No rank locks it otherwise.
    let no_check = c_int::try_from(ffi::MPI_MODE_NOCHECK).expect("a small flag");
    let code = MPI_Win_lock_all(no_check, window.handle());
    check(Call::WinLockAll, code)?;
    Ok(window)
}

/// Whether plain loads see puts into a window's memory without further calls.
pub(crate) fn win_is_unified(_: &Mpi, window: &Window) -> Result<bool> {
    let mut flag: c_int = 0;
    let code = pgas_mpi_is_unified(window.handle(), &mut flag);
    check(Call::WinGetAttr, code)?;
    Ok(flag != 0)
}

/// Completes everything and ends the window, which is locked since its creation; collective.
pub(crate) fn win_free(_: &Mpi, window: &mut Window) -> Result<()> {
    begin_wait(Call::WinFree, None);
    check(Call::WinUnlockAll, MPI_Win_unlock_all(window.handle()))?;
    check(Call::WinFree, MPI_Win_free(&mut window.of_mpi))?;
    window.memory = None;
    Ok(())
}

/// Begins a put, whose source is MPI's until local completion.
#[inline]
pub(crate) fn put(_: &Mpi, window: &Window, put: &Put) -> Result<()> {
    let ((rank, at), n) = (target(put.dst()), count_of(put.len()));
    let (src, ty, window) = (put.src().cast(), Datatype::byte().raw(), window.raw());
    // SAFETY: MPI reads `n` bytes at `src` until local completion: the maker of the put promised
    // them until the transport reports that the source is free, which this one does after local
    // completion. As many bytes from `at` on lie in a segment, by the same promise, and the window
    // covers all of each segment.
    let code = unsafe { ffi::MPI_Put(src, n, ty, rank, at, n, ty, window) };
    check(Call::Put, code)
}

/// Begins a get, whose destination is MPI's until local completion.
#[inline]
pub(crate) fn get(_: &Mpi, window: &Window, get: &Get) -> Result<()> {
    let ((rank, at), n) = (target(get.src()), count_of(get.len()));
    let (dst, ty, window) = (get.dst().cast(), Datatype::byte().raw(), window.raw());
    // SAFETY: as for `put`: MPI writes `n` bytes at `dst`, which are the transport's until it
    // reports the operation, after local completion.
    let code = unsafe { ffi::MPI_Get(dst, n, ty, rank, at, n, ty, window) };
    check(Call::Get, code)
}

/// Begins one put of several pieces, whose places the layouts give relative to the first ones.
///
/// # Safety
///
/// Each piece is one of a put that the transport was given, whose source it does not report as free
/// before local completion.
pub(crate) unsafe fn put_pieces(
    _: &Mpi,
    window: &Window,
    (src, from): (*const u8, Layout<'_>),
    (dst, to): (RemoteAddr, Layout<'_>),
) -> Result<()> {
    let ((rank, at), src, window) = (target(dst), src.cast(), window.raw());
    let ((n, ty), (m, as_ty)) = (from.raw(), to.raw());
    // SAFETY: MPI reads the bytes of the pieces' sources until local completion, and writes those
    // of their places in segments, all of which are in the window: the makers of the puts promised
    // both. The types are made, and freed by nobody during the call.
    let code = unsafe { ffi::MPI_Put(src, n, ty, rank, at, m, as_ty, window) };
    check(Call::Put, code)
}

/// Begins one get of several pieces, whose places the layouts give relative to the first ones.
///
/// # Safety
///
/// Each piece is one of a get that the transport was given, which it does not report before local
/// completion.
pub(crate) unsafe fn get_pieces(
    _: &Mpi,
    window: &Window,
    (dst, to): (*mut u8, Layout<'_>),
    (src, from): (RemoteAddr, Layout<'_>),
) -> Result<()> {
    let ((rank, at), dst, window) = (target(src), dst.cast(), window.raw());
    let ((n, ty), (m, as_ty)) = (to.raw(), from.raw());
    // SAFETY: as for `put_pieces`, in the other direction.
    let code = unsafe { ffi::MPI_Get(dst, n, ty, rank, at, m, as_ty, window) };
    check(Call::Get, code)
}

/// As [`put`], with a request; complete with it.
pub(crate) fn rput(_: &Mpi, window: &Window, put: &Put) -> Result<Request> {
    let mut request = Request::null();
    let ((rank, at), n) = (target(put.dst()), count_of(put.len()));
    let (src, ty, window) = (put.src().cast(), Datatype::byte().raw(), window.raw());
    // SAFETY: as for `put`; the source is reported as free after the request is complete.
    let code = unsafe { ffi::MPI_Rput(src, n, ty, rank, at, n, ty, window, request.place()) };
    check(Call::Rput, code)?;
    Ok(request)
}

/// As [`get`], with a request; complete with it.
pub(crate) fn rget(_: &Mpi, window: &Window, get: &Get) -> Result<Request> {
    let mut request = Request::null();
    let ((rank, at), n) = (target(get.src()), count_of(get.len()));
    let (dst, ty, window) = (get.dst().cast(), Datatype::byte().raw(), window.raw());
    // SAFETY: as for `get`; the operation is reported after the request is complete.
    let code = unsafe { ffi::MPI_Rget(dst, n, ty, rank, at, n, ty, window, request.place()) };
    check(Call::Rget, code)?;
    Ok(request)
}

/// A read of the first word of a rank's segment, which the rank's progress answers after all
/// earlier operations. It owns the word that MPI writes to.
#[derive(Debug)]
pub(crate) struct Probe {
    request: Request,
    /// The result. A vector, since MPI writes to its memory while it is moved.
    word: Vec<u64>,
}

impl Probe {
    pub(crate) fn begin(mpi: &Mpi, window: &Window, rank: Rank) -> Result<Self> {
        let mut word = vec![0];
        let first = RemoteAddr { rank, offset: 0 };
        // SAFETY: every segment has a first word. The other place is the probe's, which keeps it
        // until the request is complete, or for ever.
        let get = unsafe { Get::new(first, word.as_mut_ptr().cast(), size_of::<u64>()) };
        let request = rget(mpi, window, &get)?;
        Ok(Self { request, word })
    }

    /// Whether it was answered.
    pub(crate) fn test(&mut self, mpi: &Mpi) -> Result<bool> {
        super::test(mpi, &mut self.request)
    }
}

impl Drop for Probe {
    /// The word of an abandoned probe is left to MPI for ever.
    fn drop(&mut self) {
        if !self.request.is_null() {
            std::mem::take(&mut self.word).leak();
        }
    }
}

/// Completes this process's operations on `rank`, at the target and locally.
#[inline]
pub(crate) fn flush(_: &Mpi, window: &Window, rank: c_int) -> Result<()> {
    begin_wait(Call::WinFlush, Some(rank));
    check(Call::WinFlush, MPI_Win_flush(rank, window.handle()))
}

/// Completes this process's operations on `rank` locally.
#[inline]
pub(crate) fn flush_local(_: &Mpi, window: &Window, rank: c_int) -> Result<()> {
    begin_wait(Call::WinFlushLocal, Some(rank));
    let code = MPI_Win_flush_local(rank, window.handle());
    check(Call::WinFlushLocal, code)
}

/// Completes all of this process's operations locally.
pub(crate) fn flush_local_all(_: &Mpi, window: &Window) -> Result<()> {
    begin_wait(Call::WinFlushLocalAll, None);
    let code = MPI_Win_flush_local_all(window.handle());
    check(Call::WinFlushLocalAll, code)
}

/// Completes all of this process's operations, at the targets and locally.
pub(crate) fn flush_all(_: &Mpi, window: &Window) -> Result<()> {
    begin_wait(Call::WinFlushAll, None);
    check(Call::WinFlushAll, MPI_Win_flush_all(window.handle()))
}
