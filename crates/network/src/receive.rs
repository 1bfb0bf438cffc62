//! Hands the program's messages that have arrived to a sink.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};

use pgas_core::Result;
use pgas_core::backend::{Message, MessageClass};

use crate::bundle::{Header, Reader};
use crate::peer::Peers;

/// A message of the transport, taken out of its queue so that the program's messages in it can be
/// handed to a sink.
#[derive(Debug)]
pub struct Letter<B> {
    /// The sender.
    pub from: u32,
    /// What the message was received in.
    pub buffer: B,
    /// Bytes of the message, which stand at the beginning.
    pub len: usize,
    /// How far it was read.
    pub reader: Reader,
}

impl<B: AsRef<[u8]>> Letter<B> {
    fn bytes(&self) -> &[u8] {
        &self.buffer.as_ref()[..self.len]
    }

    /// Notes the credits that have come with it, if nothing was read of it yet.
    pub fn credit(&self, peers: &mut Peers) {
        if self.reader.is_at_start()
            && let Some(header) = Header::decode(self.bytes())
        {
            peers.of(self.from).credit(header.credits);
        }
    }

    /// Hands at most `limit` of the program's messages to `sink`, and returns their number.
    pub fn hand_out(
        &mut self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> usize {
        // Not a copy of the reader: a message whose handler panics was handed out as well.
        let bytes = &self.buffer.as_ref()[..self.len];
        let from = (self.from, class);
        self.reader.hand_out(bytes, from, limit, sink)
    }

    /// Whether all of them were handed out.
    fn is_read(&self) -> bool {
        self.reader.is_at_end(self.len)
    }
}

/// The messages of the transport that have arrived at this rank, while it is locked.
pub trait Arrivals {
    /// What a message was received in.
    type Buffer: AsRef<[u8]>;

    /// The number of messages of `class` that were not taken yet.
    fn n_arrived(&self, class: MessageClass) -> usize;

    /// Takes the oldest message of `class`. It comes back by [`finish`](Self::finish) or
    /// [`put_back`](Self::put_back) before the next one is taken.
    fn take(&mut self, class: MessageClass) -> Option<Letter<Self::Buffer>>;

    /// Puts back a message whose rest is for later.
    fn put_back(&mut self, class: MessageClass, letter: Letter<Self::Buffer>);

    /// Ends a message that was handed out: its buffer receives again, and its sender may send
    /// again.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    fn finish(&mut self, class: MessageClass, letter: Letter<Self::Buffer>) -> Result<()>;

    /// Sends the messages that were kept so that others can travel with them.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    fn send_open(&mut self) -> Result<()>;
}

/// Who hands out the messages of a rank.
#[derive(Debug, Default)]
pub struct Receiving {
    /// The number of arrived messages of each class, so that a check takes no lock.
    n_arrived: [AtomicUsize; 2],
    /// Whether those of other hosts come first the next time, since those of this host alone were
    /// enough the last time.
    is_far_due: [AtomicBool; 2],
    /// Held by the thread that hands out those of a class.
    is_handing_out: [Mutex<()>; 2],
}

impl Receiving {
    /// Notes what the rank has found when it was locked.
    pub fn note(&self, arrivals: impl Fn(MessageClass) -> usize) {
        for class in [MessageClass::Request, MessageClass::Reply] {
            // Relaxed: a hint; a thread that takes a message holds the lock.
            self.n_arrived[class as usize].store(arrivals(class), Ordering::Relaxed);
        }
    }

    /// Hands at most `limit` of the program's messages of `class` to `sink`, and returns their
    /// number: those of this host by `near`, which is given how many, and those of others, unless
    /// another thread hands these out. `lock` locks the rank, which is not locked while the sink
    /// runs.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    #[inline]
    pub fn hand_out<A: Arrivals>(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
        near: impl Fn(usize, &mut dyn FnMut(Message<'_>)) -> Result<usize>,
        lock: impl Fn() -> Result<A>,
    ) -> Result<usize> {
        // Relaxed: a hint, as `n_arrived` is.
        let is_far_due = &self.is_far_due[class as usize];
        if is_far_due.load(Ordering::Relaxed) {
            is_far_due.store(false, Ordering::Relaxed);
            let n = self.hand_out_far(class, limit, sink, lock)?;
            return Ok(n + near(limit - n, sink)?);
        }
        let n = near(limit, sink)?;
        if n == limit {
            is_far_due.store(true, Ordering::Relaxed);
            return Ok(n);
        }
        Ok(n + self.hand_out_far(class, limit - n, sink, lock)?)
    }

    #[inline]
    fn hand_out_far<A: Arrivals>(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
        lock: impl Fn() -> Result<A>,
    ) -> Result<usize> {
        // Relaxed: as in `note`. Most rounds of a wait end here.
        if self.n_arrived[class as usize].load(Ordering::Relaxed) == 0 {
            return Ok(0);
        }
        self.hand_out_arrived(class, limit, sink, lock)
    }

    #[inline(never)]
    fn hand_out_arrived<A: Arrivals>(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
        lock: impl Fn() -> Result<A>,
    ) -> Result<usize> {
        let _handing_out = match self.is_handing_out[class as usize].try_lock() {
            Ok(guard) => guard,
            // A sink has panicked. The lock guards no data.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(0),
        };
        let mut hand = Hand {
            class,
            hint: &self.n_arrived[class as usize],
            lock,
            letter: None,
        };
        let mut n = 0;
        loop {
            let mut arrivals = hand.put_down()?;
            if n < limit {
                hand.letter = arrivals.take(class);
            }
            let Some(letter) = &mut hand.letter else {
                // Send the answers to all messages that were read together.
                arrivals.send_open()?;
                return Ok(n);
            };
            drop(arrivals);
            n += letter.hand_out(class, limit - n, sink);
        }
    }
}

/// Holds the message that is being handed out. It goes back to the rank also when the sink panics:
/// otherwise the rest of it would be lost, and its sender's room for ever.
struct Hand<'a, A: Arrivals, L: Fn() -> Result<A>> {
    class: MessageClass,
    hint: &'a AtomicUsize,
    lock: L,
    letter: Option<Letter<A::Buffer>>,
}

impl<A: Arrivals, L: Fn() -> Result<A>> Hand<'_, A, L> {
    /// Locks the rank, and gives it the message in hand.
    fn put_down(&mut self) -> Result<A> {
        let mut arrivals = (self.lock)()?;
        match self.letter.take() {
            Some(letter) if letter.is_read() => arrivals.finish(self.class, letter)?,
            Some(letter) => arrivals.put_back(self.class, letter),
            None => return Ok(arrivals),
        }
        let n_arrived = arrivals.n_arrived(self.class);
        self.hint.store(n_arrived, Ordering::Relaxed);
        Ok(arrivals)
    }
}

impl<A: Arrivals, L: Fn() -> Result<A>> Drop for Hand<'_, A, L> {
    fn drop(&mut self) {
        if self.letter.is_some() {
            // An error of the transport comes again in the next call.
            drop(self.put_down());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::{MutexGuard, PoisonError};

    use pgas_core::backend::HandlerId;

    use super::*;
    use crate::bundle::{HEADER_BYTES, next_payload, write};

    /// The messages of a rank in memory.
    #[derive(Default)]
    struct Rank {
        arrived: VecDeque<Letter<Vec<u8>>>,
        n_finished: usize,
    }

    impl Arrivals for MutexGuard<'_, Rank> {
        type Buffer = Vec<u8>;

        fn n_arrived(&self, _: MessageClass) -> usize {
            self.arrived.len()
        }

        fn take(&mut self, _: MessageClass) -> Option<Letter<Vec<u8>>> {
            self.arrived.pop_front()
        }

        fn put_back(&mut self, _: MessageClass, letter: Letter<Vec<u8>>) {
            self.arrived.push_front(letter);
        }

        fn finish(&mut self, _: MessageClass, letter: Letter<Vec<u8>>) -> Result<()> {
            assert!(letter.is_read());
            self.n_finished += 1;
            Ok(())
        }

        fn send_open(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// A message of the transport with messages of the program for these handlers.
    fn letter(handlers: std::ops::Range<u16>) -> Letter<Vec<u8>> {
        let mut buffer = vec![0; 1 << 10];
        let (mut at, mut len) = (HEADER_BYTES, 0);
        for handler in handlers {
            len = write(&mut buffer, at, HandlerId(handler), &[&[7; 9]]);
            at = next_payload(len);
        }
        Letter {
            from: 3,
            buffer,
            len,
            reader: Reader::default(),
        }
    }

    /// However many messages this host has, those of others have their turn.
    #[test]
    fn messages_of_one_host_keep_those_of_others_waiting_for_one_turn() {
        const CLASS: MessageClass = MessageClass::Request;
        let rank = Mutex::new(Rank::default());
        let lock = || Ok(rank.lock().unwrap_or_else(PoisonError::into_inner));
        let receiving = Receiving::default();
        let near = |limit, sink: &mut dyn FnMut(Message<'_>)| {
            for _ in 0..limit {
                sink(Message {
                    from: pgas_core::Rank::new(1),
                    class: CLASS,
                    handler: HandlerId(100),
                    payload: &[],
                });
            }
            Ok(limit)
        };
        for round in 0..5 {
            lock().unwrap().arrived.push_back(letter(round..round + 1));
            receiving.note(|_| 1);
            let mut seen = Vec::new();
            for _ in 0..2 {
                let mut sink = |message: Message<'_>| seen.push(message.handler.0);
                let n = receiving.hand_out(CLASS, 3, &mut sink, near, lock);
                assert_eq!(n.unwrap(), 3);
            }
            assert!(seen.contains(&round), "{seen:?}");
        }
    }

    /// Each message is handed out once, in order, and each message of the transport is finished,
    /// wherever the sink panics and however many are asked for at a time.
    #[test]
    fn a_sink_that_panics_loses_nothing() {
        const CLASS: MessageClass = MessageClass::Reply;
        for panics in 0_u16..1 << 6 {
            for limit in 1..=7 {
                let rank = Mutex::new(Rank::default());
                let lock = || Ok(rank.lock().unwrap_or_else(PoisonError::into_inner));
                let letters = [0..1, 1..4, 4..6].map(letter);
                lock().unwrap().arrived.extend(letters);
                let receiving = Receiving::default();
                receiving.note(|_| 3);
                let (mut seen, mut n_caught) = (Vec::new(), 0);
                for _ in 0..20 {
                    let mut sink = |message: Message<'_>| {
                        seen.push(message.handler.0);
                        if panics >> message.handler.0 & 1 == 1 {
                            // Prints nothing.
                            panic::resume_unwind(Box::new(()));
                        }
                    };
                    let receive =
                        || receiving.hand_out(CLASS, limit, &mut sink, |_, _| Ok(0), lock);
                    match panic::catch_unwind(AssertUnwindSafe(receive)) {
                        Ok(n) => assert!(n.unwrap() <= limit),
                        Err(_) => n_caught += 1,
                    }
                }
                assert_eq!(seen, [0, 1, 2, 3, 4, 5], "{panics:b} {limit}");
                assert_eq!(n_caught, panics.count_ones());
                assert_eq!(lock().unwrap().n_finished, 3);
            }
        }
    }
}
