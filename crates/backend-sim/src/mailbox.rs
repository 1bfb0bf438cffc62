//! Messages: for each pair of ranks and class a few slots in the receiver's segment, which the
//! sender fills by remote stores, and a count in the sender's, by which the receiver says how many
//! it has taken.
#![expect(unsafe_code, reason = "reads and writes the own part of segments")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use pgas_core::Rank;
use pgas_core::backend::{HandlerId, Message, MessageClass};

use crate::rma;
use crate::segment::{Layout, MOST_PAYLOAD, SLOTS};
use crate::sys::{Remote, fence, store_u64};

const CLASSES: [MessageClass; 2] = [MessageClass::Request, MessageClass::Reply];

/// A rank's ways to and from all others.
#[derive(Debug)]
pub(crate) struct Mailbox {
    rank: u32,
    n_ranks: u32,
    base: u64,
    layout: Layout,
    /// Messages sent, by rank and class.
    sent: Mutex<Vec<[u64; 2]>>,
    received: Mutex<Received>,
}

#[derive(Debug)]
struct Received {
    /// Messages taken, by rank and class.
    taken: Vec<[u64; 2]>,
    /// Who is looked at first.
    next: u32,
    buffer: Vec<u8>,
}

const fn index(class: MessageClass) -> usize {
    match class {
        MessageClass::Request => 0,
        MessageClass::Reply => 1,
    }
}

impl Mailbox {
    /// The mailbox of a rank whose segment starts at `base`, as every rank's does.
    pub(crate) fn new(rank: u32, n_ranks: u32, base: u64) -> Self {
        Self {
            rank,
            n_ranks,
            base,
            layout: Layout::new(n_ranks),
            sent: Mutex::new(vec![[0; 2]; n_ranks as usize]),
            received: Mutex::new(Received {
                taken: vec![[0; 2]; n_ranks as usize],
                next: 0,
                buffer: vec![0; MOST_PAYLOAD],
            }),
        }
    }

    fn remote(&self, rank: u32, offset: u64) -> Remote {
        Remote::new(rank, self.base + offset)
    }

    /// A word of this rank's own part of its segment, which others write.
    pub(crate) fn own(&self, offset: u64) -> &AtomicU64 {
        let place = std::ptr::with_exposed_provenance_mut::<u64>((self.base + offset) as usize);
        // SAFETY: the segment lives as long as the process, the layout's words are aligned and lie
        // in it, and they are only accessed by atomics and by remote instructions.
        unsafe { AtomicU64::from_ptr(place) }
    }

    /// Writes a word of the backend's own part of a segment.
    pub(crate) fn tell(&self, rank: u32, offset: u64, value: u64) {
        // SAFETY: the layout's words are aligned, and lie in every segment.
        unsafe { store_u64(self.remote(rank, offset), value) };
    }

    /// Writes bytes of the backend's own part of a segment.
    pub(crate) fn tell_bytes(&self, rank: u32, offset: u64, bytes: &[u8]) {
        // SAFETY: the caller is in this crate and names places of the layout, which lie in every segment.
        unsafe { rma::put(self.remote(rank, offset), bytes.as_ptr(), bytes.len()) };
    }

    /// How many messages `to` has room for.
    pub(crate) fn n_free(&self, to: Rank, class: MessageClass) -> u64 {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = sent[to.number() as usize][index(class)];
        SLOTS - (sent - self.n_taken(to, class))
    }

    fn n_taken(&self, to: Rank, class: MessageClass) -> u64 {
        let at = self.layout.taken(to.number(), index(class));
        self.own(at).load(Ordering::Acquire)
    }

    /// Leaves a message, if there is room, and gives its number.
    pub(crate) fn offer(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Option<u64> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = &mut sent[to.number() as usize][index(class)];
        if *sent - self.n_taken(to, class) >= SLOTS {
            return None;
        }
        let target = to.number();
        let slot = self.layout.slot(self.rank, index(class), *sent);
        let payload = parts.concat();
        self.tell_bytes(target, slot + 16, &payload);
        let head = u64::from(handler.0) << 32 | payload.len() as u64;
        self.tell(target, slot + 8, head);
        // The number says that all else is there; and behind it a sender may look whether the
        // receiver has left.
        fence();
        *sent += 1;
        self.tell(target, slot, *sent);
        fence();
        Some(*sent)
    }

    /// Whether `to` has taken that message.
    pub(crate) fn was_taken(&self, to: Rank, class: MessageClass, number: u64) -> bool {
        self.n_taken(to, class) >= number
    }

    /// Hands up to `limit` messages to `sink`.
    pub(crate) fn receive(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> usize {
        let mut received = match self.received.try_lock() {
            Ok(received) => received,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return 0,
        };
        let Received {
            taken,
            next,
            buffer,
        } = &mut *received;
        let mut n_received = 0;
        for k in 0..self.n_ranks {
            let from = (*next + k) % self.n_ranks;
            while n_received < limit {
                let taken = &mut taken[from as usize][index(class)];
                let slot = self.layout.slot(from, index(class), *taken);
                if self.own(slot).load(Ordering::Acquire) != *taken + 1 {
                    break;
                }
                let head = self.own(slot + 8).load(Ordering::Relaxed);
                let len = (head & 0xffff_ffff) as usize;
                for (k, chunk) in buffer[..len].chunks_mut(8).enumerate() {
                    let word = self.own(slot + 16 + 8 * k as u64).load(Ordering::Relaxed);
                    chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
                }
                *taken += 1;
                n_received += 1;
                sink(Message {
                    from: Rank::new(from),
                    class,
                    handler: HandlerId((head >> 32) as u16),
                    payload: &buffer[..len],
                });
                let place = self.layout.taken(self.rank, index(class));
                self.tell(from, place, *taken);
            }
        }
        *next = (*next + 1) % self.n_ranks;
        n_received
    }

    /// Whether nothing from `rank` waits here.
    pub(crate) fn is_drained(&self, rank: Rank) -> bool {
        let Ok(received) = self.received.try_lock() else {
            return false;
        };
        CLASSES.iter().all(|class| {
            let taken = received.taken[rank.number() as usize][index(*class)];
            let slot = self.layout.slot(rank.number(), index(*class), taken);
            self.own(slot).load(Ordering::Acquire) != taken + 1
        })
    }
}
