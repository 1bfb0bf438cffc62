//! Which processes share memory with this one.

use std::ffi::c_int;
use std::sync::OnceLock;

use mpi::ffi;
use pgas_core::Result;

use super::{Call, Comm, Mpi, begin_wait, check, comm_free, comm_size, meet};

/// The ranks of `comm` that share memory with this process, ascending; collective.
///
/// MPI is asked once, about all of its processes: while it finds the answer they wait for each other
/// and keep their processors, which takes long where there are more of them than processors.
pub(crate) fn ranks_on_this_host(mpi: &Mpi, comm: &Comm) -> Result<Vec<c_int>> {
    /// Those of MPI's world. Either all of its processes know theirs, or none.
    static OF_WORLD: OnceLock<Vec<c_int>> = OnceLock::new();
    // SAFETY: a constant of the library.
    let world = Group::of(mpi, &Comm(unsafe { ffi::RSMPI_COMM_WORLD }))?;
    let group = Group::of(mpi, comm)?;
    let in_world = group.ranks_in(&world)?;
    // A process that MPI has started later has a world of its own. Where processes of several worlds
    // meet, each of them finds one that is not of its own.
    let are_of_world = !in_world.contains(&undefined());
    if are_of_world && let Some(here) = OF_WORLD.get() {
        let ranks = (0..).zip(in_world);
        let ranks = ranks.filter(|(_, in_world)| here.contains(in_world));
        return Ok(ranks.map(|(rank, _)| rank).collect());
    }
    meet(mpi, comm)?;
    let mut sharing = comm_split_shared(mpi, comm)?;
    let those = Group::of(mpi, &sharing).and_then(|those| {
        let ranks = those.ranks_in(&group)?;
        Ok((ranks, those.ranks_in(&world)?))
    });
    comm_free(mpi, &mut sharing)?;
    let (ranks, of_world) = those?;
    if are_of_world && in_world.len() == world.n_ranks {
        OF_WORLD.get_or_init(|| of_world);
    }
    Ok(ranks)
}

/// The processes of `comm` that share memory with this one, in the order of their ranks; collective.
fn comm_split_shared(_: &Mpi, comm: &Comm) -> Result<Comm> {
    // SAFETY: a constant of the library.
    let shared = unsafe { ffi::RSMPI_COMM_TYPE_SHARED };
    // SAFETY: a constant of the library.
    let info = unsafe { ffi::RSMPI_INFO_NULL };
    // SAFETY: a constant of the library.
    let mut new = unsafe { ffi::RSMPI_COMM_NULL };
    begin_wait(Call::CommSplitType, None);
    // SAFETY: the communicator is valid and `new` is writable.
    let code = unsafe { ffi::MPI_Comm_split_type(comm.0, shared, 0, info, &raw mut new) };
    check(Call::CommSplitType, code)?;
    Ok(Comm(new))
}

/// What stands for a rank that there is not.
fn undefined() -> c_int {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_UNDEFINED }
}

/// The processes of a communicator.
struct Group<'a> {
    group: ffi::MPI_Group,
    n_ranks: usize,
    _mpi: &'a Mpi,
}

impl<'a> Group<'a> {
    fn of(mpi: &'a Mpi, comm: &Comm) -> Result<Self> {
        let n_ranks = comm_size(mpi, comm)?;
        // SAFETY: a constant of the library.
        let mut group = unsafe { ffi::RSMPI_GROUP_NULL };
        // SAFETY: the communicator is valid and `group` is writable.
        let code = unsafe { ffi::MPI_Comm_group(comm.0, &raw mut group) };
        check(Call::CommGroup, code)?;
        Ok(Self {
            group,
            n_ranks: usize::try_from(n_ranks).expect("MPI counts from zero"),
            _mpi: mpi,
        })
    }

    /// The rank of each of these processes in `other`, or [`undefined`].
    fn ranks_in(&self, other: &Self) -> Result<Vec<c_int>> {
        let own: Vec<c_int> = (0..).take(self.n_ranks).collect();
        let mut ranks = own.clone();
        let n = c_int::try_from(own.len()).expect("so many MPI has counted");
        let (from, to) = (own.as_ptr(), ranks.as_mut_ptr());
        // SAFETY: both groups are valid until they are dropped; `n` ranks of the first one are
        // readable, and as many writable.
        let code = unsafe { ffi::MPI_Group_translate_ranks(self.group, n, from, other.group, to) };
        check(Call::GroupTranslateRanks, code)?;
        Ok(ranks)
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        // SAFETY: the group is valid, and nobody has it after this.
        let code = unsafe { ffi::MPI_Group_free(&raw mut self.group) };
        // A group that stays costs a few bytes.
        drop(check(Call::GroupFree, code));
    }
}
