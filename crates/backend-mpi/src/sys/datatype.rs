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

/// A block of `inner` for each length, so many bytes from the first place.
pub(crate) fn type_hindexed(
    _: &Mpi,
    lens: &[c_int],
    places: &[isize],
    inner: &Datatype,
) -> Result<Datatype> {
    assert_eq!(lens.len(), places.len(), "a place for each block");
    let mut new = Datatype::byte();
    let n_blocks =
        c_int::try_from(lens.len()).expect("a block has a byte, and core keeps to max_transfer");
    let aint =
        |place: &isize| ffi::MPI_Aint::try_from(*place as i128).expect("as wide as an address");
    let places: Vec<ffi::MPI_Aint> = places.iter().map(aint).collect();
    let (lens, places, to) = (lens.as_ptr(), places.as_ptr(), &raw mut new.0);
    // SAFETY: there are so many lengths and places, `inner` is a valid type, and `new` is writable.
    let code = unsafe { ffi::MPI_Type_create_hindexed(n_blocks, lens, places, inner.0, to) };
    check(Call::TypeHindexed, code)?;
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
