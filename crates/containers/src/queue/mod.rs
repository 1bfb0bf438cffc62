//! Queues in the memory of one rank, which all ranks push to and pop from.
//!
//! | | | price of a push and of a pop |
//! |---|---|---|
//! | [`CircularQueue`] | pushes and pops at the same time | 2A + W, 2A + R |
//! | [`CircularQueue`] in a phase, [`FastQueue`] | pushes only, or pops only | A + W, A + R |
//! | both in the local phase | the host alone | ℓ |
//!
//! Where [ranks serve atomics](pgas_core::backend::Capabilities::ranks_serve_atomics), a rank of
//! another host sends a message (M) for a push or pop of one or many elements, which the queue's
//! host serves, in all phases but the local one. If another rank is still writing or reading an
//! element, the price above comes on top.
//!
//! A *phase* is a promise of all ranks, and a type: what the promise forbids does not compile.
//! Phases are changed by the collective `into_...` methods, which consume the handle. With
//! `PGAS_CHECK=1` ranks that go into different phases get an error that names both.
//!
//! [`pgas_lockfree::tickets`] has the protocol between ranks that push and pop at once, and says
//! why it is linearizable.

mod access;
mod circular;
mod fast;
mod handle;
mod local;
mod phase;
mod ring;
mod served;
#[cfg(test)]
mod tests;

pub use circular::{Circular, CircularQueue};
pub use fast::{Fast, FastQueue};
pub use handle::{Kind, Queue};
pub use phase::{Local, Phase, Pop, Pops, Push, PushPop, Pushes};

/// The interface for other containers that build on queues.
pub(crate) use access::{Access, Request};
/// The protocol of a queue that is pushed to and popped from at once.
use pgas_lockfree::tickets as ticket;
pub(crate) use pgas_lockfree::tickets::{Seen, Size, Tickets};
pub(crate) use ring::{QueueBlock, index, layout, size_of_capacity};

use crate::Error;

/// The reason why nothing was pushed.
#[derive(Debug, thiserror::Error)]
pub enum PushError<T> {
    /// The queue is full; here is the value.
    #[error("the queue is full")]
    Full(T),
    /// The value cannot be encoded, or the communication failed.
    #[error(transparent)]
    Failed(Error),
}

impl<T> PushError<T> {
    /// The value, if the queue was full.
    ///
    /// # Errors
    ///
    /// The error of the push, if it was another one.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::CircularQueue;
    /// use pgas_core::Rank;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let queue = CircularQueue::<u64>::with_capacity(&world, Rank::ZERO, 1)?;
    /// queue.push(1)?;
    /// let refused = queue.push(2).unwrap_err();
    /// assert_eq!(refused.full()?, 2); // given back
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn full(self) -> crate::Result<T> {
        match self {
            Self::Full(value) => Ok(value),
            Self::Failed(error) => Err(error),
        }
    }
}

impl<T> From<Error> for PushError<T> {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<T> From<PushError<T>> for Error {
    /// The value is dropped.
    fn from(error: PushError<T>) -> Self {
        match error {
            PushError::Full(_) => Self::QueueFull,
            PushError::Failed(error) => error,
        }
    }
}
