//! Message handlers and their arguments.

use std::cell::Cell;
use std::panic::Location;

use pgas_core::{GlobalPtr, Rank, World, part_of_earlier};

use super::opening::{long_opening, opening};
use crate::codec::Wire;
use crate::future::{Completes as _, PgasFuture};
use crate::ids::{REPLY_LONG, REPLY_MEDIUM, REPLY_SHORT};
use crate::send::fits;
use crate::state::Am;
use pgas_core::{Error, Result};

/// The payload of a message, besides its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// No payload: the message was short.
    Short,
    /// Bytes, which begin at a multiple of eight and are valid while the handler runs.
    Medium(&'a [u8]),
    /// The address and number of bytes that the sender has put into this rank's segment.
    Long(GlobalPtr<u8>, usize),
}

/// Handles requests.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use pgas_am::{ActiveMessages, Origin, Payload, ReplyHandler, RequestHandler, Token};
///
/// struct Square;
/// impl RequestHandler for Square {
///     type Args = u64;
///     fn handle(&self, token: Token<'_>, x: u64, _: Payload<'_>) -> pgas_am::Result<()> {
///         token.reply::<Squared>(&(x * x))
///     }
/// }
///
/// struct Squared(Arc<AtomicU64>);
/// impl ReplyHandler for Squared {
///     type Args = u64;
///     fn handle(&self, _: Origin<'_>, xx: u64, _: Payload<'_>) -> pgas_am::Result<()> {
///         self.0.store(xx, Ordering::Relaxed);
///         Ok(())
///     }
/// }
///
/// let world = pgas_core::backend::loopback::world();
/// pgas_am::attach(&world)?;
/// let answer = Arc::new(AtomicU64::new(0));
/// world.register(Square)?;
/// world.register_reply(Squared(answer.clone()))?;
/// world.barrier()?; // all ranks have registered theirs
/// world.request::<Square>(world.rank(), &7)?;
/// world.wait_for("a square", || Ok(answer.load(Ordering::Relaxed) == 49))?;
/// # Ok::<(), pgas_am::Error>(())
/// ```
///
/// A second reply does not compile:
///
/// ```compile_fail,E0382
/// use pgas_am::{Origin, Payload, ReplyHandler, RequestHandler, Token};
///
/// struct Ask;
/// struct Answer;
/// impl ReplyHandler for Answer {
///     type Args = u64;
///     fn handle(&self, _: Origin<'_>, _: u64, _: Payload<'_>) -> pgas_am::Result<()> { Ok(()) }
/// }
/// impl RequestHandler for Ask {
///     type Args = u64;
///     fn handle(&self, token: Token<'_>, x: u64, _: Payload<'_>) -> pgas_am::Result<()> {
///         token.reply::<Answer>(&x)?;
///         token.reply::<Answer>(&x)
///     }
/// }
/// ```
pub trait RequestHandler: Send + Sync + 'static {
    /// The arguments of the request.
    type Args: Wire;

    /// Handles a request.
    ///
    /// # Errors
    ///
    /// Any; the call that made progress on this rank returns it.
    fn handle(&self, token: Token<'_>, args: Self::Args, payload: Payload<'_>) -> Result<()>;
}

/// Handles replies.
///
/// A reply cannot be replied to:
///
/// ```compile_fail,E0599
/// use pgas_am::{Origin, Payload, ReplyHandler};
///
/// struct Answer;
/// impl ReplyHandler for Answer {
///     type Args = u64;
///     fn handle(&self, origin: Origin<'_>, x: u64, _: Payload<'_>) -> pgas_am::Result<()> {
///         origin.reply::<Answer>(&x)
///     }
/// }
/// ```
///
/// # Examples
///
/// See [`RequestHandler`].
pub trait ReplyHandler: Send + Sync + 'static {
    /// The arguments of the reply.
    type Args: Wire;

    /// Handles a reply.
    ///
    /// # Errors
    ///
    /// Any; the call that made progress on this rank returns it.
    fn handle(&self, origin: Origin<'_>, args: Self::Args, payload: Payload<'_>) -> Result<()>;
}

/// The sender of a message, and the world that handles it.
///
/// # Examples
///
/// See [`ActiveMessages`](super::ActiveMessages).
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    pub(super) world: &'a World,
    pub(super) from: Rank,
}

impl<'a> Origin<'a> {
    #[inline]
    pub(super) fn new(world: &'a World, from: Rank) -> Self {
        Self { world, from }
    }

    /// The world of the rank that runs the handler.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &'a World {
        self.world
    }

    /// The sender of the message.
    #[must_use]
    #[inline]
    pub fn from(&self) -> Rank {
        self.from
    }
}

/// The right to reply to a request, once.
///
/// # Examples
///
/// See [`ActiveMessages`](super::ActiveMessages).
#[derive(Debug)]
pub struct Token<'a> {
    pub(super) origin: Origin<'a>,
    pub(super) am: &'a Am,
    /// Whether a reply was sent. The request then counts as served when the reply has arrived.
    pub(super) has_replied: &'a Cell<bool>,
}

impl<'a> Token<'a> {
    #[inline]
    pub(super) fn new(origin: Origin<'a>, am: &'a Am, has_replied: &'a Cell<bool>) -> Self {
        Self {
            origin,
            am,
            has_replied,
        }
    }

    /// The world of the rank that runs the handler.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &'a World {
        self.origin.world
    }

    /// The sender of the request.
    #[must_use]
    #[inline]
    pub fn from(&self) -> Rank {
        self.origin.from
    }

    /// Replies without payload. Does not wait: a reply that finds no room is sent later.
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return.
    ///
    /// # Errors
    ///
    /// [`Error::MessageTooLong`](pgas_core::Error::MessageTooLong),
    /// [`Error::Codec`](pgas_core::Error::Codec), or errors of the transport.
    ///
    /// # Examples
    ///
    /// See [`RequestHandler`].
    #[inline]
    #[track_caller]
    pub fn reply<H: ReplyHandler>(self, args: &H::Args) -> Result<()> {
        let Origin { world, from } = self.origin;
        let out = opening::<H, _>(args)?;
        fits(world, from, out.bytes().len())?;
        self.has_replied.set(true);
        self.am.reply(world, from, REPLY_SHORT, &[out.bytes()])
    }

    /// Replies with a payload of up to [`max_medium`](super::ActiveMessages::max_medium) bytes.
    /// Does not wait.
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return: the payload's buffer may be reused.
    ///
    /// # Errors
    ///
    /// As [`reply`](Self::reply).
    #[inline]
    #[track_caller]
    pub fn reply_medium<H: ReplyHandler>(self, args: &H::Args, payload: &[u8]) -> Result<()> {
        let Origin { world, from } = self.origin;
        let mut out = opening::<H, _>(args)?;
        out.align();
        fits(world, from, out.bytes().len() + payload.len())?;
        let parts = [out.bytes(), payload];
        self.has_replied.set(true);
        self.am.reply(world, from, REPLY_MEDIUM, &parts)
    }

    /// Puts `payload` to `dst`, in the segment of the rank that sent the request, and then runs the
    /// reply's handler there, which finds the whole payload. Does not wait: the future gives the
    /// payload's buffer back, and the message is sent, when the transfer is complete. Dropping the
    /// future only drops the buffer.
    ///
    /// # Cost
    ///
    /// W and one message.
    ///
    /// # Errors
    ///
    /// As [`reply`](Self::reply). The future has the error of the transfer; no reply is sent then.
    ///
    /// # Panics
    ///
    /// If `dst`, or the bytes after it, are not in the segment of the rank that sent the request.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::{ActiveMessages, Origin, Payload, ReplyHandler, RequestHandler, Token, quiet};
    /// use pgas_core::GlobalPtr;
    ///
    /// /// Replies with squares, at the address in the request.
    /// struct Squares;
    /// impl RequestHandler for Squares {
    ///     type Args = (GlobalPtr<u8>, u8);
    ///     fn handle(
    ///         &self,
    ///         token: Token<'_>,
    ///         (place, n): (GlobalPtr<u8>, u8),
    ///         _: Payload<'_>,
    ///     ) -> pgas_am::Result<()> {
    ///         let squares = (0..n).map(|i| i * i).collect();
    ///         token.reply_long::<There>(place, &(), squares).map(drop)
    ///     }
    /// }
    ///
    /// struct There;
    /// impl ReplyHandler for There {
    ///     type Args = ();
    ///     fn handle(&self, here: Origin<'_>, (): (), payload: Payload<'_>) -> pgas_am::Result<()> {
    ///         let Payload::Long(place, len) = payload else { panic!("it is long") };
    ///         assert_eq!(place.get_vec(here.world(), len)?, [0, 1, 4, 9]);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// world.register(Squares)?;
    /// world.register_reply(There)?;
    /// world.barrier()?;
    /// let place = world.alloc::<u8>(4)?;
    /// world.request::<Squares>(world.rank(), &(place, 4))?;
    /// quiet(&world)?;
    /// assert_eq!(place.add(3).get(&world)?, 9);
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[track_caller]
    pub fn reply_long<H: ReplyHandler>(
        self,
        dst: GlobalPtr<u8>,
        args: &H::Args,
        payload: Vec<u8>,
    ) -> Result<PgasFuture<Vec<u8>>> {
        let Origin { world, from } = self.origin;
        let to = dst.rank();
        assert!(
            to == from,
            "a reply to rank {from} was put into the segment of rank {to}"
        );
        let out = long_opening::<H, _>(args, dst, payload.len())?;
        fits(world, from, out.bytes().len())?;
        let event = dst.put_vec_nb(world, payload)?;
        self.has_replied.set(true);
        let (handle, at) = (self.am.handle, Location::caller());
        Ok(event.future().map_result(move |payload| {
            let _line = part_of_earlier("a long reply", at);
            let am = handle.get().ok_or(Error::HasLeft)?;
            let world = am.world.upgrade().ok_or(Error::HasLeft)?;
            // Without a reply the request is served here.
            let payload = payload.inspect_err(|_| am.message_counts.count_served())?;
            am.reply(&world, from, REPLY_LONG, &[out.bytes()])?;
            Ok(payload)
        }))
    }
}
