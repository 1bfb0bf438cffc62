//! Messages: each rank has a ring for requests and one for replies in its segment, of which it
//! takes messages by its own instructions, and to which others send by remote loads, stores and
//! compare-and-swaps.
#![expect(unsafe_code, reason = "reads and writes the own part of segments")]

use std::slice;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use pgas_core::backend::{HandlerId, Message, MessageClass};
use pgas_core::{Error, Rank, Result};
use pgas_lockfree::credits::Credits;
use pgas_lockfree::machine::Portable;
use pgas_lockfree::mailbox::{self, Envelope, Mailbox, Posted, Ring};
use pgas_lockfree::word::Word;

use crate::rma;
use crate::segment::{Layout, RING_CONTROL_BYTES};
use crate::sys::{self, Remote, fence, load_u64, store_u64};

/// A rank's ways to and from all others.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    rank: u32,
    base: u64,
    layout: Layout,
    /// What this rank has taken of the others' room for requests. Replies always find some: each
    /// answers a request.
    credits: Box<[Credits]>,
}

impl Mailboxes {
    /// Those of a rank whose segment starts at `base`, as every rank's does.
    pub(crate) fn new(rank: u32, n_ranks: u32, base: u64) -> Self {
        let layout = Layout::new(n_ranks);
        let credits = |_| Credits::new(layout.n_slots());
        Self {
            rank,
            base,
            layout,
            credits: (0..n_ranks).map(credits).collect(),
        }
    }

    fn remote(&self, rank: u32, offset: u64) -> Remote {
        Remote::new(rank, self.base + offset)
    }

    /// A word of this rank's own part of its segment, which others write.
    pub(crate) fn own(&self, offset: u64) -> &AtomicU64 {
        &self.own_words(offset, 1)[0]
    }

    fn own_words(&self, offset: u64, n: usize) -> &[AtomicU64] {
        let place = std::ptr::with_exposed_provenance::<AtomicU64>((self.base + offset) as usize);
        // SAFETY: the segment lives as long as the process, the layout's words are aligned and lie
        // in it, and they are only accessed by atomics and by remote instructions.
        unsafe { slice::from_raw_parts(place, n) }
    }

    /// Writes a word of the backend's own part of a segment.
    pub(crate) fn tell(&self, rank: u32, offset: u64, value: u64) {
        // SAFETY: the layout's words are aligned, and lie in every segment.
        unsafe { store_u64(self.remote(rank, offset), value) };
    }

    /// Writes bytes of the backend's own part of a segment.
    pub(crate) fn tell_bytes(&self, rank: u32, offset: u64, bytes: &[u8]) {
        // SAFETY: the caller is in this crate and names places of the layout, which lie in every
        // segment.
        unsafe { rma::put(self.remote(rank, offset), bytes.as_ptr(), bytes.len()) };
    }

    fn inbox(&self, class: MessageClass) -> Mailbox<'_> {
        let n_slots = self.layout.n_slots();
        let words = Mailbox::bytes(n_slots) / 8;
        let at = self.layout.ring(class);
        Mailbox::attach(self.own_words(at, words), n_slots)
    }

    fn outbox(&self, to: Rank, class: MessageClass) -> Outbox {
        Outbox {
            at: self.remote(to.number(), self.layout.ring(class)),
            n_slot_words: self.layout.n_slots() * 8,
        }
    }

    fn credits(&self, to: Rank, class: MessageClass) -> Option<&Credits> {
        match class {
            MessageClass::Request => Some(&self.credits[to.number() as usize]),
            MessageClass::Reply => None,
        }
    }

    /// How many short messages `to` has room for.
    pub(crate) fn n_free(&self, to: Rank, class: MessageClass) -> u64 {
        let outbox = self.outbox(to, class);
        // One that is as long as a short one may be takes two slots.
        mailbox::n_free_slots(&outbox, self.credits(to, class)) / 2
    }

    /// Leaves a message, if there is room, and gives its place.
    pub(crate) fn offer(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Option<Posted> {
        let (outbox, credits) = (self.outbox(to, class), self.credits(to, class));
        let sent = mailbox::try_send_remote(&outbox, credits, self.rank, handler.0, parts);
        let posted = sent.ok()?;
        // The sender may look whether the receiver has left.
        fence();
        Some(posted)
    }

    /// Takes a message back that `to`, which has left, has not taken, and says whether it has not.
    pub(crate) fn withdraw(&self, to: Rank, class: MessageClass, posted: Posted) -> bool {
        mailbox::withdraw(&self.outbox(to, class), posted)
    }

    /// Hands up to `limit` messages to `sink`.
    pub(crate) fn receive(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        let received = self.inbox(class).receive(limit, |envelope, payload| {
            sink(message(class, envelope, payload));
        });
        received.map_err(|corrupt| {
            let text = format!("rank {}'s mailbox: {corrupt}", self.rank);
            Error::backend("receive", 0, text)
        })
    }

    /// Makes all later receivers of a class take messages so that senders may take them back.
    /// Returns whether it is so; if not, a thread receives.
    pub(crate) fn close(&self, class: MessageClass) -> bool {
        self.inbox(class).close()
    }

    /// The ticket behind what others have sent. For a rank that has left, as
    /// [`receive_late`](Self::receive_late).
    pub(crate) fn tail(&self, class: MessageClass) -> u64 {
        self.inbox(class).tail()
    }

    /// Hands messages before the ticket `end` to `late`, but for those that are taken back. Returns
    /// whether that was all; a damaged mailbox has nothing more.
    pub(crate) fn receive_late(
        &self,
        class: MessageClass,
        end: u64,
        late: &mut dyn FnMut(Message<'_>),
    ) -> bool {
        let inbox = self.inbox(class);
        let received = inbox.receive_late::<Portable>(
            end,
            || None,
            |envelope, payload| {
                late(message(class, envelope, payload));
            },
        );
        received.unwrap_or(true)
    }

    /// Whether nothing from anybody waits here, or is being served.
    pub(crate) fn are_drained(&self) -> bool {
        [MessageClass::Request, MessageClass::Reply]
            .into_iter()
            .all(|class| self.is_empty(class))
    }

    /// Whether nothing of a class waits here, or is on its way into its slots, or is being served.
    pub(crate) fn is_empty(&self, class: MessageClass) -> bool {
        let inbox = self.inbox(class);
        inbox.n_queued_bytes() == 0 && !inbox.is_receiving()
    }
}

fn message(class: MessageClass, envelope: Envelope, payload: &[u8]) -> Message<'_> {
    Message {
        from: Rank::new(envelope.src),
        class,
        handler: HandlerId(envelope.handler),
        payload,
    }
}

/// Another rank's ring, to which this one sends.
#[derive(Clone, Copy, Debug)]
struct Outbox {
    at: Remote,
    n_slot_words: usize,
}

impl Ring for Outbox {
    type Word<'a> = Far;

    fn n_slot_words(&self) -> usize {
        self.n_slot_words
    }

    fn control(&self, index: usize) -> Far {
        Far(self.at.at(8 * index as u64))
    }

    fn slot(&self, index: usize) -> Far {
        Far(self.at.at(RING_CONTROL_BYTES + 8 * index as u64))
    }
}

/// A word of eight bytes of another rank's ring.
#[derive(Clone, Copy, Debug)]
struct Far(Remote);

impl Far {
    /// What was asked for before is done before what `access` asks for, and that before what
    /// follows, as far as `order` says so.
    fn ordered<T>(order: Ordering, access: impl FnOnce() -> T) -> T {
        if !matches!(order, Relaxed | Acquire) {
            fence();
        }
        let value = access();
        if !matches!(order, Relaxed | Release) {
            fence();
        }
        value
    }

    fn update(self, order: Ordering, instruction: unsafe fn(Remote, u64) -> u64, bits: u64) -> u64 {
        Self::ordered(order, || {
            // SAFETY: who made it named a word of the layout, aligned, which lies in every segment.
            unsafe { instruction(self.0, bits) }
        })
    }
}

impl Word for Far {
    type Bits = u64;

    fn load(&self, order: Ordering) -> u64 {
        // SAFETY: as above.
        Self::ordered(order, || unsafe { load_u64(self.0) })
    }

    fn store(&self, bits: u64, order: Ordering) {
        // SAFETY: as above.
        Self::ordered(order, || unsafe { store_u64(self.0, bits) });
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        order: Ordering,
        _of_failure: Ordering,
    ) -> std::result::Result<u64, u64> {
        // SAFETY: as above.
        let found = Self::ordered(order, || unsafe {
            sys::compare_swap_d(self.0, current, new)
        });
        if found == current {
            Ok(found)
        } else {
            Err(found)
        }
    }

    fn swap(&self, bits: u64, order: Ordering) -> u64 {
        self.update(order, sys::swap_d, bits)
    }

    fn fetch_add(&self, bits: u64, order: Ordering) -> u64 {
        self.update(order, sys::add_d, bits)
    }

    fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.update(order, sys::and_d, bits)
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.update(order, sys::or_d, bits)
    }

    fn fetch_xor(&self, bits: u64, order: Ordering) -> u64 {
        self.update(order, sys::xor_d, bits)
    }

    fn fetch_min(&self, bits: u64, order: Ordering) -> u64 {
        self.update(order, sys::minu_d, bits)
    }

    fn fetch_max(&self, bits: u64, order: Ordering) -> u64 {
        self.update(order, sys::maxu_d, bits)
    }
}
