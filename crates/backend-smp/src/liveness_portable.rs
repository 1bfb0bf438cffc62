//! The twin of `liveness.rs` for systems that are not Linux: it does nothing, since a job has no
//! other processes.

use std::time::Duration;

use crate::control::Control;

/// The proof that this process lives; nothing here, since there are no other processes.
#[derive(Debug)]
pub(crate) struct Hold;

/// The checks of other ranks' lives; nothing here, since there are no other processes.
#[derive(Debug)]
pub(crate) struct Liveness;

impl Liveness {
    pub(crate) fn new(_stall: Option<Duration>) -> Self {
        Self
    }

    pub(crate) fn check(&self, _own: u32, n_ranks: u32, _control: &Control<'_>, _hold: &Hold) {
        debug_assert_eq!(n_ranks, 1, "ranks that are processes are Linux's");
    }
}
