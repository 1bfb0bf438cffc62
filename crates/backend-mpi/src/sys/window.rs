//! Windows and one-sided calls.
#![expect(unsafe_code, reason = "lends buffers and segments to MPI")]

use std::ffi::c_int;
use std::sync::Arc;

use mpi::ffi;
use pgas_core::backend::Backend as _;
use pgas_core::backend::{
    self, Atomic, AtomicCall, AtomicOp, AtomicType, Get, Put, RemoteAddr, SwapCall,
};
use pgas_core::{Rank, Result};
use pgas_smp::Member;

use super::ffi::{
    Handle, MPI_Win_flush, MPI_Win_flush_all, MPI_Win_flush_local, MPI_Win_flush_local_all,
    MPI_Win_free, MPI_Win_lock_all, MPI_Win_set_errhandler, MPI_Win_unlock_all, RSMPI_BAND,
    RSMPI_BOR, RSMPI_BXOR, RSMPI_ERRORS_RETURN, RSMPI_MAX, RSMPI_MIN, RSMPI_SUM, Windows,
    pgas_mpi_is_unified, pgas_mpi_no_op, pgas_mpi_replace,
};
use super::{Call, Comm, Datatype, Info, Mpi, Request, begin_wait, check};

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

/// A rank and an offset as MPI has them.
#[inline]
fn target(at: RemoteAddr) -> (c_int, ffi::MPI_Aint) {
    let rank = c_int::try_from(at.rank.number()).expect("MPI counts its ranks with such integers");
    let disp = ffi::MPI_Aint::try_from(at.offset).expect("a segment has at most a terabyte");
    (rank, disp)
}

/// So many bytes as MPI has them: core cuts transfers to what fits.
#[inline]
pub(crate) fn count_of(len: usize) -> c_int {
    c_int::try_from(len).expect("core keeps to max_transfer")
}

/// So many elements of a type.
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

/// Exposes the segment of the rank of this host that `rank` is there, and opens access to what the
/// other ranks expose, until the window is freed; collective.
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
    check(Call::WinFree, MPI_Win_free(&mut window.of_mpi))?;
    window.memory = None;
    Ok(())
}

/// Begins a put, whose source is MPI's until local completion.
#[inline]
pub(crate) fn put(_: &Mpi, window: &Window, put: &Put) -> Result<()> {
    let ((rank, at), n) = (target(put.dst()), count_of(put.len()));
    let (src, ty, window) = (put.src().cast(), Datatype::byte().raw(), window.raw());
    // SAFETY: MPI reads `n` bytes at `src` until local completion: who made the put promised them
    // until the transport reports that the source is free, which this one does after local
    // completion. As many bytes from `at` on lie in a segment, by the same promise, and the window
    // is all of each segment.
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

/// Begins one put of several pieces, which are where the layouts say from the first ones on.
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

/// Begins one get of several pieces, which are where the layouts say from the first ones on.
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

/// How MPI does an atomic: the operator, and the type of the word.
pub(crate) type By<'a> = (Op, &'a Datatype);

/// Begins an atomic on `word`, of which `by` has the type.
///
/// # Safety
///
/// A word is readable at `operand` and writable at `former`, both until local completion.
#[inline]
pub(crate) unsafe fn fetch_and_op<C: backend::Call>(
    _: &Mpi,
    window: &Window,
    (op, ty): By<'_>,
    word: &Atomic<C>,
    (operand, former): (*const u64, *mut u64),
) -> Result<()> {
    let ((rank, at), ty, op) = (target(word.target()), ty.raw(), op.raw());
    let (operand, former, window) = (operand.cast(), former.cast(), window.raw());
    // SAFETY: the caller promises both words until local completion. That of the target is aligned
    // for its type and lies in a segment, as who made the operand promised, and so in the window.
    let code = unsafe { ffi::MPI_Fetch_and_op(operand, former, ty, rank, at, op, window) };
    check(Call::FetchAndOp, code)
}

/// As [`fetch_and_op`], with a request.
///
/// # Safety
///
/// At `words` an operand is readable, and behind it a word writable, until the request is complete.
pub(crate) unsafe fn rget_accumulate<C: backend::Call>(
    _: &Mpi,
    window: &Window,
    (op, ty): By<'_>,
    word: &Atomic<C>,
    words: *mut [u64; 2],
) -> Result<Request> {
    let mut request = Request::null();
    let ((rank, at), ty, op) = (target(word.target()), ty.raw(), op.raw());
    let first = words.cast::<u64>();
    let (operand, former) = (first.cast(), first.wrapping_add(1).cast());
    let (window, of) = (window.raw(), request.place());
    // SAFETY: the caller promises both words until the request is complete. That of the target is
    // as in `fetch_and_op`.
    let code = unsafe {
        ffi::MPI_Rget_accumulate(
            operand, 1, ty, former, 1, ty, rank, at, 1, ty, op, window, of,
        )
    };
    check(Call::RgetAccumulate, code)?;
    Ok(request)
}

/// An atomic on the first word of a rank, with the former bits; complete there and here.
pub(crate) fn fetch_first(
    mpi: &Mpi,
    window: &Window,
    rank: Rank,
    by: By<'_>,
    operand: u64,
) -> Result<u64> {
    let first = RemoteAddr { rank, offset: 0 };
    let load = AtomicCall {
        op: AtomicOp::Load,
        ty: AtomicType::U64,
        operand,
    };
    // SAFETY: every segment has a first word, which is aligned as the segment is.
    let word = unsafe { Atomic::new(first, load) };
    let mut words = vec![operand, 0];
    let (operand, former) = words.split_at_mut(1);
    let lent = (operand.as_ptr(), former.as_mut_ptr());
    // SAFETY: both words are left alone until the flush has completed the operation, or for ever.
    let begun = unsafe { fetch_and_op(mpi, window, by, &word, lent) };
    let rank = c_int::try_from(rank.number()).expect("MPI counts its ranks with such integers");
    if let Err(error) = begun.and_then(|()| flush(mpi, window, rank)) {
        words.leak();
        return Err(error);
    }
    Ok(words[1])
}

/// A read of the first word of a rank, which that one's progress answers after all that was begun
/// before, with the words that MPI has until then.
#[derive(Debug)]
pub(crate) struct Probe {
    request: Request,
    /// An operand and a result. A vector, since MPI writes to its memory while it is moved.
    words: Vec<[u64; 2]>,
}

impl Probe {
    /// `by_get` says that a get will do; elsewhere this process's CPU alone may do one, where MPI
    /// has the target's memory.
    pub(crate) fn begin(mpi: &Mpi, window: &Window, rank: Rank, by_get: bool) -> Result<Self> {
        let mut words = vec![[0_u64; 2]];
        let (first, at) = (RemoteAddr { rank, offset: 0 }, words.as_mut_ptr());
        let request = if by_get {
            // SAFETY: every segment has a first word. The other place is the probe's, which keeps
            // it until the request is complete, or for ever.
            let get = unsafe { Get::new(first, at.cast(), size_of::<u64>()) };
            rget(mpi, window, &get)?
        } else {
            let load = AtomicCall {
                op: AtomicOp::Load,
                ty: AtomicType::U64,
                operand: 0,
            };
            // SAFETY: every segment has a first word, which is aligned as the segment is.
            let word = unsafe { Atomic::new(first, load) };
            let by = (Op::Nothing, Datatype::uint64());
            // SAFETY: both words are the probe's, as above.
            unsafe { rget_accumulate(mpi, window, by, &word, at) }?
        };
        Ok(Self { request, words })
    }

    /// Whether it was answered.
    pub(crate) fn test(&mut self, mpi: &Mpi) -> Result<bool> {
        super::test(mpi, &mut self.request)
    }
}

impl Drop for Probe {
    /// The words of one that is given up are MPI's for ever.
    fn drop(&mut self) {
        if !self.request.is_null() {
            std::mem::take(&mut self.words).leak();
        }
    }
}

/// As [`fetch_and_op`], without a result.
///
/// # Safety
///
/// A word is readable at `operand` until local completion.
pub(crate) unsafe fn accumulate(
    _: &Mpi,
    window: &Window,
    (op, ty): By<'_>,
    word: &Atomic,
    operand: *const u64,
) -> Result<()> {
    let ((rank, at), ty, op) = (target(word.target()), ty.raw(), op.raw());
    let (operand, window) = (operand.cast(), window.raw());
    // SAFETY: the caller promises the operand until local completion. The word at the target is as
    // in `fetch_and_op`.
    let code = unsafe { ffi::MPI_Accumulate(operand, 1, ty, rank, at, 1, ty, op, window) };
    check(Call::Accumulate, code)
}

/// As [`fetch_and_op`], of a compare-and-swap.
///
/// # Safety
///
/// A word is readable at `expected` and at `desired` and writable at `former`, until local
/// completion.
#[inline]
pub(crate) unsafe fn compare_and_swap(
    _: &Mpi,
    window: &Window,
    ty: &Datatype,
    word: &Atomic<SwapCall>,
    (expected, desired): (*const u64, *const u64),
    former: *mut u64,
) -> Result<()> {
    let ((rank, at), ty, window) = (target(word.target()), ty.raw(), window.raw());
    let (old, new, former) = (expected.cast(), desired.cast(), former.cast());
    // SAFETY: the caller promises the three words until local completion. That of the target is as
    // in `fetch_and_op`.
    let code = unsafe { ffi::MPI_Compare_and_swap(new, old, former, ty, rank, at, window) };
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
