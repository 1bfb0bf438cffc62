//! Waits for locks of files, which other programs of the host may hold.

use std::collections::{BTreeSet, HashSet};
use std::thread;
use std::time::Duration;

use super::Machine;
use crate::linux::Process;

/// The host's time between two looks whether another program has released a lock. Simulated time
/// passes at once where all nodes only wait, and says nothing about such programs.
const PAUSE: Duration = Duration::from_millis(1);

/// The nodes that wait for locks.
#[derive(Debug, Default)]
pub(super) struct LockWaits {
    nodes: BTreeSet<usize>,
    has_paused: bool,
}

impl LockWaits {
    pub(super) fn begin(&mut self, node: usize) {
        self.nodes.insert(node);
    }

    /// A call of this node is over.
    pub(super) fn end(&mut self, node: usize) {
        self.nodes.remove(&node);
    }

    /// Whether the host's time has passed since this was asked last: whoever limits or interrupts a
    /// run may look.
    pub(super) const fn take_pause(&mut self) -> bool {
        std::mem::replace(&mut self.has_paused, false)
    }
}

impl Machine {
    /// All nodes only wait. If one waits for a lock that no node has, lets some time of the host
    /// pass: another program has it, and may release it whenever it likes.
    pub(super) fn wait_for_host(&mut self) -> bool {
        let waits = &mut self.lock_waits;
        if waits.nodes.is_empty() {
            return false;
        }
        let held: HashSet<_> = self.processes.iter().flat_map(Process::locked).collect();
        let wanted = waits
            .nodes
            .iter()
            .map(|node| self.processes[*node].wanted());
        if !wanted.flatten().any(|file| !held.contains(&file)) {
            return false;
        }
        thread::sleep(PAUSE);
        waits.has_paused = true;
        true
    }
}
