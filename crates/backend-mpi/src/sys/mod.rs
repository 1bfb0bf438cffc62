//! Every call of MPI, each checked: the only code of the crate that sees return codes.
//!
//! A wrapper has the name of its call, and its errors have that name and MPI's own text. It takes a
//! [`Mpi`], the proof that this thread is the only one of the process inside of MPI. The library is
//! asked for `MPI_THREAD_SERIALIZED`, since Open MPI's windows over TCP refuse a higher level, and
//! a thread that waits inside of MPI makes MPI's progress for all.
#![expect(unsafe_code, reason = "calls of a C library")]

mod collective;
mod comm;
mod datatype;
mod exit;
mod ffi;
mod hydra;
mod info;
mod lock;
mod message;
mod sharing;
mod tool;
mod window;

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use pgas_core::{Error, Result};

pub(crate) use collective::{
    Extreme, allgather, allreduce, bcast, begin_collective, comm_dup, comm_split, dup_raw,
    dup_world, meet,
};
pub(crate) use comm::{
    ThreadLevel, abort, comm_free, comm_rank, comm_size, finalize, init_thread, is_finalized,
    is_initialized, is_thread_main, library_version, query_thread,
};
pub(crate) use datatype::{type_commit, type_free, type_hindexed, type_hvector};
pub(crate) use exit::{now as exit_now, unwatch as unwatch_exit, watch as watch_exit};
pub(crate) use ffi::{Comm, Datatype, Info, Request};
pub(crate) use hydra::{finalize_may_hang, leave as leave_launcher};
pub(crate) use info::{info_create, info_free};
use lock::{Guard, Lock};
pub(crate) use message::{
    cancel, first_error_of_messages, ibarrier, irecv, isend, receive_now, test, test_any, test_some,
};
pub(crate) use sharing::ranks_on_this_host;
pub(crate) use tool::setting;
pub(crate) use window::{
    Layout, Probe, Window, count_of, flush, flush_all, flush_local, flush_local_all, get,
    get_pieces, put, put_pieces, rget, rput, win_create, win_free, win_is_unified,
};

/// The calls, for messages and for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Call {
    Initialized,
    Finalized,
    InitThread,
    QueryThread,
    IsThreadMain,
    Finalize,
    GetLibraryVersion,
    CommRank,
    CommSize,
    CommIdup,
    CommSplit,
    CommSplitType,
    CommFree,
    CommSetErrhandler,
    CommGroup,
    GroupTranslateRanks,
    GroupFree,
    InfoCreate,
    InfoSet,
    InfoFree,
    WinCreate,
    WinSetErrhandler,
    WinLockAll,
    WinGetAttr,
    WinUnlockAll,
    WinFree,
    Put,
    Get,
    Rput,
    Rget,
    WinFlush,
    WinFlushLocal,
    WinFlushLocalAll,
    WinFlushAll,
    Irecv,
    Isend,
    Test,
    Testany,
    Testsome,
    GetCount,
    Cancel,
    Wait,
    Ibarrier,
    TypeHvector,
    TypeHindexed,
    TypeCommit,
    TypeFree,
    Ibcast,
    Ireduce,
    Iallreduce,
    Igather,
    Iallgather,
    Ialltoall,
    Iscan,
    Iexscan,
    Iprobe,
    Recv,
    ToolInitThread,
    ToolCvarHandleAlloc,
    ToolCvarRead,
    ToolCvarHandleFree,
    ToolFinalize,
}

/// The names of the calls, in the order of [`Call`].
const NAMES: [&str; 62] = [
    "MPI_Initialized",
    "MPI_Finalized",
    "MPI_Init_thread",
    "MPI_Query_thread",
    "MPI_Is_thread_main",
    "MPI_Finalize",
    "MPI_Get_library_version",
    "MPI_Comm_rank",
    "MPI_Comm_size",
    "MPI_Comm_idup",
    "MPI_Comm_split",
    "MPI_Comm_split_type",
    "MPI_Comm_free",
    "MPI_Comm_set_errhandler",
    "MPI_Comm_group",
    "MPI_Group_translate_ranks",
    "MPI_Group_free",
    "MPI_Info_create",
    "MPI_Info_set",
    "MPI_Info_free",
    "MPI_Win_create",
    "MPI_Win_set_errhandler",
    "MPI_Win_lock_all",
    "MPI_Win_get_attr",
    "MPI_Win_unlock_all",
    "MPI_Win_free",
    "MPI_Put",
    "MPI_Get",
    "MPI_Rput",
    "MPI_Rget",
    "MPI_Win_flush",
    "MPI_Win_flush_local",
    "MPI_Win_flush_local_all",
    "MPI_Win_flush_all",
    "MPI_Irecv",
    "MPI_Isend",
    "MPI_Test",
    "MPI_Testany",
    "MPI_Testsome",
    "MPI_Get_count",
    "MPI_Cancel",
    "MPI_Wait",
    "MPI_Ibarrier",
    "MPI_Type_create_hvector",
    "MPI_Type_create_hindexed",
    "MPI_Type_commit",
    "MPI_Type_free",
    "MPI_Ibcast",
    "MPI_Ireduce",
    "MPI_Iallreduce",
    "MPI_Igather",
    "MPI_Iallgather",
    "MPI_Ialltoall",
    "MPI_Iscan",
    "MPI_Iexscan",
    "MPI_Iprobe",
    "MPI_Recv",
    "MPI_T_init_thread",
    "MPI_T_cvar_handle_alloc",
    "MPI_T_cvar_read",
    "MPI_T_cvar_handle_free",
    "MPI_T_finalize",
];

const _: () = assert!(
    NAMES.len() == Call::ToolFinalize as usize + 1,
    "one name for each call"
);

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

/// Begins to count MPI calls.
pub(crate) fn start_counting() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// The number of times that each call was made since counting began.
pub(crate) fn counts() -> impl Iterator<Item = (&'static str, u64)> {
    let counts = COUNTS.iter().map(|count| count.load(Ordering::Relaxed));
    NAMES.into_iter().zip(counts)
}

/// The error of a failed call, if `code` says that it failed.
#[inline]
fn check(call: Call, code: c_int) -> Result<()> {
    if COUNTING.load(Ordering::Relaxed) {
        COUNTS[call as usize].fetch_add(1, Ordering::Relaxed);
    }
    if code == 0 {
        Ok(())
    } else {
        Err(failed(call, code))
    }
}

#[cold]
fn failed(call: Call, code: c_int) -> Error {
    let text = text_of(code).unwrap_or_else(|| "no text".to_owned());
    Error::backend(NAMES[call as usize], i64::from(code), text)
}

/// MPI's text for a code.
fn text_of(code: c_int) -> Option<String> {
    let mut bytes = [0_u8; ffi::LONGEST_ERROR];
    let mut len: c_int = 0;
    let failed = ffi::MPI_Error_string(code, &mut bytes, &mut len);
    let text = bytes.get(..usize::try_from(len).ok()?)?;
    let text = String::from_utf8_lossy(text);
    let one_line: Vec<&str> = text.split_whitespace().collect();
    (failed == 0).then(|| one_line.join(" "))
}

/// The proof that no other thread of this process is inside of MPI.
#[derive(Debug)]
pub(crate) struct Mpi {
    _lock: Guard,
}

static INSIDE: Lock = Lock::new();
/// The only thread that may call MPI, if MPI allows only one.
static ONLY_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// Waits until no other thread is inside of MPI.
///
/// # Errors
///
/// If MPI was started for one thread only, and this is another one.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "a result in memory costs more than the lock"
)]
pub(crate) fn enter() -> Result<Mpi> {
    if let Some(only) = ONLY_THREAD.get() {
        thread_local! {
            /// Whether this thread is known to be the one.
            static IS_IT: Cell<bool> = const { Cell::new(false) };
        }
        if !IS_IT.get() {
            be_the_only_thread(*only)?;
            IS_IT.set(true);
        }
    }
    let lock = INSIDE.lock();
    Ok(Mpi { _lock: lock })
}

/// The proof, if no thread is inside of MPI now, and this one may be: never waits.
pub(crate) fn try_enter() -> Option<Mpi> {
    let may = ONLY_THREAD
        .get()
        .is_none_or(|only| *only == thread::current().id());
    if !may {
        return None;
    }
    let lock = INSIDE.try_lock()?;
    Some(Mpi { _lock: lock })
}

/// What the thread inside of MPI waits for: the low 24 bits of its stay's number, the other rank
/// plus one or zero, and the call.
static AWAITED: AtomicU64 = AtomicU64::new(0);
const CALL_BITS: u32 = 8;
const RANK_BITS: u32 = 32;
const _: () = assert!(NAMES.len() <= 1 << CALL_BITS, "a call's number has room");

/// Records that a call begins that may wait for others; for `rank`, if it is about one. A call that
/// is not recorded is reported without its name.
#[inline]
fn begin_wait(call: Call, rank: Option<c_int>) {
    let stay = INSIDE.stay().unwrap_or(0);
    let rank = rank.map_or(0, |rank| rank.cast_unsigned().wrapping_add(1));
    let awaited = stay << (RANK_BITS + CALL_BITS) | u64::from(rank) << CALL_BITS | call as u64;
    // Relaxed, as for the stay's number.
    AWAITED.store(awaited, Ordering::Relaxed);
}

/// A thread's stay inside of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stay {
    /// The number of the stay, unique in the process.
    pub(crate) number: u64,
    /// The recorded call, if there is one.
    pub(crate) call: Option<&'static str>,
    pub(crate) rank: Option<u32>,
}

/// The stay of the thread that is inside of MPI now, for another thread.
pub(crate) fn stay() -> Option<Stay> {
    let number = INSIDE.stay()?;
    let awaited = AWAITED.load(Ordering::Relaxed);
    let is_of_it = awaited >> (RANK_BITS + CALL_BITS) == number << 40 >> 40;
    let call = usize::try_from(awaited & ((1 << CALL_BITS) - 1)).ok();
    let call = call.filter(|_| is_of_it).map(|call| NAMES[call]);
    let rank = (awaited >> CALL_BITS) & u64::from(u32::MAX);
    let rank = rank
        .checked_sub(1)
        .and_then(|rank| u32::try_from(rank).ok());
    Some(Stay {
        number,
        call,
        rank: rank.filter(|_| is_of_it),
    })
}

/// A value that only the thread inside of MPI accesses.
#[derive(Debug)]
pub(crate) struct Inside<T>(UnsafeCell<T>);

// SAFETY: by a shared reference `get` alone reaches what is inside, as long as it holds an
// exclusive borrow of an `Mpi`. There is one `Mpi` at a time in the process (`enter` makes it, of
// the guard of the one static lock), so there is one such reference at a time. The lock orders what
// threads do under it, and `T: Send` lets each of them have the value in turn.
unsafe impl<T: Send> Sync for Inside<T> {}

impl<T> Inside<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn get<'a>(&'a self, _: &'a mut Mpi) -> &'a mut T {
        // SAFETY: there is one `Mpi` at a time in the process, and it stays borrowed exclusively
        // for as long as the reference lives: no second call of this, on any thread, gives a
        // reference meanwhile. `get_mut` takes the value itself exclusively.
        unsafe { &mut *self.0.get() }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// An error unless this thread is `only`.
#[cold]
#[inline(never)]
fn be_the_only_thread(only: ThreadId) -> Result<()> {
    if thread::current().id() == only {
        return Ok(());
    }
    let text = "the application started MPI for one thread only (below MPI_THREAD_SERIALIZED), \
                and another one communicates";
    Err(Error::backend(NAMES[Call::QueryThread as usize], 0, text))
}

/// Makes this thread the only one that may call MPI.
pub(crate) fn bind_to_this_thread() {
    let _ = ONLY_THREAD.set(thread::current().id());
}
