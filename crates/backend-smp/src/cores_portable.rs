//! The twin of `cores.rs` for systems that are not Linux, where all ranks of a job are threads of
//! this process.

use std::num::NonZero;
use std::sync::OnceLock;
use std::thread;

/// The processors of a job's ranks.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    n_usable: OnceLock<u32>,
}

impl Cores {
    /// The number of ranks for each processor of this process, rounded up.
    #[inline]
    pub(crate) fn ranks_per_core(&self, n_ranks: u32, _pid: impl Fn(u32) -> Option<u32>) -> u32 {
        let ask = || thread::available_parallelism().map_or(1, NonZero::get);
        let n_usable = || u32::try_from(ask()).unwrap_or(u32::MAX);
        n_ranks.div_ceil(*self.n_usable.get_or_init(n_usable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rank_always_has_a_processor_and_a_million_ranks_have_not() {
        let cores = Cores::default();
        assert_eq!(cores.ranks_per_core(1, |_| None), 1);
        assert!(cores.ranks_per_core(1_000_000, |_| None) > 1);
    }
}
