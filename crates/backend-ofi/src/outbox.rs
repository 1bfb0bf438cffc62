//! Buffers to send messages from. Requests, replies, notes and payloads that a program fills in
//! place have buffers of their own, which are registered where the provider wants that.
#![expect(unsafe_code, reason = "lends buffers to libfabric and to programs")]

use std::ops::Range;
use std::ptr::NonNull;

use pgas_core::Result;
use pgas_core::backend::{MessageClass, Offer, Place};
use pgas_network::bundle::HEADER_BYTES;
use pgas_network::note::NOTE_BYTES;
use pgas_network::send::{Carrier, SHORT_BYTES};

use crate::segment::Segments;
use crate::sys::{Begun, Buffer, Endpoint};

/// The longest message.
pub(crate) const SLOT_BYTES: usize = 16 << 10;
/// The longest payload; nearly that of the mailboxes in shared memory.
pub(crate) const MAX_MEDIUM: usize = SLOT_BYTES - HEADER_BYTES;

/// The kind of notes, behind the two classes.
pub(crate) const NOTES: usize = 2;
/// The kind of places for payloads, behind notes.
const PLACES: usize = 3;
const N_KINDS: usize = 4;
/// Buffers of each kind. The number of notes is bounded by their subjects.
const LIMITS: [usize; N_KINDS] = [64, 64, usize::MAX, 16];
/// The longest message that is sent without a buffer of libfabric's.
const MAX_INJECTED: usize = 256;
/// Bytes before a place: the header and the longest opening of a payload that is not copied.
const BEFORE_PLACE: usize = HEADER_BYTES + MAX_OPENING;
const MAX_OPENING: usize = 56;

/// The length of a message is a multiple of this, so that messages in one receive buffer are all
/// aligned to it.
const ALIGN: usize = 8;
/// Where the header has the number of added bytes.
const PADDING_AT: usize = 10;
const _: () = assert!(SLOT_BYTES.is_multiple_of(ALIGN) && HEADER_BYTES > PADDING_AT);

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
pub(crate) struct Outbox {
    rank: u32,
    inject_bytes: usize,
    /// A function from the index of a send to the number of its context.
    number: fn(usize) -> u64,
    sends: Vec<Outgoing>,
    free_sends: [Vec<usize>; N_KINDS],
    n_sends: [usize; N_KINDS],
    n_busy: usize,
    /// Where messages that libfabric copies are put together.
    injected: [u8; MAX_INJECTED],
}

impl Outbox {
    pub(crate) fn new(rank: u32, inject_bytes: usize, number: fn(usize) -> u64) -> Self {
        Self {
            rank,
            inject_bytes: inject_bytes.min(MAX_INJECTED),
            number,
            sends: Vec::new(),
            free_sends: [const { Vec::new() }; N_KINDS],
            n_sends: [0; N_KINDS],
            n_busy: 0,
            injected: [0; MAX_INJECTED],
        }
    }

    /// Whether no buffer is lent to libfabric.
    pub(crate) fn is_idle(&self) -> bool {
        self.n_busy == 0
    }

    /// The receiver of the bytes in buffer `index`.
    pub(crate) fn receiver_of(&self, index: usize) -> Option<u32> {
        self.sends.get(index).map(|outgoing| outgoing.to)
    }

    /// Records that the send from buffer `index` is complete.
    pub(crate) fn has_sent(&mut self, index: usize) {
        if let Some(outgoing) = self.sends.get(index) {
            self.free_sends[outgoing.kind].push(index);
            self.n_busy -= 1;
        }
    }

    /// Sends a message of a header and a payload.
    pub(crate) fn send_bytes(
        &mut self,
        (endpoint, peer, to): (&mut Endpoint, u64, u32),
        kind: usize,
        header: &[u8],
        parts: &[&[u8]],
    ) -> Result<Begun> {
        let len = header.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        if len.next_multiple_of(ALIGN) <= self.inject_bytes {
            concat(&mut self.injected, header, parts);
            let len = pad(&mut self.injected, len);
            return endpoint.inject(&self.injected[..len], peer);
        }
        let Some(index) = self.take_send(endpoint, kind)? else {
            return Ok(Begun::NoRoom);
        };
        let bytes = self.sends[index].buffer.bytes_mut();
        concat(bytes, header, parts);
        let len = pad(bytes, len);
        let begun = self.begin((endpoint, peer, to), index, 0..len);
        if !matches!(begun, Ok(Begun::Yes)) {
            self.free_sends[kind].push(index);
        }
        begun
    }

    /// Sends a note that is complete when its receiver has it.
    pub(crate) fn send_surely(
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
        let len = pad(buffer.bytes_mut(), header.len() + note.len());
        // SAFETY: as in `begin`.
        let begun = unsafe { endpoint.send_surely(buffer, len, peer) };
        self.count(index, to, &begun);
        if !matches!(begun, Ok(Begun::Yes)) {
            self.free_sends[NOTES].push(index);
        }
        begun
    }

    /// Sends these bytes of a buffer. Without room the buffer is still the caller's.
    fn begin(
        &mut self,
        (endpoint, peer, to): (&mut Endpoint, u64, u32),
        index: usize,
        bytes: Range<usize>,
    ) -> Result<Begun> {
        let buffer = &mut self.sends[index].buffer;
        // SAFETY: the buffer is left alone until its completion gives it back, or until this is
        // dropped, before which the endpoint is shut.
        let begun = unsafe { endpoint.send(buffer, bytes, peer) };
        self.count(index, to, &begun);
        begun
    }

    fn count(&mut self, index: usize, to: u32, begun: &Result<Begun>) {
        if matches!(begun, Ok(Begun::Yes)) {
            self.n_busy += 1;
            self.sends[index].to = to;
        }
    }

    /// A free buffer to send from, if there is one. If no memory can be registered for one more,
    /// those that are under way will do.
    fn take_send(&mut self, endpoint: &mut Endpoint, kind: usize) -> Result<Option<usize>> {
        if let Some(index) = self.free_sends[kind].pop() {
            return Ok(Some(index));
        }
        if self.n_sends[kind] == LIMITS[kind] {
            return Ok(None);
        }
        let index = self.sends.len();
        let len = match kind {
            NOTES => HEADER_BYTES + NOTE_BYTES,
            PLACES => MAX_OPENING + SLOT_BYTES,
            _ => SLOT_BYTES,
        };
        let buffer = match endpoint.buffer(len, (self.number)(index)) {
            Ok(buffer) => buffer,
            Err(_) if self.n_sends[kind] > 0 => return Ok(None),
            Err(error) => return Err(error),
        };
        self.sends.push(Outgoing {
            buffer,
            kind,
            to: self.rank,
        });
        self.n_sends[kind] += 1;
        Ok(Some(index))
    }

    /// A place for a payload of `len` bytes. Short payloads have none: they travel with others.
    pub(crate) fn offer(&mut self, endpoint: &mut Endpoint, len: usize) -> Result<Offer<Place>> {
        if len <= SHORT_BYTES || len > MAX_MEDIUM {
            return Ok(Offer::Elsewhere);
        }
        let Some(index) = self.take_send(endpoint, PLACES)? else {
            return Ok(Offer::BackPressure);
        };
        let (start, _) = self.sends[index].buffer.range();
        let start = start.wrapping_add(BEFORE_PLACE);
        Ok(Offer::InPlace(Place {
            start: NonNull::new(start).expect("within a buffer"),
            len,
            id: u32::try_from(index).expect("fewer buffers"),
        }))
    }

    /// Sends a payload of `opening` and the first `place.len` bytes of a place that was
    /// [offered](Self::offer). Without room the place is still the caller's.
    pub(crate) fn send_place(
        &mut self,
        there: (&mut Endpoint, u64, u32),
        place: &Place,
        header: &[u8; HEADER_BYTES],
        opening: &[u8],
    ) -> Result<Begun> {
        let index = place.id as usize;
        let first = BEFORE_PLACE - opening.len() - HEADER_BYTES;
        let bytes = self.sends[index].buffer.bytes_mut();
        let bytes = &mut bytes[first..];
        concat(bytes, header, &[opening]);
        let len = pad(bytes, HEADER_BYTES + opening.len() + place.len);
        self.begin(there, index, first..first + len)
    }

    /// Takes a place back from which nothing is to be sent.
    pub(crate) fn take_back(&mut self, place: &Place) {
        self.free_sends[PLACES].push(place.id as usize);
    }
}

/// Whether a payload that begins with `opening` is sent from its place. Short ones are copied, to
/// travel with others.
pub(crate) fn goes_in_place(opening: &[u8], place: &Place) -> bool {
    let len = opening.len() + place.len;
    opening.len() <= MAX_OPENING && len > SHORT_BYTES && len <= MAX_MEDIUM
}

/// The sending side of a post.
pub(crate) struct Sender<'a> {
    pub(crate) endpoint: &'a mut Endpoint,
    pub(crate) segments: &'a Segments,
    pub(crate) outbox: &'a mut Outbox,
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
        let len = pad(self.outbox.sends[buffer].buffer.bytes_mut(), len);
        let begun = self.outbox.begin(there, buffer, 0..len);
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

/// Extends a message to a multiple of [`ALIGN`] bytes, and returns its new length.
fn pad(message: &mut [u8], len: usize) -> usize {
    let padded = len.next_multiple_of(ALIGN);
    message[PADDING_AT] = u8::try_from(padded - len).expect("less than the alignment");
    padded
}

/// The number of bytes that a received message has at its end for alignment.
pub(crate) fn n_padding(message: &[u8]) -> usize {
    let padding = message.get(PADDING_AT).copied().map_or(0, usize::from);
    padding.min(message.len())
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
