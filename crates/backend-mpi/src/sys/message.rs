//! Requests, messages and the barrier.
#![expect(unsafe_code, reason = "lends buffers to MPI")]

use std::ffi::c_int;
use std::sync::OnceLock;

use mpi::ffi;
use pgas_core::Result;

use super::ffi::{
    MPI_Cancel, MPI_Get_count, MPI_Ibarrier, MPI_Iprobe, MPI_Test, MPI_Wait, RSMPI_ANY_SOURCE,
    RSMPI_STATUS_IGNORE, RSMPI_UINT8_T, Request, empty_status, recv, testany, testsome,
};
use super::{Call, Comm, Mpi, check};

/// The first error of a receive, or of a message that was being sent. MPI tells of it once, perhaps
/// to a caller that cannot return it, or that asked for something else: so the next who looks for
/// messages does. A message that cannot be begun is its sender's alone.
static FIRST_ERROR: OnceLock<String> = OnceLock::new();

/// The error of a receive or of a message on its way, if one has failed.
#[inline]
pub(crate) fn first_error_of_messages() -> Option<&'static str> {
    FIRST_ERROR.get().map(String::as_str)
}

/// As [`check`], of receives and of messages on their way.
#[inline]
fn check_message(call: Call, code: c_int) -> Result<()> {
    check(call, code).inspect_err(|error| {
        FIRST_ERROR.get_or_init(|| error.to_string());
    })
}

/// A completed request: its index, and for a received message its sender and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) index: usize,
    pub(crate) from: c_int,
    pub(crate) bytes: usize,
}

/// Posts a receive of up to `len` bytes from any rank.
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
    let ty = RSMPI_UINT8_T.raw();
    let (at, anybody, to) = (at.cast(), RSMPI_ANY_SOURCE, request.place());
    // SAFETY: MPI writes up to `len` bytes at `at` until the request is complete; the caller
    // promises them until then. The request's name is written during the call.
    let code = unsafe { ffi::MPI_Irecv(at, len, ty, anybody, tag, comm.raw(), to) };
    check_message(Call::Irecv, code)?;
    Ok(request)
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
) -> Result<Request> {
    let mut request = Request::null();
    let ty = RSMPI_UINT8_T.raw();
    let (at, of) = (at.cast(), request.place());
    // SAFETY: the call reads `len` bytes at `at` until the request is complete; the caller
    // promises them until then. The request's name is written during the call.
    let code = unsafe { ffi::MPI_Isend(at, len, ty, to, tag, comm.raw(), of) };
    check(Call::Isend, code)?;
    Ok(request)
}

/// Whether a request is complete; then it is null. Makes MPI's progress.
pub(crate) fn test(_: &Mpi, request: &mut Request) -> Result<bool> {
    let mut flag: c_int = 0;
    let code = MPI_Test(request, &mut flag, RSMPI_STATUS_IGNORE);
    check_message(Call::Test, code)?;
    Ok(flag != 0)
}

/// One of the requests that is complete, if one is; the first `n_receives` of them are receives.
/// Makes MPI's progress.
pub(crate) fn test_any(
    _: &Mpi,
    requests: &mut [Request],
    n_receives: usize,
) -> Result<Option<Arrival>> {
    let (mut index, mut flag): (c_int, c_int) = (0, 0);
    let mut status = empty_status();
    let code = testany(requests, &mut index, &mut flag, &mut status);
    check_message(Call::Testany, code)?;
    let Ok(index) = usize::try_from(index) else {
        return Ok(None);
    };
    if flag == 0 || index >= requests.len() {
        return Ok(None);
    }
    if index >= n_receives {
        // The status of another request has no meaning.
        let (from, bytes) = (0, 0);
        return Ok(Some(Arrival { index, from, bytes }));
    }
    let mut bytes: c_int = 0;
    let code = MPI_Get_count(&status, RSMPI_UINT8_T.handle(), &mut bytes);
    check(Call::GetCount, code)?;
    Ok(Some(Arrival {
        index,
        from: status.MPI_SOURCE,
        bytes: usize::try_from(bytes).unwrap_or(0),
    }))
}

/// Finds which of the sends are complete; their requests are null then. Makes MPI's progress.
pub(crate) fn test_some<const N: usize>(_: &Mpi, requests: &mut [Request; N]) -> Result<()> {
    check_message(Call::Testsome, testsome(requests))
}

/// Cancels a receive for which no message will come.
pub(crate) fn cancel(_: &Mpi, request: &mut Request) -> Result<()> {
    if request.is_null() {
        return Ok(());
    }
    check(Call::Cancel, MPI_Cancel(request))?;
    // A cancelled receive is complete at once.
    check(Call::Wait, MPI_Wait(request, RSMPI_STATUS_IGNORE))
}

/// Enters a barrier.
pub(crate) fn ibarrier(_: &Mpi, comm: &Comm) -> Result<Request> {
    let mut request = Request::null();
    check(Call::Ibarrier, MPI_Ibarrier(comm.handle(), &mut request))?;
    Ok(request)
}

/// Receives a message of `bytes.len()` bytes with `tag` from any rank, if one has arrived, and
/// returns the sender.
pub(crate) fn receive_now(
    _: &Mpi,
    comm: &Comm,
    tag: c_int,
    bytes: &mut [u8],
) -> Result<Option<c_int>> {
    let mut status = empty_status();
    let mut flag: c_int = 0;
    let code = MPI_Iprobe(RSMPI_ANY_SOURCE, tag, comm.handle(), &mut flag, &mut status);
    check(Call::Iprobe, code)?;
    if flag == 0 {
        return Ok(None);
    }
    let from = status.MPI_SOURCE;
    let code = recv(bytes, from, tag, comm, &mut status);
    check(Call::Recv, code)?;
    Ok(Some(from))
}
