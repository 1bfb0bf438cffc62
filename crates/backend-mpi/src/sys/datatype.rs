//! Datatypes, for the shapes of memory.

use std::ffi::c_int;

use mpi::ffi::MPI_Aint;
use pgas_core::Result;

use super::ffi::{
    Datatype, MPI_Type_commit, MPI_Type_create_hvector, MPI_Type_free, type_create_hindexed,
};
use super::{Call, Mpi, check};

/// `count` times `inner`, `stride` bytes from one to the next.
pub(crate) fn type_hvector(
    _: &Mpi,
    count: c_int,
    block: c_int,
    stride: isize,
    inner: &Datatype,
) -> Result<Datatype> {
    let mut new = Datatype::null();
    let stride = MPI_Aint::try_from(stride as i128).expect("as wide as an address");
    let code = MPI_Type_create_hvector(count, block, stride, inner.handle(), &mut new);
    check(Call::TypeHvector, code)?;
    Ok(new)
}

/// A block of `inner` for each length, at these distances in bytes from the first place.
pub(crate) fn type_hindexed(
    _: &Mpi,
    lens: &[c_int],
    places: &[isize],
    inner: &Datatype,
) -> Result<Datatype> {
    let mut new = Datatype::null();
    let aint = |place: &isize| MPI_Aint::try_from(*place as i128).expect("as wide as an address");
    let places: Vec<MPI_Aint> = places.iter().map(aint).collect();
    let code = type_create_hindexed(lens, &places, inner, &mut new);
    check(Call::TypeHindexed, code)?;
    Ok(new)
}

/// Commits a type, so that it can be used for communication.
pub(crate) fn type_commit(_: &Mpi, ty: &mut Datatype) -> Result<()> {
    check(Call::TypeCommit, MPI_Type_commit(ty))
}

/// Frees a type. MPI keeps it as long as operations in flight need it.
pub(crate) fn type_free(_: &Mpi, mut ty: Datatype) -> Result<()> {
    check(Call::TypeFree, MPI_Type_free(&mut ty))
}
