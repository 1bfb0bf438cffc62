//! Messages between ranks, as a transport sees them.

use std::ops::Range;
use std::ptr::NonNull;

use crate::rank::Rank;

/// Whether a message opens an exchange or answers one; each class has buffers of its own, so that a
/// reply never waits for room that only requests can free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageClass {
    /// Opens an exchange. Its handler may send replies.
    Request,
    /// Answers a request. Its handler may send nothing.
    Reply,
}

/// Which handler a message is for: 0 to [`HandlerId::N_RESERVED`] - 1 are core's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandlerId(pub u16);

impl HandlerId {
    /// The number of ids that core keeps for itself.
    pub const N_RESERVED: u16 = 16;
    /// Questions and answers about long waits.
    pub const WATCH: Self = Self(0);
    /// Messages of core's collectives.
    pub const COLLECTIVE: Self = Self(1);
    /// Messages of the [`Layer`](crate::Layer) above core.
    pub const LAYER: Range<u16> = 2..Self::N_RESERVED;

    /// Whether a sender has to hear that the receiver has left: who awaits a collective finds that
    /// out, and a question about a long wait may be lost.
    #[must_use]
    pub fn is_heard_of(self) -> bool {
        self.0 >= Self::LAYER.start
    }

    /// Panics if the id is reserved.
    #[track_caller]
    #[inline]
    pub(crate) fn assert_free(self) {
        assert!(self.0 >= Self::N_RESERVED, "handler {} is reserved", self.0);
    }
}

/// A received message; its payload is valid while the sink runs.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Who sent it.
    pub from: Rank,
    /// Request or reply.
    pub class: MessageClass,
    /// For whom.
    pub handler: HandlerId,
    /// What was sent.
    pub payload: &'a [u8],
}

/// The fate of an offered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a message that met back-pressure was not sent"]
pub enum Sent {
    /// The message is in flight, and the payload's buffer may be reused. A transport may keep it
    /// for a short time, so that others go with it, until this rank makes progress.
    Accepted,
    /// There is no room now; nothing was sent. Make progress, then try again.
    BackPressure,
}

/// Memory of the transport's own, for the payload of one message: the caller's alone from
/// [`Backend::prepare`](super::Backend::prepare) to
/// [`Backend::try_commit`](super::Backend::try_commit) or
/// [`Backend::give_back`](super::Backend::give_back).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it begins, at a multiple of eight. It holds bytes, whichever.
    pub start: NonNull<u8>,
    /// How many bytes were asked for, or are to be sent.
    pub len: usize,
    /// Which of its places the transport gave.
    pub id: u32,
}

/// The answer of a transport to a request for memory to fill in place.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is offered is in use until it is given back"]
pub enum Offer<P> {
    /// Memory that the transport sends from without a copy.
    InPlace(P),
    /// There would be some, but all of it is in use now.
    BackPressure,
    /// The transport has no such memory for that rank: the payload is filled in other memory, and
    /// copied.
    Elsewhere,
}
