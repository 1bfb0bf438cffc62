//! The receiver's side: take messages out of the ring, pass them to the sink, give their slots
//! back.

use std::cell::RefCell;

use zerocopy::IntoBytes;

use super::{
    CLOSED, Corrupt, Envelope, HEAD, HELD, IN_BUFFER, LOCK, Mailbox, OPEN, PREFIX_WORDS, RECEIVED,
    SLOT_PAYLOAD_WORDS, SLOT_WORDS, WORD_BYTES, is_at_most, published, settled,
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
        let _lock = match Lock::try_take(&self.control[LOCK], OPEN) {
            Ok(lock) => lock,
            Err(CLOSED) => return self.receive_closed::<M>(&buffers, limit, &mut sink),
            Err(_) => return Ok(0),
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

    /// As [`receive_from`](Self::receive_from), out of a closed mailbox.
    #[cold]
    #[inline(never)]
    fn receive_closed<'b, M: Machine>(
        &self,
        buffers: &impl Fn() -> Option<Buffers<'b>>,
        limit: usize,
        sink: &mut impl FnMut(Envelope, &[u8]),
    ) -> Result<usize, Corrupt> {
        let Ok(_lock) = Lock::try_take(&self.control[LOCK], CLOSED) else {
            return Ok(0);
        };
        let mut n_received = 0;
        while n_received < limit {
            let ticket = self.control[RECEIVED].load(Relaxed);
            match self.settle::<M>(buffers, ticket, sink)? {
                Settled::Taken => n_received += 1,
                Settled::TakenBack => {}
                Settled::NotYet => break,
            }
        }
        Ok(n_received)
    }

    /// Makes all threads of the owner take messages in such a way that their senders may [take
    /// them back](super::withdraw). For an owner that is about to
    /// [leave](crate::doorbell::Doorbell::leave), and looks for late messages afterwards. Returns
    /// whether the mailbox is closed; if not, another thread receives, and the owner has to wait
    /// for it.
    ///
    /// No slot of a closed mailbox is given back: a sender that takes a message back finds no other
    /// one in its place.
    #[must_use]
    pub fn close(&self) -> bool {
        // Acquire: pairs with the release of the last receiver. Who sees that the owner has left
        // then sees what was taken before the mailbox was closed.
        let closed = self.control[LOCK].compare_exchange(OPEN, CLOSED, Acquire, Relaxed);
        closed.map_or_else(|word| word & CLOSED != 0, |_| true)
    }

    /// For an owner that has [closed](Self::close) the mailbox and then
    /// [left](crate::doorbell::Doorbell::leave): receives what was reserved before the ticket
    /// `end`, which was the [`tail`](Self::tail) then, but for what its senders [take
    /// back](super::withdraw). Returns whether that is all; if not, a sender or another thread of
    /// the owner has yet to finish a step, or the mailbox is not closed.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_late<'b, M: Machine>(
        &self,
        end: u64,
        buffers: impl Fn() -> Option<Buffers<'b>>,
        mut sink: impl FnMut(Envelope, &[u8]),
    ) -> Result<bool, Corrupt> {
        let Ok(_lock) = Lock::try_take(&self.control[LOCK], CLOSED) else {
            return Ok(false);
        };
        loop {
            let ticket = self.control[RECEIVED].load(Relaxed);
            if is_at_most(end, ticket) {
                return Ok(true);
            }
            if let Settled::NotYet = self.settle::<M>(&buffers, ticket, &mut sink)? {
                return Ok(false);
            }
        }
    }

    /// Passes the message at `ticket` to `sink`, unless its sender has taken it back. For the
    /// holder of the lock of a closed mailbox.
    fn settle<'b, M: Machine>(
        &self,
        buffers: &impl Fn() -> Option<Buffers<'b>>,
        ticket: u64,
        sink: &mut impl FnMut(Envelope, &[u8]),
    ) -> Result<Settled, Corrupt> {
        let word = &self.slots[self.first_word(ticket)];
        // Acquire: as in `is_published`, also of a message that was taken back after it was
        // published.
        match word.compare_exchange(published(ticket), settled(ticket), Acquire, Acquire) {
            Ok(_) => {
                self.take_out::<M>(buffers, ticket, sink)?;
                Ok(Settled::Taken)
            }
            Err(word) if word == settled(ticket) => {
                self.skip(ticket)?;
                Ok(Settled::TakenBack)
            }
            Err(_) => Ok(Settled::NotYet),
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
        // Relaxed: who holds the lock wrote the word.
        if n_kept >= (self.n_slots() / GIVE_BACKS_PER_RING) as u64
            && self.control[LOCK].load(Relaxed) & CLOSED == 0
        {
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

    /// Gives all received slots back to senders, if there is nothing more to receive, and the
    /// mailbox is not [closed](Self::close).
    #[inline]
    pub fn give_back_the_rest(&self) {
        // Relaxed: a check without the lock, to save taking it.
        if self.control[HEAD].load(Relaxed) != self.control[RECEIVED].load(Relaxed)
            && let Ok(_lock) = Lock::try_take(&self.control[LOCK], OPEN)
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

/// What became of a message in a closed mailbox.
enum Settled {
    Taken,
    /// By its sender.
    TakenBack,
    /// It is not published.
    NotYet,
}

/// A guard of the receiver's lock.
pub(super) struct Lock<'a> {
    word: &'a AtomicU64,
    /// What the word was before.
    free: u64,
}

impl<'a> Lock<'a> {
    /// Takes the lock if its word is `free`, or returns the word.
    #[inline]
    pub(super) fn try_take(word: &'a AtomicU64, free: u64) -> Result<Self, u64> {
        // Acquire: pairs with the release in `drop`, so that `received` is what the last receiver
        // left.
        word.compare_exchange(free, free | HELD, Acquire, Relaxed)
            .map(|_| Self { word, free })
    }
}

impl Drop for Lock<'_> {
    #[inline]
    fn drop(&mut self) {
        self.word.store(self.free, Release);
    }
}
