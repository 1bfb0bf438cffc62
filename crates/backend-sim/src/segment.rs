//! What a rank's segment holds: first the memory of this backend, then that of core.

/// Payload of a message at most.
pub(crate) const MOST_PAYLOAD: usize = 1024;

/// Messages of a class that may be on their way between two ranks.
pub(crate) const SLOTS: u64 = 4;

/// A slot: the number of its message, its handler and length, its payload.
const SLOT_BYTES: u64 = 16 + MOST_PAYLOAD as u64;

/// What a rank keeps for messages of one class from another rank, and of how many it was told that
/// they were taken there.
const LANE_BYTES: u64 = 8 + SLOTS * SLOT_BYTES;

/// The words about the job: who has failed.
const JOB_BYTES: u64 = 64;

/// The text of why.
pub(crate) const CAUSE_BYTES: u64 = 192;

const PAGE: u64 = 4096;

/// Where things lie in every rank's segment, by their distance from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    n_ranks: u64,
}

impl Layout {
    pub(crate) const fn new(n_ranks: u32) -> Self {
        Self {
            n_ranks: n_ranks as u64,
        }
    }

    /// The rank that has failed plus one, followed by the length of the text.
    pub(crate) const fn failure() -> u64 {
        0
    }

    pub(crate) const fn cause() -> u64 {
        JOB_BYTES
    }

    /// 1 when `rank` has left.
    pub(crate) const fn left(rank: u32) -> u64 {
        JOB_BYTES + CAUSE_BYTES + 8 * rank as u64
    }

    const fn lane(self, peer: u32, class: usize) -> u64 {
        JOB_BYTES + CAUSE_BYTES + 8 * self.n_ranks + (2 * peer as u64 + class as u64) * LANE_BYTES
    }

    /// How many messages to `peer` it has taken; `peer` says so.
    pub(crate) const fn taken(self, peer: u32, class: usize) -> u64 {
        self.lane(peer, class)
    }

    /// The slot for message `number` from `peer`.
    pub(crate) const fn slot(self, peer: u32, class: usize, number: u64) -> u64 {
        self.lane(peer, class) + 8 + number % SLOTS * SLOT_BYTES
    }

    /// The bytes of all this.
    pub(crate) const fn bytes(self) -> u64 {
        let n_ranks = self.n_ranks as u32;
        self.lane(n_ranks, 0).next_multiple_of(PAGE)
    }
}
