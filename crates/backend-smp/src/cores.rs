//! Linux only: whether each rank of a host has a processor of its own.

use std::sync::OnceLock;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

/// Cores that this process may use: its affinity mask, and the limit of its control group if that
/// is lower.
fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processors of a job's ranks, as far as this rank knows them.
///
/// A rank sees its own processors only, and launchers may bind each rank to its own (Open MPI's
/// does, for two ranks on two processors). So all ranks are asked for theirs, once they have
/// joined.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    are_too_few: OnceLock<bool>,
}

impl Cores {
    /// Whether there are more ranks than processors. `pid` gives the process of a rank that has
    /// joined.
    #[inline]
    pub(crate) fn are_too_few(&self, n_ranks: u32, pid: impl Fn(u32) -> Option<u32>) -> bool {
        match self.are_too_few.get() {
            Some(known) => *known,
            None => self.find_out(n_ranks, pid),
        }
    }

    #[cold]
    fn find_out(&self, n_ranks: u32, pid: impl Fn(u32) -> Option<u32>) -> bool {
        let n_usable = usable_cores();
        let known = if n_ranks as usize <= n_usable {
            false
        } else if sched_getaffinity(None).is_ok_and(|own| own.count() as usize == n_usable) {
            let pids: Option<Vec<u32>> = (0..n_ranks).map(pid).collect();
            let Some(pids) = pids else {
                // Until all ranks have joined.
                return true;
            };
            let sets = pids.into_iter().map(affinity);
            // Ranks that are threads, or that this rank must not ask, count with this rank's
            // processors.
            sets.collect::<Option<Vec<_>>>()
                .is_none_or(|sets| n_ranks as usize > n_in_any(&sets))
        } else {
            // A limit in time, whatever the number of processors.
            true
        };
        *self.are_too_few.get_or_init(|| known)
    }
}

/// The processors that a process may use.
fn affinity(pid: u32) -> Option<CpuSet> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    sched_getaffinity(Some(pid)).ok()
}

/// The number of processors in the union of the sets.
fn n_in_any(sets: &[CpuSet]) -> usize {
    let all = 0..CpuSet::MAX_CPU;
    all.filter(|cpu| sets.iter().any(|set| set.is_set(*cpu)))
        .count()
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
        assert_eq!(n_in_any(&[set(&[0]), set(&[1]), set(&[700])]), 3);
        assert_eq!(n_in_any(&[set(&[0, 1]), set(&[0, 1]), set(&[0, 1])]), 2);
        assert_eq!(n_in_any(&[]), 0);
    }

    #[test]
    fn a_job_is_crowded_until_all_its_ranks_are_there_if_one_has_too_few_processors() {
        let cores = Cores::default();
        let many = u32::try_from(usable_cores()).unwrap() + 1;
        assert!(cores.are_too_few(many, |_| None));
        // This process has as many processors as it has, however often it is asked.
        let own = std::process::id();
        assert!(cores.are_too_few(many, |_| Some(own)));
        assert!(cores.are_too_few(many, |_| None), "it is remembered");
        assert!(!Cores::default().are_too_few(1, |_| None));
    }
}
