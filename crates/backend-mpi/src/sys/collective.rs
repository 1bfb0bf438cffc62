//! Collectives in flight, splitting communicators, and the few small messages that go with them.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use mpi::ffi;
use pgas_core::Result;
use pgas_core::backend::{Elements, IntegerType};
use pgas_core::collective::OpKind;

use super::comm::return_errors;
use super::{Call, Comm, Mpi, Request, begin_wait, check};

unsafe extern "C" {
    /// `MPI_IN_PLACE`: what is given stands where the result goes.
    static pgas_mpi_in_place: *const c_void;
}

fn in_place() -> *const c_void {
    // SAFETY: a constant of the shim.
    unsafe { pgas_mpi_in_place }
}

fn byte() -> ffi::MPI_Datatype {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_UINT8_T }
}

/// The type that gives the right bits: sums, products and bits are the same for signed integers, whose
/// overflow C leaves undefined, as for unsigned ones.
fn datatype(elements: Elements) -> ffi::MPI_Datatype {
    let is_ordered = matches!(elements.op, OpKind::Min | OpKind::Max);
    match elements.ty {
        // SAFETY: a constant of the library.
        IntegerType::I8 if is_ordered => unsafe { ffi::RSMPI_INT8_T },
        // SAFETY: a constant of the library.
        IntegerType::I16 if is_ordered => unsafe { ffi::RSMPI_INT16_T },
        // SAFETY: a constant of the library.
        IntegerType::I32 if is_ordered => unsafe { ffi::RSMPI_INT32_T },
        // SAFETY: a constant of the library.
        IntegerType::I64 if is_ordered => unsafe { ffi::RSMPI_INT64_T },
        IntegerType::U8 | IntegerType::I8 => byte(),
        // SAFETY: a constant of the library.
        IntegerType::U16 | IntegerType::I16 => unsafe { ffi::RSMPI_UINT16_T },
        // SAFETY: a constant of the library.
        IntegerType::U32 | IntegerType::I32 => unsafe { ffi::RSMPI_UINT32_T },
        // SAFETY: a constant of the library.
        IntegerType::U64 | IntegerType::I64 => unsafe { ffi::RSMPI_UINT64_T },
    }
}

fn operator(op: OpKind) -> ffi::MPI_Op {
    match op {
        // SAFETY: a constant of the library.
        OpKind::Sum => unsafe { ffi::RSMPI_SUM },
        // SAFETY: a constant of the library.
        OpKind::Product => unsafe { ffi::RSMPI_PROD },
        // SAFETY: a constant of the library.
        OpKind::Min => unsafe { ffi::RSMPI_MIN },
        // SAFETY: a constant of the library.
        OpKind::Max => unsafe { ffi::RSMPI_MAX },
        // SAFETY: a constant of the library.
        OpKind::BitAnd => unsafe { ffi::RSMPI_BAND },
        // SAFETY: a constant of the library.
        OpKind::BitOr => unsafe { ffi::RSMPI_BOR },
        // SAFETY: a constant of the library.
        OpKind::BitXor => unsafe { ffi::RSMPI_BXOR },
        // SAFETY: a constant of the library.
        OpKind::And => unsafe { ffi::RSMPI_LAND },
        // SAFETY: a constant of the library.
        OpKind::Or => unsafe { ffi::RSMPI_LOR },
    }
}

/// A count as MPI wants it; who begins a collective has found it to fit.
fn count(n: usize) -> c_int {
    c_int::try_from(n).expect("collectives of more than 2^31 elements are declined")
}

/// Begins a broadcast in place.
///
/// # Safety
///
/// As many bytes are readable and writable at `values`, until [`test`](super::test) says that it is complete.
pub(crate) unsafe fn ibcast(
    _: &Mpi,
    comm: &Comm,
    root: c_int,
    values: *mut u8,
    bytes: usize,
) -> Result<Request> {
    let mut request = Request::null();
    let values = values.cast();
    let to = &raw mut request.0;
    // SAFETY: the caller promises `bytes` at `values`, until completion; the communicator is valid
    // and `request` is writable.
    let code = unsafe { ffi::MPI_Ibcast(values, count(bytes), byte(), root, comm.0, to) };
    check(Call::Ibcast, code)?;
    Ok(request)
}

/// Begins a reduction, in place on the root.
///
/// # Safety
///
/// All elements are readable and writable at `values`, until [`test`](super::test) says that it is complete.
pub(crate) unsafe fn ireduce(
    _: &Mpi,
    comm: &Comm,
    (root, is_root): (c_int, bool),
    values: *mut u8,
    elements: Elements,
) -> Result<Request> {
    let mut request = Request::null();
    let values = values.cast::<c_void>();
    let from = if is_root {
        in_place()
    } else {
        values.cast_const()
    };
    let (n, ty, op) = (
        count(elements.len),
        datatype(elements),
        operator(elements.op),
    );
    let to = &raw mut request.0;
    // SAFETY: the caller promises all elements at `values`, until completion: the root's send and
    // receive buffer, and the others' send buffer. The receive buffer means nothing but on the
    // root. The communicator is valid and `request` is writable.
    let code = unsafe { ffi::MPI_Ireduce(from, values, n, ty, op, root, comm.0, to) };
    check(Call::Ireduce, code)?;
    Ok(request)
}

/// Which combination of all members' values every member gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combined {
    /// That of all.
    All,
    /// That of those up to and with it.
    Inclusive,
    /// That of those before it.
    Exclusive,
}

/// Begins an allreduce or a scan in place.
///
/// # Safety
///
/// All elements are readable and writable at `values`, until [`test`](super::test) says that it is complete.
pub(crate) unsafe fn icombine(
    _: &Mpi,
    comm: &Comm,
    what: Combined,
    values: *mut u8,
    elements: Elements,
) -> Result<Request> {
    let mut request = Request::null();
    let (from, values) = (in_place(), values.cast());
    let (n, ty, op) = (
        count(elements.len),
        datatype(elements),
        operator(elements.op),
    );
    let to = &raw mut request.0;
    let (call, code) = match what {
        Combined::All => {
            // SAFETY: the caller promises all elements at `values`, until completion; the
            // communicator is valid and `request` is writable.
            let code = unsafe { ffi::MPI_Iallreduce(from, values, n, ty, op, comm.0, to) };
            (Call::Iallreduce, code)
        }
        Combined::Inclusive => {
            // SAFETY: as for an allreduce: a scan in place has the same buffer.
            let code = unsafe { ffi::MPI_Iscan(from, values, n, ty, op, comm.0, to) };
            (Call::Iscan, code)
        }
        Combined::Exclusive => {
            // SAFETY: as for an allreduce: a scan in place has the same buffer.
            let code = unsafe { ffi::MPI_Iexscan(from, values, n, ty, op, comm.0, to) };
            (Call::Iexscan, code)
        }
    };
    check(call, code)?;
    Ok(request)
}

/// Whom the blocks of an exchange are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// One member gets those of all.
    Root(c_int),
    /// Every member gets those of all.
    All,
    /// Every member has one for every member.
    Each,
}

/// Begins an exchange of blocks of `bytes`.
///
/// # Safety
///
/// One block, or one for each member, is readable at `send`, and one of each member writable at `values` where
/// blocks arrive, until [`test`](super::test) says that it is complete.
pub(crate) unsafe fn iexchange(
    _: &Mpi,
    comm: &Comm,
    what: For,
    send: *const u8,
    values: *mut u8,
    bytes: usize,
) -> Result<Request> {
    let mut request = Request::null();
    let (from, values) = (send.cast(), values.cast());
    let (n, ty) = (count(bytes), byte());
    let to = &raw mut request.0;
    let (call, code) = match what {
        For::Root(root) => {
            // SAFETY: the caller promises a block at `send` and, on the root, one of each member at
            // `values`, until completion; the communicator is valid and `request` is writable.
            let code = unsafe { ffi::MPI_Igather(from, n, ty, values, n, ty, root, comm.0, to) };
            (Call::Igather, code)
        }
        For::All => {
            // SAFETY: the caller promises a block at `send` and one of each member at `values`,
            // until completion; the communicator is valid and `request` is writable.
            let code = unsafe { ffi::MPI_Iallgather(from, n, ty, values, n, ty, comm.0, to) };
            (Call::Iallgather, code)
        }
        For::Each => {
            // SAFETY: the caller promises a block for each member at `send` and one of each at
            // `values`, until completion; the communicator is valid and `request` is writable.
            let code = unsafe { ffi::MPI_Ialltoall(from, n, ty, values, n, ty, comm.0, to) };
            (Call::Ialltoall, code)
        }
    };
    check(call, code)?;
    Ok(request)
}

/// A communicator for those that give the same colour, in the order of their keys; collective.
pub(crate) fn comm_split(
    mpi: &Mpi,
    comm: &Comm,
    colour: Option<c_int>,
    key: c_int,
) -> Result<Option<Comm>> {
    // SAFETY: a constant of the library.
    let undefined = unsafe { ffi::RSMPI_UNDEFINED };
    // SAFETY: a constant of the library.
    let mut new = unsafe { ffi::RSMPI_COMM_NULL };
    let given = colour.unwrap_or(undefined);
    begin_wait(Call::CommSplit, None);
    // SAFETY: the communicator is valid and `new` is writable.
    let code = unsafe { ffi::MPI_Comm_split(comm.0, given, key, &raw mut new) };
    check(Call::CommSplit, code)?;
    if colour.is_none() {
        return Ok(None);
    }
    return_errors(mpi, new)?;
    Ok(Some(Comm(new)))
}

/// Receives a message of `bytes.len()` bytes with `tag` from anybody, if one has come, and says from whom.
pub(crate) fn receive_now(
    _: &Mpi,
    comm: &Comm,
    tag: c_int,
    bytes: &mut [u8],
) -> Result<Option<c_int>> {
    // SAFETY: a constant of the library.
    let anybody = unsafe { ffi::RSMPI_ANY_SOURCE };
    let mut status = MaybeUninit::<ffi::MPI_Status>::zeroed();
    let mut flag: c_int = 0;
    let (found, about) = (&raw mut flag, status.as_mut_ptr());
    // SAFETY: the communicator is valid, and both are writable.
    let code = unsafe { ffi::MPI_Iprobe(anybody, tag, comm.0, found, about) };
    check(Call::Iprobe, code)?;
    if flag == 0 {
        return Ok(None);
    }
    // SAFETY: a status is integers, of which every value is valid, and was zeroed.
    let from = unsafe { status.assume_init() }.MPI_SOURCE;
    let (into, n) = (bytes.as_mut_ptr().cast(), count(bytes.len()));
    // SAFETY: as many bytes are writable there.
    let code = unsafe { ffi::MPI_Recv(into, n, byte(), from, tag, comm.0, about) };
    check(Call::Recv, code)?;
    Ok(Some(from))
}
