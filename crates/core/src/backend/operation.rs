//! The address of an operation, its identifier while it is in flight, and its stage.

use std::fmt;

use crate::rank::Rank;

/// A place in some rank's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddr {
    /// The rank whose segment it is.
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
/// An id is valid until the call of [`Backend::test`](super::Backend::test) that reports
/// [`Stage::Operation`]. Operations that only complete together may have the same id; then each of
/// them may be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u64);

impl OpId {
    /// The id of an operation that was complete, at source and target, when its begin returned.
    pub const DONE: Self = Self(0);
}

/// The stage that a non-blocking operation has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The initiator's source buffer may be reused.
    Source,
    /// The operation is complete: a put is visible at the target, the result of a get or an atomic
    /// is here.
    Operation,
}
