//! The address of an operation, its identifier while it is in flight, and its stage.

use std::fmt;

use crate::rank::Rank;

/// A place in some rank's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddr {
    /// Whose segment.
    pub rank: Rank,
    /// Bytes from the segment's start.
    pub offset: u64,
}

impl fmt::Display for RemoteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "offset {:#x} of rank {}'s segment",
            self.offset, self.rank
        )
    }
}

/// A non-blocking operation that a backend has in flight.
///
/// An id is given up by the call of [`Backend::test`](super::Backend::test) that reports
/// [`Stage::Operation`]; it must not be used again. Operations that only complete together may have
/// the same id, and each of them may be tested then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u64);

impl OpId {
    /// The operation completed, source and target, while it was begun.
    pub const DONE: Self = Self(0);
}

/// The stage that a non-blocking operation has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The initiator's source buffer may be reused.
    Source,
    /// The operation is complete: a put is visible at the target, a get's or atomic's result is
    /// here.
    Operation,
}
