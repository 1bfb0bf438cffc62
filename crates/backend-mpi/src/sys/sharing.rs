//! The processes that share memory with this one.

use std::ffi::c_int;
use std::sync::OnceLock;

use pgas_core::Result;

use super::ffi::{
    Group, MPI_Comm_group, MPI_Comm_split_type, MPI_Group_free, RSMPI_COMM_TYPE_SHARED,
    RSMPI_COMM_WORLD, RSMPI_INFO_NULL, RSMPI_UNDEFINED, group_translate_ranks,
};
use super::{Call, Comm, Mpi, begin_wait, check, comm_free, comm_size, meet};

/// The ranks of `comm` that share memory with this process, ascending; collective.
///
/// MPI is asked once, about all of its processes: while it finds the answer they wait for each
/// other and keep their processors, which takes long where there are more of them than processors.
pub(crate) fn ranks_on_this_host(mpi: &Mpi, comm: &Comm) -> Result<Vec<c_int>> {
    /// The host numbers of MPI's world. Either all of its processes know theirs, or none.
    static OF_WORLD: OnceLock<Vec<c_int>> = OnceLock::new();
    let world = Members::of(mpi, &RSMPI_COMM_WORLD)?;
    let group = Members::of(mpi, comm)?;
    let in_world = group.ranks_in(&world)?;
    // A process that MPI has started later has a world of its own. Where processes of several
    // worlds meet, each of them finds one that is not of its own.
    let are_of_world = !in_world.contains(&RSMPI_UNDEFINED);
    if are_of_world && let Some(here) = OF_WORLD.get() {
        let ranks = (0..).zip(in_world);
        let ranks = ranks.filter(|(_, in_world)| here.contains(in_world));
        return Ok(ranks.map(|(rank, _)| rank).collect());
    }
    meet(mpi, comm)?;
    let mut sharing = comm_split_shared(mpi, comm)?;
    let those = Members::of(mpi, &sharing).and_then(|those| {
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

/// The processes of `comm` that share memory with this one, in the order of their ranks;
/// collective.
fn comm_split_shared(_: &Mpi, comm: &Comm) -> Result<Comm> {
    let mut new = Comm::null();
    let (ty, info) = (RSMPI_COMM_TYPE_SHARED, RSMPI_INFO_NULL.handle());
    begin_wait(Call::CommSplitType, None);
    let code = MPI_Comm_split_type(comm.handle(), ty, 0, info, &mut new);
    check(Call::CommSplitType, code)?;
    Ok(new)
}

/// The processes of a communicator.
struct Members<'a> {
    group: Group,
    n_ranks: usize,
    _mpi: &'a Mpi,
}

impl<'a> Members<'a> {
    fn of(mpi: &'a Mpi, comm: &Comm) -> Result<Self> {
        let n_ranks = comm_size(mpi, comm)?;
        let mut group = Group::null();
        let code = MPI_Comm_group(comm.handle(), &mut group);
        check(Call::CommGroup, code)?;
        Ok(Self {
            group,
            n_ranks: usize::try_from(n_ranks).expect("MPI counts from zero"),
            _mpi: mpi,
        })
    }

    /// The rank of each of these processes in `other`, or that of none.
    fn ranks_in(&self, other: &Self) -> Result<Vec<c_int>> {
        let own: Vec<c_int> = (0..).take(self.n_ranks).collect();
        let mut ranks = own.clone();
        let code = group_translate_ranks(&self.group, &own, &other.group, &mut ranks);
        check(Call::GroupTranslateRanks, code)?;
        Ok(ranks)
    }
}

impl Drop for Members<'_> {
    fn drop(&mut self) {
        // A group that stays costs a few bytes.
        drop(check(Call::GroupFree, MPI_Group_free(&mut self.group)));
    }
}
