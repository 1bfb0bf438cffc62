//! Windows and one-sided calls.

use std::ffi::c_int;

use mpi::ffi;
use pgas_core::Result;

use super::info::Info;
use super::{Call, Comm, Datatype, Mpi, Request, begin_wait, check};

/// A window over each rank's segment, locked for all ranks from its creation to its end.
#[derive(Debug)]
pub(crate) struct Window(ffi::MPI_Win);

// SAFETY: a handle is a name for something inside of MPI, which is the same for every thread.
unsafe impl Send for Window {}
// SAFETY: as for `Send`; calls that use it are serialised by `Mpi`.
unsafe impl Sync for Window {}

unsafe extern "C" {
    static pgas_mpi_no_op: ffi::MPI_Op;
    static pgas_mpi_replace: ffi::MPI_Op;
    fn pgas_mpi_is_unified(window: ffi::MPI_Win, is_unified: *mut c_int) -> c_int;
}

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
        match self {
            // SAFETY: a constant of the shim.
            Self::Nothing => unsafe { pgas_mpi_no_op },
            // SAFETY: a constant of the shim.
            Self::Replace => unsafe { pgas_mpi_replace },
            // SAFETY: a constant of the library.
            Self::Sum => unsafe { ffi::RSMPI_SUM },
            // SAFETY: a constant of the library.
            Self::And => unsafe { ffi::RSMPI_BAND },
            // SAFETY: a constant of the library.
            Self::Or => unsafe { ffi::RSMPI_BOR },
            // SAFETY: a constant of the library.
            Self::Xor => unsafe { ffi::RSMPI_BXOR },
            // SAFETY: a constant of the library.
            Self::Min => unsafe { ffi::RSMPI_MIN },
            // SAFETY: a constant of the library.
            Self::Max => unsafe { ffi::RSMPI_MAX },
        }
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
    // SAFETY: a constant of the library.
    let mut window = unsafe { ffi::RSMPI_WIN_NULL };
    let bytes = ffi::MPI_Aint::try_from(bytes).expect("a segment has at most a terabyte");
    let (info, to) = (hints.0, &raw mut window);
    begin_wait(Call::WinCreate, None);
    // SAFETY: the caller promises the memory; the communicator and the hints are valid and `window` writable.
    let code = unsafe { ffi::MPI_Win_create(base.cast(), bytes, 1, info, comm.0, to) };
    check(Call::WinCreate, code)?;
    // SAFETY: a constant of the library.
    let errors_return = unsafe { ffi::RSMPI_ERRORS_RETURN };
    // SAFETY: the window was made just now.
    let code = unsafe { ffi::MPI_Win_set_errhandler(window, errors_return) };
    check(Call::WinSetErrhandler, code)?;
    let no_check = c_int::try_from(ffi::MPI_MODE_NOCHECK).expect("a small flag");
    // SAFETY: the window was made just now, and nobody locks it otherwise.
    check(Call::WinLockAll, unsafe {
        ffi::MPI_Win_lock_all(no_check, window)
    })?;
    Ok(Window(window))
}

/// Whether what is put into a window's memory is seen by plain loads without further calls.
pub(crate) fn win_is_unified(_: &Mpi, window: &Window) -> Result<bool> {
    let mut flag: c_int = 0;
    // SAFETY: the window is valid and the flag writable.
    let code = unsafe { pgas_mpi_is_unified(window.0, &raw mut flag) };
    check(Call::WinGetAttr, code)?;
    Ok(flag != 0)
}

/// Completes everything and ends the window; collective.
pub(crate) fn win_free(_: &Mpi, window: &mut Window) -> Result<()> {
    begin_wait(Call::WinFree, None);
    // SAFETY: the window is locked for all ranks since its creation.
    check(Call::WinUnlockAll, unsafe {
        ffi::MPI_Win_unlock_all(window.0)
    })?;
    // SAFETY: the handle is valid; it is null afterwards.
    check(Call::WinFree, unsafe {
        ffi::MPI_Win_free(&raw mut window.0)
    })
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
            from.ty.0,
            dst.rank,
            dst.disp(),
            to.count,
            to.ty.0,
            window.0,
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
            to.ty.0,
            src.rank,
            src.disp(),
            from.count,
            from.ty.0,
            window.0,
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
            bytes.ty.0,
            dst.rank,
            dst.disp(),
            bytes.count,
            bytes.ty.0,
            window.0,
            &raw mut request.0,
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
            bytes.ty.0,
            src.rank,
            src.disp(),
            bytes.count,
            bytes.ty.0,
            window.0,
            &raw mut request.0,
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
            ty.0,
            target.rank,
            target.disp(),
            op.raw(),
            window.0,
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
            ty.0,
            result.cast(),
            1,
            ty.0,
            target.rank,
            target.disp(),
            1,
            ty.0,
            op.raw(),
            window.0,
            &raw mut request.0,
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
            ty.0,
            target.rank,
            target.disp(),
            1,
            ty.0,
            op.raw(),
            window.0,
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
            ty.0,
            target.rank,
            target.disp(),
            window.0,
        )
    };
    check(Call::CompareAndSwap, code)
}

/// Completes this process's operations on `rank`, there and here.
#[inline]
pub(crate) fn flush(_: &Mpi, window: &Window, rank: c_int) -> Result<()> {
    begin_wait(Call::WinFlush, Some(rank));
    // SAFETY: the window is locked for all ranks.
    check(Call::WinFlush, unsafe {
        ffi::MPI_Win_flush(rank, window.0)
    })
}

/// Completes this process's operations on `rank`, here.
#[inline]
pub(crate) fn flush_local(_: &Mpi, window: &Window, rank: c_int) -> Result<()> {
    begin_wait(Call::WinFlushLocal, Some(rank));
    // SAFETY: the window is locked for all ranks.
    check(Call::WinFlushLocal, unsafe {
        ffi::MPI_Win_flush_local(rank, window.0)
    })
}

/// Completes all of this process's operations, here.
pub(crate) fn flush_local_all(_: &Mpi, window: &Window) -> Result<()> {
    begin_wait(Call::WinFlushLocalAll, None);
    // SAFETY: the window is locked for all ranks.
    check(Call::WinFlushLocalAll, unsafe {
        ffi::MPI_Win_flush_local_all(window.0)
    })
}

/// Completes all of this process's operations, there and here.
pub(crate) fn flush_all(_: &Mpi, window: &Window) -> Result<()> {
    begin_wait(Call::WinFlushAll, None);
    // SAFETY: the window is locked for all ranks.
    check(Call::WinFlushAll, unsafe {
        ffi::MPI_Win_flush_all(window.0)
    })
}
