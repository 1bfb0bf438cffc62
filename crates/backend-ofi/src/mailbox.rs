//! Messages. Receives are posted before anything is sent, and credits limit the messages in flight
//! to what the receiver accepts.
//!
//! Requests, replies and the library's own [notes](Note) have send buffers of their own. Any
//! message is received in any posted buffer, and another buffer is posted in its place. So messages
//! that wait to be handed out, whose number is bounded by credits, do not block those behind them.
//! A reply therefore never waits for room that only requests could free. One of libfabric's
//! messages may contain [several](pgas_network::send) of the program's, or several notes, whose
//! number is in the place of the handler.
#![expect(unsafe_code, reason = "lends buffers to libfabric")]

use std::collections::VecDeque;

use pgas_core::Result;
use pgas_core::backend::{HandlerId, Message, MessageClass, Sent};
use pgas_network::bundle::{HEADER_BYTES, Header, Reader};
use pgas_network::note::{NOTE_BYTES, Note};
use pgas_network::peer::Peers;
use pgas_network::send::{Carrier, SHORT_BYTES};

use crate::bundle;
use crate::segment::Segments;
use crate::sys::{Begun, Buffer, Endpoint};

const SLOT_BYTES: usize = 16 << 10;
/// The longest payload; nearly that of the mailboxes in shared memory.
pub(crate) const MAX_MEDIUM: usize = SLOT_BYTES - HEADER_BYTES;
/// A payload up to this length needs no further call beside that of its message.
pub(crate) const MAX_SHORT: usize = SHORT_BYTES;

/// The number of posted receives.
const N_RECEIVES: usize = 32;
/// Send buffers for each class. The number of notes is bounded by their subjects.
const N_SENDS: usize = 64;
/// The kind of notes, behind the two classes.
const NOTES: usize = 2;
/// The longest message that is put together on the stack, to be sent without a buffer.
const MAX_INJECTED: usize = 256;

/// One of libfabric's messages, taken out so that the program's messages in it can be handed to a
/// sink.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) from: u32,
    index: usize,
    buffer: Buffer,
    len: usize,
    reader: Reader,
}

impl Letter {
    /// Hands at most `limit` of the program's messages to `sink`, and returns their number.
    pub(crate) fn hand_out(
        &mut self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> usize {
        let bytes = &self.buffer.bytes()[..self.len];
        self.reader.hand_out(bytes, (self.from, class), limit, sink)
    }

    /// Whether all of them were handed out.
    pub(crate) fn is_read(&self) -> bool {
        self.reader.is_at_end(self.len)
    }
}

/// A buffer to send from.
#[derive(Debug)]
struct Outgoing {
    buffer: Buffer,
    kind: usize,
    /// The present or last receiver of its bytes.
    to: u32,
}

/// Buffers to send from.
#[derive(Debug)]
struct Outbox {
    rank: u32,
    inject_bytes: usize,
    /// A function from the index of a send to the number of its context.
    number: fn(usize) -> u64,
    sends: Vec<Outgoing>,
    free_sends: [Vec<usize>; 3],
    n_sends: [usize; 3],
    n_busy: usize,
}

/// The messages of this rank.
#[derive(Debug)]
pub(crate) struct Post {
    rank: u32,
    n_ranks: u32,
    /// A function from the index of a receive to the number of its context.
    number: fn(usize) -> u64,
    /// Buffers lent to libfabric. Other buffers hold messages, or are free.
    receives: Vec<Option<Buffer>>,
    free_receives: Vec<(usize, Buffer)>,
    n_posted: usize,
    arrived: [VecDeque<Letter>; 2],
    outbox: Outbox,
    /// Notes that there was no room for.
    unsent: VecDeque<(u32, Note)>,
    pub(crate) peers: Peers,
}

impl Post {
    /// A post that has not [posted receives](Self::post_receives) yet.
    pub(crate) fn new(
        inject_bytes: usize,
        rank: u32,
        n_ranks: u32,
        numbers: [fn(usize) -> u64; 2],
    ) -> Self {
        Self {
            rank,
            n_ranks,
            number: numbers[0],
            receives: Vec::new(),
            free_receives: Vec::new(),
            n_posted: 0,
            arrived: [VecDeque::new(), VecDeque::new()],
            outbox: Outbox {
                rank,
                inject_bytes: inject_bytes.min(MAX_INJECTED),
                number: numbers[1],
                sends: Vec::new(),
                free_sends: [Vec::new(), Vec::new(), Vec::new()],
                n_sends: [0; 3],
                n_busy: 0,
            },
            unsent: VecDeque::new(),
            peers: Peers::default(),
        }
    }

    /// Posts receives until there are enough.
    pub(crate) fn post_receives(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        while self.n_posted < N_RECEIVES {
            let (index, buffer) = match self.free_receives.pop() {
                Some(free) => free,
                None => {
                    let index = self.receives.len();
                    let buffer = endpoint.buffer(SLOT_BYTES, (self.number)(index))?;
                    self.receives.push(None);
                    (index, buffer)
                }
            };
            // SAFETY: the buffer is kept and left alone until its completion takes it out, or until
            // this is dropped, before which the endpoint is shut (`network.rs`).
            let begun = unsafe { endpoint.receive(&buffer) };
            match begun {
                Ok(Begun::Yes) => {
                    self.receives[index] = Some(buffer);
                    self.n_posted += 1;
                }
                Ok(Begun::NoRoom) => {
                    self.free_receives.push((index, buffer));
                    return Ok(());
                }
                Err(error) => {
                    self.free_receives.push((index, buffer));
                    return Err(error);
                }
            }
        }
        Ok(())
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

    /// Sends messages that were kept for others to go with.
    pub(crate) fn send_open(&mut self, network: (&mut Endpoint, &Segments)) -> Result<()> {
        if !self.peers.has_open() {
            return Ok(());
        }
        let (peers, mut carrier) = self.carrier(network);
        peers.send_open(&mut carrier)
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
    ) -> Result<()> {
        self.tell_later(to, note);
        self.send_notes(endpoint, segments)
    }

    /// Keeps a note until [`send_notes`](Self::send_notes), so that it may share a message.
    pub(crate) fn tell_later(&mut self, to: u32, note: Note) {
        self.peers.of(to).is_known = true;
        self.unsent.push_back((to, note));
    }

    /// Sends the notes that wait, as far as there is room.
    pub(crate) fn send_notes(
        &mut self,
        endpoint: &mut Endpoint,
        segments: &Segments,
    ) -> Result<()> {
        let mut bytes = [0; NOTE_BYTES];
        while let Some(bundle) = bundle::pack(&self.unsent, &mut bytes) {
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
            let notes = &bytes[..bundle.len];
            let begun = if bundle.is_sure {
                self.outbox.send_surely(there, &header, notes)
            } else {
                self.outbox.send_bytes(there, NOTES, &header, &[notes])
            };
            if begun? == Begun::NoRoom {
                return Ok(());
            }
            self.unsent.drain(..usize::from(bundle.n_notes));
        }
        Ok(())
    }

    /// The receiver of the bytes in buffer `index`.
    pub(crate) fn receiver_of(&self, index: usize) -> Option<u32> {
        self.outbox.sends.get(index).map(|outgoing| outgoing.to)
    }

    /// Records that the send from buffer `index` is complete.
    pub(crate) fn has_sent(&mut self, index: usize) {
        let outbox = &mut self.outbox;
        if let Some(outgoing) = outbox.sends.get(index) {
            outbox.free_sends[outgoing.kind].push(index);
            outbox.n_busy -= 1;
        }
    }

    /// Takes what has arrived in buffer `index`: a message, which is kept, or notes, which are
    /// added to `notes`. Returns the sender of the notes. The caller posts another receive, after
    /// the answers to all arrivals.
    pub(crate) fn has_received(
        &mut self,
        index: usize,
        len: usize,
        notes: &mut Vec<Note>,
    ) -> Result<u32> {
        let Some(buffer) = self.receives.get_mut(index).and_then(Option::take) else {
            return Ok(self.rank);
        };
        self.n_posted -= 1;
        let bytes = buffer.bytes().get(..len).unwrap_or_default();
        let header = Header::decode(bytes);
        // Any program may connect to an endpoint if it knows the address.
        let header = header.filter(|header| header.from < self.n_ranks);
        let from = header.map_or(u32::MAX, |header| header.from);
        let kind = header.map_or(usize::MAX, |header| usize::from(header.kind));
        if let Some(queue) = self.arrived.get_mut(kind) {
            queue.push_back(Letter {
                from,
                index,
                buffer,
                len,
                reader: Reader::default(),
            });
            return Ok(from);
        }
        // Anything else is a message of another program, or a failed receive.
        let read = match Reader::default().next(bytes) {
            Some((n_notes, bytes)) if kind == NOTES => bundle::unpack(bytes, n_notes.0, notes),
            _ => Ok(()),
        };
        self.free_receives.push((index, buffer));
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
    pub(crate) fn take(&mut self, class: MessageClass) -> Option<Letter> {
        let letter = self.arrived[class as usize].pop_front()?;
        if letter.reader.is_at_start()
            && let Some(header) = Header::decode(&letter.buffer.bytes()[..letter.len])
        {
            self.peers.of(letter.from).credit(header.credits);
        }
        Some(letter)
    }

    /// Puts back a message whose rest is for later.
    pub(crate) fn put_back(&mut self, class: MessageClass, letter: Letter) {
        self.arrived[class as usize].push_front(letter);
    }

    /// Ends a message that was handed out: its buffer receives again, and if it `is_served`, its
    /// sender may send again.
    pub(crate) fn finish(
        &mut self,
        endpoint: &mut Endpoint,
        segments: &Segments,
        class: MessageClass,
        letter: Letter,
        is_served: bool,
    ) -> Result<()> {
        let from = letter.from;
        self.free_receives.push((letter.index, letter.buffer));
        match self.peers.handed_out(from, class, is_served) {
            Some(note) => self.tell(endpoint, segments, from, note),
            None => Ok(()),
        }
    }

    /// Whether all sends are complete.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.outbox.n_busy == 0 && self.unsent.is_empty() && !self.peers.has_open()
    }

    /// Tells every rank that was sent messages their number.
    pub(crate) fn say_bye(&mut self, endpoint: &mut Endpoint, segments: &Segments) -> Result<()> {
        for (rank, note) in self.peers.goodbyes() {
            self.tell(endpoint, segments, rank, note)?;
        }
        Ok(())
    }
}

impl Outbox {
    /// Sends a message of a header and a payload.
    fn send_bytes(
        &mut self,
        (endpoint, peer, to): (&mut Endpoint, u64, u32),
        kind: usize,
        header: &[u8],
        parts: &[&[u8]],
    ) -> Result<Begun> {
        let len = header.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        if len <= self.inject_bytes {
            let mut bytes = [0; MAX_INJECTED];
            concat(&mut bytes, header, parts);
            return endpoint.inject(&bytes[..len], peer);
        }
        let Some(index) = self.take_send(endpoint, kind)? else {
            return Ok(Begun::NoRoom);
        };
        concat(self.sends[index].buffer.bytes_mut(), header, parts);
        let begun = self.begin((endpoint, peer, to), index, len);
        if !matches!(begun, Ok(Begun::Yes)) {
            self.free_sends[kind].push(index);
        }
        begun
    }

    /// Sends a note that is complete when its receiver has it.
    fn send_surely(
        &mut self,
        (endpoint, peer, to): (&mut Endpoint, u64, u32),
        header: &[u8],
        note: &[u8],
    ) -> Result<Begun> {
        let Some(index) = self.take_send(endpoint, NOTES)? else {
            return Ok(Begun::NoRoom);
        };
        let buffer = &mut self.sends[index].buffer;
        concat(buffer.bytes_mut(), header, &[note]);
        // SAFETY: as in `begin`.
        let begun = unsafe { endpoint.send_surely(buffer, header.len() + note.len(), peer) };
        self.count(index, to, &begun);
        if !matches!(begun, Ok(Begun::Yes)) {
            self.free_sends[NOTES].push(index);
        }
        begun
    }

    /// Sends the first `len` bytes of a buffer. Without room the buffer is still the caller's.
    fn begin(
        &mut self,
        (endpoint, peer, to): (&mut Endpoint, u64, u32),
        index: usize,
        len: usize,
    ) -> Result<Begun> {
        let buffer = &mut self.sends[index].buffer;
        // SAFETY: the buffer is left alone until its completion gives it back, or until this is
        // dropped, before which the endpoint is shut.
        let begun = unsafe { endpoint.send(buffer, len, peer) };
        self.count(index, to, &begun);
        begun
    }

    fn count(&mut self, index: usize, to: u32, begun: &Result<Begun>) {
        if matches!(begun, Ok(Begun::Yes)) {
            self.n_busy += 1;
            self.sends[index].to = to;
        }
    }

    /// A free buffer to send from, if there is one.
    fn take_send(&mut self, endpoint: &mut Endpoint, kind: usize) -> Result<Option<usize>> {
        if let Some(index) = self.free_sends[kind].pop() {
            return Ok(Some(index));
        }
        if kind != NOTES && self.n_sends[kind] == N_SENDS {
            return Ok(None);
        }
        let index = self.sends.len();
        let len = if kind == NOTES {
            HEADER_BYTES + NOTE_BYTES
        } else {
            SLOT_BYTES
        };
        let buffer = endpoint.buffer(len, (self.number)(index))?;
        self.sends.push(Outgoing {
            buffer,
            kind,
            to: self.rank,
        });
        self.n_sends[kind] += 1;
        Ok(Some(index))
    }
}

/// The sending side of a post.
struct Sender<'a> {
    endpoint: &'a mut Endpoint,
    segments: &'a Segments,
    outbox: &'a mut Outbox,
}

impl Carrier for Sender<'_> {
    fn rank(&self) -> u32 {
        self.outbox.rank
    }

    fn take(&mut self, class: MessageClass) -> Result<Option<usize>> {
        self.outbox.take_send(self.endpoint, class as usize)
    }

    fn bytes(&mut self, _: MessageClass, buffer: usize) -> &mut [u8] {
        self.outbox.sends[buffer].buffer.bytes_mut()
    }

    fn begin(&mut self, to: u32, class: MessageClass, buffer: usize, len: usize) -> Result<bool> {
        let there = (&mut *self.endpoint, self.segments.peer(to), to);
        let begun = self.outbox.begin(there, buffer, len);
        if begun.is_err() {
            self.outbox.free_sends[class as usize].push(buffer);
        }
        Ok(begun? == Begun::Yes)
    }

    fn send_now(
        &mut self,
        to: u32,
        class: MessageClass,
        header: &[u8; HEADER_BYTES],
        parts: &[&[u8]],
    ) -> Result<bool> {
        let there = (&mut *self.endpoint, self.segments.peer(to), to);
        let begun = self.outbox.send_bytes(there, class as usize, header, parts);
        Ok(begun? == Begun::Yes)
    }
}

/// Writes the parts of a message one behind the other.
fn concat(bytes: &mut [u8], header: &[u8], parts: &[&[u8]]) {
    bytes[..header.len()].copy_from_slice(header);
    let mut end = header.len();
    for part in parts {
        bytes[end..][..part.len()].copy_from_slice(part);
        end += part.len();
    }
}
