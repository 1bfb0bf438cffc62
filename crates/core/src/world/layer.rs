//! What a crate above core adds to every world.

use std::any::Any;
use std::fmt;
use std::task::Waker;

use super::World;
use crate::backend::Message;
use crate::error::Result;

/// An extension of every world by a crate above core, such as active messages: messages of its own
/// ([`HandlerId::LAYER`](crate::backend::HandlerId::LAYER)), and work whenever the rank makes
/// progress. See [`World::attach`].
pub trait Layer: Any + fmt::Debug + Send + Sync {
    /// Takes a message for one of the layer's handlers. It may send, but not wait: what waits
    /// inside it is [`Error::InHandler`](crate::Error::InHandler).
    ///
    /// # Errors
    ///
    /// What makes the message useless; the call that made progress reports it.
    fn deliver(&self, world: &World, message: Message<'_>) -> Result<()>;

    /// Does what is left to do, without waiting, and says whether there was any. Called by every
    /// [`World::progress`], so that it costs little when there is nothing.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn advance(&self, world: &World) -> Result<bool>;

    /// Whether requests may be served now. A layer with answers that met back-pressure says no, so
    /// that it is never left with more of them than one batch of requests gives.
    fn accepts_requests(&self) -> bool;

    /// What the handler that runs now works on, for the report of one that does not return.
    fn running(&self) -> Option<String> {
        None
    }

    /// Whether nothing is left that it has promised to send. A rank stays in the job until then.
    fn is_idle(&self) -> bool {
        true
    }

    /// Takes note of a message that came when the rank served none any more, because it was
    /// leaving.
    fn refuse(&self, message: &Message<'_>) {
        let _ = message;
    }

    /// Called when the rank has left, in good order.
    fn end(&self) {}

    /// Takes the waker of a task that waits for an operation, if the layer will wake it after the
    /// next progress; else the task asks to be polled again at once.
    fn wake_after_progress(&self, world: &World, waker: &Waker) -> bool {
        let _ = (world, waker);
        false
    }
}
