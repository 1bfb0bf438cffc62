//! Messages. Receives are posted before anything is sent, and credits limit the messages in flight
//! to what the receiver accepts.
//!
//! Requests, replies and the library's own [notes](Note) have send buffers of their own. Any
//! message is received in any posted buffer, and further buffers are posted when these are full. So
//! messages that wait to be handed out, whose number is bounded by credits, do not block those
//! behind them. A reply therefore never waits for room that only requests could free. One of
//! libfabric's
//! messages may contain [several](pgas_network::send) of the program's, or several notes, whose
//! number is in the place of the handler.
use std::collections::VecDeque;

use pgas_core::backend::{HandlerId, MessageClass, Offer, Place, Sent};
use pgas_core::{Error, Result};
use pgas_network::bundle::{HEADER_BYTES, Header, Reader};
use pgas_network::note::Note;
use pgas_network::peer::Peers;
use pgas_network::receive::Letter;

use crate::bundle;
use crate::inbox::{Bytes, Inbox};
use crate::outbox::{NOTES, Outbox, Sender, n_padding};
use crate::segment::Segments;
use crate::sys::{Begun, Completion, Endpoint};

/// The messages of this rank.
#[derive(Debug)]
pub(crate) struct Post {
    rank: u32,
    n_ranks: u32,
    inbox: Inbox,
    arrived: [VecDeque<Letter<Bytes>>; 2],
    outbox: Outbox,
    /// Notes that there was no room for.
    unsent: VecDeque<(u32, Note)>,
    /// A rank to which a note could not be sent.
    unreachable: Option<(u32, Error)>,
    pub(crate) peers: Peers,
}

impl Post {
    /// A post that has not [posted receives](Self::post_receives) yet.
    pub(crate) fn new(
        endpoint: &Endpoint,
        (rank, n_ranks): (u32, u32),
        numbers: [fn(usize) -> u64; 2],
    ) -> Self {
        let inject_bytes = endpoint.info().inject_bytes();
        Self {
            rank,
            n_ranks,
            inbox: Inbox::new(endpoint.receives_many(), numbers[0]),
            arrived: [VecDeque::new(), VecDeque::new()],
            outbox: Outbox::new(rank, inject_bytes, numbers[1]),
            unsent: VecDeque::new(),
            unreachable: None,
            peers: Peers::default(),
        }
    }

    /// Posts receives until there are enough.
    #[inline]
    pub(crate) fn post_receives(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        while self.inbox.wants_more() {
            if self.post_receive(endpoint)? == Begun::NoRoom {
                break;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn post_receive(&mut self, endpoint: &mut Endpoint) -> Result<Begun> {
        if self.inbox.is_exhausted() {
            let waiting = self.arrived.iter_mut().flatten();
            waiting.for_each(|letter| self.inbox.keep(&mut letter.buffer));
        }
        self.inbox.post(endpoint)
    }

    /// Sends a message, at once or with others, if there is room for it here and at `to`.
    pub(crate) fn send(
        &mut self,
        network: (&mut Endpoint, &Segments),
        to: u32,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        let (peers, mut carrier) = self.carrier(network);
        peers.send(&mut carrier, to, class, handler, parts)
    }

    /// A place for a payload of `len` bytes.
    pub(crate) fn offer(&mut self, endpoint: &mut Endpoint, len: usize) -> Result<Offer<Place>> {
        self.outbox.offer(endpoint, len)
    }

    /// Takes a place back from which nothing is to be sent.
    pub(crate) fn take_back(&mut self, place: &Place) {
        self.outbox.take_back(place);
    }

    /// Sends the payload in a place, behind `opening`. The place stays the caller's after
    /// back-pressure alone.
    pub(crate) fn send_place(
        &mut self,
        network: (&mut Endpoint, &Segments),
        to: u32,
        (class, handler): (MessageClass, HandlerId),
        place: &Place,
        opening: &[u8],
    ) -> Result<Sent> {
        let (peers, mut carrier) = self.carrier(network);
        let len = opening.len() + place.len;
        let sent = peers.send_filled(&mut carrier, (to, class, handler), len, |sender, header| {
            let there = (&mut *sender.endpoint, sender.segments.peer(to), to);
            let begun = sender.outbox.send_place(there, place, header, opening);
            Ok(begun? == Begun::Yes)
        });
        if sent.is_err() {
            self.take_back(place);
        }
        sent
    }

    /// Sends messages that were kept for others to go with.
    #[inline]
    pub(crate) fn send_open(&mut self, network: (&mut Endpoint, &Segments)) {
        if self.peers.has_open() {
            let (peers, mut carrier) = self.carrier(network);
            peers.send_open(&mut carrier);
        }
    }

    fn carrier<'a>(
        &'a mut self,
        (endpoint, segments): (&'a mut Endpoint, &'a Segments),
    ) -> (&'a mut Peers, Sender<'a>) {
        let outbox = &mut self.outbox;
        let sender = Sender {
            endpoint,
            segments,
            outbox,
        };
        (&mut self.peers, sender)
    }

    /// Sends a note, at once or as soon as there is room.
    pub(crate) fn tell(
        &mut self,
        endpoint: &mut Endpoint,
        segments: &Segments,
        to: u32,
        note: Note,
    ) {
        self.tell_later(to, note);
        self.send_notes(endpoint, segments);
    }

    /// Keeps a note until [`send_notes`](Self::send_notes), so that it may share a message.
    pub(crate) fn tell_later(&mut self, to: u32, note: Note) {
        self.peers.of(to).is_known = true;
        self.unsent.push_back((to, note));
    }

    /// Sends the notes that wait, as far as there is room. Those for a rank without room stay, and
    /// those for a rank to which the transport sends nothing are lost, and the rank is
    /// [told](Self::take_unreachable). Neither holds up notes for others.
    #[inline]
    pub(crate) fn send_notes(&mut self, endpoint: &mut Endpoint, segments: &Segments) {
        if !self.unsent.is_empty() {
            self.send_bundles(endpoint, segments);
        }
    }

    /// A rank to which a note could not be sent, and the error, if there is one since the last
    /// call.
    #[inline]
    pub(crate) fn take_unreachable(&mut self) -> Option<(u32, Error)> {
        self.unreachable.take()
    }

    #[inline(never)]
    fn send_bundles(&mut self, endpoint: &mut Endpoint, segments: &Segments) {
        bundle::send_each(&mut self.unsent, |bundle, notes| {
            let mut header = [0; HEADER_BYTES];
            let from = Header {
                from: self.rank,
                kind: u16::try_from(NOTES).expect("there are three"),
                credits: [0; 2],
            };
            from.encode(&mut header);
            let n_notes = HandlerId(bundle.n_notes);
            pgas_network::bundle::announce(&mut header, HEADER_BYTES, n_notes, bundle.len);
            let there = (&mut *endpoint, segments.peer(bundle.to), bundle.to);
            let begun = if bundle.is_sure {
                self.outbox.send_surely(there, &header, notes)
            } else {
                self.outbox.send_bytes(there, NOTES, &header, &[notes])
            };
            begun.unwrap_or_else(|error| {
                self.unreachable = Some((bundle.to, error));
                Begun::Yes
            })
        });
    }

    /// The receiver of the bytes in buffer `index`.
    pub(crate) fn receiver_of(&self, index: usize) -> Option<u32> {
        self.outbox.receiver_of(index)
    }

    /// Records that the send from buffer `index` is complete.
    pub(crate) fn has_sent(&mut self, index: usize) {
        self.outbox.has_sent(index);
    }

    /// Takes what has arrived in buffer `index`: a message, which is kept, or notes, which are
    /// added to `notes`. Returns the sender of the notes. The caller posts another receive, after
    /// the answers to all arrivals.
    pub(crate) fn has_received(
        &mut self,
        index: usize,
        completion: &Completion,
        notes: &mut Vec<Note>,
    ) -> Result<u32> {
        let Some(bytes) = self.inbox.take(index, completion)? else {
            return Ok(self.rank);
        };
        let received = bytes.as_ref();
        let header = Header::decode(received);
        // Any program may connect to an endpoint if it knows the address.
        let header = header.filter(|header| header.from < self.n_ranks);
        let from = header.map_or(u32::MAX, |header| header.from);
        let kind = header.map_or(usize::MAX, |header| usize::from(header.kind));
        let len = received.len() - n_padding(received);
        if let Some(queue) = self.arrived.get_mut(kind)
            && let Some(header) = header
        {
            // Now, since it may have come before one that was sent earlier.
            self.peers.of(from).credit(header.credits);
            queue.push_back(Letter {
                from,
                buffer: bytes,
                len,
                reader: Reader::default(),
            });
            return Ok(from);
        }
        // Anything else is a message of another program.
        let read = match Reader::default().next(&received[..len]) {
            Some((n_notes, bytes)) if kind == NOTES => bundle::unpack(bytes, n_notes.0, notes),
            _ => Ok(()),
        };
        self.inbox.give_back(bytes);
        read?;
        for note in &*notes {
            self.peers.heed(from, note);
        }
        Ok(from)
    }

    /// The number of messages of `class` that have arrived and were not taken yet.
    pub(crate) fn n_arrived(&self, class: MessageClass) -> usize {
        self.arrived[class as usize].len()
    }

    /// Takes the oldest message of `class`. Its buffer comes back by [`finish`](Self::finish) or
    /// [`put_back`](Self::put_back).
    pub(crate) fn take(&mut self, class: MessageClass) -> Option<Letter<Bytes>> {
        self.arrived[class as usize].pop_front()
    }

    /// Puts back a message whose rest is for later.
    pub(crate) fn put_back(&mut self, class: MessageClass, letter: Letter<Bytes>) {
        self.arrived[class as usize].push_front(letter);
    }

    /// Ends a message that was handed out: its buffer receives again, and if it `is_served`, its
    /// sender may send again.
    pub(crate) fn finish(
        &mut self,
        endpoint: &mut Endpoint,
        segments: &Segments,
        class: MessageClass,
        letter: Letter<Bytes>,
        is_served: bool,
    ) {
        let from = letter.from;
        self.inbox.give_back(letter.buffer);
        if let Some(note) = self.peers.handed_out(from, class, is_served) {
            self.tell(endpoint, segments, from, note);
        }
    }

    /// Whether all sends are complete.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.outbox.is_idle() && self.unsent.is_empty() && !self.peers.has_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::SLOT_BYTES;
    use crate::sys::find;

    fn endpoint() -> Endpoint {
        let info = find(Some("tcp;ofi_rxm"), Some("127.0.0.1")).unwrap();
        let info = info.into_iter().next().unwrap();
        Endpoint::open(info, 2, 64, SLOT_BYTES).unwrap()
    }

    /// A rank may take no requests before it has credits for replies. Those of a request that was
    /// overtaken must not wait for that.
    #[test]
    fn credits_count_when_their_message_arrives_and_not_when_it_is_taken() {
        let (mut one, mut other) = (endpoint(), endpoint());
        let peer = one.insert(&other.address().unwrap()).unwrap();
        let mut post = Post::new(&other, (0, 2), [|index| index as u64; 2]);
        post.post_receives(&mut other).unwrap();
        let mut outbox = Outbox::new(1, 0, |index| index as u64);
        let mut header = [0; HEADER_BYTES];
        let request = Header {
            from: 1,
            kind: 0,
            credits: [3, 7],
        };
        request.encode(&mut header);
        let n_credits = |post: &mut Post| {
            let classes = [MessageClass::Request, MessageClass::Reply];
            classes.map(|class| post.peers.n_credits(1, class))
        };
        let [requests, replies] = n_credits(&mut post);
        let (mut is_begun, mut completions) = (false, Vec::new());
        while post.n_arrived(MessageClass::Request) == 0 {
            if !is_begun {
                let there = (&mut one, peer, 0);
                let begun = outbox.send_bytes(there, 0, &header, &[&[0; 8]]).unwrap();
                is_begun = begun == Begun::Yes;
            }
            one.poll(&mut completions).unwrap();
            completions.clear();
            other.poll(&mut completions).unwrap();
            for completion in completions.drain(..) {
                let index = usize::try_from(completion.number).unwrap();
                post.has_received(index, &completion, &mut Vec::new())
                    .unwrap();
            }
        }
        assert_eq!(n_credits(&mut post), [requests + 3, replies + 7]);
        assert!(post.take(MessageClass::Request).is_some());
        assert_eq!(n_credits(&mut post), [requests + 3, replies + 7], "once");
        one.shut(None);
        other.shut(None);
    }
}
