//! Active messages: a message that runs a handler where it arrives.
//!
//! A handler is a value of a type. The type names it, so it has the same id on every rank without
//! any agreement. Each rank [registers](ActiveMessages::register) its own value, which holds the
//! data of the handler.
//!
//! | kind | payload | where the handler finds it |
//! |---|---|---|
//! | short | none | - |
//! | medium | up to [`max_medium`](ActiveMessages::max_medium) bytes | in a buffer, while it runs |
//! | long | any number of bytes | in its own segment, at the address that the sender chose |
//!
//! **Requests and replies.** The handler of a request gets a [`Token`] that can reply once, and
//! only to the sender: replying consumes it. The handler of a reply gets none. A handler must not
//! wait, since the wait might need the very thread that runs it: every call that waits returns an
//! error in a handler, in release builds too. It may send requests with the `try_` forms. A reply
//! is short, medium or long, as a request is.
//!
//! **Room.** Every rank has bounded room for requests, and separate room for replies. A sender that
//! finds no room makes progress, which serves messages of others, until there is room; `try_` forms
//! return [`Sent::BackPressure`] instead. Replies never wait: a reply that finds no room is kept,
//! and its rank serves no further requests meanwhile. So if all ranks flood all others with
//! requests, all are served in the end, and no rank's memory grows.
//!
//! **Which form.** A target that computes takes no messages, and its room is used up after some
//! hundreds. The waiting form then waits until the target makes progress, which delays the sender's
//! messages for other ranks. If a sender has such messages, it uses a `try_` form and goes on with
//! another rank after [`Sent::BackPressure`]; when no rank takes a message it makes
//! [`progress`](World::progress), and tries again. Otherwise, or if it cannot keep unsent messages,
//! it uses the waiting form, which sleeps instead of occupying a processor. Neither form makes a
//! target answer sooner. A progress thread (`PGAS_PROGRESS=thread`) does, for rare questions to
//! targets that compute for milliseconds and more. It sleeps whenever there is nothing to serve,
//! and needs a processor of its own, so it is no help in a flood. `benches/inattentive.rs` measures
//! all of these; docs/PERFORMANCE.md has figures.
//!
//! **In place.** A program that computes a payload can [prepare](ActiveMessages::prepare) a buffer
//! of the network, fill it and [commit](Prepared::commit) it. On one host the handler then reads
//! from that buffer, and the payload is never copied.
//!
//! Messages are not ordered. Each arrives once.

pub(crate) mod deliver;
mod handler;
mod opening;
mod prepare;

use std::borrow::Borrow;
use std::panic::Location;

use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_core::{GlobalPtr, Rank, World, part_of_earlier, refuse_in_handler};

use crate::function::LAYER_KEY;
use crate::future::{Completes, PgasFuture};
use crate::ids::{REQUEST_LONG, REQUEST_MEDIUM, REQUEST_SHORT};
use crate::send::fits;
use crate::state::am;
use deliver::{add_replies, add_requests};
use opening::{long_opening, opening};
use pgas_core::{Error, Result};

pub use handler::{Origin, Payload, ReplyHandler, RequestHandler, Token};
pub use prepare::{Prepared, PreparedReply};

/// Active messages of a world; in the prelude. See the [module](self).
///
/// Every rank must register its handlers before another rank sends to them: register, then call
/// [`barrier`](World::barrier).
///
/// # Examples
///
/// Payloads of every kind, and replies with one:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use pgas_am::{ActiveMessages, Origin, Payload, ReplyHandler, RequestHandler, Token};
/// use pgas_core::backend::Sent;
///
/// /// Counts bytes, and replies with as many zeros.
/// struct Count(Arc<AtomicUsize>);
/// impl RequestHandler for Count {
///     type Args = usize;
///     fn handle(&self, token: Token<'_>, n: usize, payload: Payload<'_>) -> pgas_am::Result<()> {
///         assert_eq!(token.from(), token.world().rank()); // of the one rank of this example
///         let n_bytes = match payload {
///             Payload::Medium(bytes) => bytes.len(),
///             Payload::Long(_, n_bytes) => n_bytes,
///             _ => 0,
///         };
///         self.0.fetch_add(n + n_bytes, Ordering::Relaxed);
///         token.reply_medium::<Counted>(&n, &vec![0; n])
///     }
/// }
///
/// struct Counted(Arc<AtomicUsize>);
/// impl ReplyHandler for Counted {
///     type Args = usize;
///     fn handle(&self, origin: Origin<'_>, n: usize, payload: Payload<'_>) -> pgas_am::Result<()> {
///         assert_eq!(origin.from(), origin.world().rank());
///         assert!(matches!(payload, Payload::Medium(zeros) if zeros.len() == n));
///         self.0.fetch_add(1, Ordering::Relaxed);
///         Ok(())
///     }
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let (bytes, replies) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
/// world.register(Count(bytes.clone()))?;
/// world.register_reply(Counted(replies.clone()))?;
/// world.barrier()?;
/// let me = world.rank();
/// world.request::<Count>(me, &1)?;
/// world.request_medium::<Count>(me, &2, b"ten bytes.")?;
/// while world.try_request::<Count>(me, &3)? == Sent::BackPressure {
///     world.progress()?; // until there is room
/// }
/// while world.try_request_medium::<Count>(me, &4, b"five.")? == Sent::BackPressure {
///     world.progress()?;
/// }
/// let place = world.alloc::<u8>(100)?;
/// world.request_long::<Count>(place, &5, &[7; 100])?;
/// while world.try_request_long::<Count>(place, &5, &[7; 10])? == Sent::BackPressure {
///     world.progress()?;
/// }
/// let source = world.request_long_nb::<Count>(place, &6, vec![8; 100])?;
/// assert_eq!(source.wait()?.len(), 100); // may be used again
/// let mut buffer = world.prepare(me, 20)?; // of the network, if it has one
/// buffer[..3].copy_from_slice(b"abc");
/// buffer.commit::<Count>(&7, 3)?;
/// let buffer = loop {
///     match world.try_prepare(me, 20)? {
///         Some(buffer) => break buffer,
///         None => world.progress()?, // until one is free
///     };
/// };
/// buffer.commit::<Count>(&8, 1)?;
/// world.wait_for("nine replies", || Ok(replies.load(Ordering::Relaxed) == 9))?;
/// assert_eq!(bytes.load(Ordering::Relaxed), 41 + 10 + 5 + 210 + 3 + 1);
/// assert!(world.max_medium::<Count>(me, &9)? >= 100);
/// assert_eq!(world.max_long(me), world.segment_bytes());
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub trait ActiveMessages: Borrow<World> {
    /// Sets the handler of requests that name the type `H`.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`].
    ///
    /// # Panics
    ///
    /// If a handler of this type is registered already, or 512 others are.
    #[track_caller]
    fn register<H: RequestHandler>(&self, handler: H) -> Result<()> {
        let world: &World = self.borrow();
        add_requests(am(world)?, handler);
        Ok(())
    }

    /// Sets the handler of replies that name the type `H`.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    ///
    /// # Panics
    ///
    /// As [`register`](Self::register).
    #[track_caller]
    fn register_reply<H: ReplyHandler>(&self, handler: H) -> Result<()> {
        let world: &World = self.borrow();
        add_replies(am(world)?, handler);
        Ok(())
    }

    /// Sends a request without payload, and waits for room if there is none.
    ///
    /// Progress: user level while it waits, else none.
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return; the handler runs when `to` makes progress.
    ///
    /// # Errors
    ///
    /// [`Error::MessageTooLong`], [`Error::Codec`], [`Error::NotAttached`]; inside a handler
    /// [`Error::InHandler`]; errors of the transport, or the failure of the job while waiting.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[inline]
    #[track_caller]
    fn request<H: RequestHandler>(&self, to: Rank, args: &H::Args) -> Result<()> {
        let world: &World = self.borrow();
        let out = opening::<H, _>(args)?;
        send(world, to, REQUEST_SHORT, &[out.bytes()])
    }

    /// Offers a request without payload; does not wait, so that handlers may call it.
    ///
    /// Progress: none. After [`Sent::BackPressure`] nothing was sent: make progress, then try
    /// again.
    ///
    /// # Cost
    ///
    /// As [`request`](Self::request).
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request), but for a wait.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[inline]
    #[track_caller]
    fn try_request<H: RequestHandler>(&self, to: Rank, args: &H::Args) -> Result<Sent> {
        let world: &World = self.borrow();
        let out = opening::<H, _>(args)?;
        try_send(world, to, REQUEST_SHORT, &[out.bytes()])
    }

    /// Sends a request with a payload of up to [`max_medium`](Self::max_medium) bytes, as
    /// [`request`](Self::request).
    ///
    /// # Cost
    ///
    /// One message, a copy of the payload at both ends. The payload's buffer may be reused on
    /// return.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[inline]
    #[track_caller]
    fn request_medium<H: RequestHandler>(
        &self,
        to: Rank,
        args: &H::Args,
        payload: &[u8],
    ) -> Result<()> {
        let world: &World = self.borrow();
        let mut out = opening::<H, _>(args)?;
        out.align();
        send(world, to, REQUEST_MEDIUM, &[out.bytes(), payload])
    }

    /// As [`request_medium`](Self::request_medium), without waiting.
    ///
    /// # Cost
    ///
    /// As [`request_medium`](Self::request_medium).
    ///
    /// # Errors
    ///
    /// As [`try_request`](Self::try_request).
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[inline]
    #[track_caller]
    fn try_request_medium<H: RequestHandler>(
        &self,
        to: Rank,
        args: &H::Args,
        payload: &[u8],
    ) -> Result<Sent> {
        let world: &World = self.borrow();
        let mut out = opening::<H, _>(args)?;
        out.align();
        try_send(world, to, REQUEST_MEDIUM, &[out.bytes(), payload])
    }

    /// Puts `payload` to `dst`, and then runs the handler on the rank of `dst`, which finds the
    /// whole payload there.
    ///
    /// # Cost
    ///
    /// W, a flush and one message. The payload's buffer may be reused on return.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    ///
    /// # Panics
    ///
    /// If the bytes at `dst` do not lie in a segment.
    #[track_caller]
    fn request_long<H: RequestHandler>(
        &self,
        dst: GlobalPtr<u8>,
        args: &H::Args,
        payload: &[u8],
    ) -> Result<()> {
        let world: &World = self.borrow();
        refuse_in_handler("room for a request")?;
        let out = long_opening::<H, _>(args, dst, payload.len())?;
        fits(world, dst.rank(), out.bytes().len())?;
        dst.put_slice(world, payload)?;
        world.flush(dst.rank())?;
        send(world, dst.rank(), REQUEST_LONG, &[out.bytes()])
    }

    /// As [`request_long`](Self::request_long), without waiting for room, so that handlers may call
    /// it. After [`Sent::BackPressure`] no message was sent, and the payload may be at `dst` all
    /// the same: make progress, then try again.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// As [`request_long`](Self::request_long); ℓ if there is no room.
    ///
    /// # Errors
    ///
    /// As [`try_request`](Self::try_request).
    ///
    /// # Panics
    ///
    /// If the bytes at `dst` do not lie in a segment.
    #[track_caller]
    fn try_request_long<H: RequestHandler>(
        &self,
        dst: GlobalPtr<u8>,
        args: &H::Args,
        payload: &[u8],
    ) -> Result<Sent> {
        let world: &World = self.borrow();
        let to = dst.rank();
        let out = long_opening::<H, _>(args, dst, payload.len())?;
        fits(world, to, out.bytes().len())?;
        // A payload that no message would announce is not sent.
        if world.n_request_credits(to) == 0 {
            return world.back_pressure_of_layer(LAYER_KEY, to);
        }
        dst.put_slice(world, payload)?;
        world.flush(to)?;
        try_send(world, to, REQUEST_LONG, &[out.bytes()])
    }

    /// As [`request_long`](Self::request_long), without waiting for the transfer: the future gives
    /// the payload's buffer back, and the message is sent, when the transfer is complete.
    ///
    /// Progress: user level while there is no room for the message, else none. Dropping the future
    /// only drops the buffer; if the message cannot be sent then, the next [`quiet`](crate::quiet)
    /// returns [`Error::Undelivered`].
    ///
    /// # Cost
    ///
    /// W and one message.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request). The future has the error of the transfer, or
    /// [`Error::BackPressure`] if too many messages wait for room.
    ///
    /// # Panics
    ///
    /// If the bytes at `dst` do not lie in a segment.
    #[track_caller]
    fn request_long_nb<H: RequestHandler>(
        &self,
        dst: GlobalPtr<u8>,
        args: &H::Args,
        payload: Vec<u8>,
    ) -> Result<PgasFuture<Vec<u8>>> {
        let world: &World = self.borrow();
        refuse_in_handler("room for a request")?;
        let (to, handle) = (dst.rank(), am(world)?.handle);
        let out = long_opening::<H, _>(args, dst, payload.len())?;
        fits(world, to, out.bytes().len())?;
        let (event, at) = (dst.put_vec_nb(world, payload)?, Location::caller());
        Ok(event.future().and_send(handle, to, move |payload| {
            let _waits = part_of_earlier("a long request", at);
            let am = handle.get().ok_or(Error::HasLeft)?;
            let world = am.world.upgrade().ok_or(Error::HasLeft)?;
            am.request(&world, to, REQUEST_LONG, &[out.bytes()])?;
            Ok(payload)
        }))
    }

    /// The number of short requests that `to` would take now before a `try_` form returns
    /// back-pressure, as far as this rank can tell. On one host all senders share the room, and one
    /// takes at most half of it. Over a network the room is this rank's own.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// ℓ; on one host two loads from cache lines that other ranks write.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ActiveMessages;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// assert!(world.n_request_credits(world.rank()) > 0);
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[track_caller]
    fn n_request_credits(&self, to: Rank) -> u64 {
        let world: &World = self.borrow();
        world.n_credits(to, MessageClass::Request)
    }

    /// A buffer for `len` bytes of payload, to be filled in place and sent by [`Prepared::commit`].
    /// Dropping it sends nothing. It is memory of the network if the network has some for messages
    /// to `to`, and some is free now; else memory of this process. See [`Prepared`]. Does not wait.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// ℓ; for memory of the network also a load of a cache line that another rank has written.
    ///
    /// # Errors
    ///
    /// [`Error::MessageTooLong`] if a message cannot have this payload; [`Error::NotAttached`];
    /// errors of the transport.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[track_caller]
    fn prepare(&self, to: Rank, len: usize) -> Result<Prepared<'_>> {
        let world: &World = self.borrow();
        world.assert_rank(to);
        Prepared::new(world, to, len)
    }

    /// As [`prepare`](Self::prepare), but `None` while all of the network's buffers for messages to
    /// `to` are in use: make progress, then try again. If the network has no buffers at all, it
    /// returns memory of this process.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// As [`prepare`](Self::prepare).
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare), and the failure of the job if none is free.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[track_caller]
    fn try_prepare(&self, to: Rank, len: usize) -> Result<Option<Prepared<'_>>> {
        let world: &World = self.borrow();
        world.assert_rank(to);
        Prepared::try_new(world, to, len)
    }

    /// The longest payload of a message to `to` with `args`, in bytes. It is the same for all ranks
    /// of a job, so a reply may be as long as its request.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] for arguments that cannot be encoded.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[track_caller]
    fn max_medium<H: RequestHandler>(&self, to: Rank, args: &H::Args) -> Result<usize> {
        let world: &World = self.borrow();
        world.assert_rank(to);
        let mut out = opening::<H, _>(args)?;
        out.align();
        let limit = world.capabilities().max_medium;
        Ok(limit.saturating_sub(out.bytes().len()))
    }

    /// The longest payload of a long request to `to`, in bytes: the size of its segment, which is
    /// the same on every rank.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[track_caller]
    fn max_long(&self, to: Rank) -> u64 {
        let world: &World = self.borrow();
        world.assert_rank(to);
        world.segment_bytes()
    }
}

// The methods above have the world by its `Borrow` of itself.
impl ActiveMessages for World {}

/// An error inside a handler.
#[inline]
#[track_caller]
fn send(world: &World, to: Rank, id: HandlerId, parts: &[&[u8]]) -> Result<()> {
    refuse_in_handler("room for a request")?;
    let n_bytes = parts.iter().map(|part| part.len()).sum();
    fits(world, to, n_bytes)?;
    am(world)?.request(world, to, id, parts)
}

#[inline]
#[track_caller]
fn try_send(world: &World, to: Rank, id: HandlerId, parts: &[&[u8]]) -> Result<Sent> {
    let n_bytes = parts.iter().map(|part| part.len()).sum();
    fits(world, to, n_bytes)?;
    am(world)?.try_request(world, to, id, parts)
}
