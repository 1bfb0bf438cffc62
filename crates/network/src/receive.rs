//! Hands the program's messages that have arrived to a sink.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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
        let mut reader = self.reader;
        let n = reader.hand_out(self.bytes(), (self.from, class), limit, sink);
        self.reader = reader;
        n
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

    /// Hands at most `limit` of the program's messages of `class` to `sink`, unless another thread
    /// does, and returns their number. `lock` locks the rank, which is not locked while the sink
    /// runs.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    pub fn hand_out<A: Arrivals>(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
        lock: impl Fn() -> Result<A>,
    ) -> Result<usize> {
        let hint = &self.n_arrived[class as usize];
        if hint.load(Ordering::Relaxed) == 0 {
            return Ok(0);
        }
        let Ok(_handing_out) = self.is_handing_out[class as usize].try_lock() else {
            return Ok(0);
        };
        let mut n = 0;
        let mut read: Option<Letter<A::Buffer>> = None;
        loop {
            let mut arrivals = lock()?;
            match read.take() {
                Some(letter) if letter.is_read() => {
                    arrivals.finish(class, letter)?;
                    hint.store(arrivals.n_arrived(class), Ordering::Relaxed);
                }
                Some(letter) => arrivals.put_back(class, letter),
                None => {}
            }
            let next = if n < limit {
                arrivals.take(class)
            } else {
                None
            };
            let Some(mut letter) = next else {
                // Send the answers to all messages that were read together.
                arrivals.send_open()?;
                return Ok(n);
            };
            drop(arrivals);
            n += letter.hand_out(class, limit - n, sink);
            read = Some(letter);
        }
    }
}
