//! Cores that wait for interrupts, of which there are none, and how a run is found out to be stuck.

use super::Machine;
use crate::error::{Error, Result};

/// How often every core may wait, while nothing is written for another, before the run is stuck. A
/// guest that looks at its memory between waits has seen all that there is to see by then. One that
/// looks at a counter has not, for it may wait for a time.
const PATIENCE: u32 = 1000;

/// A core that does more instructions than this between two waits is not idle.
const BUSY: u64 = 10_000;

/// How long a core has only waited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    n_waits: u32,
    /// Its instructions at the last wait.
    instret: u64,
    /// What had been written by then.
    n_written: u64,
}

impl Machine {
    /// A core waits for an interrupt: others may go on, and it does after a while.
    ///
    /// # Errors
    /// [`Error::AllWait`] if all cores of nodes that have not ended only wait.
    pub(crate) fn wait(&mut self, node: usize, core: usize) -> Result<()> {
        let instret = self.nodes[node].harts[core].instret();
        let n_written = self.n_written;
        let looks_at_time = self.nodes[node].harts[core].take_counter_read();
        let idle = &mut self.nodes[node].idle[core];
        let goes_on =
            !looks_at_time && idle.n_written == n_written && instret - idle.instret <= BUSY;
        *idle = Idle {
            n_waits: if goes_on { idle.n_waits + 1 } else { 1 },
            instret,
            n_written,
        };
        if idle.n_waits < PATIENCE || !self.all_wait() {
            return Ok(());
        }
        if self.wait_for_host() {
            return Ok(());
        }
        Err(Error::AllWait)
    }

    /// A core waits no longer, although nothing need have been written: a lock was released.
    pub(super) fn end_idleness(&mut self, node: usize, core: usize) {
        self.nodes[node].idle[core] = Idle::default();
    }

    fn all_wait(&self) -> bool {
        let unfinished = self.nodes.iter().filter(|node| node.exit_code.is_none());
        let mut cores = unfinished.flat_map(|node| node.harts.iter().zip(&node.idle));
        cores.all(|(hart, idle)| {
            idle.n_written == self.n_written
                && idle.n_waits >= PATIENCE
                && hart.instret() - idle.instret <= BUSY
        })
    }
}
