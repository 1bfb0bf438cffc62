//! Sending: at once while a network has nothing to do, and else together with the messages that
//! follow to the same rank.
//!
//! This is Nagle's algorithm, without a timer. While few messages are on their way to a rank, or
//! none has left to it for [`DELAY`], the next one leaves at once; so does each message in a chain
//! of requests and answers. A message that follows more closely is collected in a message of the
//! transport, and so are those behind it. The collected ones leave
//!
//! - when the message of the transport is full,
//! - when the rank polls the network, as it does in every wait and call of progress,
//! - at the end of a poll, so that answers do not wait for the next one,
//! - when the rank sends anything to any rank, [`DELAY`] after the first was collected,
//! - when a message follows that the library's own collectives wait for.
//!
//! So a message waits for [`DELAY`] at most while its rank sends or makes progress, and otherwise
//! until the rank next does. Messages of one class to one rank leave in their order; a transport may
//! deliver a short one before a long one.
//!
//! A message of the transport takes one credit, whatever it contains. The credit is taken when the
//! message is begun, so that there is room for all messages that were accepted.

use std::time::{Duration, Instant};

use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_core::{Error, Result};

use crate::bundle::{self, HEADER_BYTES, Header, next_payload};
use crate::peer::{Open, Peer, Peers};

/// The longest time that a message is kept by a rank that sends or makes progress.
pub const DELAY: Duration = Duration::from_micros(20);
/// The longest payload that is collected with others. Both MPI libraries send this much at once.
pub const SHORT_BYTES: usize = 1024;
/// The longest message of the transport with more than one in it.
pub const BUNDLE_BYTES: usize = 4096;
/// Messages that may be on their way to a rank before the next one waits.
const AT_ONCE: u16 = 2;

/// The transport, as it sends messages.
pub trait Carrier {
    /// This rank.
    fn rank(&self) -> u32;

    /// The time.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// A free buffer of [`BUNDLE_BYTES`] or more for a message of `class`, if there is one.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn take(&mut self, class: MessageClass) -> Result<Option<usize>>;

    /// The bytes of a buffer that was taken for a message of `class`.
    fn bytes(&mut self, class: MessageClass, buffer: usize) -> &mut [u8];

    /// Begins to send the first `len` bytes of a buffer that was taken. Returns `false` if there is
    /// no room now; then the buffer stays taken.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the buffer is free again.
    fn begin(&mut self, to: u32, class: MessageClass, buffer: usize, len: usize) -> Result<bool>;

    /// Begins to send a message of these bytes, if there is room now.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn send_now(
        &mut self,
        to: u32,
        class: MessageClass,
        header: &[u8; HEADER_BYTES],
        parts: &[&[u8]],
    ) -> Result<bool>;
}

impl Open {
    /// Where a payload of `len` bytes begins, if there is room for it.
    fn place_for(&self, len: usize) -> Option<usize> {
        let at = next_payload(self.end);
        (at + len <= BUNDLE_BYTES).then_some(at)
    }

    pub(crate) fn takes_short(&self) -> bool {
        self.place_for(SHORT_BYTES).is_some()
    }
}

impl Peer {
    /// Whether the next message of `class` leaves at once. If earlier ones are on their way,
    /// records the time.
    fn is_quiet(&mut self, carrier: &impl Carrier, class: MessageClass) -> bool {
        if self.n_on_their_way(class) < AT_ONCE {
            return true;
        }
        let now = carrier.now();
        let left = &mut self.left[class as usize];
        if left.is_some_and(|at| now.duration_since(at) < DELAY) {
            return false;
        }
        *left = Some(now);
        true
    }

    /// Sends a message of `len` bytes at once, if there is room: `begin` sends it with a header.
    fn send_now<C: Carrier>(
        &mut self,
        carrier: &mut C,
        class: MessageClass,
        (handler, len): (HandlerId, usize),
        begin: impl FnOnce(&mut C, &[u8; HEADER_BYTES]) -> Result<bool>,
    ) -> Result<Sent> {
        if !self.reserve(class) {
            return Ok(Sent::BackPressure);
        }
        let given = self.give_back(class);
        let mut header = [0; HEADER_BYTES];
        let (from, credits) = (carrier.rank(), given.credits);
        Header::of(from, class, credits).encode(&mut header);
        bundle::announce(&mut header, HEADER_BYTES, handler, len);
        let begun = begin(carrier, &header);
        if matches!(begun, Ok(true)) {
            return Ok(Sent::Accepted);
        }
        self.take_back(class, given);
        self.unreserve(class);
        begun.map(|_| Sent::BackPressure)
    }

    /// A buffer for a message that is to be filled, if there is room.
    fn begin(&mut self, carrier: &mut impl Carrier, class: MessageClass) -> Result<Option<usize>> {
        if !self.reserve(class) {
            return Ok(None);
        }
        let taken = carrier.take(class);
        if !matches!(taken, Ok(Some(_))) {
            self.unreserve(class);
        }
        taken
    }
}

impl Peers {
    /// Sends a message, at once or with others, if there is room for it here and at `to`.
    ///
    /// # Errors
    ///
    /// Errors of the transport, before the message was accepted; an error if `to` has announced
    /// that it has left. Messages that reach `to` before it announces that are reported by `to`
    /// itself. What the transport does not send of what was accepted,
    /// [`take_unreachable`](Self::take_unreachable) tells.
    pub fn send(
        &mut self,
        carrier: &mut impl Carrier,
        to: u32,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        let len = parts.iter().map(|part| part.len()).sum();
        let is_urgent = !handler.is_heard_of();
        let peer = self.check(to, handler)?;
        if let Some(open) = &mut peer.open[class as usize]
            && let Some(at) = open.place_for(len)
        {
            let bytes = carrier.bytes(class, open.buffer);
            open.end = bundle::write(bytes, at, handler, parts);
            let now = carrier.now();
            let is_due = is_urgent || now.duration_since(open.since) >= DELAY;
            if is_due && self.close(carrier, to, class) {
                self.forget((to, class));
            }
            self.send_due(carrier, now);
            return Ok(Sent::Accepted);
        }
        let is_filling = peer.open[class as usize].is_some();
        if !self.let_pass(carrier, (to, class), is_filling) {
            return Ok(Sent::BackPressure);
        }
        let peer = self.of(to);
        if is_urgent || len > SHORT_BYTES || peer.is_quiet(carrier, class) {
            return peer.send_now(carrier, class, (handler, len), |carrier, header| {
                carrier.send_now(to, class, header, parts)
            });
        }
        let Some(buffer) = peer.begin(carrier, class)? else {
            return Ok(Sent::BackPressure);
        };
        let end = bundle::write(carrier.bytes(class, buffer), HEADER_BYTES, handler, parts);
        let since = carrier.now();
        peer.open[class as usize] = Some(Open { buffer, end, since });
        self.filling.push_back((to, class));
        Ok(Sent::Accepted)
    }

    /// Sends a message whose payload of `len` bytes is in a buffer of the transport: `begin` writes
    /// the header before it and sends it, if the transport has room.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn send_filled<C: Carrier>(
        &mut self,
        carrier: &mut C,
        (to, class, handler): (u32, MessageClass, HandlerId),
        len: usize,
        begin: impl FnOnce(&mut C, &[u8; HEADER_BYTES]) -> Result<bool>,
    ) -> Result<Sent> {
        let is_filling = self.check(to, handler)?.open[class as usize].is_some();
        if !self.let_pass(carrier, (to, class), is_filling) {
            return Ok(Sent::BackPressure);
        }
        let peer = self.of(to);
        peer.send_now(carrier, class, (handler, len), begin)
    }

    /// Sends what goes before the next message of that class to that rank, first of all the one
    /// that is being filled, if there is one. Returns `false` if there is no room.
    fn let_pass(
        &mut self,
        carrier: &mut impl Carrier,
        (to, class): (u32, MessageClass),
        is_filling: bool,
    ) -> bool {
        if is_filling {
            if !self.close(carrier, to, class) {
                return false;
            }
            self.forget((to, class));
        }
        if self.has_open() {
            let now = carrier.now();
            self.send_due(carrier, now);
        }
        true
    }

    /// Whether messages are being filled.
    #[must_use]
    pub fn has_open(&self) -> bool {
        !self.filling.is_empty()
    }

    /// Sends all messages that are being filled, as far as the transport has room.
    pub fn send_open(&mut self, carrier: &mut impl Carrier) {
        for _ in 0..self.filling.len() {
            self.send_oldest(carrier);
        }
    }

    /// A rank to which the transport does not send messages that were accepted, and the error, if
    /// there is one since the last call. Their senders know nothing of it, so the job has to fail.
    #[inline]
    pub fn take_unreachable(&mut self) -> Option<(u32, Error)> {
        self.unreachable.take()
    }

    /// Sends the oldest messages that are being filled, if it is time.
    fn send_due(&mut self, carrier: &mut impl Carrier, now: Instant) {
        let Some(&(to, class)) = self.filling.front() else {
            return;
        };
        let open = self.of(to).open[class as usize].as_ref();
        if open.is_some_and(|open| now.duration_since(open.since) >= DELAY) {
            self.send_oldest(carrier);
        }
    }

    /// Sends the oldest message that is being filled; without room it becomes the youngest.
    fn send_oldest(&mut self, carrier: &mut impl Carrier) {
        if let Some((to, class)) = self.filling.pop_front()
            && !self.close(carrier, to, class)
        {
            self.filling.push_back((to, class));
        }
    }

    /// Sends the message to `to` that is being filled, and returns `false` if the transport has no
    /// room. One that it refuses to send is lost.
    fn close(&mut self, carrier: &mut impl Carrier, to: u32, class: MessageClass) -> bool {
        let peer = self.of(to);
        let Some(Open { buffer, end, since }) = peer.open[class as usize].take() else {
            return true;
        };
        let given = peer.give_back(class);
        let header = Header::of(carrier.rank(), class, given.credits);
        header.encode(carrier.bytes(class, buffer));
        match carrier.begin(to, class, buffer, end) {
            Ok(true) => {
                peer.left[class as usize] = Some(carrier.now());
                true
            }
            Ok(false) => {
                peer.take_back(class, given);
                peer.open[class as usize] = Some(Open { buffer, end, since });
                false
            }
            Err(error) => {
                peer.take_back(class, given);
                self.unreachable.get_or_insert((to, error));
                true
            }
        }
    }

    /// Forgets the message of that class to that rank that was being filled.
    fn forget(&mut self, of: (u32, MessageClass)) {
        if let Some(at) = self.filling.iter().position(|one| *one == of) {
            self.filling.remove(at);
        }
    }
}

#[cfg(test)]
mod tests;
