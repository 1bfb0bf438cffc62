//! Messages. Receives are posted before anything is sent, and credits limit the messages in flight
//! to what the receiver accepts.
//!
//! Requests, replies and the library's own [notes](Note) have send buffers of their own. Any
//! message is received in any posted buffer, and another one is posted in its place. So messages
//! that wait to be handed out, whose number credits bound, do not block those behind them. A reply
//! therefore never waits for room that only requests could free.
//!
//! ```text
//! | kind: u16 | handler, or number of notes: u16 | credits for requests: u16 | for replies: u16 | from: u32 | unused: 4 bytes | payload |
//! ```
#![expect(unsafe_code, reason = "lends buffers to libfabric")]

use std::collections::VecDeque;

use pgas_core::Result;
use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_network::note::{NOTE_BYTES, Note};
use pgas_network::peer::Peers;

use crate::bundle;
use crate::segment::Segments;
use crate::sys::{Begun, Buffer, Endpoint};

const HEADER_BYTES: usize = 16;
const SLOT_BYTES: usize = 16 << 10;
/// The longest payload; nearly that of the mailboxes in shared memory.
pub(crate) const MAX_MEDIUM: usize = SLOT_BYTES - HEADER_BYTES;
/// A payload up to this length costs no call of its own beside the message.
pub(crate) const MAX_SHORT: usize = 1024;

/// Receives that are posted.
const N_RECEIVES: usize = 32;
/// Send buffers for each class; notes are bounded by their subjects.
const N_SENDS: usize = 64;
/// The kind of notes, behind the two classes.
const NOTES: usize = 2;
/// The longest message that is put together on the stack, to be sent without a buffer.
const MAX_INJECTED: usize = 256;

/// A message that was taken out to be handed to a sink.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) from: u32,
    index: usize,
    buffer: Buffer,
    len: usize,
}

impl Letter {
    pub(crate) fn handler(&self) -> HandlerId {
        HandlerId(word(self.buffer.bytes(), 1))
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.buffer.bytes()[HEADER_BYTES..self.len]
    }
}

/// Decodes the header of a message, if it is long enough.
fn sender_and_kind(bytes: &[u8]) -> Option<(u32, usize)> {
    let header = bytes.get(..HEADER_BYTES)?;
    let from = header[8..12].try_into().ok()?;
    Some((u32::from_ne_bytes(from), usize::from(word(header, 0))))
}

/// Two bytes of a header.
fn word(bytes: &[u8], index: usize) -> u16 {
    u16::from_ne_bytes([bytes[2 * index], bytes[2 * index + 1]])
}

/// A buffer to send from.
#[derive(Debug)]
struct Outgoing {
    buffer: Buffer,
    kind: usize,
    /// The present or last receiver of its bytes.
    to: u32,
}

/// The messages of this rank.
#[derive(Debug)]
pub(crate) struct Post {
    rank: u32,
    n_ranks: u32,
    inject_bytes: usize,
    /// Functions from indices of receives and of sends to numbers of contexts.
    numbers: [fn(usize) -> u64; 2],
    /// Buffers lent to libfabric. Other buffers hold messages, or are free.
    receives: Vec<Option<Buffer>>,
    free_receives: Vec<(usize, Buffer)>,
    n_posted: usize,
    arrived: [VecDeque<Letter>; 2],
    sends: Vec<Outgoing>,
    free_sends: [Vec<usize>; 3],
    n_sends: [usize; 3],
    n_busy: usize,
    /// Notes that there was no room for.
    unsent: VecDeque<(u32, Note)>,
    pub(crate) peers: Peers,
}

impl Post {
    /// Posts the first receives.
    pub(crate) fn new(
        endpoint: &mut Endpoint,
        rank: u32,
        n_ranks: u32,
        numbers: [fn(usize) -> u64; 2],
    ) -> Result<Self> {
        let mut post = Self {
            rank,
            n_ranks,
            inject_bytes: endpoint.info().inject_bytes().min(MAX_INJECTED),
            numbers,
            receives: Vec::new(),
            free_receives: Vec::new(),
            n_posted: 0,
            arrived: [VecDeque::new(), VecDeque::new()],
            sends: Vec::new(),
            free_sends: [Vec::new(), Vec::new(), Vec::new()],
            n_sends: [0; 3],
            n_busy: 0,
            unsent: VecDeque::new(),
            peers: Peers::default(),
        };
        post.post_receives(endpoint)?;
        Ok(post)
    }

    /// Posts receives until there are enough.
    pub(crate) fn post_receives(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        while self.n_posted < N_RECEIVES {
            let (index, buffer) = match self.free_receives.pop() {
                Some(free) => free,
                None => {
                    let index = self.receives.len();
                    let buffer = endpoint.buffer(SLOT_BYTES, (self.numbers[0])(index))?;
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

    /// Sends a message if there is room for it here and at `to`. If `to` has announced that it has
    /// left, that is an error; `to` reports messages that arrive before that itself.
    pub(crate) fn send(
        &mut self,
        (endpoint, segments): (&mut Endpoint, &Segments),
        to: u32,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        let Some(peer) = self.peers.receiver(to, class, handler)? else {
            return Ok(Sent::BackPressure);
        };
        let kind = class as usize;
        let before = peer.owed;
        let owed = peer.give_back(kind);
        let header = self.header(kind, handler.0, owed);
        let begun = self.send_bytes((endpoint, segments.peer(to), to), kind, &header, parts);
        let peer = self.peers.of(to);
        if matches!(begun, Ok(Begun::Yes)) {
            peer.is_known = true;
            peer.credits[kind] -= 1;
            peer.sent[kind] += 1;
            return Ok(Sent::Accepted);
        }
        peer.take_back(kind, before, owed);
        begun.map(|_| Sent::BackPressure)
    }

    fn header(&self, kind: usize, handler: u16, credits: [u16; 2]) -> [u8; HEADER_BYTES] {
        let kind = u16::try_from(kind).expect("there are three");
        let mut header = [0; HEADER_BYTES];
        for (chunk, word) in header
            .chunks_exact_mut(2)
            .zip([kind, handler, credits[0], credits[1]])
        {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        header[8..12].copy_from_slice(&self.rank.to_ne_bytes());
        header
    }

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
        let buffer = &mut self.sends[index].buffer;
        concat(buffer.bytes_mut(), header, parts);
        // SAFETY: the buffer is left alone until its completion gives it back, or until this is
        // dropped, before which the endpoint is shut.
        let begun = unsafe { endpoint.send(buffer, len, peer) };
        self.has_begun(index, to, begun)
    }

    fn has_begun(&mut self, index: usize, to: u32, begun: Result<Begun>) -> Result<Begun> {
        if matches!(begun, Ok(Begun::Yes)) {
            self.n_busy += 1;
            self.sends[index].to = to;
        } else {
            let kind = self.sends[index].kind;
            self.free_sends[kind].push(index);
        }
        begun
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
        let buffer = endpoint.buffer(len, (self.numbers[1])(index))?;
        self.sends.push(Outgoing {
            buffer,
            kind,
            to: self.rank,
        });
        self.n_sends[kind] += 1;
        Ok(Some(index))
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

    /// Keeps a note until [`send_notes`](Self::send_notes), with which others may go.
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
            let header = self.header(NOTES, bundle.n_notes, [0; 2]);
            let there = (&mut *endpoint, segments.peer(bundle.to), bundle.to);
            let notes = &bytes[..bundle.len];
            let begun = if bundle.is_sure {
                self.send_surely(there, &header, notes)
            } else {
                self.send_bytes(there, NOTES, &header, &[notes])
            };
            if begun? == Begun::NoRoom {
                return Ok(());
            }
            self.unsent.drain(..usize::from(bundle.n_notes));
        }
        Ok(())
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
        // SAFETY: as in `send_bytes`.
        let begun = unsafe { endpoint.send_surely(buffer, header.len() + note.len(), peer) };
        self.has_begun(index, to, begun)
    }

    /// The receiver of the bytes in buffer `index`.
    pub(crate) fn receiver_of(&self, index: usize) -> Option<u32> {
        self.sends.get(index).map(|outgoing| outgoing.to)
    }

    /// The send from buffer `index` is complete.
    pub(crate) fn has_sent(&mut self, index: usize) {
        if let Some(outgoing) = self.sends.get(index) {
            self.free_sends[outgoing.kind].push(index);
            self.n_busy -= 1;
        }
    }

    /// Something has come in buffer `index`: a message, which is kept, or notes, which are added to
    /// `notes`. Gives who has sent them. Another receive is posted by the caller, after the answers
    /// to all that has come.
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
        let (from, kind) = sender_and_kind(bytes).unwrap_or((u32::MAX, usize::MAX));
        // Any program may connect to an endpoint if it knows the address.
        let kind = if from < self.n_ranks {
            kind
        } else {
            usize::MAX
        };
        if let Some(queue) = self.arrived.get_mut(kind) {
            queue.push_back(Letter {
                from,
                index,
                buffer,
                len,
            });
            return Ok(from);
        }
        // Anything else is no message of a rank, but of a stranger, or a failed receive.
        let read = if kind == NOTES {
            bundle::unpack(&bytes[HEADER_BYTES..], word(bytes, 1), notes)
        } else {
            Ok(())
        };
        self.free_receives.push((index, buffer));
        read?;
        for note in &*notes {
            self.peers.heed(from, note);
        }
        Ok(from)
    }

    /// Messages of `class` that have come and wait to be taken.
    pub(crate) fn n_arrived(&self, class: MessageClass) -> usize {
        self.arrived[class as usize].len()
    }

    /// The oldest message of `class`, whose buffer comes back by [`finish`](Self::finish).
    pub(crate) fn take(&mut self, class: MessageClass) -> Option<Letter> {
        let letter = self.arrived[class as usize].pop_front()?;
        let bytes = letter.buffer.bytes();
        let credits = [word(bytes, 2), word(bytes, 3)];
        self.peers.of(letter.from).credit(credits);
        Some(letter)
    }

    /// A message was handed out: its buffer receives again, and its sender may send again, if
    /// `is_served`.
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
        self.n_busy == 0 && self.unsent.is_empty()
    }

    /// Tells every rank that was sent messages their number.
    pub(crate) fn say_bye(&mut self, endpoint: &mut Endpoint, segments: &Segments) -> Result<()> {
        for (rank, note) in self.peers.goodbyes() {
            self.tell(endpoint, segments, rank, note)?;
        }
        Ok(())
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
