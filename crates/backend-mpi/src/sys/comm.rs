//! Starting and ending MPI, communicators, and what ranks agree on before there is a world.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{ptr, thread};

use mpi::ffi;
use pgas_core::{Error, Result};

use super::message::{Request, ibarrier, test};
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
        // SAFETY: a constant of the library.
        let multiple = unsafe { ffi::RSMPI_THREAD_MULTIPLE };
        // SAFETY: another constant of the library.
        let serialized = unsafe { ffi::RSMPI_THREAD_SERIALIZED };
        if level >= multiple {
            Self::Multiple
        } else if level >= serialized {
            Self::Serialized
        } else {
            Self::One
        }
    }
}

/// Whether MPI was started in this process.
pub(crate) fn is_initialized(_: &Mpi) -> Result<bool> {
    let mut flag: c_int = 0;
    // SAFETY: may be called at any time; `flag` is writable.
    let code = unsafe { ffi::MPI_Initialized(&raw mut flag) };
    check(Call::Initialized, code)?;
    Ok(flag != 0)
}

/// Whether this process has left MPI without ending it.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// MPI must not be called any more in this process.
pub(super) fn note_left() {
    HAS_LEFT.store(true, Ordering::Relaxed);
}

/// Whether MPI was ended in this process.
pub(crate) fn is_finalized(_: &Mpi) -> Result<bool> {
    let mut flag: c_int = 0;
    // SAFETY: may be called at any time; `flag` is writable.
    let code = unsafe { ffi::MPI_Finalized(&raw mut flag) };
    check(Call::Finalized, code)?;
    Ok(flag != 0 || HAS_LEFT.load(Ordering::Relaxed))
}

/// Starts MPI for threads that call it one at a time.
pub(crate) fn init_thread(_: &Mpi) -> Result<ThreadLevel> {
    // SAFETY: a constant of the library.
    let wanted = unsafe { ffi::RSMPI_THREAD_SERIALIZED };
    let mut granted: c_int = 0;
    let (no_argc, no_argv) = (ptr::null_mut(), ptr::null_mut());
    begin_wait(Call::InitThread, None);
    // SAFETY: since MPI-2 the arguments may be null; `granted` is writable.
    let code = unsafe { ffi::MPI_Init_thread(no_argc, no_argv, wanted, &raw mut granted) };
    check(Call::InitThread, code)?;
    Ok(ThreadLevel::of(granted))
}

/// What the application started MPI for.
pub(crate) fn query_thread(_: &Mpi) -> Result<ThreadLevel> {
    let mut level: c_int = 0;
    // SAFETY: MPI is initialised, since somebody holds a communicator; `level` is writable.
    let code = unsafe { ffi::MPI_Query_thread(&raw mut level) };
    check(Call::QueryThread, code)?;
    Ok(ThreadLevel::of(level))
}

/// Whether this thread is the one that started MPI.
pub(crate) fn is_thread_main(_: &Mpi) -> Result<bool> {
    let mut flag: c_int = 0;
    // SAFETY: as for `query_thread`.
    let code = unsafe { ffi::MPI_Is_thread_main(&raw mut flag) };
    check(Call::IsThreadMain, code)?;
    Ok(flag != 0)
}

/// Ends MPI in this process; collective.
pub(crate) fn finalize(_: &Mpi) -> Result<()> {
    begin_wait(Call::Finalize, None);
    // SAFETY: the caller has freed what it had, and waits for no communication.
    check(Call::Finalize, unsafe { ffi::MPI_Finalize() })
}

/// The library's name and version, in one line: "Open MPI v4.1.4", "MPICH Version: 4.0.2".
pub(crate) fn library_version(_: &Mpi) -> Result<String> {
    // MPICH's text is longer than a page.
    let mut bytes = vec![0_u8; ffi::MPI_MAX_LIBRARY_VERSION_STRING as usize + 1];
    let mut len: c_int = 0;
    // SAFETY: may be called at any time; the buffer has room for the longest text and its final zero.
    let code = unsafe { ffi::MPI_Get_library_version(bytes.as_mut_ptr().cast(), &raw mut len) };
    check(Call::GetLibraryVersion, code)?;
    let text = String::from_utf8_lossy(&bytes[..usize::try_from(len).unwrap_or(0)]).into_owned();
    let first = text.split([',', '\n']).next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    Ok(words.join(" "))
}

/// A communicator of our own with the processes of all of MPI.
pub(crate) fn dup_world(mpi: &Mpi) -> Result<Comm> {
    // SAFETY: a constant of the library, once it is initialised.
    let world = unsafe { ffi::RSMPI_COMM_WORLD };
    // SAFETY: the world is a valid communicator until MPI ends.
    unsafe { dup_raw(mpi, world) }
}

/// A communicator of our own with the processes of `comm`; collective.
///
/// # Safety
///
/// `comm` is a valid communicator.
pub(crate) unsafe fn dup_raw(mpi: &Mpi, comm: ffi::MPI_Comm) -> Result<Comm> {
    // SAFETY: a constant of the library.
    let mut new = unsafe { ffi::RSMPI_COMM_NULL };
    let mut request = Request::null();
    let (to, of) = (&raw mut new, &raw mut request.0);
    // SAFETY: the caller promises a valid communicator; the others are writable until the end below.
    let code = unsafe { ffi::MPI_Comm_idup(comm, to, of) };
    check(Call::CommIdup, code)?;
    finish(mpi, Call::CommIdup, request)?;
    return_errors(mpi, new)?;
    Ok(Comm(new))
}

/// Waits until `request` is complete. Unlike MPI's own waits this one gives the processor to others, which are
/// waited for, also where there are more ranks than processors.
fn finish(mpi: &Mpi, call: Call, mut request: Request) -> Result<()> {
    /// Looks before the first yield.
    const LOOKS: u32 = 100;
    let mut n_looks = 0;
    begin_wait(call, None);
    while !test(mpi, &mut request)? {
        n_looks += 1;
        if n_looks > LOOKS {
            thread::yield_now();
        }
    }
    Ok(())
}

/// Waits for all processes of `comm`, so that they are about as far as this one where the next call makes them
/// wait for each other inside of MPI.
pub(crate) fn meet(mpi: &Mpi, comm: &Comm) -> Result<()> {
    finish(mpi, Call::Ibarrier, ibarrier(mpi, comm)?)
}

/// As [`dup_raw`], of a communicator of our own.
pub(crate) fn comm_dup(mpi: &Mpi, comm: &Comm) -> Result<Comm> {
    // SAFETY: a `Comm` is valid until it is freed.
    unsafe { dup_raw(mpi, comm.0) }
}

pub(super) fn return_errors(_: &Mpi, comm: ffi::MPI_Comm) -> Result<()> {
    // SAFETY: a constant of the library.
    let errors_return = unsafe { ffi::RSMPI_ERRORS_RETURN };
    // SAFETY: the communicator was made just now.
    let code = unsafe { ffi::MPI_Comm_set_errhandler(comm, errors_return) };
    check(Call::CommSetErrhandler, code)
}

/// Frees a communicator; collective.
pub(crate) fn comm_free(_: &Mpi, comm: &mut Comm) -> Result<()> {
    begin_wait(Call::CommFree, None);
    // SAFETY: the handle is valid, or null, which is an error; it is null afterwards.
    check(Call::CommFree, unsafe {
        ffi::MPI_Comm_free(&raw mut comm.0)
    })
}

pub(crate) fn comm_rank(_: &Mpi, comm: &Comm) -> Result<c_int> {
    let mut rank: c_int = 0;
    // SAFETY: the communicator is valid and `rank` is writable.
    let code = unsafe { ffi::MPI_Comm_rank(comm.0, &raw mut rank) };
    check(Call::CommRank, code)?;
    Ok(rank)
}

pub(crate) fn comm_size(_: &Mpi, comm: &Comm) -> Result<c_int> {
    let mut size: c_int = 0;
    // SAFETY: the communicator is valid and `size` is writable.
    let code = unsafe { ffi::MPI_Comm_size(comm.0, &raw mut size) };
    check(Call::CommSize, code)?;
    Ok(size)
}

/// The smallest or the largest number of all ranks, for numbers below 2^63: MPICH 4.0 compares them as signed ones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extreme {
    Min,
    Max,
}

pub(crate) fn allreduce(mpi: &Mpi, comm: &Comm, value: u64, extreme: Extreme) -> Result<u64> {
    let op = match extreme {
        // SAFETY: a constant of the library.
        Extreme::Min => unsafe { ffi::RSMPI_MIN },
        // SAFETY: a constant of the library.
        Extreme::Max => unsafe { ffi::RSMPI_MAX },
    };
    // SAFETY: a constant of the library.
    let ty = unsafe { ffi::RSMPI_UINT64_T };
    let mut result = 0_u64;
    let (from, to) = ((&raw const value).cast(), (&raw mut result).cast());
    let mut request = Request::null();
    let of = &raw mut request.0;
    // SAFETY: one element of the type is readable at `from` and writable at `to`, until the end below.
    let code = unsafe { ffi::MPI_Iallreduce(from, to, 1, ty, op, comm.0, of) };
    check(Call::Iallreduce, code)?;
    finish(mpi, Call::Iallreduce, request)?;
    Ok(result)
}

/// Every rank's numbers, in the order of ranks; all give equally many.
pub(crate) fn allgather(
    mpi: &Mpi,
    comm: &Comm,
    n_ranks: usize,
    values: &[u64],
) -> Result<Vec<u64>> {
    // SAFETY: a constant of the library.
    let ty = unsafe { ffi::RSMPI_UINT64_T };
    let mut all = vec![0_u64; n_ranks * values.len()];
    let (from, to) = (values.as_ptr().cast(), all.as_mut_ptr().cast());
    let n = c_int::try_from(values.len()).expect("some numbers a rank");
    let mut request = Request::null();
    let of = &raw mut request.0;
    // SAFETY: `n` elements are readable at `from`, and as many a rank of the communicator writable at `to`, until
    // the end below.
    let code = unsafe { ffi::MPI_Iallgather(from, n, ty, to, n, ty, comm.0, of) };
    check(Call::Iallgather, code)?;
    finish(mpi, Call::Iallgather, request)?;
    Ok(all)
}

/// Gives all ranks what `root` has in `bytes`.
pub(crate) fn bcast(mpi: &Mpi, comm: &Comm, root: c_int, bytes: &mut [u8]) -> Result<()> {
    // SAFETY: a constant of the library.
    let ty = unsafe { ffi::RSMPI_UINT8_T };
    let count = c_int::try_from(bytes.len())
        .map_err(|_| Error::backend(super::NAMES[Call::Ibcast as usize], 0, "more than 2 GiB"))?;
    let values = bytes.as_mut_ptr().cast();
    let mut request = Request::null();
    let of = &raw mut request.0;
    // SAFETY: as many bytes are readable and writable there, until the end below.
    let code = unsafe { ffi::MPI_Ibcast(values, count, ty, root, comm.0, of) };
    check(Call::Ibcast, code)?;
    finish(mpi, Call::Ibcast, request)
}

/// Ends the processes of all of MPI's world.
pub(crate) fn abort(code: c_int) -> ! {
    // SAFETY: a constant of the library.
    let world = unsafe { ffi::RSMPI_COMM_WORLD };
    // SAFETY: the world is valid while MPI runs, which the caller's communicator shows. Another thread may be
    // inside of MPI: it ends with the process.
    let _ = unsafe { ffi::MPI_Abort(world, code) };
    #[expect(
        clippy::disallowed_methods,
        reason = "MPI_Abort does not return, by its manual"
    )]
    std::process::exit(code)
}
