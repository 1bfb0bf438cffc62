//! Counts of operations, in the units of the BCL paper.

use std::fmt;
use std::ops::Sub;

/// A kind of counted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostKind {
    /// R: a remote read.
    Read,
    /// W: a remote write.
    Write,
    /// A: a remote atomic.
    Atomic,
    /// A message.
    Message,
    /// B: a barrier.
    Barrier,
    /// ℓ: an operation on local memory only.
    Local,
    /// A message that was not taken, for want of room: its sender tries again.
    Refusal,
}

/// Numbers of operations, in the BCL paper's units (section 3): R, W, A, B, ℓ; and of messages.
///
/// Operations on a rank's own memory count as all others do: the price of a program must not depend
/// on where its data happens to lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// R: remote reads (gets).
    pub reads: u64,
    /// W: remote writes (puts).
    pub writes: u64,
    /// A: remote atomics.
    pub atomics: u64,
    /// B: barriers.
    pub barriers: u64,
    /// ℓ: calls of containers that need no communication, by their phase or their kind.
    pub local: u64,
    /// Messages sent. An M is two: the request here, and the answer, which its sender counts.
    pub messages: u64,
    /// Bytes read, written and sent; an atomic counts its operand.
    pub bytes: u64,
}

impl Sub for Costs {
    type Output = Self;

    /// The difference to `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            atomics: self.atomics - earlier.atomics,
            barriers: self.barriers - earlier.barriers,
            local: self.local - earlier.local,
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} R, {} W, {} A, {} B, {} ℓ, {} messages, {} bytes",
            self.reads,
            self.writes,
            self.atomics,
            self.barriers,
            self.local,
            self.messages,
            self.bytes
        )
    }
}

/// What to count; `PGAS_STATS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statistics {
    /// Nothing: an operation pays one predictable branch.
    #[default]
    Off,
    /// Totals of this rank. A near get or put pays 40 to 50 instructions more, a single operation
    /// of a container in shared memory about 170, and one of a batch about ten: containers work as
    /// they do without statistics.
    Total,
    /// Totals, and one set of counters for each peer (memory grows with the number of ranks).
    /// Containers in shared memory access it by operations on global pointers, which takes several
    /// times as long.
    PerPeer,
}
