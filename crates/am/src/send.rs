//! Sending: at once, when there is room, later, or in pieces.

use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_core::{Rank, World, keep_line};
use zerocopy::IntoBytes;

use crate::codec::LONGEST;
use crate::error::says_left;
use crate::function::LAYER_KEY;
use crate::ids::PIECE;
use crate::pieces::{Piece, given_up};
use crate::state::Am;
use pgas_core::{Error, Result};

/// An error if a message of `n_bytes` is longer than one may be.
#[inline]
pub(crate) fn fits(world: &World, to: Rank, n_bytes: usize) -> Result<()> {
    let limit = world.capabilities().max_medium;
    if n_bytes <= limit {
        return Ok(());
    }
    Err(Error::too_long(to, n_bytes, limit))
}

impl Am {
    /// Sends a reply, or keeps it until there is room; never waits.
    #[inline]
    #[track_caller]
    pub(crate) fn reply(
        &self,
        world: &World,
        to: Rank,
        id: HandlerId,
        parts: &[&[u8]],
    ) -> Result<()> {
        match world.try_send_to_layer(LAYER_KEY, to, MessageClass::Reply, id, parts) {
            Ok(Sent::Accepted) => Ok(()),
            Ok(Sent::BackPressure) => {
                self.outbox.keep_reply(to, id, parts.concat());
                Ok(())
            }
            // The target has left without waiting for the reply.
            Err(error) if says_left(&error, to) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends a request, waiting for room; in a handler, where nothing waits, it is kept until there
    /// is room, if not too much is kept already.
    #[inline]
    #[track_caller]
    pub(crate) fn request(
        &self,
        world: &World,
        to: Rank,
        id: HandlerId,
        parts: &[&[u8]],
    ) -> Result<()> {
        match self.try_request(world, to, id, parts)? {
            Sent::Accepted => Ok(()),
            Sent::BackPressure => self.request_later(world, to, id, parts),
        }
    }

    /// Offers a request.
    #[inline]
    #[track_caller]
    pub(crate) fn try_request(
        &self,
        world: &World,
        to: Rank,
        id: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        // Before the count, since a panic means that nothing was sent.
        world.assert_rank(to);
        self.message_counts.count_sent();
        let sent = world.try_send_to_layer(LAYER_KEY, to, MessageClass::Request, id, parts);
        if !matches!(sent, Ok(Sent::Accepted)) {
            self.message_counts.count_unsent();
        }
        sent
    }

    /// Sends one of several related requests in a handler, or keeps it on back-pressure.
    #[cold]
    #[track_caller]
    pub(crate) fn request_or_keep(
        &self,
        world: &World,
        to: Rank,
        id: HandlerId,
        parts: &[&[u8]],
    ) -> Result<()> {
        // Queue behind kept pieces, so that the target assembles few messages at a time.
        if !self.outbox.has_requests_to(to)
            && self.try_request(world, to, id, parts)? == Sent::Accepted
        {
            return Ok(());
        }
        // Before another thread may send it and it is served.
        self.message_counts.count_sent();
        self.outbox.keep_piece(to, id, parts.concat());
        Ok(())
    }

    #[cold]
    #[track_caller]
    fn request_later(&self, world: &World, to: Rank, id: HandlerId, parts: &[&[u8]]) -> Result<()> {
        if pgas_core::in_handler() {
            // Before another thread may send it and it is served.
            self.message_counts.count_sent();
            if !self.outbox.keep_request(to, id, parts) {
                self.message_counts.count_unsent();
                return Err(Error::BackPressure { to });
            }
            return Ok(());
        }
        let _line = keep_line();
        let missing = || vec![to];
        world.wait_for_ranks("room for a request", &missing, || {
            Ok(self.try_request(world, to, id, parts)? == Sent::Accepted)
        })
    }

    /// Sends a call that is too long for one message.
    ///
    /// Requests wait for room. In a handler they are refused if too much is kept already; else what
    /// meets back-pressure is kept, whatever it takes, since the rest of one that was begun has to
    /// follow.
    #[cold]
    #[track_caller]
    pub(crate) fn send_in_pieces(
        &self,
        world: &World,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<()> {
        let n_bytes = parts.iter().map(|part| part.len()).sum();
        let limit = world.capabilities().max_medium;
        if n_bytes > LONGEST {
            return Err(Error::too_long(to, n_bytes, LONGEST));
        }
        let is_kept = class == MessageClass::Request && pgas_core::in_handler();
        if is_kept && !self.outbox.has_room() {
            return Err(Error::BackPressure { to });
        }
        let bytes = parts.concat();
        let mut unfinished = Unfinished {
            am: self,
            to,
            whole: self.pieces.next(),
            len: bytes.len(),
            n_sent: 0,
        };
        for piece in bytes.chunks(limit - size_of::<Piece>()) {
            let header = Piece {
                whole: unfinished.whole,
                len: bytes.len() as u64,
                at: unfinished.n_sent as u64,
                handler: u64::from(handler.0),
            };
            let parts = [header.as_bytes(), piece];
            let sent = match class {
                MessageClass::Request if is_kept => self.request_or_keep(world, to, PIECE, &parts),
                MessageClass::Request => self.request(world, to, PIECE, &parts),
                MessageClass::Reply => self.reply(world, to, PIECE, &parts),
            };
            if sent.as_ref().is_err_and(|error| says_left(error, to)) {
                unfinished.n_sent = 0;
            }
            sent?;
            unfinished.n_sent += piece.len();
        }
        Ok(())
    }
}

/// A message in pieces. If it ends before all were sent, by an error or by the panic of a handler
/// that runs while the sender waits for room, the receiver is told, which keeps the others.
struct Unfinished<'a> {
    am: &'a Am,
    to: Rank,
    whole: u64,
    len: usize,
    n_sent: usize,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.n_sent == 0 || self.n_sent == self.len {
            return;
        }
        let given_up = given_up(self.whole, self.len, self.n_sent);
        self.am.message_counts.count_sent();
        self.am.outbox.keep_piece(self.to, PIECE, given_up);
    }
}
