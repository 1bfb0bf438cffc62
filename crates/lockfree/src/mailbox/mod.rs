//! Messages between ranks: a bounded ring of variable-length messages in shared memory, with many
//! senders and one receiver.
//!
//! Before this on the path of an active message: the backend picks the target's ring (requests and
//! replies have a ring each, so that a reply never waits for room behind requests). After it: the
//! target's progress loop receives, and runs the handler.
//!
//! # Layout
//!
//! A mailbox is plain words of the shared mapping, valid when all of them are zero, and the same at
//! every address:
//!
//! | word | holds |
//! |---|---|
//! | 0 | `tail`: slots ever reserved by senders |
//! | 1 | a lower bound of `head`, kept by senders, who seldom read the receiver's line |
//! | 16 | `head`: slots ever given back by the receiver |
//! | 24 | `received`: slots ever received; `head` follows it in steps of a sixteenth of the ring |
//! | 25 | the receiver's lock, and whether the mailbox is closed |
//! | 32 and on | the slots, 8 words (64 bytes) each |
//!
//! A message fills consecutive slots and may continue at the start of the ring: a publication word,
//! a header word (24 bits source rank, 16 bits handler, 24 bits length), then the payload. Up to 48
//! bytes of payload take one slot.
//!
//! # Protocol
//!
//! A sender reserves slots by compare-and-swap of `tail`, after it has seen in `head` that they are
//! free. A ticket is never undone: a full ring is noticed before anything is reserved. The sender
//! then writes header and payload, and last the publication word, with release. The receiver looks
//! at the publication word of the slot at `received` alone. That word is derived from the 64-bit
//! ticket, is never zero, and differs from whatever an earlier message left at that place:
//! publication words of earlier laps carry other tickets, and words that held payload are zeroed
//! before `head` passes them.
//!
//! `head` lags behind `received`, because waiting senders keep reading it, and the receiver would
//! have to fetch its line again at every message. It catches up whenever the receiver finds
//! nothing, so an empty mailbox has all its room.
//!
//! An owner that leaves takes what was reserved before ([`receive_late`](Mailbox::receive_late)),
//! and a sender that sees this takes its message back ([`withdraw`]). Both replace the publication
//! word, so that one of them succeeds, and the message is told of once: as one that came too late,
//! or as one that was not delivered. Other threads of the owner may receive meanwhile, and as long
//! as nobody leaves a receiver only looks at the publication word. So the owner first
//! [closes](Mailbox::close) the mailbox: whoever takes the receiver's lock afterwards finds another
//! word there, and replaces publication words, too.
//!
//! A record of one slot may also refer to a message in a buffer (`payload`) of its sender.
//!
//! The payload is copied out before it is examined, and the length is checked before it is used. So
//! a rank that overwrites a mailbox can break the job, but cannot make a safe function read outside
//! of the ring.

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
#[expect(clippy::cast_possible_truncation, reason = "test data")]
mod tests;

mod receive;
mod send;

use std::fmt;

pub use send::{Posted, try_send_remote, withdraw};

use crate::credits::Credits;
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use crate::word::Word;

const TAIL: usize = 0;
const HEAD_HINT: usize = 1;
const HEAD: usize = 16;
const RECEIVED: usize = 24;
const LOCK: usize = 25;
/// Values of the lock: nobody receives; nobody receives, and the mailbox is
/// [closed](Mailbox::close); and a bit that says that a thread receives.
const OPEN: u64 = 0;
const CLOSED: u64 = 2;
const HELD: u64 = 1;
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

/// The ring holds at least this number of messages of the maximum length.
const MESSAGES_PER_RING: usize = 8;
const MIN_SLOTS: usize = MESSAGES_PER_RING;
/// The length in a record whose message lies in a buffer; no message is that long. The payload of
/// the record names the buffer.
const IN_BUFFER: u32 = (1 << LEN_BITS) - 1;
/// With more slots the maximum length would not fit in the header.
const MAX_SLOTS: usize = MESSAGES_PER_RING << (LEN_BITS as usize - SLOT_BYTES.ilog2() as usize);

/// The ring had no room for the message; nothing was reserved or written.
///
/// An expected result: the sender serves its own mailboxes and tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mailbox full")
    }
}

impl std::error::Error for Full {}

/// The ring holds no valid message: memory of the job was overwritten, or the ranks disagree about
/// the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// Position of the message: slots that were consumed before it.
    pub ticket: u64,
    /// The length found.
    pub len: u32,
    /// [`Mailbox::max_message`].
    pub max: u32,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ticket, len, max } = self;
        write!(
            f,
            "corrupt mailbox: message at slot ticket {ticket} claims {len} bytes, more than the longest possible of {max}"
        )
    }
}

impl std::error::Error for Corrupt {}

/// The header of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The rank that sent it.
    pub src: u32,
    /// The receiver's handler that it is for.
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

/// The words of a mailbox, as its senders access them: by loads and stores, as those of a
/// [`Mailbox`], or through a network ([`try_send_remote`]).
pub trait Ring {
    /// A word of the mailbox.
    type Word<'a>: Word<Bits = u64>
    where
        Self: 'a;

    /// The number of words that hold slots: all of [`Mailbox::bytes`] but the first 32. A power of
    /// two.
    fn n_slot_words(&self) -> usize;

    /// One of the first 32 words.
    fn control(&self, index: usize) -> Self::Word<'_>;

    /// One of the words that hold slots.
    fn slot(&self, index: usize) -> Self::Word<'_>;
}

impl Ring for Mailbox<'_> {
    type Word<'a>
        = &'a AtomicU64
    where
        Self: 'a;

    #[inline]
    fn n_slot_words(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    #[track_caller]
    fn control(&self, index: usize) -> &AtomicU64 {
        &self.control[index]
    }

    #[inline]
    #[track_caller]
    fn slot(&self, index: usize) -> &AtomicU64 {
        &self.slots[index]
    }
}

/// A view of one mailbox in shared memory; many ranks hold one, only the owner receives.
///
/// A rank's inbox has two of them, one for requests and one for replies; the caller chooses.
/// Messages of one sender arrive in the order in which they were sent. Messages of different
/// senders are not ordered.
///
/// # Examples
/// ```
/// use std::sync::atomic::AtomicU64;
/// use pgas_lockfree::mailbox::Mailbox;
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
    /// The words are all zero at first (fresh pages of a mapping) or already a mailbox of that many
    /// slots; zeroing them anew while a rank uses them loses messages. They should start on a cache
    /// line (64 bytes), better on two: the protocol does not depend on it, its speed does.
    ///
    /// # Panics
    /// If `n_slots` is refused by [`bytes`](Self::bytes), or `words` are not exactly that many
    /// bytes.
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
        max_message(self.slots.len())
    }

    /// Whether there is nothing to receive.
    ///
    /// This is the question to ask in
    /// [`Doorbell::sleep_until`](crate::doorbell::Doorbell::sleep_until).
    ///
    /// # Cost
    /// Two loads, from lines that stay in the receiver's cache until somebody sends.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: only the owner's threads move it, and a receiver reads it again under the lock.
        let ticket = self.control[RECEIVED].load(Relaxed);
        !self.is_published(ticket)
    }

    /// The bytes of the ring between the receiver and the last reservation, for reports: messages
    /// with prefixes and padding.
    #[must_use]
    pub fn n_queued_bytes(&self) -> u64 {
        // Acquire: pairs with the release in `advance`. The tail read next is then no older. A
        // thread that finds nothing here sees that the receiver holds the lock if its sink is still
        // running.
        let received = self.control[RECEIVED].load(Acquire);
        let tail = self.control[TAIL].load(Relaxed);
        tail.wrapping_sub(received) * SLOT_BYTES as u64
    }

    /// Slots ever reserved by senders, for an owner that has [left](crate::doorbell::Doorbell::leave):
    /// those that reserve later see that it has.
    #[must_use]
    pub fn tail(&self) -> u64 {
        // Relaxed: after the fence of `leave`.
        self.control[TAIL].load(Relaxed)
    }

    /// Slots ever given back by the receiver.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        // Relaxed: `reserve` reads it again.
        self.control[HEAD].load(Relaxed)
    }

    /// The number of slots that senders may reserve now. Each takes a message of up to 48 bytes.
    #[must_use]
    pub fn n_free_slots(&self) -> u64 {
        n_free_slots(self, None)
    }

    /// Whether a thread of the owner receives now, and its sink may be running.
    #[must_use]
    pub fn is_receiving(&self) -> bool {
        // Acquire: pairs with the release at the end of `receive`; what the sinks did is visible
        // then.
        self.control[LOCK].load(Acquire) & HELD != 0
    }

    #[inline]
    fn is_published(&self, ticket: u64) -> bool {
        // Acquire: pairs with the release at the end of `try_send`.
        self.slots[self.first_word(ticket)].load(Acquire) == published(ticket)
    }

    #[inline]
    fn first_word(&self, ticket: u64) -> usize {
        first_word(self.slots.len(), ticket)
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

/// The number of slots that senders may reserve now. A sender with `credits` takes no more than its
/// share.
///
/// # Cost
/// Two loads.
#[must_use]
pub fn n_free_slots<R: Ring>(ring: &R, credits: Option<&Credits>) -> u64 {
    // Relaxed: a tail older than the head reads as no room, and `reserve` reads both again.
    let head = ring.control(HEAD).load(Relaxed);
    let tail = ring.control(TAIL).load(Relaxed);
    let n_slots = (ring.n_slot_words() / SLOT_WORDS) as u64;
    let n_free = n_slots.saturating_sub(tail.wrapping_sub(head));
    credits.map_or(n_free, |credits| n_free.min(credits.n_left(head)))
}

/// The word that marks the message at `ticket` as complete: odd, so never what fresh or zeroed
/// memory holds.
#[inline]
fn published(ticket: u64) -> u64 {
    ticket << 1 | 1
}

/// The word that replaces the one above when the message is taken out of a closed mailbox, or its
/// sender takes it back. Even, and never zero.
#[inline]
fn settled(ticket: u64) -> u64 {
    ticket.wrapping_add(1) << 1
}

/// Whether ticket `a` does not come after `b`.
fn is_at_most(a: u64, b: u64) -> bool {
    b.wrapping_sub(a) <= u64::MAX / 2
}

/// The index of the first word of the message at `ticket`, in a ring of `n_words` words of slots.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "only the low bits of a ticket say where it is"
)]
fn first_word(n_slot_words: usize, ticket: u64) -> usize {
    (ticket as usize).wrapping_mul(SLOT_WORDS) & (n_slot_words - 1)
}

#[inline]
const fn max_message(n_slot_words: usize) -> usize {
    n_slot_words / MESSAGES_PER_RING * WORD_BYTES - PREFIX_WORDS * WORD_BYTES
}

#[inline]
fn n_slots_for(len: usize) -> usize {
    (PREFIX_WORDS * WORD_BYTES + len).div_ceil(SLOT_BYTES)
}
