//! Messages over a communicator of their own. Receives are posted before anything is sent, and
//! credits limit the messages in flight to what the receiver accepts.
//!
//! Requests, replies and the library's own [notes](Note) each have a tag, receives and send buffers
//! of their own. A reply therefore never waits for room that only requests could free. One of MPI's
//! messages may contain [several](pgas_network::send) of the program's.
#![expect(unsafe_code, reason = "lends buffers to MPI")]

use std::array;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::mem;

use pgas_core::Result;
use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_network::bundle::{HEADER_BYTES, Reader};
use pgas_network::note::{NOTE_BYTES, Note};
use pgas_network::peer::Peers;
use pgas_network::receive::Letter;
use pgas_network::send::{Carrier, SHORT_BYTES};

use crate::session::{c_rank, number};
use crate::sys::{self, Comm, Mpi, Request};

const SLOT_BYTES: usize = 16 << 10;
/// The longest payload; also that of the mailboxes in shared memory.
pub(crate) const MAX_MEDIUM: usize = SLOT_BYTES - HEADER_BYTES;
/// A length that is certainly eager with both MPI libraries.
pub(crate) const MAX_SHORT: usize = SHORT_BYTES;

/// Receives posted for each class, and for notes. UCX searches all wildcard receives, of every tag,
/// for that of a message: with four times as many for notes and twice as many for the others, this
/// took a tenth of the time of a short call.
const N_RECEIVES: usize = 8;
const N_NOTE_RECEIVES: usize = 8;
/// Send buffers for each class. The number of notes is bounded by their subjects.
const N_SENDS: usize = 64;
/// Sends that are tested together, so that a test, which makes MPI's progress, is not made for each
/// message. There are this many buffers before the first test.
const SENDS_PER_TEST: usize = 8;
/// The index of notes, behind the two classes.
const NOTES: usize = 2;
/// The index behind them, of a request that is not the post's.
const OTHER: usize = 3;

/// A completed request.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// A message, to be taken by [`Post::take`].
    Message,
    /// A note of this rank.
    Note(u32, Note),
    /// The other request is complete; no message has arrived.
    Other,
}

/// Receives in the order in which they were posted, which is the order in which messages meet them.
#[derive(Debug)]
struct Inbox {
    slots: Vec<Slot>,
    /// The index of the oldest message that was not handed out, and the number of messages.
    first: usize,
    n_arrived: usize,
}

#[derive(Debug)]
struct Slot {
    buffer: Vec<u8>,
    request: Request,
    from: c_int,
    bytes: usize,
    /// The position in that message.
    reader: Reader,
}

/// Buffers to send from.
#[derive(Debug)]
struct Outbox {
    slots: Vec<(Vec<u8>, Request)>,
    /// The buffers in use, nearly in the order of sending.
    busy: VecDeque<usize>,
    free: Vec<usize>,
    limit: usize,
    slot_bytes: usize,
}

/// The messages of this rank.
#[derive(Debug)]
pub(crate) struct Post {
    rank: u32,
    comm: Comm,
    inboxes: [Inbox; 3],
    /// The receive of each inbox for the next message, and a place for another request that is
    /// tested with them. The first place is that of the inbox with the number `first_head`. Of
    /// several that are complete MPI names the first, so each arrival moves the places on by one:
    /// otherwise replies and notes would never come while requests do without end.
    heads: [Request; OTHER + 1],
    first_head: usize,
    outboxes: [Outbox; 3],
    pub(crate) peers: Peers,
}

impl Post {
    /// Posts the first receives.
    pub(crate) fn new(mpi: &Mpi, comm: Comm, rank: u32) -> Result<Self> {
        let inbox = |n, bytes| Inbox {
            slots: (0..n).map(|_| Slot::new(bytes)).collect(),
            first: 0,
            n_arrived: 0,
        };
        let outbox = |limit, slot_bytes| Outbox {
            slots: Vec::new(),
            busy: VecDeque::new(),
            free: Vec::new(),
            limit,
            slot_bytes,
        };
        let mut post = Self {
            rank,
            comm,
            inboxes: [
                inbox(N_RECEIVES, SLOT_BYTES),
                inbox(N_RECEIVES, SLOT_BYTES),
                inbox(N_NOTE_RECEIVES, NOTE_BYTES),
            ],
            heads: array::from_fn(|_| Request::null()),
            first_head: 0,
            outboxes: [
                outbox(N_SENDS, SLOT_BYTES),
                outbox(N_SENDS, SLOT_BYTES),
                outbox(usize::MAX, NOTE_BYTES),
            ],
            peers: Peers::default(),
        };
        for tag in 0..3 {
            for index in 0..post.inboxes[tag].slots.len() {
                post.post_receive(mpi, tag, index)?;
            }
            post.heads[tag] =
                mem::replace(&mut post.inboxes[tag].slots[0].request, Request::null());
        }
        Ok(post)
    }

    fn post_receive(&mut self, mpi: &Mpi, tag: usize, index: usize) -> Result<()> {
        let slot = &mut self.inboxes[tag].slots[index];
        let (at, len) = (slot.buffer.as_mut_ptr(), c_len(slot.buffer.len()));
        // SAFETY: the buffer stays where it is, and is left alone, until the receive is complete or
        // cancelled.
        slot.request = unsafe { sys::irecv(mpi, &self.comm, c_len(tag), at, len) }?;
        Ok(())
    }

    /// Sends a message, at once or with others, if there is room for it here and at `to`.
    pub(crate) fn send(
        &mut self,
        mpi: &Mpi,
        to: u32,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        let (peers, mut carrier) = self.carrier(mpi);
        peers.send(&mut carrier, to, class, handler, parts)
    }

    /// Sends messages that were kept for others to go with.
    pub(crate) fn send_open(&mut self, mpi: &Mpi) -> Result<()> {
        if self.peers.has_open() {
            let (peers, mut carrier) = self.carrier(mpi);
            peers.send_open(&mut carrier);
        }
        let unreachable = self.peers.take_unreachable();
        unreachable.map_or(Ok(()), |(_, error)| Err(error))
    }

    fn carrier<'a>(&'a mut self, mpi: &'a Mpi) -> (&'a mut Peers, Sender<'a>) {
        let sender = Sender {
            mpi,
            rank: self.rank,
            comm: &self.comm,
            outboxes: &mut self.outboxes,
        };
        (&mut self.peers, sender)
    }

    /// Sends a note.
    pub(crate) fn tell(&mut self, mpi: &Mpi, to: u32, note: &Note) -> Result<()> {
        self.peers.of(to).is_known = true;
        let outbox = &mut self.outboxes[NOTES];
        let index = outbox.take(mpi)?.expect("the number of notes has no limit");
        let (buffer, _) = &mut outbox.slots[index];
        let len = note.encode(buffer);
        outbox.begin(mpi, &self.comm, (to, NOTES), (index, len))
    }

    /// The next arrival, if there is one, or that `other` is complete. Makes MPI's progress.
    pub(crate) fn next(&mut self, mpi: &Mpi, other: &mut Request) -> Result<Option<Arrived>> {
        mem::swap(&mut self.heads[OTHER], other);
        let tested = sys::test_any(mpi, &mut self.heads, OTHER);
        mem::swap(&mut self.heads[OTHER], other);
        let Some(arrival) = tested? else {
            return Ok(None);
        };
        if arrival.index == OTHER {
            return Ok(Some(Arrived::Other));
        }
        let tag = (self.first_head + arrival.index) % OTHER;
        self.heads[..OTHER].rotate_left(1);
        self.first_head = (self.first_head + 1) % OTHER;
        let inbox = &mut self.inboxes[tag];
        let slot = inbox.nth(inbox.n_arrived);
        slot.from = arrival.from;
        slot.bytes = arrival.bytes;
        inbox.n_arrived += 1;
        if inbox.n_arrived < inbox.slots.len() {
            let next = inbox.nth(inbox.n_arrived);
            let request = mem::replace(&mut next.request, Request::null());
            *self.head(tag) = request;
        }
        let inbox = &mut self.inboxes[tag];
        if tag != NOTES {
            return Ok(Some(Arrived::Message));
        }
        let slot = inbox.nth(0);
        let from = number(slot.from);
        let note = Note::decode(&slot.buffer[..slot.bytes]);
        self.renew(mpi, NOTES)?;
        let note = note?;
        self.peers.heed(from, &note);
        Ok(Some(Arrived::Note(from, note)))
    }

    /// The place of an inbox's receive for the next message.
    fn head(&mut self, tag: usize) -> &mut Request {
        &mut self.heads[(tag + OTHER - self.first_head) % OTHER]
    }

    /// Posts the receive of the oldest message again.
    fn renew(&mut self, mpi: &Mpi, tag: usize) -> Result<()> {
        let inbox = &self.inboxes[tag];
        let (index, was_full) = (inbox.first, inbox.n_arrived == inbox.slots.len());
        self.post_receive(mpi, tag, index)?;
        let inbox = &mut self.inboxes[tag];
        inbox.first = (inbox.first + 1) % inbox.slots.len();
        inbox.n_arrived -= 1;
        if was_full {
            let slot = &mut inbox.slots[index];
            let request = mem::replace(&mut slot.request, Request::null());
            *self.head(tag) = request;
        }
        Ok(())
    }

    /// The number of messages of `class` that have arrived and were not taken yet.
    pub(crate) fn n_arrived(&self, class: MessageClass) -> usize {
        self.inboxes[class as usize].n_arrived
    }

    /// Takes the oldest message of `class`. Its buffer comes back by [`finish`](Self::finish) or
    /// [`put_back`](Self::put_back) before the next one is taken.
    pub(crate) fn take(&mut self, class: MessageClass) -> Option<Letter<Vec<u8>>> {
        let inbox = &mut self.inboxes[class as usize];
        if inbox.n_arrived == 0 {
            return None;
        }
        let slot = inbox.nth(0);
        let letter = Letter {
            from: number(slot.from),
            len: slot.bytes,
            buffer: mem::take(&mut slot.buffer),
            reader: slot.reader,
        };
        letter.credit(&mut self.peers);
        Some(letter)
    }

    /// Puts back a message whose rest is for later.
    pub(crate) fn put_back(&mut self, class: MessageClass, letter: Letter<Vec<u8>>) {
        let slot = self.inboxes[class as usize].nth(0);
        slot.buffer = letter.buffer;
        slot.reader = letter.reader;
    }

    /// Ends a message that was handed out: its buffer receives again, and if it `is_served`, its
    /// sender may send again.
    pub(crate) fn finish(
        &mut self,
        mpi: &Mpi,
        class: MessageClass,
        letter: Letter<Vec<u8>>,
        is_served: bool,
    ) -> Result<()> {
        let tag = class as usize;
        let from = letter.from;
        let slot = self.inboxes[tag].nth(0);
        slot.buffer = letter.buffer;
        slot.reader = Reader::default();
        self.renew(mpi, tag)?;
        match self.peers.handed_out(from, class, is_served) {
            Some(note) => self.tell(mpi, from, &note),
            None => Ok(()),
        }
    }

    /// Whether all sends are complete; tests some of the oldest ones.
    pub(crate) fn has_sent_all(&mut self, mpi: &Mpi) -> Result<bool> {
        self.send_open(mpi)?;
        for outbox in &mut self.outboxes {
            outbox.reap(mpi)?;
        }
        Ok(self.outboxes.iter().all(|outbox| outbox.busy.is_empty()))
    }

    /// Cancels the receives, for which no messages come any more, and frees the communicator.
    /// Collective.
    pub(crate) fn close(&mut self, mpi: &Mpi) -> Result<()> {
        let slots = self.inboxes.iter_mut().flat_map(|inbox| &mut inbox.slots);
        let posted = slots.map(|slot| &mut slot.request);
        for request in self.heads.iter_mut().chain(posted) {
            sys::cancel(mpi, request)?;
        }
        sys::comm_free(mpi, &mut self.comm)
    }
}

/// The sending side of a post.
struct Sender<'a> {
    mpi: &'a Mpi,
    rank: u32,
    comm: &'a Comm,
    outboxes: &'a mut [Outbox; 3],
}

impl Carrier for Sender<'_> {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn take(&mut self, class: MessageClass) -> Result<Option<usize>> {
        self.outboxes[class as usize].take(self.mpi)
    }

    fn bytes(&mut self, class: MessageClass, buffer: usize) -> &mut [u8] {
        &mut self.outboxes[class as usize].slots[buffer].0
    }

    fn begin(&mut self, to: u32, class: MessageClass, buffer: usize, len: usize) -> Result<bool> {
        let tag = class as usize;
        let (address, bytes) = ((to, tag), (buffer, len));
        self.outboxes[tag].begin(self.mpi, self.comm, address, bytes)?;
        Ok(true)
    }

    fn send_now(
        &mut self,
        to: u32,
        class: MessageClass,
        header: &[u8; HEADER_BYTES],
        parts: &[&[u8]],
    ) -> Result<bool> {
        let Some(buffer) = self.take(class)? else {
            return Ok(false);
        };
        let bytes = self.bytes(class, buffer);
        bytes[..HEADER_BYTES].copy_from_slice(header);
        let mut end = HEADER_BYTES;
        for part in parts {
            bytes[end..][..part.len()].copy_from_slice(part);
            end += part.len();
        }
        self.begin(to, class, buffer, end)
    }
}

impl Inbox {
    /// The slot that is `n` behind the oldest message.
    fn nth(&mut self, n: usize) -> &mut Slot {
        let index = (self.first + n) % self.slots.len();
        &mut self.slots[index]
    }
}

impl Slot {
    fn new(bytes: usize) -> Self {
        Self {
            buffer: vec![0; bytes],
            request: Request::null(),
            from: 0,
            bytes: 0,
            reader: Reader::default(),
        }
    }
}

impl Outbox {
    /// A free buffer, if there is one.
    fn take(&mut self, mpi: &Mpi) -> Result<Option<usize>> {
        if self.free.is_empty() && self.slots.len() >= SENDS_PER_TEST {
            self.reap(mpi)?;
        }
        if let Some(index) = self.free.pop() {
            return Ok(Some(index));
        }
        if self.slots.len() >= self.limit {
            return Ok(None);
        }
        let buffer = vec![0; self.slot_bytes];
        self.slots.push((buffer, Request::null()));
        Ok(Some(self.slots.len() - 1))
    }

    /// Sends the first `len` bytes of a buffer that was [taken](Self::take).
    fn begin(
        &mut self,
        mpi: &Mpi,
        comm: &Comm,
        (to, tag): (u32, usize),
        (index, len): (usize, usize),
    ) -> Result<()> {
        let (buffer, request) = &mut self.slots[index];
        let (address, bytes) = ((c_rank(to), c_len(tag)), (buffer.as_ptr(), c_len(len)));
        // SAFETY: the buffer is left alone until the send is complete.
        match unsafe { sys::isend(mpi, comm, address, bytes) } {
            Ok(sending) => *request = sending,
            Err(error) => {
                self.free.push(index);
                return Err(error);
            }
        }
        self.busy.push_back(index);
        Ok(())
    }

    /// Tests some of the oldest sends, and moves incomplete ones behind those that were not tested.
    fn reap(&mut self, mpi: &Mpi) -> Result<()> {
        let n = self.busy.len().min(SENDS_PER_TEST);
        if n == 0 {
            return Ok(());
        }
        let mut oldest: [Request; SENDS_PER_TEST] = array::from_fn(|_| Request::null());
        for (request, index) in oldest.iter_mut().zip(&self.busy) {
            mem::swap(request, &mut self.slots[*index].1);
        }
        let tested = sys::test_some(mpi, &mut oldest);
        for request in oldest.into_iter().take(n) {
            let Some(index) = self.busy.pop_front() else {
                break;
            };
            if request.is_null() {
                self.free.push(index);
            } else {
                self.slots[index].1 = request;
                self.busy.push_back(index);
            }
        }
        tested
    }
}

/// A small number as MPI's type.
fn c_len(len: usize) -> c_int {
    c_int::try_from(len).expect("below the length of a slot")
}
