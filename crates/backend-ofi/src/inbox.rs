//! Buffers to receive messages in.
//!
//! Where the provider has receives of many messages (`FI_MULTI_RECV`), there are a few long
//! buffers. Libfabric writes messages to them one behind the other, and only a full buffer has to
//! be posted again. Elsewhere a buffer takes one message. Which of the two is settled when the rank
//! starts.
//!
//! A message stays in its buffer until it was handed out. If too many of the long buffers are kept
//! by such messages, those that wait are [copied](Inbox::keep), so that replies and notes always
//! find room.
#![expect(unsafe_code, reason = "lends buffers to libfabric")]

use pgas_core::{Error, Result};

use crate::outbox::SLOT_BYTES;
use crate::sys::{Begun, Buffer, Completion, Endpoint, Received};

/// The number and length of buffers.
#[derive(Clone, Copy, Debug)]
struct Shape {
    takes_many: bool,
    /// Posted buffers.
    n_posted: usize,
    /// Bytes of each.
    len: usize,
    /// The most buffers.
    limit: usize,
}

/// For each message a buffer. The number of messages that wait is bounded by credits.
const ONE: Shape = Shape {
    takes_many: false,
    n_posted: 32,
    len: SLOT_BYTES,
    limit: usize::MAX,
};
/// While one of the posted buffers is full and not posted again yet, the other one takes messages.
/// Besides them, each class can have a message that is being handed out; the rest is for messages
/// that wait.
const MANY: Shape = Shape {
    takes_many: true,
    n_posted: 2,
    len: 16 * SLOT_BYTES,
    limit: 8,
};

#[derive(Debug)]
struct Incoming {
    buffer: Buffer,
    /// Whether libfabric has it.
    is_posted: bool,
    /// Whether libfabric puts no further messages into it. Any of them may be complete later than
    /// this is known: `tcp;ofi_rxm` receives a long message in parts, among which others come.
    is_released: bool,
    /// The bytes of complete messages, and the end of the last one of these. They are equal if all
    /// messages before that are complete.
    n_received: usize,
    end: usize,
    /// Messages in it that were not handed out.
    n_unread: usize,
}

impl Incoming {
    /// Whether messages in a released buffer are not complete. The last one leaves no room for
    /// another of [`SLOT_BYTES`], or the buffer would not have been released, and no other one ends
    /// so late.
    fn is_awaited(&self) -> bool {
        let (_, len) = self.buffer.range();
        self.n_received < self.end || self.end <= len - SLOT_BYTES
    }
}

/// The bytes of a message.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// In the buffer of this index, to be [given back](Inbox::give_back).
    Lent(usize, Received),
    Copied(Box<[u8]>),
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Lent(_, received) => received.bytes(),
            Self::Copied(bytes) => bytes,
        }
    }
}

/// The buffers.
#[derive(Debug)]
pub(crate) struct Inbox {
    shape: Shape,
    /// A function from the index of a buffer to the number of its context.
    number: fn(usize) -> u64,
    buffers: Vec<Incoming>,
    /// Buffers that are neither posted nor have messages.
    free: Vec<usize>,
    n_posted: usize,
}

impl Inbox {
    /// Buffers for an endpoint, of which none is [posted](Self::post) yet.
    pub(crate) fn new(takes_many: bool, number: fn(usize) -> u64) -> Self {
        Self {
            shape: if takes_many { MANY } else { ONE },
            number,
            buffers: Vec::new(),
            free: Vec::new(),
            n_posted: 0,
        }
    }

    /// Whether buffers are to be [posted](Self::post).
    #[inline]
    pub(crate) fn wants_more(&self) -> bool {
        self.n_posted < self.shape.n_posted
    }

    /// Whether there is none that could be, unless messages are [copied](Self::keep).
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free.is_empty() && self.buffers.len() == self.shape.limit
    }

    /// Posts a buffer.
    pub(crate) fn post(&mut self, endpoint: &mut Endpoint) -> Result<Begun> {
        let index = match self.free.last() {
            Some(index) => *index,
            None if self.is_exhausted() => return Ok(Begun::NoRoom),
            None => match self.add(endpoint) {
                Ok(index) => index,
                // No more memory can be registered. The messages have to do with these buffers.
                Err(_) if self.buffers.len() >= self.shape.n_posted => {
                    self.shape.limit = self.buffers.len();
                    return Ok(Begun::NoRoom);
                }
                Err(error) => return Err(error),
            },
        };
        let incoming = &mut self.buffers[index];
        let begun = if self.shape.takes_many {
            // SAFETY: the buffer is kept, and left alone but for the messages that completions
            // name, until the last completion, or until this is dropped, before which the endpoint
            // is shut (`network.rs`).
            unsafe { endpoint.receive_many(&incoming.buffer) }
        } else {
            // SAFETY: as above.
            unsafe { endpoint.receive(&incoming.buffer) }
        };
        match begun {
            Ok(Begun::Yes) => {
                self.free.pop();
                incoming.is_posted = true;
                incoming.is_released = false;
                (incoming.n_received, incoming.end) = (0, 0);
                self.n_posted += 1;
                Ok(Begun::Yes)
            }
            Ok(Begun::NoRoom) => Ok(Begun::NoRoom),
            // The provider has promised what it does not have. Nothing was received yet.
            Err(_) if self.shape.takes_many && self.buffers.len() == 1 => {
                *self = Self::new(false, self.number);
                self.post(endpoint)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes one more buffer, which is free.
    fn add(&mut self, endpoint: &mut Endpoint) -> Result<usize> {
        let index = self.buffers.len();
        let buffer = endpoint.buffer(self.shape.len, (self.number)(index))?;
        self.buffers.push(Incoming {
            buffer,
            is_posted: false,
            is_released: false,
            n_received: 0,
            end: 0,
            n_unread: 0,
        });
        self.free.push(index);
        Ok(index)
    }

    /// Takes the message of a completion without an error in buffer `index`. There is none if the
    /// completion only returns the buffer.
    pub(crate) fn take(&mut self, index: usize, completion: &Completion) -> Result<Option<Bytes>> {
        let takes_many = self.shape.takes_many;
        let Some(incoming) = self.buffers.get_mut(index).filter(|it| it.is_posted) else {
            return Ok(None);
        };
        if completion.is_released || !takes_many {
            incoming.is_released = true;
            self.n_posted -= 1;
        }
        let is_message = completion.is_received || !takes_many;
        let start = incoming.buffer.range().0.addr();
        let address = if takes_many {
            completion.address
        } else {
            start
        };
        if is_message {
            let end = address.wrapping_sub(start).wrapping_add(completion.len);
            incoming.end = incoming.end.max(end);
            incoming.n_received = incoming.n_received.saturating_add(completion.len);
        }
        incoming.is_posted = !incoming.is_released || takes_many && incoming.is_awaited();
        if !is_message {
            self.reuse(index);
            return Ok(None);
        }
        // SAFETY: the completion says that they were received. The buffer lives as long as this,
        // which messages do not outlive, and is posted again when all are given back.
        let received = unsafe { incoming.buffer.received(address, completion.len) };
        let received = received.ok_or_else(|| {
            let text = format!("a message of {} bytes is not in its buffer", completion.len);
            Error::backend("fi_cq_read", 0, text)
        })?;
        incoming.n_unread += 1;
        Ok(Some(Bytes::Lent(index, received)))
    }

    /// Takes the bytes of a message back that nobody reads any more.
    pub(crate) fn give_back(&mut self, bytes: Bytes) {
        if let Bytes::Lent(index, _received) = bytes {
            self.buffers[index].n_unread -= 1;
            self.reuse(index);
        }
    }

    /// Copies a message out of a buffer that takes no more, so that it can be posted again.
    pub(crate) fn keep(&mut self, bytes: &mut Bytes) {
        if let Bytes::Lent(index, _) = bytes
            && !self.buffers[*index].is_posted
        {
            let copy = Bytes::Copied(bytes.as_ref().into());
            self.give_back(std::mem::replace(bytes, copy));
        }
    }

    fn reuse(&mut self, index: usize) {
        let incoming = &self.buffers[index];
        if !incoming.is_posted && incoming.n_unread == 0 {
            self.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::find;

    /// Messages that fill more than all buffers.
    const N_MESSAGES: u8 = 200;

    fn endpoint(provider: &str, node: Option<&str>) -> Endpoint {
        let info = find(Some(provider), node).unwrap().swap_remove(0);
        Endpoint::open(info, 2, 64, SLOT_BYTES).unwrap()
    }

    /// As much of the longest messages as the buffers take, and more.
    fn messages_wait_for_their_reader(provider: &str, node: Option<&str>) {
        let (mut one, mut other) = (endpoint(provider, node), endpoint(provider, node));
        assert!(other.receives_many());
        let peer = one.insert(&other.address().unwrap()).unwrap();
        let mut source = one.buffer(SLOT_BYTES, 0).unwrap();
        let mut inbox = Inbox::new(true, |index| index as u64);
        let (mut waiting, mut completions, mut n_kept) = (Vec::new(), Vec::new(), 0);
        for number in 0..N_MESSAGES {
            let len = SLOT_BYTES - usize::from(number % 2 == 0) * 8;
            source.bytes_mut()[..len].fill(number + 1);
            let mut is_begun = false;
            let (mut is_sent, mut has_come) = (false, false);
            while !(is_sent && has_come) {
                while inbox.wants_more() {
                    if inbox.is_exhausted() {
                        n_kept += 1;
                        waiting.iter_mut().for_each(|bytes| inbox.keep(bytes));
                    }
                    assert_eq!(inbox.post(&mut other).unwrap(), Begun::Yes);
                }
                // SAFETY: the buffer is left alone until its completion.
                is_begun |=
                    unsafe { !is_begun && one.send(&source, 0..len, peer).unwrap() == Begun::Yes };
                one.poll(&mut completions).unwrap();
                is_sent |= completions.drain(..).count() > 0;
                other.poll(&mut completions).unwrap();
                for completion in completions.drain(..) {
                    let index = usize::try_from(completion.number).unwrap();
                    if let Some(bytes) = inbox.take(index, &completion).unwrap() {
                        assert_eq!(bytes.as_ref().len(), len);
                        waiting.push(bytes);
                        has_come = true;
                    }
                }
            }
        }
        assert!(n_kept > 0, "the buffers have not been full");
        assert!(inbox.buffers.len() <= MANY.limit);
        for (number, bytes) in (0..N_MESSAGES).zip(&waiting) {
            assert!(bytes.as_ref().iter().all(|byte| *byte == number + 1));
        }
        waiting.into_iter().for_each(|bytes| inbox.give_back(bytes));
        assert!(inbox.buffers.iter().all(|it| it.n_unread == 0));
        assert_eq!(inbox.free.len() + inbox.n_posted, inbox.buffers.len());
        other.shut(None);
    }

    #[test]
    fn messages_wait_for_their_reader_over_tcp() {
        messages_wait_for_their_reader("tcp;ofi_rxm", Some("127.0.0.1"));
    }

    #[test]
    fn messages_wait_for_their_reader_over_shm() {
        messages_wait_for_their_reader("shm", None);
    }

    /// Messages that come in parts may be complete in any order, and the release may come with any of
    /// them, or by itself.
    #[test]
    fn a_buffer_is_used_again_when_all_messages_in_it_are_complete() {
        // Knuth's generator (The Art of Computer Programming, volume 2, section 3.3.4).
        let mut state = 1_u64;
        let mut below = |n: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % n
        };
        let mut other = endpoint("tcp;ofi_rxm", Some("127.0.0.1"));
        let mut inboxes = Vec::new();
        for _ in 0..60 {
            let mut inbox = Inbox::new(true, |index| index as u64);
            assert_eq!(inbox.post(&mut other).unwrap(), Begun::Yes);
            let start = inbox.buffers[0].buffer.range().0.addr();
            let (mut spans, mut end) = (Vec::new(), 0);
            while MANY.len - end >= SLOT_BYTES {
                let len = [SLOT_BYTES, 1520, 24][below(3)];
                spans.push((end, len));
                end += len;
            }
            for i in (1..spans.len()).rev() {
                spans.swap(i, below(i + 1));
            }
            let (released_at, is_alone) = (below(spans.len()), below(2) == 0);
            let mut n_left = spans.len();
            for (i, (at, len)) in spans.iter().enumerate() {
                let completion = |is_received, is_released| Completion {
                    number: 0,
                    len: if is_received { *len } else { 0 },
                    address: if is_received { start + at } else { 0 },
                    is_received,
                    is_released,
                    error: None,
                };
                if i == released_at && is_alone {
                    assert!(inbox.take(0, &completion(false, true)).unwrap().is_none());
                }
                let with_it = i == released_at && !is_alone;
                let bytes = inbox.take(0, &completion(true, with_it)).unwrap();
                inbox.give_back(bytes.expect("a message"));
                n_left -= 1;
                assert_eq!(inbox.free.is_empty(), n_left > 0, "{n_left} to come");
            }
            inboxes.push(inbox);
        }
        // Before the buffers go.
        other.shut(None);
    }

    #[test]
    fn a_message_outside_of_its_buffer_is_an_error() {
        let mut other = endpoint("tcp;ofi_rxm", Some("127.0.0.1"));
        let mut inbox = Inbox::new(true, |index| index as u64);
        assert_eq!(inbox.post(&mut other).unwrap(), Begun::Yes);
        let start = inbox.buffers[0].buffer.range().0.addr();
        let mut completion = |address, len| {
            let completion = Completion {
                number: 0,
                len,
                address,
                is_received: true,
                is_released: false,
                error: None,
            };
            inbox.take(0, &completion)
        };
        assert!(completion(start + MANY.len - 8, 8).unwrap().is_some());
        for (address, len) in [
            (start - 1, 8),
            (start + MANY.len - 7, 8),
            (start, MANY.len + 1),
        ] {
            assert!(completion(address, len).is_err());
        }
        assert!(completion(0, usize::MAX).is_err());
        other.shut(None);
    }
}
