//! Hints to MPI about an object that it makes.

use std::ffi::CStr;

use pgas_core::Result;

use super::ffi::{Info, MPI_Info_create, MPI_Info_free, MPI_Info_set};
use super::{Call, Mpi, check};

/// Collects hints. A library ignores keys that it does not know.
pub(crate) fn info_create(mpi: &Mpi, hints: &[(&CStr, &CStr)]) -> Result<Info> {
    let mut info = Info::null();
    check(Call::InfoCreate, MPI_Info_create(&mut info))?;
    for (key, value) in hints {
        let code = MPI_Info_set(info.handle(), (*key).into(), (*value).into());
        if let Err(error) = check(Call::InfoSet, code) {
            info_free(mpi, info)?;
            return Err(error);
        }
    }
    Ok(info)
}

/// Frees hints. Objects that were made with them keep what they need.
pub(crate) fn info_free(_: &Mpi, mut info: Info) -> Result<()> {
    check(Call::InfoFree, MPI_Info_free(&mut info))
}
