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
    /// Remote loads that it asked for.
    pub remote_loads: u64,
    /// Remote stores that it asked for.
    pub remote_stores: u64,
    /// Remote atomics that it asked for.
    pub remote_atomics: u64,
    /// Words that other nodes read, wrote or changed in its memory.
    pub served: u64,
    /// The code with which its guest ended.
    pub exit_code: Option<u64>,
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
