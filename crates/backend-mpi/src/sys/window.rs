//! Windows and one-sided calls.
#![expect(unsafe_code, reason = "lends buffers and segments to MPI")]

use std::ffi::c_int;

use mpi::ffi;
use pgas_core::Result;

use super::ffi::{
    MPI_Win_flush, MPI_Win_flush_all, MPI_Win_flush_local, MPI_Win_flush_local_all, MPI_Win_free,
    MPI_Win_lock_all, MPI_Win_set_errhandler, MPI_Win_unlock_all, RSMPI_BAND, RSMPI_BOR,
    RSMPI_BXOR, RSMPI_ERRORS_RETURN, RSMPI_MAX, RSMPI_MIN, RSMPI_SUM, pgas_mpi_is_unified,
    pgas_mpi_no_op, pgas_mpi_replace,
};
use super::{Call, Comm, Datatype, Info, Mpi, Request, Window, begin_wait, check};

/// What an accumulating call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Nothing,
    Replace,
    Sum,
    And,
    Or,
    Xor,
    Min,
    Max,
}

impl Op {
    fn raw(self) -> ffi::MPI_Op {
        let op = match self {
            Self::Nothing => &pgas_mpi_no_op,
            Self::Replace => &pgas_mpi_replace,
            Self::Sum => &RSMPI_SUM,
            Self::And => &RSMPI_BAND,
            Self::Or => &RSMPI_BOR,
            Self::Xor => &RSMPI_BXOR,
            Self::Min => &RSMPI_MIN,
            Self::Max => &RSMPI_MAX,
        };
        op.raw()
    }
}

/// A place in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) rank: c_int,
    pub(crate) offset: u64,
}

impl Target {
    #[inline]
    fn disp(self) -> ffi::MPI_Aint {
        ffi::MPI_Aint::try_from(self.offset).expect("a segment has at most a terabyte")
    }
}

/// So many elements of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) count: c_int,
    pub(crate) ty: &'a Datatype,
}

/// Exposes `bytes` bytes at `base`, and opens access to what the other ranks expose, until the window is freed;
/// collective.
///
/// # Safety
///
/// The memory stays mapped and writable until [`win_free`].
pub(crate) unsafe fn win_create(
    _: &Mpi,
    comm: &Comm,
    (base, bytes): (*mut u8, u64),
    hints: &Info,
) -> Result<Window> {
    let mut window = Window::null();
    let bytes = ffi::MPI_Aint::try_from(bytes).expect("a segment has at most a terabyte");
    let (of, info, to) = (comm.raw(), hints.raw(), window.place());
    begin_wait(Call::WinCreate, None);
    // SAFETY: MPI reads and writes the `bytes` bytes at `base` until the window is freed, for as
    // long as which the caller promises them. The window's name is written during the call.
    let code = unsafe { ffi::MPI_Win_create(base.cast(), bytes, 1, info, of, to) };
    check(Call::WinCreate, code)?;
    let code = MPI_Win_set_errhandler(window.handle(), RSMPI_ERRORS_RETURN.handle());
    check(Call::WinSetErrhandler, code)?;
    // Nobody locks it otherwise.
    let no_check = c_int::try_from(ffi::MPI_MODE_NOCHECK).expect("a small flag");
    let code = MPI_Win_lock_all(no_check, window.handle());
    check(Call::WinLockAll, code)?;
    Ok(window)
}

/// Whether what is put into a window's memory is seen by plain loads without further calls.
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
    check(Call::WinFree, MPI_Win_free(window))
}

/// # Safety
///
/// `src` is readable for the layout `from` until local completion, and `to` lies in the window.
#[inline]
pub(crate) unsafe fn put(
    _: &Mpi,
    window: &Window,
    (src, from): (*const u8, Layout<'_>),
    (dst, to): (Target, Layout<'_>),
) -> Result<()> {
    // SAFETY: the caller promises the memory; the window is locked for all ranks.
    let code = unsafe {
        ffi::MPI_Put(
            src.cast(),
            from.count,
            from.ty.raw(),
            dst.rank,
            dst.disp(),
            to.count,
            to.ty.raw(),
            window.raw(),
        )
    };
    check(Call::Put, code)
}

/// # Safety
///
/// `dst` is writable for the layout `to` until local completion, and `from` lies in the window.
#[inline]
pub(crate) unsafe fn get(
    _: &Mpi,
    window: &Window,
    (dst, to): (*mut u8, Layout<'_>),
    (src, from): (Target, Layout<'_>),
) -> Result<()> {
    // SAFETY: the caller promises the memory; the window is locked for all ranks.
    let code = unsafe {
        ffi::MPI_Get(
            dst.cast(),
            to.count,
            to.ty.raw(),
            src.rank,
            src.disp(),
            from.count,
            from.ty.raw(),
            window.raw(),
        )
    };
    check(Call::Get, code)
}

/// # Safety
///
/// As [`put`], until the request is complete.
pub(crate) unsafe fn rput(
    _: &Mpi,
    window: &Window,
    src: *const u8,
    dst: Target,
    bytes: Layout<'_>,
) -> Result<Request> {
    let mut request = Request::null();
    // SAFETY: the caller promises the memory; the window is locked for all ranks.
    let code = unsafe {
        ffi::MPI_Rput(
            src.cast(),
            bytes.count,
            bytes.ty.raw(),
            dst.rank,
            dst.disp(),
            bytes.count,
            bytes.ty.raw(),
            window.raw(),
            request.place(),
        )
    };
    check(Call::Rput, code)?;
    Ok(request)
}

/// # Safety
///
/// As [`get`], until the request is complete.
pub(crate) unsafe fn rget(
    _: &Mpi,
    window: &Window,
    dst: *mut u8,
    src: Target,
    bytes: Layout<'_>,
) -> Result<Request> {
    let mut request = Request::null();
    // SAFETY: the caller promises the memory; the window is locked for all ranks.
    let code = unsafe {
        ffi::MPI_Rget(
            dst.cast(),
            bytes.count,
            bytes.ty.raw(),
            src.rank,
            src.disp(),
            bytes.count,
            bytes.ty.raw(),
            window.raw(),
            request.place(),
        )
    };
    check(Call::Rget, code)?;
    Ok(request)
}

/// # Safety
///
/// `target` is an element of the type in the window; one is readable at `operand` and writable at `result`, until
/// local completion.
#[inline]
pub(crate) unsafe fn fetch_and_op(
    _: &Mpi,
    window: &Window,
    (op, ty): (Op, &Datatype),
    target: Target,
    operand: *const u64,
    result: *mut u64,
) -> Result<()> {
    // SAFETY: the caller promises the memory; the window is locked for all ranks.
    let code = unsafe {
        ffi::MPI_Fetch_and_op(
            operand.cast(),
            result.cast(),
            ty.raw(),
            target.rank,
            target.disp(),
            op.raw(),
            window.raw(),
        )
    };
    check(Call::FetchAndOp, code)
}

/// # Safety
///
/// As [`fetch_and_op`], until the request is complete.
pub(crate) unsafe fn rget_accumulate(
    _: &Mpi,
    window: &Window,
    (op, ty): (Op, &Datatype),
    target: Target,
    operand: *const u64,
    result: *mut u64,
) -> Result<Request> {
    let mut request = Request::null();
    // SAFETY: the caller promises the memory; the window is locked for all ranks.
    let code = unsafe {
        ffi::MPI_Rget_accumulate(
            operand.cast(),
            1,
            ty.raw(),
            result.cast(),
            1,
            ty.raw(),
            target.rank,
            target.disp(),
            1,
            ty.raw(),
            op.raw(),
            window.raw(),
            request.place(),
        )
    };
    check(Call::RgetAccumulate, code)?;
    Ok(request)
}

/// # Safety
///
/// As [`fetch_and_op`], without a result.
pub(crate) unsafe fn accumulate(
    _: &Mpi,
    window: &Window,
    (op, ty): (Op, &Datatype),
    target: Target,
    operand: *const u64,
) -> Result<()> {
    // SAFETY: the caller promises the memory; the window is locked for all ranks.
    let code = unsafe {
        ffi::MPI_Accumulate(
            operand.cast(),
            1,
            ty.raw(),
            target.rank,
            target.disp(),
            1,
            ty.raw(),
            op.raw(),
            window.raw(),
        )
    };
    check(Call::Accumulate, code)
}

/// # Safety
///
/// As [`fetch_and_op`], with one more element readable at `expected`.
#[inline]
pub(crate) unsafe fn compare_and_swap(
    _: &Mpi,
    window: &Window,
    ty: &Datatype,
    target: Target,
    (expected, desired): (*const u64, *const u64),
    result: *mut u64,
) -> Result<()> {
    // SAFETY: the caller promises the memory; the window is locked for all ranks.
    let code = unsafe {
        ffi::MPI_Compare_and_swap(
            desired.cast(),
            expected.cast(),
            result.cast(),
            ty.raw(),
            target.rank,
            target.disp(),
            window.raw(),
        )
    };
    check(Call::CompareAndSwap, code)
}

/// Completes this process's operations on `rank`, there and here.
#[inline]
pub(crate) fn flush(_: &Mpi, window: &Window, rank: c_int) -> Result<()> {
    begin_wait(Call::WinFlush, Some(rank));
    check(Call::WinFlush, MPI_Win_flush(rank, window.handle()))
}

/// Completes this process's operations on `rank`, here.
#[inline]
pub(crate) fn flush_local(_: &Mpi, window: &Window, rank: c_int) -> Result<()> {
    begin_wait(Call::WinFlushLocal, Some(rank));
    let code = MPI_Win_flush_local(rank, window.handle());
    check(Call::WinFlushLocal, code)
}

/// Completes all of this process's operations, here.
pub(crate) fn flush_local_all(_: &Mpi, window: &Window) -> Result<()> {
    begin_wait(Call::WinFlushLocalAll, None);
    let code = MPI_Win_flush_local_all(window.handle());
    check(Call::WinFlushLocalAll, code)
}

/// Completes all of this process's operations, there and here.
pub(crate) fn flush_all(_: &Mpi, window: &Window) -> Result<()> {
    begin_wait(Call::WinFlushAll, None);
    check(Call::WinFlushAll, MPI_Win_flush_all(window.handle()))
}
