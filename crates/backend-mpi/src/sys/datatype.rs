//! Types of elements, and shapes of memory.

use std::ffi::c_int;

use mpi::ffi;
use pgas_core::Result;

use super::{Call, Mpi, check};

/// A type of MPI; those that were made here are freed by [`type_free`].
#[derive(Debug, PartialEq)]
pub(crate) struct Datatype(pub(super) ffi::MPI_Datatype);

// SAFETY: a handle is a name for something inside of MPI, which is the same for every thread.
unsafe impl Send for Datatype {}
// SAFETY: as for `Send`; calls that use it are serialised by `Mpi`.
unsafe impl Sync for Datatype {}

impl Datatype {
    #[inline]
    pub(crate) fn byte() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_UINT8_T })
    }

    pub(crate) fn uint32() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_UINT32_T })
    }

    pub(crate) fn int32() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_INT32_T })
    }

    pub(crate) fn uint64() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_UINT64_T })
    }

    pub(crate) fn int64() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_INT64_T })
    }

    pub(crate) fn float() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_FLOAT })
    }

    pub(crate) fn double() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_DOUBLE })
    }
}

/// `count` times `inner`, `stride` bytes from one to the next.
pub(crate) fn type_hvector(
    _: &Mpi,
    count: c_int,
    block: c_int,
    stride: isize,
    inner: &Datatype,
) -> Result<Datatype> {
    let mut new = Datatype::byte();
    let stride = ffi::MPI_Aint::try_from(stride as i128).expect("as wide as an address");
    // SAFETY: `inner` is a valid type and `new` is writable.
    let code =
        unsafe { ffi::MPI_Type_create_hvector(count, block, stride, inner.0, &raw mut new.0) };
    check(Call::TypeHvector, code)?;
    Ok(new)
}

/// Makes a type fit for communication.
pub(crate) fn type_commit(_: &Mpi, ty: &mut Datatype) -> Result<()> {
    // SAFETY: the type is valid.
    check(Call::TypeCommit, unsafe {
        ffi::MPI_Type_commit(&raw mut ty.0)
    })
}

/// Frees a type; operations in flight keep what they need.
pub(crate) fn type_free(_: &Mpi, mut ty: Datatype) -> Result<()> {
    // SAFETY: the type was made here, and nobody else has the handle.
    check(Call::TypeFree, unsafe { ffi::MPI_Type_free(&raw mut ty.0) })
}
