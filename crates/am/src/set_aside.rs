//! A call that was set aside: its bytes, until it can be run.

use pgas_core::Rank;
use pgas_core::backend::{HandlerId, Message, MessageClass};

/// The maximum number of calls that are set aside for one reason: for objects, or for teams.
pub(crate) const MAX_SET_ASIDE: usize = 1 << 16;

/// A call that was set aside.
#[derive(Debug)]
pub(crate) struct SetAside {
    from: Rank,
    pub(crate) handler: HandlerId,
    payload: Vec<u8>,
}

impl SetAside {
    pub(crate) fn of(message: &Message<'_>) -> Self {
        Self {
            from: message.from,
            handler: message.handler,
            payload: message.payload.to_vec(),
        }
    }

    pub(crate) fn message(&self) -> Message<'_> {
        Message {
            from: self.from,
            class: MessageClass::Request,
            handler: self.handler,
            payload: &self.payload,
        }
    }
}
