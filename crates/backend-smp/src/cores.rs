//! Linux only: how many ranks of a host share a processor.

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::OnceLock;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

/// Cores that this process may use: its affinity mask, and the limit of its control group if that
/// is lower.
fn usable_cores() -> u32 {
    let n_usable = std::thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(n_usable).unwrap_or(u32::MAX)
}

/// The processors of a job's ranks, as far as this rank knows them.
///
/// A rank sees its own processors only, and launchers may bind each rank to its own (Open MPI's
/// does, for two ranks on two processors). So all ranks are asked for theirs, once they have
/// joined.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    /// Those that this process may use. The question costs several system calls.
    usable: OnceLock<u32>,
    ranks_per_core: OnceLock<u32>,
}

impl Cores {
    /// The number of ranks for each processor, rounded up. `pid` gives the process of a rank that
    /// has joined.
    #[inline]
    pub(crate) fn ranks_per_core(&self, n_ranks: u32, pid: impl Fn(u32) -> Option<u32>) -> u32 {
        match self.ranks_per_core.get() {
            Some(known) => *known,
            None => self.find_out(n_ranks, pid),
        }
    }

    #[cold]
    fn find_out(&self, n_ranks: u32, pid: impl Fn(u32) -> Option<u32>) -> u32 {
        let n_usable = *self.usable.get_or_init(usable_cores);
        let mut n_cores = n_usable;
        // Otherwise a limit in time, whatever the number of processors.
        let is_bound = || sched_getaffinity(None).is_ok_and(|own| own.count() == n_usable);
        if n_ranks > n_usable && is_bound() {
            // The last ranks join last.
            let pids: Option<Vec<u32>> = (0..n_ranks).rev().map(pid).collect();
            let Some(pids) = pids else {
                // Until all ranks have joined.
                return n_ranks.div_ceil(n_usable);
            };
            // Ranks that are threads, or that this rank must not ask, count with this rank's
            // processors.
            let sets: Option<HashSet<CpuSet>> = pids.into_iter().map(affinity).collect();
            n_cores = sets.map_or(n_usable, |sets| n_in_any(&sets));
        }
        let known = n_ranks.div_ceil(n_cores.max(1));
        *self.ranks_per_core.get_or_init(|| known)
    }
}

/// The processors that a process may use.
fn affinity(pid: u32) -> Option<CpuSet> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    sched_getaffinity(Some(pid)).ok()
}

/// The number of processors in the union of the sets.
fn n_in_any(sets: &HashSet<CpuSet>) -> u32 {
    let all = 0..CpuSet::MAX_CPU;
    let is_in_any = |cpu: &usize| sets.iter().any(|set| set.is_set(*cpu));
    u32::try_from(all.filter(is_in_any).count()).expect("a set has few processors")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        set
    }

    #[test]
    fn ranks_that_are_bound_each_to_its_own_processor_have_as_many_as_they_are() {
        let n_in = |sets: &[&[usize]]| n_in_any(&sets.iter().map(|cpus| set(cpus)).collect());
        assert_eq!(n_in(&[&[0], &[1], &[700]]), 3);
        assert_eq!(n_in(&[&[0, 1], &[0, 1], &[1, 2]]), 3);
        assert_eq!(n_in(&[]), 0);
    }

    #[test]
    fn a_job_is_crowded_until_all_its_ranks_are_there_if_one_has_too_few_processors() {
        let cores = Cores::default();
        let many = usable_cores() * 7 + 1;
        assert_eq!(cores.ranks_per_core(many, |_| None), 8);
        // This process has as many processors as it has, however often it is asked.
        let own = std::process::id();
        assert_eq!(cores.ranks_per_core(many, |_| Some(own)), 8);
        assert_eq!(cores.ranks_per_core(many, |_| None), 8);
        assert!(cores.ranks_per_core.get().is_some(), "it is remembered");
        assert_eq!(Cores::default().ranks_per_core(1, |_| None), 1);
    }
}
