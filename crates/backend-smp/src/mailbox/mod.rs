//! Messages between ranks: a bounded ring of variable-length messages in shared memory, with many senders and one receiver.
//!
//! Before this on the path of an active message: the backend picks the target's ring (requests and replies have a ring each,
//! so that a reply never waits for room behind requests). After it: the target's progress loop receives, and runs the handler.
//!
//! # Layout
//!
//! A mailbox is plain words of the shared mapping, valid when all of them are zero, and the same at every address:
//!
//! | word | holds |
//! |---|---|
//! | 0 | `tail`: slots ever reserved by senders |
//! | 1 | a lower bound of `head` that senders keep beside `tail`, so that they seldom touch the receiver's line |
//! | 16 | `head`: slots ever given back by the receiver |
//! | 24 | `received`: slots ever received; `head` follows it in steps of a sixteenth of the ring |
//! | 25 | the receiver's lock |
//! | 32 and on | the slots, 8 words (64 bytes) each |
//!
//! A message fills consecutive slots and may continue at the start of the ring: a publication word, a header word
//! (24 bits source rank, 16 bits handler, 24 bits length), then the payload. Up to 48 bytes of payload take one slot.
//!
//! # Protocol
//!
//! A sender reserves slots by compare-and-swap of `tail`, after it has seen in `head` that they are free. A ticket is never undone:
//! a full ring is noticed before anything is reserved. The sender then writes header and payload, and last the
//! publication word, with release. The receiver looks at the publication word of the slot at `received` alone. That word is derived from the
//! 64-bit ticket, is never zero, and differs from whatever an earlier message left at that place: publication words of earlier laps
//! carry other tickets, and words that held payload are zeroed before `head` passes them.
//!
//! `head` lags behind `received` because senders that wait for room keep looking at it, and the receiver would pay for taking its line
//! back at every message. It catches up whenever the receiver finds nothing, so an empty mailbox has all its room.
//!
//! A record of one slot may also stand for a message that lies in a buffer (`payload`) of its sender's: the ring then says where.
//!
//! The payload is copied out before it is looked at, and the length is checked before it is used: a rank that scribbles over a mailbox
//! can break the job, but it cannot make a safe function read outside of the ring.

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
#[expect(clippy::cast_possible_truncation, reason = "test data")]
mod tests;

use std::cell::RefCell;
use std::fmt;

use zerocopy::IntoBytes;

use crate::credits::Credits;
use crate::payload::{Buffers, Whereabouts};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

const TAIL: usize = 0;
const HEAD_HINT: usize = 1;
const HEAD: usize = 16;
const RECEIVED: usize = 24;
const LOCK: usize = 25;
/// Words before the slots.
const CONTROL_WORDS: usize = 32;

const WORD_BYTES: usize = 8;
const SLOT_WORDS: usize = 8;
const SLOT_BYTES: usize = SLOT_WORDS * WORD_BYTES;
/// The publication word and the header word.
const PREFIX_WORDS: usize = 2;
/// Words of payload that fit in one slot.
const SLOT_PAYLOAD_WORDS: usize = SLOT_WORDS - PREFIX_WORDS;

const SRC_BITS: u32 = 24;
const HANDLER_BITS: u32 = 16;
const LEN_BITS: u32 = 24;
const _: () = assert!(SRC_BITS + HANDLER_BITS + LEN_BITS == u64::BITS);

/// How far ahead of a message slots are fetched: as many messages as are sent while a line comes.
#[cfg(not(loom))]
const SLOTS_AHEAD: u64 = 4;

/// The longest message takes this part of the ring, so that several fit.
const MESSAGES_PER_RING: usize = 8;
/// The receiver gives slots back when they make this part of the ring.
const GIVE_BACKS_PER_RING: usize = 16;
const MIN_SLOTS: usize = MESSAGES_PER_RING;
/// The length of a record whose message lies elsewhere, more than any message has: its payload is a word that says where.
const ELSEWHERE: u32 = (1 << LEN_BITS) - 1;
/// Beyond this the longest message would not fit the header's length.
const MAX_SLOTS: usize = MESSAGES_PER_RING << (LEN_BITS as usize - SLOT_BYTES.ilog2() as usize);

/// The ring had no room for the message; nothing was reserved or written.
///
/// An expected outcome: the sender serves its own mailboxes and tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mailbox full")]
pub struct Full;

/// What stands in the ring is no message: memory of the job was overwritten, or the ranks disagree about the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "corrupt mailbox: message at slot ticket {ticket} claims {len} bytes, more than the longest possible of {max}"
)]
pub struct Corrupt {
    /// Position of the message: slots that were consumed before it.
    pub ticket: u64,
    /// The length found.
    pub len: u32,
    /// [`Mailbox::max_message`].
    pub max: u32,
}

/// What a received message says beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The rank that sent it.
    pub src: u32,
    /// Which of the receiver's handlers it is for.
    pub handler: u16,
    /// Payload bytes.
    pub len: u32,
}

impl Envelope {
    fn to_word(self) -> u64 {
        u64::from(self.src)
            | u64::from(self.handler) << SRC_BITS
            | u64::from(self.len) << (SRC_BITS + HANDLER_BITS)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "each field is cut to its bits"
    )]
    fn from_word(word: u64) -> Self {
        Self {
            src: word as u32 & ((1 << SRC_BITS) - 1),
            handler: (word >> SRC_BITS) as u16,
            len: (word >> (SRC_BITS + HANDLER_BITS)) as u32,
        }
    }

    fn n_slots(self) -> usize {
        n_slots_for(self.len as usize)
    }
}

/// A view of one mailbox in shared memory; many ranks hold one, only the owner receives.
///
/// Two instances make a rank's inbox, one for requests and one for replies; which class a message belongs to is the caller's business.
/// Messages of one sender arrive in the order in which they were sent; nothing is said about the order between senders.
///
/// # Examples
/// ```
/// use std::sync::atomic::AtomicU64;
/// use pgas_smp::mailbox::Mailbox;
///
/// let words: Vec<_> = (0..Mailbox::bytes(64) / 8).map(|_| AtomicU64::new(0)).collect();
/// let mailbox = Mailbox::attach(&words, 64);
/// mailbox.try_send(3, 17, &[b"head", b"body"])?;
///
/// let mut payload = Vec::new();
/// let envelope = mailbox.try_receive(&mut payload)?.expect("one was sent");
/// assert_eq!((envelope.src, envelope.handler), (3, 17));
/// assert_eq!(payload, b"headbody");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Mailbox<'a> {
    control: &'a [AtomicU64; CONTROL_WORDS],
    slots: &'a [AtomicU64],
}

impl<'a> Mailbox<'a> {
    /// Bytes of shared memory that a mailbox of `n_slots` slots takes; a multiple of eight.
    ///
    /// # Panics
    /// If `n_slots` is not a power of two between 8 and 2^21.
    #[must_use]
    #[track_caller]
    #[inline]
    pub const fn bytes(n_slots: usize) -> usize {
        assert!(
            n_slots.is_power_of_two() && n_slots >= MIN_SLOTS && n_slots <= MAX_SLOTS,
            "a mailbox has a power of two of slots, 8 to 2^21"
        );
        (CONTROL_WORDS + n_slots * SLOT_WORDS) * WORD_BYTES
    }

    /// Views `words` as a mailbox.
    ///
    /// The words are all zero at first (fresh pages of a mapping) or already a mailbox of that many slots; zeroing them anew while a rank
    /// uses them loses messages. They should start on a cache line (64 bytes), better on two: the protocol does not depend on it,
    /// its speed does.
    ///
    /// # Panics
    /// If `n_slots` is refused by [`bytes`](Self::bytes), or `words` are not exactly that many bytes.
    #[must_use]
    #[track_caller]
    #[inline]
    pub fn attach(words: &'a [AtomicU64], n_slots: usize) -> Self {
        let want = Self::bytes(n_slots) / WORD_BYTES;
        assert!(
            words.len() == want,
            "a mailbox of {n_slots} slots has {want} words, not {}",
            words.len()
        );
        let (control, slots) = words
            .split_first_chunk()
            .expect("`bytes` counts the control words");
        Self { control, slots }
    }

    /// Payload bytes of the longest message: an eighth of the ring, less 16.
    #[must_use]
    #[inline]
    pub fn max_message(&self) -> usize {
        self.slots.len() / MESSAGES_PER_RING * WORD_BYTES - PREFIX_WORDS * WORD_BYTES
    }

    /// Whether there is nothing to receive.
    ///
    /// This is the question to ask in [`Doorbell::sleep_until`](crate::doorbell::Doorbell::sleep_until).
    ///
    /// # Cost
    /// Two loads, from lines that stay in the receiver's cache until somebody sends.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: only the owner's threads move it, and whoever wants to receive looks again under the lock.
        let ticket = self.control[RECEIVED].load(Relaxed);
        !self.is_published(ticket)
    }

    /// Bytes of the ring between the receiver and the last reservation, for reports: messages, their prefixes and their padding.
    #[must_use]
    pub fn n_queued_bytes(&self) -> u64 {
        // Acquire: pairs with the release in `try_receive`; the tail is then no older.
        let received = self.control[RECEIVED].load(Acquire);
        let tail = self.control[TAIL].load(Relaxed);
        tail.wrapping_sub(received) * SLOT_BYTES as u64
    }

    /// Slots ever given back by the receiver.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        // Relaxed: who reserves slots looks again.
        self.control[HEAD].load(Relaxed)
    }

    /// Slots that senders may reserve now: so many messages of up to 48 bytes have room.
    #[must_use]
    pub fn n_free_slots(&self) -> u64 {
        // The head first: a tail that is read later is not behind it, and at worst too little is free.
        let head = self.control[HEAD].load(Acquire);
        let tail = self.control[TAIL].load(Relaxed);
        (self.n_slots() as u64).saturating_sub(tail.wrapping_sub(head))
    }

    /// Sends the concatenation of `parts` to the owner, or says at once that there is no room.
    ///
    /// The caller rings the owner's [`Doorbell`](crate::doorbell::Doorbell) afterwards, once for any number of messages.
    /// A long message needs that much free space in one piece of the ring's order; a stream of short ones from other ranks can
    /// keep it waiting, so whoever retries bounds its patience.
    ///
    /// # Cost
    /// One compare-and-swap, one store a word, and two cache lines taken from other ranks (`tail` and the slot) for a message of up to 48 bytes.
    ///
    /// # Errors
    /// [`Full`] if the ring lacks room now. No ticket is taken, nothing is written.
    ///
    /// # Panics
    /// If the parts are longer than [`max_message`](Self::max_message), or `src` has more than 24 bits.
    #[track_caller]
    #[inline]
    pub fn try_send(&self, src: u32, handler: u16, parts: &[&[u8]]) -> Result<(), Full> {
        self.send(None, src, handler, parts)
    }

    /// As [`try_send`](Self::try_send), of a sender that takes no more than its part of the ring.
    #[track_caller]
    #[inline]
    pub(crate) fn try_send_within(
        &self,
        credits: &Credits,
        src: u32,
        handler: u16,
        parts: &[&[u8]],
    ) -> Result<(), Full> {
        self.send(Some(credits), src, handler, parts)
    }

    #[track_caller]
    #[inline]
    fn send(
        &self,
        credits: Option<&Credits>,
        src: u32,
        handler: u16,
        parts: &[&[u8]],
    ) -> Result<(), Full> {
        let len = parts
            .iter()
            .fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        assert!(
            len <= self.max_message(),
            "message of {len} bytes, at most {} fit",
            self.max_message()
        );
        assert!(
            src >> SRC_BITS == 0,
            "rank {src} does not fit in {SRC_BITS} bits"
        );
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most `max_message`, which has 24 bits"
        )]
        let envelope = Envelope {
            src,
            handler,
            len: len as u32,
        };

        let ticket = self.claim(credits, envelope.n_slots())?;
        let first = self.first_word(ticket);
        self.slots[first + 1].store(envelope.to_word(), Relaxed);
        let mut writer = Writer::new(self.slots, first + PREFIX_WORDS);
        for part in parts {
            writer.write(part);
        }
        writer.finish();
        // Release: pairs with the receiver's acquire in `is_published`, which then sees header and payload.
        self.slots[first].store(published(ticket), Release);
        Ok(())
    }

    /// Sends a record of a message that lies in one of the sender's buffers, which is then the owner's until it has been handled.
    ///
    /// # Errors
    /// [`Full`] if the ring lacks room now, or the sender has taken its part of it.
    #[inline]
    pub(crate) fn try_send_whereabouts(
        &self,
        credits: Option<&Credits>,
        src: u32,
        handler: u16,
        at: Whereabouts,
    ) -> Result<(), Full> {
        let envelope = Envelope {
            src,
            handler,
            len: ELSEWHERE,
        };
        let ticket = self.claim(credits, 1)?;
        let first = self.first_word(ticket);
        self.slots[first + 1].store(envelope.to_word(), Relaxed);
        self.slots[first + PREFIX_WORDS].store(at.to_word(), Relaxed);
        // Release: as in `send`; the receiver then sees what was written to the buffer too.
        self.slots[first].store(published(ticket), Release);
        Ok(())
    }

    /// Reserves slots for a sender that may take so many, and says which.
    #[inline]
    fn claim(&self, credits: Option<&Credits>, n_slots: usize) -> Result<u64, Full> {
        let n = n_slots as u64;
        if credits.is_some_and(|credits| !credits.allow(n, || self.head())) {
            return Err(Full);
        }
        let ticket = self.reserve(n_slots)?;
        let end = ticket.wrapping_add(n);
        if let Some(credits) = credits {
            credits.take(n, end);
        }
        self.fetch_ahead(end);
        Ok(ticket)
    }

    /// Receives the oldest message, if it is complete: its payload replaces what `buf` holds.
    ///
    /// As [`receive`](Self::receive) of one message.
    ///
    /// # Errors
    /// [`Corrupt`] if what stands there cannot be a message; it stays there.
    pub fn try_receive(&self, buf: &mut Vec<u8>) -> Result<Option<Envelope>, Corrupt> {
        let mut received = None;
        self.receive(1, |envelope, payload| {
            buf.clear();
            buf.extend_from_slice(payload);
            received = Some(envelope);
        })?;
        Ok(received)
    }

    /// Hands up to `limit` complete messages to `sink`, oldest first, and returns how many.
    ///
    /// For the owner of the mailbox. While one of its threads receives, and its sink runs, there is nothing for another one (0). Payloads
    /// begin at a multiple of eight bytes. Those of one slot are copied to the stack, longer ones to a buffer that the thread keeps. A message
    /// is taken out of the ring before its sink runs.
    ///
    /// # Cost
    /// Two loads of own lines if there is nothing; otherwise one compare-and-swap on an own line, and a load a word.
    ///
    /// # Errors
    /// [`Corrupt`] if what stands there cannot be a message; it stays there.
    #[inline]
    pub fn receive(
        &self,
        limit: usize,
        sink: impl FnMut(Envelope, &[u8]),
    ) -> Result<usize, Corrupt> {
        self.receive_from(|| None, limit, sink)
    }

    /// As [`receive`](Self::receive), of messages in the ring and in `buffers`.
    #[inline]
    pub(crate) fn receive_from<'b>(
        &self,
        buffers: impl Fn() -> Option<Buffers<'b>>,
        limit: usize,
        mut sink: impl FnMut(Envelope, &[u8]),
    ) -> Result<usize, Corrupt> {
        if self.is_empty() {
            self.give_back_the_rest();
            return Ok(0);
        }
        let Some(_lock) = Lock::try_take(&self.control[LOCK]) else {
            return Ok(0);
        };
        let mut n_received = 0;
        while n_received < limit {
            let ticket = self.control[RECEIVED].load(Relaxed);
            if !self.is_published(ticket) {
                break;
            }
            let first = self.first_word(ticket);
            let envelope = Envelope::from_word(self.slots[first + 1].load(Relaxed));
            let len = envelope.len as usize;
            if len > self.max_message() {
                self.receive_elsewhere(buffers(), ticket, envelope, &mut sink)?;
                n_received += 1;
                continue;
            }
            n_received += 1;
            if len <= SLOT_PAYLOAD_WORDS * WORD_BYTES {
                let mut words = [0; SLOT_PAYLOAD_WORDS];
                let slot = &self.slots[first + PREFIX_WORDS..first + SLOT_WORDS];
                for (word, shared) in words.iter_mut().zip(slot) {
                    *word = shared.load(Relaxed).to_le();
                }
                self.advance(ticket.wrapping_add(1));
                sink(envelope, &words.as_bytes()[..len]);
            } else {
                self.receive_long(ticket, envelope, &mut sink);
            }
        }
        Ok(n_received)
    }

    /// Hands a message to `sink` that lies in one of its sender's buffers, and gives the buffer back. For the holder of the lock.
    #[inline(never)]
    fn receive_elsewhere(
        &self,
        buffers: Option<Buffers<'_>>,
        ticket: u64,
        envelope: Envelope,
        sink: &mut impl FnMut(Envelope, &[u8]),
    ) -> Result<(), Corrupt> {
        let word = self.slots[self.first_word(ticket) + PREFIX_WORDS].load(Relaxed);
        let at = Whereabouts::from_word(word);
        let arrived = buffers
            .filter(|_| envelope.len == ELSEWHERE)
            .and_then(|buffers| buffers.arrived(envelope.src, at))
            .ok_or_else(|| self.corrupt(ticket, envelope))?;
        self.advance(ticket.wrapping_add(1));
        let envelope = Envelope {
            len: arrived.len,
            ..envelope
        };
        arrived.read(|payload| sink(envelope, payload));
        Ok(())
    }

    /// Takes a message of several slots out of the ring, and hands it to `sink`. For the holder of the lock.
    fn receive_long(
        &self,
        ticket: u64,
        envelope: Envelope,
        sink: &mut impl FnMut(Envelope, &[u8]),
    ) {
        thread_local! {
            /// Kept between messages, so that receiving does not allocate.
            static LONG: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
        }
        let (first, len) = (self.first_word(ticket), envelope.len as usize);
        // A sink that receives from another mailbox finds an empty buffer of its own.
        let mut buf = LONG.take();
        self.copy_out(first + PREFIX_WORDS, len, &mut buf);
        let n_slots = envelope.n_slots();
        for slot in 1..n_slots {
            let word = (first + slot * SLOT_WORDS) & (self.slots.len() - 1);
            self.slots[word].store(0, Relaxed);
        }
        self.advance(ticket.wrapping_add(n_slots as u64));
        sink(envelope, &buf.as_bytes()[..len]);
        LONG.set(buf);
    }

    /// Whether a thread of the owner receives now, and its sink may be running.
    #[must_use]
    pub fn is_receiving(&self) -> bool {
        // Acquire: pairs with the release at the end of `receive`; what the sinks did is visible then.
        self.control[LOCK].load(Acquire) != 0
    }

    #[cold]
    fn corrupt(&self, ticket: u64, envelope: Envelope) -> Corrupt {
        #[expect(clippy::cast_possible_truncation, reason = "`max_message` has 24 bits")]
        let max = self.max_message() as u32;
        Corrupt {
            ticket,
            len: envelope.len,
            max,
        }
    }

    /// Records that the slots before `received` were received. For the holder of the lock.
    #[inline]
    fn advance(&self, received: u64) {
        // Release: pairs with the acquire in `n_queued_bytes`.
        self.control[RECEIVED].store(received, Release);
        let n_kept = received.wrapping_sub(self.control[HEAD].load(Relaxed));
        if n_kept >= (self.n_slots() / GIVE_BACKS_PER_RING) as u64 {
            self.give_back(received);
        }
    }

    /// Lets senders have the slots before `received`. For the holder of the lock.
    #[inline]
    fn give_back(&self, received: u64) {
        // Release: pairs with the senders' acquire in `reserve`; what the receiver read and zeroed comes before their stores.
        self.control[HEAD].store(received, Release);
    }

    /// Lets senders have all that was received, once there is nothing more to receive.
    #[inline]
    pub(crate) fn give_back_the_rest(&self) {
        // Relaxed: a look without the lock, to save taking it.
        if self.control[HEAD].load(Relaxed) != self.control[RECEIVED].load(Relaxed)
            && let Some(_lock) = Lock::try_take(&self.control[LOCK])
        {
            self.give_back(self.control[RECEIVED].load(Relaxed));
        }
    }

    /// Begins to take from the receiver's cache the line that one of the next messages goes to. The atomic instructions of a message
    /// wait for the stores of the one before, and these for their lines.
    #[inline]
    fn fetch_ahead(&self, ticket: u64) {
        #[cfg(not(loom))]
        {
            let word = self.first_word(ticket.wrapping_add(SLOTS_AHEAD));
            pgas_core::raw::copy::prefetch_for_write((&raw const self.slots[word]).cast());
        }
        #[cfg(loom)]
        let _ = ticket;
    }

    /// Takes `n_slots` consecutive slots for the caller, and says which.
    #[inline]
    fn reserve(&self, n_slots: usize) -> Result<u64, Full> {
        let n_free_needed = (self.n_slots() - n_slots) as u64;
        // A tail that is older than the head gives a huge difference: no room, look again.
        let has_room = |tail: u64, head: u64| tail.wrapping_sub(head) <= n_free_needed;

        // Acquire: pairs with the release of a sender that refreshed the hint, and through its acquire with the receiver's release.
        let mut head = self.control[HEAD_HINT].load(Acquire);
        // Relaxed here and in the exchange: slots are handed from receiver to sender by `head`, never by `tail`.
        let mut tail = self.control[TAIL].load(Relaxed);
        loop {
            if !has_room(tail, head) {
                // Acquire: pairs with the receiver's release in `give_back`, whose zeroing must come before our stores.
                head = self.control[HEAD].load(Acquire);
                let newer_tail = self.control[TAIL].load(Relaxed);
                if !has_room(newer_tail, head) && newer_tail == tail {
                    return Err(Full);
                }
                self.control[HEAD_HINT].store(head, Release);
                tail = newer_tail;
                continue;
            }
            match self.control[TAIL].compare_exchange_weak(
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

    #[inline]
    fn copy_out(&self, start: usize, len: usize, buf: &mut Vec<u64>) {
        buf.clear();
        let n_words = len.div_ceil(WORD_BYTES);
        let start = start & (self.slots.len() - 1);
        let n_before_the_end = n_words.min(self.slots.len() - start);
        let (before, after) = (
            &self.slots[start..start + n_before_the_end],
            &self.slots[..n_words - n_before_the_end],
        );
        let shared = before.iter().chain(after);
        buf.extend(shared.map(|word| word.load(Relaxed).to_le()));
    }

    #[inline]
    fn is_published(&self, ticket: u64) -> bool {
        // Acquire: pairs with the release at the end of `try_send`.
        self.slots[self.first_word(ticket)].load(Acquire) == published(ticket)
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only the low bits of a ticket say where it is"
    )]
    fn first_word(&self, ticket: u64) -> usize {
        (ticket as usize).wrapping_mul(SLOT_WORDS) & (self.slots.len() - 1)
    }

    fn n_slots(&self) -> usize {
        self.slots.len() / SLOT_WORDS
    }
}

impl fmt::Debug for Mailbox<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox")
            .field("n_slots", &self.n_slots())
            .field("n_queued_bytes", &self.n_queued_bytes())
            .finish_non_exhaustive()
    }
}

/// The word that marks the message at `ticket` as complete: odd, so never what fresh or zeroed memory holds.
#[inline]
fn published(ticket: u64) -> u64 {
    ticket << 1 | 1
}

#[inline]
fn n_slots_for(len: usize) -> usize {
    (PREFIX_WORDS * WORD_BYTES + len).div_ceil(SLOT_BYTES)
}

/// The right to receive, given back on drop.
struct Lock<'a>(&'a AtomicU64);

impl<'a> Lock<'a> {
    #[inline]
    fn try_take(word: &'a AtomicU64) -> Option<Self> {
        // Acquire: pairs with the release in `drop`, so that `received` is what the last receiver left.
        word.compare_exchange(0, 1, Acquire, Relaxed)
            .ok()
            .map(|_| Self(word))
    }
}

impl Drop for Lock<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

/// Packs byte strings, one after the other, into the words of the ring.
struct Writer<'a> {
    slots: &'a [AtomicU64],
    /// Where the next whole word goes, before wrapping.
    at: usize,
    /// Bytes that do not make a word yet, lowest first.
    pending: u64,
    n_pending_bits: u32,
}

impl<'a> Writer<'a> {
    #[inline]
    fn new(slots: &'a [AtomicU64], at: usize) -> Self {
        Self {
            slots,
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
        self.slots[self.at & (self.slots.len() - 1)].store(word, Relaxed);
        self.at += 1;
    }
}
