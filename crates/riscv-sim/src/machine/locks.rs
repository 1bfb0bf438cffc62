//! Waits for locks of files, which other programs of the host may hold.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

/// The time of the host in which its programs have to release a lock, while all nodes only wait.
/// Simulated time passes at once then, and says nothing about them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The host's time between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// The nodes that wait for locks.
#[derive(Debug, Default)]
pub(super) struct LockWaits {
    nodes: BTreeSet<usize>,
    /// Since when all nodes only wait.
    since: Option<Instant>,
}

impl LockWaits {
    pub(super) fn begin(&mut self, node: usize) {
        self.nodes.insert(node);
    }

    /// A call of this node is over.
    pub(super) fn end(&mut self, node: usize) {
        if self.nodes.remove(&node) {
            self.since = None;
        }
    }

    /// Some nodes do not only wait.
    pub(super) fn forget_time(&mut self) {
        self.since = None;
    }

    /// All nodes only wait. If one waits for a lock, lets some time of the host pass, and returns
    /// whether another program still has time to release it.
    pub(super) fn may_end(&mut self) -> bool {
        if self.nodes.is_empty() {
            return false;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        thread::sleep(PAUSE);
        since.elapsed() < PATIENCE
    }
}
