//! The shared state of a job's ranks.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::flight::Operation;
use super::mailbox::{Bell, Mailbox};
use super::segment::Segment;
use crate::backend::Capabilities;
use crate::error::RankFailure;
use crate::rank::Rank;

/// The shared state of a job's ranks.
pub(super) struct Job {
    pub(super) ranks: Box<[Member]>,
    pub(super) segment_bytes: u64,
    pub(super) capabilities: Capabilities,
    /// Handles on groups that are alive.
    pub(super) n_groups: AtomicUsize,
    pub(super) failure: OnceLock<RankFailure>,
}

/// The state of a rank that the others access.
pub(super) struct Member {
    pub(super) segment: Segment,
    pub(super) mailbox: Mailbox,
    pub(super) bell: Bell,
    pub(super) has_left: AtomicBool,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({} ranks)", self.ranks.len())
    }
}

impl Job {
    pub(super) fn member(&self, rank: Rank) -> &Member {
        &self.ranks[rank.index()]
    }

    /// Records the job's first failure and wakes sleeping ranks.
    pub(super) fn fail(&self, rank: Rank, cause: String) {
        if self.failure.set(RankFailure { rank, cause }).is_ok() {
            self.wake_all();
        }
    }

    pub(super) fn wake_all(&self) {
        for member in &self.ranks {
            member.bell.ring();
        }
    }

    pub(super) fn perform(&self, operation: Operation) {
        operation.perform(
            |rank| &self.member(rank).segment,
            |rank| self.member(rank).bell.ring(),
        );
    }
}
