//! What a run counts.

use serde::Serialize;

use crate::remote::{Action, Direction};

/// What a machine counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// By node.
    pub nodes: Vec<NodeStats>,
}

/// What one node counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeStats {
    /// Instructions completed.
    pub instructions: u64,
    /// Atomics on its own memory by its own cores: a store-conditional is one if it stores.
    pub local_atomics: u64,
    /// Remote loads that it asked for: of a bulk transfer, its elements.
    pub remote_loads: u64,
    /// Remote stores that it asked for.
    pub remote_stores: u64,
    /// Remote atomics that it asked for.
    pub remote_atomics: u64,
    /// Words of its memory that were read, written or changed through the network.
    pub served: u64,
    /// The code with which its guest ended.
    pub exit_code: Option<u64>,
    /// What it counted in the region of interest, if its guest marked one.
    pub region: Option<Region>,
}

/// What one node counted while its guest was in the region of interest: from a write of 1 to
/// control and status register 0x800 to one of 0, as often as that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Instructions completed.
    pub instructions: u64,
    /// Cycles, where a timed model counts them; those of a region that the run does not leave are
    /// missing.
    pub cycles: Option<u64>,
    /// Atomics on its own memory.
    pub local_atomics: u64,
    /// Remote loads that it asked for: of a bulk transfer, its elements.
    pub remote_loads: u64,
    /// Remote stores that it asked for.
    pub remote_stores: u64,
    /// Remote atomics that it asked for.
    pub remote_atomics: u64,
    /// Words of its memory that were read, written or changed through the network.
    pub served: u64,
}

impl Region {
    /// Adds what was counted between two moments.
    pub(super) const fn add(&mut self, then: &NodeStats, now: &NodeStats) {
        self.instructions += now.instructions - then.instructions;
        self.local_atomics += now.local_atomics - then.local_atomics;
        self.remote_loads += now.remote_loads - then.remote_loads;
        self.remote_stores += now.remote_stores - then.remote_stores;
        self.remote_atomics += now.remote_atomics - then.remote_atomics;
        self.served += now.served - then.served;
    }
}

impl NodeStats {
    /// Counts what this node asked for.
    pub(super) fn asked(&mut self, action: &Action) {
        match action {
            Action::Load(_) | Action::LoadReserved(_) => self.remote_loads += 1,
            Action::Store(..) => self.remote_stores += 1,
            Action::Atomic(..) | Action::CompareSwap(..) | Action::StoreConditional(..) => {
                self.remote_atomics += 1;
            }
            Action::Bulk {
                direction,
                n_elements,
                ..
            } => match direction {
                Direction::Load => self.remote_loads += n_elements,
                Direction::Store => self.remote_stores += n_elements,
            },
        }
    }
}
