//! Messages between ranks, as a transport sees them.

use std::ops::Range;
use std::ptr::NonNull;

use crate::rank::Rank;

/// Whether a message is a request or a reply. Each class has buffers of its own, so a reply never
/// waits for room that only requests can free.
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

    /// Whether the sender has to learn that the receiver has left. Not for collectives, whose waits
    /// find it out themselves, nor for questions about long waits, which may be lost.
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
    /// The sender.
    pub from: Rank,
    /// Request or reply.
    pub class: MessageClass,
    /// The handler that it is for.
    pub handler: HandlerId,
    /// The bytes that were sent.
    pub payload: &'a [u8],
}

/// The fate of an offered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a message that met back-pressure was not sent"]
pub enum Sent {
    /// The message is in flight, and the payload's buffer may be reused. A transport may hold it
    /// back for a short time, to send others with it, until this rank makes progress.
    Accepted,
    /// There is no room now; nothing was sent. Make progress, then try again.
    BackPressure,
}

/// Memory of the transport for the payload of one message: it is the caller's alone from
/// [`Backend::prepare`](super::Backend::prepare) to
/// [`Backend::try_commit`](super::Backend::try_commit) or
/// [`Backend::give_back`](super::Backend::give_back).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address, a multiple of eight. The bytes there are initialized, with any values.
    pub start: NonNull<u8>,
    /// The number of bytes that were asked for, or are to be sent.
    pub len: usize,
    /// The transport's number for it.
    pub id: u32,
}

/// The answer of a transport to a request for memory to fill in place.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "offered memory is in use until it is given back"]
pub enum Offer<P> {
    /// Memory that the transport sends from without a copy.
    InPlace(P),
    /// All of the transport's memory is in use now.
    BackPressure,
    /// The transport has no such memory for that rank. The caller builds the payload in its own
    /// memory, and the transport copies it.
    Elsewhere,
}
