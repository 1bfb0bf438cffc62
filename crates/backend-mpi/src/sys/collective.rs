//! Collectives: non-blocking ones, and blocking ones for the time before there is a world.
#![expect(unsafe_code, reason = "lends buffers to MPI")]

use std::ffi::{c_int, c_void};
use std::thread;

use mpi::ffi;
use pgas_core::backend::{Collective, Elements, IntegerType};
use pgas_core::collective::OpKind;
use pgas_core::{Error, Pod, Result};

use super::comm::{comm_rank, comm_size, return_errors};
use super::ffi as constants;
use super::ffi::{
    MPI_Comm_split, Object, Operators, RSMPI_COMM_WORLD, RSMPI_UNDEFINED, pgas_mpi_in_place,
};
use super::message::{ibarrier, test};
use super::{Call, Comm, Datatype, Mpi, NAMES, Request, begin_wait, check};

/// A type that gives the right bits. Sums, products and bit operations have the same bits for
/// signed and for unsigned integers, so they use unsigned ones, since C leaves signed overflow
/// undefined.
fn datatype(elements: Elements) -> &'static Datatype {
    let is_ordered = matches!(elements.op, OpKind::Min | OpKind::Max);
    match elements.ty {
        IntegerType::I8 if is_ordered => &constants::RSMPI_INT8_T,
        IntegerType::I16 if is_ordered => &constants::RSMPI_INT16_T,
        IntegerType::I32 if is_ordered => &constants::RSMPI_INT32_T,
        IntegerType::I64 if is_ordered => &constants::RSMPI_INT64_T,
        IntegerType::U8 | IntegerType::I8 => &constants::RSMPI_UINT8_T,
        IntegerType::U16 | IntegerType::I16 => &constants::RSMPI_UINT16_T,
        IntegerType::U32 | IntegerType::I32 => &constants::RSMPI_UINT32_T,
        IntegerType::U64 | IntegerType::I64 => &constants::RSMPI_UINT64_T,
    }
}

fn operator(op: OpKind) -> &'static Object<Operators> {
    match op {
        OpKind::Sum => &constants::RSMPI_SUM,
        OpKind::Product => &constants::RSMPI_PROD,
        OpKind::Min => &constants::RSMPI_MIN,
        OpKind::Max => &constants::RSMPI_MAX,
        OpKind::BitAnd => &constants::RSMPI_BAND,
        OpKind::BitOr => &constants::RSMPI_BOR,
        OpKind::BitXor => &constants::RSMPI_BXOR,
        OpKind::And => &constants::RSMPI_LAND,
        OpKind::Or => &constants::RSMPI_LOR,
    }
}

/// A count as MPI's type. The caller has checked that it fits.
fn count(n: usize) -> c_int {
    c_int::try_from(n).expect("collectives of more than 2^31 elements are declined")
}

/// Begins `collective` among the members of `comm`; this process is number `me`.
///
/// # Safety
///
/// The buffers that the collective has are there, as
/// [`Group::begin`](pgas_core::backend::Group::begin) says, and are left alone until
/// [`test`](super::test) says that the request is complete.
pub(crate) unsafe fn begin_collective(
    mpi: &Mpi,
    (comm, me): (&Comm, u32),
    collective: &Collective,
    send: *const u8,
    values: *mut u8,
) -> Result<Request> {
    let mut request = Request::null();
    let (send, values) = (send.cast(), values.cast::<c_void>());
    let (of, to, in_place) = (comm.raw(), request.place(), pgas_mpi_in_place.raw());
    let byte = Datatype::byte().raw();
    let (call, code) = match *collective {
        Collective::Barrier => return ibarrier(mpi, comm),
        Collective::Broadcast { root, bytes } => {
            let (n, root) = (count(bytes), member(root));
            // SAFETY: MPI reads or writes `n` bytes at `values` until the request is complete: the
            // caller lends them until then. The request's name is written during the call.
            let code = unsafe { ffi::MPI_Ibcast(values, n, byte, root, of, to) };
            (Call::Ibcast, code)
        }
        Collective::Reduce { root, elements } => {
            let from = if root == me {
                in_place
            } else {
                values.cast_const()
            };
            let (n, ty, op) = of_elements(elements);
            let root = member(root);
            // SAFETY: MPI reads `n` elements at `values`, and on the root writes them, until the
            // request is complete: the caller lends them until then. Elsewhere the receive buffer
            // means nothing. The request's name is written during the call.
            let code = unsafe { ffi::MPI_Ireduce(from, values, n, ty, op, root, of, to) };
            (Call::Ireduce, code)
        }
        Collective::Allreduce(elements)
        | Collective::ScanInclusive(elements)
        | Collective::ScanExclusive(elements) => {
            let (combine, call): (Combine, _) = match collective {
                Collective::ScanInclusive(_) => (ffi::MPI_Iscan, Call::Iscan),
                Collective::ScanExclusive(_) => (ffi::MPI_Iexscan, Call::Iexscan),
                _ => (ffi::MPI_Iallreduce, Call::Iallreduce),
            };
            let (n, ty, op) = of_elements(elements);
            // SAFETY: each of the three reads and writes `n` elements at `values`, and nothing at
            // `in_place`, until the request is complete: the caller lends them until then. The
            // request's name is written during the call.
            (call, unsafe {
                combine(in_place, values, n, ty, op, of, to)
            })
        }
        Collective::Gather { root, bytes } => {
            let (n, root) = (count(bytes), member(root));
            // SAFETY: MPI reads `n` bytes at `send`, and on the root writes as many of each member
            // at `values`, until the request is complete: the caller lends them until then. The
            // request's name is written during the call.
            let code = unsafe { ffi::MPI_Igather(send, n, byte, values, n, byte, root, of, to) };
            (Call::Igather, code)
        }
        Collective::Allgather { bytes } | Collective::AllToAll { bytes } => {
            let (exchange, call): (Exchange, _) = match collective {
                Collective::AllToAll { .. } => (ffi::MPI_Ialltoall, Call::Ialltoall),
                _ => (ffi::MPI_Iallgather, Call::Iallgather),
            };
            let n = count(bytes);
            // SAFETY: MPI reads `n` bytes at `send`, or as many for each member, and writes as many
            // of each at `values`, until the request is complete: the caller lends them until then.
            // The request's name is written during the call.
            (call, unsafe {
                exchange(send, n, byte, values, n, byte, of, to)
            })
        }
    };
    check(call, code)?;
    Ok(request)
}

type Combine = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    c_int,
    ffi::MPI_Datatype,
    ffi::MPI_Op,
    ffi::MPI_Comm,
    *mut ffi::MPI_Request,
) -> c_int;

type Exchange = unsafe extern "C" fn(
    *const c_void,
    c_int,
    ffi::MPI_Datatype,
    *mut c_void,
    c_int,
    ffi::MPI_Datatype,
    ffi::MPI_Comm,
    *mut ffi::MPI_Request,
) -> c_int;

fn of_elements(elements: Elements) -> (c_int, ffi::MPI_Datatype, ffi::MPI_Op) {
    let (ty, op) = (datatype(elements), operator(elements.op));
    (count(elements.len), ty.raw(), op.raw())
}

fn member(rank: u32) -> c_int {
    c_int::try_from(rank).expect("MPI counts its ranks with such integers")
}

/// Waits until `request` is complete. Unlike MPI's own waits it yields the processor to the ranks
/// that it waits for, if there are more ranks than processors.
fn finish(mpi: &Mpi, call: Call, mut request: Request) -> Result<()> {
    /// Polls before the first yield.
    const MAX_POLLS: u32 = 100;
    let mut n_polls = 0;
    begin_wait(call, None);
    while !test(mpi, &mut request)? {
        n_polls += 1;
        if n_polls > MAX_POLLS {
            thread::yield_now();
        }
    }
    Ok(())
}

/// Performs `collective`, and returns its values.
fn complete<T: Pod>(
    mpi: &Mpi,
    comm: &Comm,
    (call, collective): (Call, Collective),
    (send, mut values): (Vec<T>, Vec<T>),
) -> Result<Vec<T>> {
    let n_members = usize::try_from(comm_size(mpi, comm)?).expect("MPI counts from zero");
    let (sent, received) = match collective {
        Collective::Broadcast { bytes, .. } => (0, bytes),
        Collective::Allreduce(elements) => (0, elements.bytes()),
        Collective::Allgather { bytes } => (bytes, bytes * n_members),
        _ => unreachable!("{collective:?} is not awaited"),
    };
    assert_eq!(size_of_val(&*send), sent, "{collective:?}");
    assert_eq!(size_of_val(&*values), received, "{collective:?}");
    let me = u32::try_from(comm_rank(mpi, comm)?).expect("MPI counts from zero");
    let (from, to) = (send.as_ptr().cast(), values.as_mut_ptr().cast());
    // SAFETY: both buffers are as long as the collective has them, as was asserted, and any bytes
    // are elements. They are dropped after the request is complete, or never.
    let request = unsafe { begin_collective(mpi, (comm, me), &collective, from, to) }?;
    let finished = finish(mpi, call, request);
    if finished.is_err() {
        // MPI may still be using them.
        send.leak();
        values.leak();
        return finished.map(|()| Vec::new());
    }
    Ok(values)
}

/// Waits for all processes of `comm`, so that a following call that makes them wait for each other
/// inside of MPI is short.
pub(crate) fn meet(mpi: &Mpi, comm: &Comm) -> Result<()> {
    finish(mpi, Call::Ibarrier, ibarrier(mpi, comm)?)
}

/// The smallest or the largest number of all ranks, for numbers below 2^63: MPICH 4.0 compares them
/// as signed ones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extreme {
    Min,
    Max,
}

pub(crate) fn allreduce(mpi: &Mpi, comm: &Comm, value: u64, extreme: Extreme) -> Result<u64> {
    let op = match extreme {
        Extreme::Min => OpKind::Min,
        Extreme::Max => OpKind::Max,
    };
    let (ty, len) = (IntegerType::U64, 1);
    let collective = Collective::Allreduce(Elements { ty, len, op });
    let what = (Call::Iallreduce, collective);
    let values = complete(mpi, comm, what, (Vec::new(), vec![value]))?;
    Ok(values[0])
}

/// Every rank's numbers, in the order of ranks. Each rank gives the same number of them.
pub(crate) fn allgather(
    mpi: &Mpi,
    comm: &Comm,
    n_ranks: usize,
    values: &[u64],
) -> Result<Vec<u64>> {
    let bytes = size_of_val(values);
    let what = (Call::Iallgather, Collective::Allgather { bytes });
    let all = vec![0_u64; n_ranks * values.len()];
    complete(mpi, comm, what, (values.to_vec(), all))
}

/// Broadcasts `values` of `root` to all ranks.
pub(crate) fn bcast(mpi: &Mpi, comm: &Comm, root: c_int, values: &mut [u8]) -> Result<()> {
    let bytes = values.len();
    if c_int::try_from(bytes).is_err() {
        return Err(Error::backend(
            NAMES[Call::Ibcast as usize],
            0,
            "more than 2 GiB",
        ));
    }
    let root = u32::try_from(root).expect("MPI counts from zero");
    let what = (Call::Ibcast, Collective::Broadcast { root, bytes });
    let all = complete(mpi, comm, what, (Vec::new(), values.to_vec()))?;
    values.copy_from_slice(&all);
    Ok(())
}

/// A communicator of our own with the processes of all of MPI.
pub(crate) fn dup_world(mpi: &Mpi) -> Result<Comm> {
    comm_dup(mpi, &RSMPI_COMM_WORLD)
}

/// A communicator of our own with the processes of the application's `comm`; collective.
///
/// # Safety
///
/// `comm` is a valid communicator.
pub(crate) unsafe fn dup_raw(mpi: &Mpi, comm: ffi::MPI_Comm) -> Result<Comm> {
    // SAFETY: the caller promises that it is a communicator, which is needed until the end of this
    // function. It is not ended here.
    let comm = unsafe { Comm::of(comm) };
    comm_dup(mpi, &comm)
}

/// A communicator of our own with the processes of `comm`; collective.
pub(crate) fn comm_dup(mpi: &Mpi, comm: &Comm) -> Result<Comm> {
    let mut new = Box::new(Comm::null());
    let mut request = Request::null();
    // SAFETY: MPI writes to `new` until the request is complete: it is dropped after that, or
    // never. The request's name is written during the call.
    let code = unsafe { ffi::MPI_Comm_idup(comm.raw(), new.place(), request.place()) };
    check(Call::CommIdup, code)?;
    if let Err(error) = finish(mpi, Call::CommIdup, request) {
        // MPI may still write to it.
        Box::leak(new);
        return Err(error);
    }
    return_errors(mpi, &new)?;
    Ok(*new)
}

/// A communicator for ranks with the same colour, in the order of their keys. Collective.
pub(crate) fn comm_split(
    mpi: &Mpi,
    comm: &Comm,
    colour: Option<c_int>,
    key: c_int,
) -> Result<Option<Comm>> {
    let mut new = Comm::null();
    let given = colour.unwrap_or(RSMPI_UNDEFINED);
    begin_wait(Call::CommSplit, None);
    let code = MPI_Comm_split(comm.handle(), given, key, &mut new);
    check(Call::CommSplit, code)?;
    if colour.is_none() {
        return Ok(None);
    }
    return_errors(mpi, &new)?;
    Ok(Some(new))
}
