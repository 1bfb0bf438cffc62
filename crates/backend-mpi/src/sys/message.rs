//! Requests, messages and the barrier.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use mpi::ffi;
use pgas_core::Result;

use super::{Call, Comm, Mpi, check};

/// Something that MPI has in flight, or nothing.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Request(pub(super) ffi::MPI_Request);

// SAFETY: a handle is a name for something inside of MPI, which is the same for every thread.
unsafe impl Send for Request {}

impl Request {
    pub(crate) fn null() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_REQUEST_NULL })
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0 == Self::null().0
    }
}

/// A request that is complete: which one, and of a received message from whom and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) index: usize,
    pub(crate) from: c_int,
    pub(crate) bytes: usize,
}

/// Posts a receive of up to `len` bytes from anybody.
///
/// # Safety
///
/// `at` is writable for `len` bytes until the request is complete.
pub(crate) unsafe fn irecv(
    _: &Mpi,
    comm: &Comm,
    tag: c_int,
    at: *mut u8,
    len: c_int,
) -> Result<Request> {
    let mut request = Request::null();
    // SAFETY: a constant of the library.
    let ty = unsafe { ffi::RSMPI_UINT8_T };
    // SAFETY: a constant of the library.
    let anybody = unsafe { ffi::RSMPI_ANY_SOURCE };
    // SAFETY: the caller promises the memory; the communicator is valid.
    let code =
        unsafe { ffi::MPI_Irecv(at.cast(), len, ty, anybody, tag, comm.0, &raw mut request.0) };
    check(Call::Irecv, code)?;
    Ok(request)
}

/// Whether the end of a send means that it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Synchronous,
}

/// Begins to send.
///
/// # Safety
///
/// `at` is readable for `len` bytes until the request is complete.
pub(crate) unsafe fn isend(
    _: &Mpi,
    comm: &Comm,
    (to, tag): (c_int, c_int),
    (at, len): (*const u8, c_int),
    mode: Mode,
) -> Result<Request> {
    let mut request = Request::null();
    // SAFETY: a constant of the library.
    let ty = unsafe { ffi::RSMPI_UINT8_T };
    match mode {
        Mode::Plain => {
            // SAFETY: the caller promises the memory; the communicator is valid.
            let code =
                unsafe { ffi::MPI_Isend(at.cast(), len, ty, to, tag, comm.0, &raw mut request.0) };
            check(Call::Isend, code)?;
        }
        Mode::Synchronous => {
            // SAFETY: the caller promises the memory; the communicator is valid.
            let code =
                unsafe { ffi::MPI_Issend(at.cast(), len, ty, to, tag, comm.0, &raw mut request.0) };
            check(Call::Issend, code)?;
        }
    }
    Ok(request)
}

/// Whether a request is complete, which is null then; makes MPI's progress.
pub(crate) fn test(_: &Mpi, request: &mut Request) -> Result<bool> {
    let mut flag: c_int = 0;
    // SAFETY: a constant of the library.
    let no_status = unsafe { ffi::RSMPI_STATUS_IGNORE };
    // SAFETY: the request is valid or null, and the flag writable.
    let code = unsafe { ffi::MPI_Test(&raw mut request.0, &raw mut flag, no_status) };
    check(Call::Test, code)?;
    Ok(flag != 0)
}

/// One of the requests that is complete, if one is; the first `n_receives` of them are receives. Makes MPI's progress.
pub(crate) fn test_any(
    _: &Mpi,
    requests: &mut [Request],
    n_receives: usize,
) -> Result<Option<Arrival>> {
    let (mut index, mut flag): (c_int, c_int) = (0, 0);
    let mut status = MaybeUninit::<ffi::MPI_Status>::zeroed();
    let count = c_int::try_from(requests.len()).expect("a handful");
    let first = requests.as_mut_ptr().cast::<ffi::MPI_Request>();
    // SAFETY: `Request` is transparent, so that `count` requests lie at `first`; the rest is writable.
    let code = unsafe {
        ffi::MPI_Testany(
            count,
            first,
            &raw mut index,
            &raw mut flag,
            status.as_mut_ptr(),
        )
    };
    check(Call::Testany, code)?;
    let Ok(index) = usize::try_from(index) else {
        return Ok(None);
    };
    if flag == 0 || index >= requests.len() {
        return Ok(None);
    }
    if index >= n_receives {
        // The status of another request says nothing.
        let (from, bytes) = (0, 0);
        return Ok(Some(Arrival { index, from, bytes }));
    }
    // SAFETY: a status is integers, of which every value is valid, and was zeroed.
    let status = unsafe { status.assume_init() };
    // SAFETY: a constant of the library.
    let ty = unsafe { ffi::RSMPI_UINT8_T };
    let mut bytes: c_int = 0;
    // SAFETY: the status is that of a complete receive, and the count is writable.
    let code = unsafe { ffi::MPI_Get_count(&raw const status, ty, &raw mut bytes) };
    check(Call::GetCount, code)?;
    Ok(Some(Arrival {
        index,
        from: status.MPI_SOURCE,
        bytes: usize::try_from(bytes).unwrap_or(0),
    }))
}

/// Takes back a receive that nothing will come for.
pub(crate) fn cancel(_: &Mpi, request: &mut Request) -> Result<()> {
    if request.is_null() {
        return Ok(());
    }
    // SAFETY: the request is a receive in flight.
    check(Call::Cancel, unsafe { ffi::MPI_Cancel(&raw mut request.0) })?;
    // SAFETY: a constant of the library.
    let no_status = unsafe { ffi::RSMPI_STATUS_IGNORE };
    // SAFETY: a cancelled receive is complete at once.
    check(Call::Wait, unsafe {
        ffi::MPI_Wait(&raw mut request.0, no_status)
    })
}

/// Enters a barrier.
pub(crate) fn ibarrier(_: &Mpi, comm: &Comm) -> Result<Request> {
    let mut request = Request::null();
    // SAFETY: the communicator is valid and the request writable.
    let code = unsafe { ffi::MPI_Ibarrier(comm.0, &raw mut request.0) };
    check(Call::Ibarrier, code)?;
    Ok(request)
}
