//! The twin of `cores.rs` for systems that are not Linux, where all ranks of a job are threads of
//! this process.

use std::sync::OnceLock;

/// The processors of a job's ranks.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    n_usable: OnceLock<usize>,
}

impl Cores {
    /// Whether the ranks are more than the processors of this process.
    #[inline]
    pub(crate) fn are_too_few(&self, n_ranks: u32, _pid: impl Fn(u32) -> Option<u32>) -> bool {
        let n_usable = || std::thread::available_parallelism().map_or(1, usize::from);
        n_ranks as usize > *self.n_usable.get_or_init(n_usable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rank_always_has_a_processor_and_a_million_ranks_have_not() {
        let cores = Cores::default();
        assert!(!cores.are_too_few(1, |_| None));
        assert!(cores.are_too_few(1_000_000, |_| None));
    }
}
