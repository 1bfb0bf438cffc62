//! Starting and ending MPI, and properties of communicators.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use pgas_core::Result;

use super::ffi::{
    LONGEST_VERSION, MPI_Abort, MPI_Comm_free, MPI_Comm_rank, MPI_Comm_set_errhandler,
    MPI_Comm_size, MPI_Finalize, MPI_Finalized, MPI_Get_library_version, MPI_Init_thread,
    MPI_Initialized, MPI_Is_thread_main, MPI_Query_thread, RSMPI_COMM_WORLD, RSMPI_ERRORS_RETURN,
    RSMPI_THREAD_MULTIPLE, RSMPI_THREAD_SERIALIZED,
};
use super::{Call, Comm, Mpi, begin_wait, check};

/// Which threads may call MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ThreadLevel {
    /// Only one.
    One,
    /// One at a time.
    Serialized,
    /// Any.
    Multiple,
}

impl ThreadLevel {
    fn of(level: c_int) -> Self {
        if level >= RSMPI_THREAD_MULTIPLE {
            Self::Multiple
        } else if level >= RSMPI_THREAD_SERIALIZED {
            Self::Serialized
        } else {
            Self::One
        }
    }
}

/// Whether MPI was started in this process.
pub(crate) fn is_initialized(_: &Mpi) -> Result<bool> {
    let mut flag: c_int = 0;
    check(Call::Initialized, MPI_Initialized(&mut flag))?;
    Ok(flag != 0)
}

/// Whether this process has left MPI without ending it.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// Records that MPI must not be called any more in this process.
pub(super) fn note_left() {
    HAS_LEFT.store(true, Ordering::Relaxed);
}

/// Whether MPI was ended in this process.
pub(crate) fn is_finalized(_: &Mpi) -> Result<bool> {
    let mut flag: c_int = 0;
    check(Call::Finalized, MPI_Finalized(&mut flag))?;
    Ok(flag != 0 || HAS_LEFT.load(Ordering::Relaxed))
}

/// Starts MPI for threads that call it one at a time.
pub(crate) fn init_thread(_: &Mpi) -> Result<ThreadLevel> {
    let mut granted: c_int = 0;
    begin_wait(Call::InitThread, None);
    // Since MPI-2 a program need not give its arguments.
    let code = MPI_Init_thread(None, None, RSMPI_THREAD_SERIALIZED, &mut granted);
    check(Call::InitThread, code)?;
    Ok(ThreadLevel::of(granted))
}

/// The thread level with which the application started MPI.
pub(crate) fn query_thread(_: &Mpi) -> Result<ThreadLevel> {
    let mut level: c_int = 0;
    check(Call::QueryThread, MPI_Query_thread(&mut level))?;
    Ok(ThreadLevel::of(level))
}

/// Whether this thread is the one that started MPI.
pub(crate) fn is_thread_main(_: &Mpi) -> Result<bool> {
    let mut flag: c_int = 0;
    check(Call::IsThreadMain, MPI_Is_thread_main(&mut flag))?;
    Ok(flag != 0)
}

/// Ends MPI in this process; collective. Nothing is in flight any more.
pub(crate) fn finalize(_: &Mpi) -> Result<()> {
    begin_wait(Call::Finalize, None);
    check(Call::Finalize, MPI_Finalize())
}

/// The library's name and version, in one line: "Open MPI v4.1.4", "MPICH Version: 4.0.2".
pub(crate) fn library_version(_: &Mpi) -> Result<String> {
    let mut bytes = Box::new([0_u8; LONGEST_VERSION]);
    let mut len: c_int = 0;
    let code = MPI_Get_library_version(&mut bytes, &mut len);
    check(Call::GetLibraryVersion, code)?;
    let text = String::from_utf8_lossy(&bytes[..usize::try_from(len).unwrap_or(0)]).into_owned();
    let first = text.split([',', '\n']).next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    Ok(words.join(" "))
}

pub(super) fn return_errors(_: &Mpi, comm: &Comm) -> Result<()> {
    let code = MPI_Comm_set_errhandler(comm.handle(), RSMPI_ERRORS_RETURN.handle());
    check(Call::CommSetErrhandler, code)
}

/// Frees a communicator; collective.
pub(crate) fn comm_free(_: &Mpi, comm: &mut Comm) -> Result<()> {
    begin_wait(Call::CommFree, None);
    check(Call::CommFree, MPI_Comm_free(comm))
}

pub(crate) fn comm_rank(_: &Mpi, comm: &Comm) -> Result<c_int> {
    let mut rank: c_int = 0;
    check(Call::CommRank, MPI_Comm_rank(comm.handle(), &mut rank))?;
    Ok(rank)
}

pub(crate) fn comm_size(_: &Mpi, comm: &Comm) -> Result<c_int> {
    let mut size: c_int = 0;
    check(Call::CommSize, MPI_Comm_size(comm.handle(), &mut size))?;
    Ok(size)
}

/// Ends the processes of all of MPI's world. Another thread may be inside of MPI: it ends with the
/// process.
pub(crate) fn abort(code: c_int) -> ! {
    MPI_Abort(RSMPI_COMM_WORLD.handle(), code);
    #[expect(
        clippy::disallowed_methods,
        reason = "MPI_Abort does not return, by its manual"
    )]
    std::process::exit(code)
}
