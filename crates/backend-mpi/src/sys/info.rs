//! What MPI is told about an object that it makes.

use std::ffi::CStr;

use mpi::ffi;
use pgas_core::Result;

use super::{Call, Mpi, check};

/// Hints: pairs of a key and a value.
#[derive(Debug)]
pub(crate) struct Info(pub(super) ffi::MPI_Info);

/// Collects hints. A library passes over keys that it does not know.
pub(crate) fn info_create(mpi: &Mpi, hints: &[(&CStr, &CStr)]) -> Result<Info> {
    // SAFETY: a constant of the library.
    let mut info = Info(unsafe { ffi::RSMPI_INFO_NULL });
    // SAFETY: the handle is writable.
    let code = unsafe { ffi::MPI_Info_create(&raw mut info.0) };
    check(Call::InfoCreate, code)?;
    for (key, value) in hints {
        // SAFETY: the handle is valid, and both texts end with a zero.
        let code = unsafe { ffi::MPI_Info_set(info.0, key.as_ptr(), value.as_ptr()) };
        if let Err(error) = check(Call::InfoSet, code) {
            info_free(mpi, info)?;
            return Err(error);
        }
    }
    Ok(info)
}

/// Frees hints; what was made with them keeps what it needs.
pub(crate) fn info_free(_: &Mpi, mut info: Info) -> Result<()> {
    // SAFETY: the handle is valid, and nobody has another one.
    check(Call::InfoFree, unsafe {
        ffi::MPI_Info_free(&raw mut info.0)
    })
}
