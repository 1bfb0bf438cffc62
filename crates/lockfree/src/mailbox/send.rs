//! The senders' side: reserve slots, write a message into them, publish it.

use super::{
    Envelope, Full, HEAD, HEAD_HINT, IN_BUFFER, Mailbox, PREFIX_WORDS, RECEIVED, Ring, SRC_BITS,
    TAIL, WORD_BYTES, first_word, is_at_most, max_message, published, settled,
};
use crate::credits::Credits;
use crate::doorbell::{Bell, Doorbell};
use crate::machine::{Machine, Portable};
use crate::payload::Location;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::word::Word;

/// The prefetch distance in slots: the number of messages sent while a line arrives.
const SLOTS_AHEAD: u64 = 4;

impl Mailbox<'_> {
    /// Sends the concatenation of `parts` to the owner, or returns at once if there is no room.
    ///
    /// The caller rings the owner's [`Doorbell`] afterwards, once for any number of messages. A
    /// long message needs that number of consecutive free slots. A stream of short messages from
    /// other ranks can keep it waiting, so a caller that retries limits its attempts.
    ///
    /// # Cost
    /// One compare-and-swap, one store a word, and two cache lines taken from other ranks (`tail`
    /// and the slot) for a message of up to 48 bytes.
    ///
    /// # Errors
    /// [`Full`] if the ring lacks room now. No ticket is taken, nothing is written.
    ///
    /// # Panics
    /// If the parts are longer than [`max_message`](Self::max_message), or `src` has more than 24
    /// bits.
    #[track_caller]
    #[inline]
    pub fn try_send(&self, src: u32, handler: u16, parts: &[&[u8]]) -> Result<(), Full> {
        self.send::<Portable>(None, src, handler, parts).map(drop)
    }

    /// As [`try_send`](Self::try_send), for a sender with `credits`, which takes no more than its
    /// share of the ring. Returns the message's place, for [`ring`](Self::ring).
    ///
    /// # Errors
    /// [`Full`] if the ring lacks room now, or the sender has taken its share of it.
    ///
    /// # Panics
    /// As [`try_send`](Self::try_send).
    #[track_caller]
    #[inline]
    pub fn try_send_within<M: Machine>(
        &self,
        credits: Option<&Credits>,
        src: u32,
        handler: u16,
        parts: &[&[u8]],
    ) -> Result<Posted, Full> {
        self.send::<M>(credits, src, handler, parts)
    }

    #[track_caller]
    #[inline]
    fn send<M: Machine>(
        &self,
        credits: Option<&Credits>,
        src: u32,
        handler: u16,
        parts: &[&[u8]],
    ) -> Result<Posted, Full> {
        let envelope = envelope(self, src, handler, parts);
        let ticket = self.claim::<M>(credits, envelope.n_slots())?;
        write(self, ticket, envelope, parts);
        Ok(Posted::at(ticket, envelope.n_slots()))
    }

    /// Sends a record of a message in one of the sender's buffers, which is then the owner's until
    /// it has been handled. Returns the record's place, for [`ring`](Self::ring).
    ///
    /// # Errors
    /// [`Full`] if the ring lacks room now, or the sender has taken its share of it.
    #[inline]
    pub fn try_send_location<M: Machine>(
        &self,
        credits: Option<&Credits>,
        src: u32,
        handler: u16,
        at: Location,
    ) -> Result<Posted, Full> {
        let envelope = Envelope {
            src,
            handler,
            len: IN_BUFFER,
        };
        let ticket = self.claim::<M>(credits, 1)?;
        let first = self.first_word(ticket);
        self.slots[first + 1].store(envelope.to_word(), Relaxed);
        self.slots[first + PREFIX_WORDS].store(at.to_word(), Relaxed);
        // Release: as in `send`; the receiver then sees what was written to the buffer too.
        self.slots[first].store(published(ticket), Release);
        Ok(Posted::at(ticket, 1))
    }

    /// Rings the owner's `bell` for a message. Returns whether the message was taken back, since the
    /// owner has left, if it `is_to_be` then. A message that the owner takes was served, or the
    /// owner reports that it came too late.
    #[inline]
    pub fn ring<B: Bell>(&self, bell: &Doorbell<B>, posted: Posted, is_to_be: bool) -> bool {
        bell.ring() && is_to_be && withdraw(self, posted)
    }

    #[inline]
    fn claim<M: Machine>(&self, credits: Option<&Credits>, n_slots: usize) -> Result<u64, Full> {
        let ticket = claim(self, credits, n_slots)?;
        self.fetch_ahead::<M>(ticket.wrapping_add(n_slots as u64));
        Ok(ticket)
    }

    /// Prefetches the line of a later message from the receiver's cache. The atomic instructions of
    /// a message wait for the stores of the message before, and these wait for their lines.
    #[inline]
    fn fetch_ahead<M: Machine>(&self, ticket: u64) {
        let word = self.first_word(ticket.wrapping_add(SLOTS_AHEAD));
        M::prefetch_for_write(&self.slots[word]);
    }
}

/// Sends to a mailbox that this process reaches only through a network: as
/// [`Mailbox::try_send_within`], without a ring of the bell.
///
/// # Cost
/// A compare-and-swap and two loads, and a store a word.
///
/// # Errors
/// [`Full`] if the ring lacks room now, or the sender has taken its share of it.
///
/// # Panics
/// As [`Mailbox::try_send`].
pub fn try_send_remote<R: Ring>(
    ring: &R,
    credits: Option<&Credits>,
    src: u32,
    handler: u16,
    parts: &[&[u8]],
) -> Result<Posted, Full> {
    let envelope = envelope(ring, src, handler, parts);
    let ticket = claim(ring, credits, envelope.n_slots())?;
    write(ring, ticket, envelope, parts);
    Ok(Posted::at(ticket, envelope.n_slots()))
}

/// The place of a message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    ticket: u64,
    /// The ticket behind it.
    end: u64,
}

impl Posted {
    #[inline]
    fn at(ticket: u64, n_slots: usize) -> Self {
        let end = ticket.wrapping_add(n_slots as u64);
        Self { ticket, end }
    }
}

/// Takes a message back whose owner has left, as the caller has seen by another word. Returns
/// whether that succeeds: otherwise the owner has taken it, before it has left or as one that
/// [came too late](Mailbox::receive_late).
///
/// # Cost
/// A load and a compare-and-swap.
#[cold]
pub fn withdraw<R: Ring>(ring: &R, posted: Posted) -> bool {
    let Posted { ticket, end } = posted;
    // Relaxed: the caller sees what the owner took before it has left.
    if is_at_most(end, ring.control(RECEIVED).load(Relaxed)) {
        return false;
    }
    let word = ring.slot(first_word(ring.n_slot_words(), ticket));
    // Relaxed: the owner's acquire pairs with the release at the end of `write`, which this
    // exchange continues.
    let taken_back = word.compare_exchange(published(ticket), settled(ticket), Relaxed, Relaxed);
    taken_back.is_ok()
}

/// The header of a message.
#[track_caller]
#[inline]
fn envelope<R: Ring>(ring: &R, src: u32, handler: u16, parts: &[&[u8]]) -> Envelope {
    let len = parts
        .iter()
        .fold(0_usize, |sum, part| sum.saturating_add(part.len()));
    let max = max_message(ring.n_slot_words());
    assert!(len <= max, "message of {len} bytes, at most {max} fit");
    assert!(
        src >> SRC_BITS == 0,
        "rank {src} does not fit in {SRC_BITS} bits"
    );
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most `max_message`, which has 24 bits"
    )]
    let len = len as u32;
    Envelope { src, handler, len }
}

/// Reserves slots within the sender's credits, and returns the first ticket.
#[inline]
fn claim<R: Ring>(ring: &R, credits: Option<&Credits>, n_slots: usize) -> Result<u64, Full> {
    let n = n_slots as u64;
    // Relaxed: who reserves slots looks again.
    if credits.is_some_and(|credits| !credits.allow(n, || ring.control(HEAD).load(Relaxed))) {
        return Err(Full);
    }
    let ticket = reserve(ring, n_slots)?;
    if let Some(credits) = credits {
        credits.take(n, ticket.wrapping_add(n));
    }
    Ok(ticket)
}

/// Writes a message into the slots that were reserved for it, and publishes it.
#[inline]
fn write<R: Ring>(ring: &R, ticket: u64, envelope: Envelope, parts: &[&[u8]]) {
    let first = first_word(ring.n_slot_words(), ticket);
    ring.slot(first + 1).store(envelope.to_word(), Relaxed);
    let mut writer = Writer::new(ring, first + PREFIX_WORDS);
    for part in parts {
        writer.write(part);
    }
    writer.finish();
    // Release: pairs with the receiver's acquire in `is_published`, which then sees header and
    // payload.
    ring.slot(first).store(published(ticket), Release);
}

/// Reserves `n_slots` consecutive slots, and returns the first ticket.
#[inline]
pub(super) fn reserve<R: Ring>(ring: &R, n_slots: usize) -> Result<u64, Full> {
    let n_free_needed = (ring.n_slot_words() / super::SLOT_WORDS - n_slots) as u64;
    // A tail older than the head gives a huge difference: no room, read again.
    let has_room = |tail: u64, head: u64| tail.wrapping_sub(head) <= n_free_needed;

    // Acquire: pairs with the release of a sender that refreshed the hint, and through its acquire
    // with the receiver's release.
    let mut head = ring.control(HEAD_HINT).load(Acquire);
    // Relaxed here and in the exchange: slots are handed from receiver to sender by `head`, never
    // by `tail`.
    let mut tail = ring.control(TAIL).load(Relaxed);
    loop {
        if !has_room(tail, head) {
            // Acquire: pairs with the receiver's release in `give_back`, whose zeroing must come
            // before our stores.
            head = ring.control(HEAD).load(Acquire);
            let newer_tail = ring.control(TAIL).load(Relaxed);
            if !has_room(newer_tail, head) && newer_tail == tail {
                return Err(Full);
            }
            ring.control(HEAD_HINT).store(head, Release);
            tail = newer_tail;
            continue;
        }
        match ring.control(TAIL).compare_exchange(
            tail,
            tail.wrapping_add(n_slots as u64),
            Relaxed,
            Relaxed,
        ) {
            Ok(ticket) => return Ok(ticket),
            Err(newer_tail) => tail = newer_tail,
        }
    }
}

/// Packs byte strings, one after the other, into the words of the ring.
struct Writer<'a, R> {
    ring: &'a R,
    /// The index of the next whole word, before wrapping.
    at: usize,
    /// Bytes of an incomplete word, lowest first.
    pending: u64,
    n_pending_bits: u32,
}

impl<'a, R: Ring> Writer<'a, R> {
    #[inline]
    fn new(ring: &'a R, at: usize) -> Self {
        Self {
            ring,
            at,
            pending: 0,
            n_pending_bits: 0,
        }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
        if self.n_pending_bits == 0 {
            for word in words {
                self.store(u64::from_le_bytes(*word));
            }
        } else {
            for word in words {
                let word = u64::from_le_bytes(*word);
                self.store(self.pending | word << self.n_pending_bits);
                self.pending = word >> (u64::BITS - self.n_pending_bits);
            }
        }
        for byte in rest {
            self.pending |= u64::from(*byte) << self.n_pending_bits;
            self.n_pending_bits += u8::BITS;
            if self.n_pending_bits == u64::BITS {
                self.store(self.pending);
                (self.pending, self.n_pending_bits) = (0, 0);
            }
        }
    }

    #[inline]
    fn finish(mut self) {
        if self.n_pending_bits > 0 {
            self.store(self.pending);
        }
    }

    #[inline]
    fn store(&mut self, word: u64) {
        let at = self.at & (self.ring.n_slot_words() - 1);
        self.ring.slot(at).store(word, Relaxed);
        self.at += 1;
    }
}
