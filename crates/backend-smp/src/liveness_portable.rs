//! What `liveness.rs` does, on systems that are not Linux: nothing, since there are no other processes in a job.

use std::time::Duration;

use crate::control::Control;

/// What shows the others that this process lives: there are none.
#[derive(Debug)]
pub(crate) struct Hold;

/// What a rank that is a process knows of the others' lives: it is the only one.
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
