//! The receiver's side: take messages out of the ring, pass them to the sink, give their slots
//! back.

use std::cell::RefCell;

use zerocopy::IntoBytes;

use super::{
    Corrupt, Envelope, HEAD, IN_BUFFER, LOCK, Mailbox, PREFIX_WORDS, RECEIVED, SLOT_PAYLOAD_WORDS,
    SLOT_WORDS, WORD_BYTES, is_at_most, published, settled,
};
use crate::machine::{Machine, Portable};
use crate::payload::{Buffers, Location};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The receiver gives slots back each time that this fraction of the ring was received.
pub(super) const GIVE_BACKS_PER_RING: usize = 16;

impl Mailbox<'_> {
    /// Receives the oldest message, if it is complete: its payload replaces what `buf` holds.
    ///
    /// As [`receive`](Self::receive) of one message.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring holds no valid message; it stays there.
    pub fn try_receive(&self, buf: &mut Vec<u8>) -> Result<Option<Envelope>, Corrupt> {
        let mut received = None;
        self.receive(1, |envelope, payload| {
            buf.clear();
            buf.extend_from_slice(payload);
            received = Some(envelope);
        })?;
        Ok(received)
    }

    /// Passes up to `limit` complete messages to `sink`, oldest first, and returns their number.
    ///
    /// For the owner of the mailbox. While one of its threads receives, and its sink runs, another
    /// one receives nothing (0). Payloads begin at a multiple of eight bytes. Those of one slot are
    /// copied to the stack, longer ones to a buffer that the thread keeps. A message is taken out
    /// of the ring before its sink runs.
    ///
    /// # Cost
    /// Two loads of own lines if there is nothing; otherwise one compare-and-swap on an own line,
    /// and a load a word.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring holds no valid message; it stays there.
    #[inline]
    pub fn receive(
        &self,
        limit: usize,
        sink: impl FnMut(Envelope, &[u8]),
    ) -> Result<usize, Corrupt> {
        self.receive_from::<Portable>(|| None, limit, sink)
    }

    /// As [`receive`](Self::receive), of messages in the ring and in `buffers`.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring holds no valid message; it stays there.
    #[inline]
    pub fn receive_from<'b, M: Machine>(
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
            self.take_out::<M>(&buffers, ticket, &mut sink)?;
            n_received += 1;
        }
        Ok(n_received)
    }

    /// For an owner that has [left](crate::doorbell::Doorbell::leave): receives what was reserved
    /// before the ticket `end`, which was the [`tail`](Self::tail) then, but for what its senders
    /// [take back](super::withdraw). Returns whether that is all; if not, a sender or another
    /// thread of the owner has yet to finish a step.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_late<'b, M: Machine>(
        &self,
        end: u64,
        buffers: impl Fn() -> Option<Buffers<'b>>,
        mut sink: impl FnMut(Envelope, &[u8]),
    ) -> Result<bool, Corrupt> {
        let Some(_lock) = Lock::try_take(&self.control[LOCK]) else {
            return Ok(false);
        };
        loop {
            let ticket = self.control[RECEIVED].load(Relaxed);
            if is_at_most(end, ticket) {
                return Ok(true);
            }
            let word = &self.slots[self.first_word(ticket)];
            // Acquire: as in `is_published`, also of a message that was taken back after it was
            // published.
            match word.compare_exchange(published(ticket), settled(ticket), Acquire, Acquire) {
                Ok(_) => self.take_out::<M>(&buffers, ticket, &mut sink)?,
                Err(word) if word == settled(ticket) => self.skip(ticket)?,
                Err(_) => return Ok(false),
            }
        }
    }

    /// Passes the message at `ticket` to `sink`. For the holder of the lock.
    #[inline]
    fn take_out<'b, M: Machine>(
        &self,
        buffers: &impl Fn() -> Option<Buffers<'b>>,
        ticket: u64,
        sink: &mut impl FnMut(Envelope, &[u8]),
    ) -> Result<(), Corrupt> {
        let first = self.first_word(ticket);
        let envelope = Envelope::from_word(self.slots[first + 1].load(Relaxed));
        let len = envelope.len as usize;
        if len > self.max_message() {
            return self.receive_from_buffer::<M>(buffers(), ticket, envelope, sink);
        }
        if len <= SLOT_PAYLOAD_WORDS * WORD_BYTES {
            let mut words = [0; SLOT_PAYLOAD_WORDS];
            let slot = &self.slots[first + PREFIX_WORDS..first + SLOT_WORDS];
            for (word, shared) in words.iter_mut().zip(slot) {
                *word = shared.load(Relaxed).to_le();
            }
            self.advance(ticket.wrapping_add(1));
            sink(envelope, &words.as_bytes()[..len]);
        } else {
            self.receive_long(ticket, envelope, sink);
        }
        Ok(())
    }

    /// Passes over a message that its sender has taken back. For the holder of the lock.
    fn skip(&self, ticket: u64) -> Result<(), Corrupt> {
        let first = self.first_word(ticket);
        let envelope = Envelope::from_word(self.slots[first + 1].load(Relaxed));
        let n_slots = match envelope.len {
            IN_BUFFER => 1,
            len if len as usize > self.max_message() => return Err(self.corrupt(ticket, envelope)),
            _ => envelope.n_slots(),
        };
        self.clear_the_rest(first, n_slots);
        self.advance(ticket.wrapping_add(n_slots as u64));
        Ok(())
    }

    /// Zeroes the words of a message's further slots that may be taken for publication words.
    fn clear_the_rest(&self, first: usize, n_slots: usize) {
        for slot in 1..n_slots {
            let word = (first + slot * SLOT_WORDS) & (self.slots.len() - 1);
            self.slots[word].store(0, Relaxed);
        }
    }

    /// Passes a message in one of its sender's buffers to `sink`, and gives the buffer back. For
    /// the holder of the lock.
    #[inline(never)]
    fn receive_from_buffer<M: Machine>(
        &self,
        buffers: Option<Buffers<'_>>,
        ticket: u64,
        envelope: Envelope,
        sink: &mut impl FnMut(Envelope, &[u8]),
    ) -> Result<(), Corrupt> {
        let word = self.slots[self.first_word(ticket) + PREFIX_WORDS].load(Relaxed);
        let at = Location::from_word(word);
        let arrived = buffers
            .filter(|_| envelope.len == IN_BUFFER)
            .and_then(|buffers| buffers.arrived(envelope.src, at, M::prefetch))
            .ok_or_else(|| self.corrupt(ticket, envelope))?;
        self.advance(ticket.wrapping_add(1));
        let envelope = Envelope {
            len: arrived.len,
            ..envelope
        };
        M::read(&arrived, |payload| sink(envelope, payload));
        Ok(())
    }

    /// Takes a message of several slots out of the ring, and hands it to `sink`. For the holder of
    /// the lock.
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
        // A thread that is ending has no buffer any more.
        let mut buf = LONG.try_with(RefCell::take).unwrap_or_default();
        self.copy_out(first + PREFIX_WORDS, len, &mut buf);
        let n_slots = envelope.n_slots();
        self.clear_the_rest(first, n_slots);
        self.advance(ticket.wrapping_add(n_slots as u64));
        sink(envelope, &buf.as_bytes()[..len]);
        let _is_kept = LONG.try_with(|long| long.replace(buf));
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

    /// Gives the slots before `received` back to senders. For the holder of the lock.
    #[inline]
    fn give_back(&self, received: u64) {
        // Release: pairs with the senders' acquire in `reserve`; what the receiver read and zeroed
        // comes before their stores.
        self.control[HEAD].store(received, Release);
    }

    /// Gives all received slots back to senders, if there is nothing more to receive.
    #[inline]
    pub fn give_back_the_rest(&self) {
        // Relaxed: a check without the lock, to save taking it.
        if self.control[HEAD].load(Relaxed) != self.control[RECEIVED].load(Relaxed)
            && let Some(_lock) = Lock::try_take(&self.control[LOCK])
        {
            self.give_back(self.control[RECEIVED].load(Relaxed));
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
}

/// A guard of the receiver's lock.
pub(super) struct Lock<'a>(&'a AtomicU64);

impl<'a> Lock<'a> {
    #[inline]
    pub(super) fn try_take(word: &'a AtomicU64) -> Option<Self> {
        // Acquire: pairs with the release in `drop`, so that `received` is what the last receiver
        // left.
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
