//! The kinds of messages, by the ids of their handlers in core.

use pgas_core::backend::HandlerId;

/// A request without payload.
pub(crate) const REQUEST_SHORT: HandlerId = HandlerId(2);
/// A request with a payload in the message.
pub(crate) const REQUEST_MEDIUM: HandlerId = HandlerId(3);
/// A request whose payload lies in the target's segment.
pub(crate) const REQUEST_LONG: HandlerId = HandlerId(4);
/// A reply without payload.
pub(crate) const REPLY_SHORT: HandlerId = HandlerId(5);
/// A reply with a payload in the message.
pub(crate) const REPLY_MEDIUM: HandlerId = HandlerId(6);
/// A remote call whose result is awaited.
pub(crate) const CALL: HandlerId = HandlerId(7);
/// A remote call without an answer.
pub(crate) const CALL_FF: HandlerId = HandlerId(8);
/// The result of a remote call.
pub(crate) const RESULT: HandlerId = HandlerId(9);
/// The error of a remote call.
pub(crate) const FAILURE: HandlerId = HandlerId(10);
/// A part of a call or a result that is longer than a message.
pub(crate) const PIECE: HandlerId = HandlerId(11);
/// A reply whose payload lies in the target's segment.
pub(crate) const REPLY_LONG: HandlerId = HandlerId(12);

/// Whether nobody waits for an answer to such a message.
pub(crate) const fn is_one_way(handler: HandlerId) -> bool {
    matches!(
        handler,
        CALL_FF | REQUEST_SHORT | REQUEST_MEDIUM | REQUEST_LONG
    )
}
