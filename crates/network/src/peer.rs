//! The state of a peer: credits, so that a rank never has more messages on their way to it than it
//! accepts, and the numbers of messages in both directions. A message here is the transport's,
//! which may have several of the program's in it.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::mem;
use std::time::Instant;

use pgas_core::backend::{HandlerId, MessageClass};
use pgas_core::{Error, Rank, Result};

use crate::mix::Mix;
use crate::note::Note;

/// Messages of one class that may be on their way from one rank to another.
const CREDITS: u16 = 32;
/// Credits that are returned by a note if no message goes that way.
const CREDITS_A_NOTE: u16 = CREDITS / 2;
/// The most credits for replies that may be on their way with requests. The others travel with
/// replies and notes, and are enough for a note.
const MOST_RIDING: u16 = CREDITS - CREDITS_A_NOTE;

/// The ranks that this one has exchanged messages with; nothing is kept of others.
#[derive(Debug, Default)]
pub struct Peers {
    peers: HashMap<u32, Peer, BuildHasherDefault<Mix>>,
    /// Messages that are being filled, the oldest first: their receivers and classes.
    pub(crate) filling: VecDeque<(u32, MessageClass)>,
    /// A rank to which the transport does not send accepted messages, and the first error.
    pub(crate) unreachable: Option<(u32, Error)>,
}

impl Peers {
    /// The state of `rank`.
    pub fn of(&mut self, rank: u32) -> &mut Peer {
        self.peers.entry(rank).or_default()
    }

    /// Short messages of `class` that can be sent to `to` now.
    pub fn n_credits(&mut self, to: u32, class: MessageClass) -> u64 {
        let peer = self.of(to);
        let open = peer.open[class as usize].as_ref();
        u64::from(peer.credits[class as usize]) + u64::from(open.is_some_and(Open::takes_short))
    }

    /// Checks that `to` takes messages for `handler`.
    ///
    /// # Errors
    ///
    /// If it has announced that it has left. It reports earlier messages itself.
    pub(crate) fn check(&mut self, to: u32, handler: HandlerId) -> Result<&mut Peer> {
        let peer = self.of(to);
        if peer.total.is_some() && handler.is_heard_of() {
            return Err(Error::rank_failed(Rank::new(to), "has left the job"));
        }
        Ok(peer)
    }

    /// Processes a note that may be about messages.
    pub fn heed(&mut self, from: u32, note: &Note) {
        match note {
            Note::Credits(credits) => self.of(from).credit(*credits),
            Note::Left { sent, .. } | Note::Bye { sent } => self.of(from).total = Some(*sent),
            _ => {}
        }
    }

    /// Records that a message of `from` was handed out. If it `is_served`, `from` may send another
    /// one for it. Returns the note that is due, if one is.
    pub fn handed_out(&mut self, from: u32, class: MessageClass, is_served: bool) -> Option<Note> {
        let class = class as usize;
        let peer = self.of(from);
        peer.got[class] += 1;
        if !is_served {
            return None;
        }
        peer.owed[class] += 1;
        let is_due = peer.owed[class] >= CREDITS_A_NOTE;
        is_due.then(|| Note::Credits(mem::take(&mut peer.owed)))
    }

    /// The numbers of messages of each class sent to `rank`.
    #[must_use]
    pub fn sent_to(&self, rank: u32) -> [u64; 2] {
        self.peers.get(&rank).map_or([0; 2], |peer| peer.sent)
    }

    /// Whether `rank` has said that it has left, and all that it sent was handed out.
    #[must_use]
    pub fn is_gone(&self, rank: u32) -> bool {
        let peer = self.peers.get(&rank);
        peer.is_some_and(|peer| peer.total.is_some() && peer.is_drained())
    }

    /// The final notes to all ranks that were sent anything.
    #[must_use]
    pub fn goodbyes(&self) -> Vec<(u32, Note)> {
        let known = self.peers.iter().filter(|(_, peer)| peer.is_known);
        known
            .map(|(rank, peer)| (*rank, Note::Bye { sent: peer.sent }))
            .collect()
    }

    /// Whether all messages of ranks that have left have arrived and were taken.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.peers.values().all(Peer::is_drained)
    }
}

/// A message that is being filled.
#[derive(Debug)]
pub(crate) struct Open {
    /// The transport's buffer.
    pub(crate) buffer: usize,
    /// The end of what is in it.
    pub(crate) end: usize,
    /// When the first of the program's messages was written to it.
    pub(crate) since: Instant,
}

/// Credits that a message takes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenBack {
    pub(crate) credits: [u16; 2],
    /// What was owed before.
    before: [u16; 2],
}

/// The state of another rank that this rank has exchanged messages with.
#[derive(Debug)]
pub struct Peer {
    /// Messages of each class that it still accepts.
    pub(crate) credits: [u16; 2],
    /// Credits of each class that can be returned to it.
    owed: [u16; 2],
    /// The message of each class that is being filled. Its credit is taken.
    pub(crate) open: [Option<Open>; 2],
    /// When a message of each class last left while earlier ones were on their way.
    pub(crate) left: [Option<Instant>; 2],
    /// Credits for replies that were sent with requests which the peer may not have taken yet: the
    /// number of the request, and the credits.
    riding: VecDeque<(u64, u16)>,
    n_riding: u16,
    /// Messages of each class that were sent to it, or are being filled.
    sent: [u64; 2],
    /// Messages of each class that came from it and were handed out.
    got: [u64; 2],
    /// The total of its messages, once it has left.
    total: Option<[u64; 2]>,
    /// Whether anything at all was sent to it.
    pub is_known: bool,
}

impl Peer {
    /// A peer without any messages yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            credits: [CREDITS; 2],
            owed: [0; 2],
            open: [None, None],
            left: [None; 2],
            riding: VecDeque::new(),
            n_riding: 0,
            sent: [0; 2],
            got: [0; 2],
            total: None,
            is_known: false,
        }
    }

    /// Messages of `class` that it may not have taken yet.
    pub(crate) fn n_on_their_way(&self, class: MessageClass) -> u16 {
        CREDITS.saturating_sub(self.credits[class as usize])
    }

    /// Takes a credit for a message of `class`, if there is one.
    pub(crate) fn reserve(&mut self, class: MessageClass) -> bool {
        let class = class as usize;
        if self.credits[class] == 0 {
            return false;
        }
        self.credits[class] -= 1;
        self.sent[class] += 1;
        self.is_known = true;
        true
    }

    /// Gives back the credit of a message that is not sent.
    pub(crate) fn unreserve(&mut self, class: MessageClass) {
        self.credits[class as usize] += 1;
        self.sent[class as usize] -= 1;
    }

    /// The credits that travel with the last message of `class`. A rank may take no requests until
    /// it could send a reply, which may need a credit. So only some of the credits for replies
    /// travel with requests; enough of them stay owed for a note.
    pub(crate) fn give_back(&mut self, class: MessageClass) -> GivenBack {
        let before = self.owed;
        let [requests, replies] = mem::take(&mut self.owed);
        if class == MessageClass::Reply {
            let credits = [requests, replies];
            return GivenBack { credits, before };
        }
        let riding = replies.min(MOST_RIDING - self.n_riding);
        self.owed[1] = replies - riding;
        if riding > 0 {
            self.n_riding += riding;
            self.riding.push_back((self.sent[0] - 1, riding));
        }
        let credits = [requests, riding];
        GivenBack { credits, before }
    }

    /// Restores the credits of a message that was not sent: they are owed as before.
    pub(crate) fn take_back(&mut self, class: MessageClass, given: GivenBack) {
        self.owed = given.before;
        if class == MessageClass::Request && given.credits[1] > 0 {
            self.n_riding -= given.credits[1];
            self.riding.pop_back();
        }
    }

    /// More messages of each class may be sent. It has taken as many requests, in their order.
    pub fn credit(&mut self, credits: [u16; 2]) {
        for (credit, more) in self.credits.iter_mut().zip(credits) {
            *credit = credit.saturating_add(more);
        }
        let n_open = u64::from(CREDITS.saturating_sub(self.credits[0]));
        let n_taken = self.sent[0].saturating_sub(n_open);
        while let Some((number, riding)) = self.riding.front()
            && *number < n_taken
        {
            self.n_riding -= riding;
            self.riding.pop_front();
        }
    }

    /// Whether all of its messages were handed out, as far as it has announced the total.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.total
            .is_none_or(|total| total.iter().zip(&self.got).all(|(total, got)| got >= total))
    }
}

impl Default for Peer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: usize = MessageClass::Reply as usize;

    /// Sends a request, whose credits are returned.
    fn ask(peer: &mut Peer) -> [u16; 2] {
        assert!(peer.reserve(MessageClass::Request));
        peer.give_back(MessageClass::Request).credits
    }

    #[test]
    fn who_asks_and_is_answered_needs_no_note_for_credits() {
        let mut peer = Peer::new();
        assert_eq!(ask(&mut peer), [0, 0]);
        for _ in 0..1000 {
            // The answer gives the request's credit back, and the next request that of the answer.
            peer.credit([1, 0]);
            peer.owed[REPLY] += 1;
            assert_eq!(ask(&mut peer), [0, 1]);
            assert!(peer.owed[REPLY] < CREDITS_A_NOTE && peer.n_riding <= 2);
        }
    }

    #[test]
    fn a_rank_that_takes_no_requests_gets_enough_credits_for_replies_by_a_note() {
        let mut peer = Peer::new();
        // It has used all that it had, and takes none of these requests.
        let mut n_riding = 0;
        for _ in 0..CREDITS {
            peer.owed[REPLY] += 1;
            n_riding += ask(&mut peer)[1];
        }
        assert_eq!(n_riding, MOST_RIDING);
        assert!(!peer.reserve(MessageClass::Request));
        assert!(peer.owed[REPLY] >= CREDITS_A_NOTE, "a note is due");
        assert!(peer.reserve(MessageClass::Reply));
        let given = peer.give_back(MessageClass::Reply);
        assert_eq!(given.credits, [0, CREDITS - n_riding]);
        // When it has taken half of them, these have brought what was with them.
        peer.credit([CREDITS / 2, 0]);
        assert_eq!(peer.n_riding, 0);
        peer.owed[REPLY] += 1;
        assert_eq!(ask(&mut peer), [0, 1]);
    }

    #[test]
    fn credits_of_a_message_that_was_not_sent_are_owed_again() {
        let mut peer = Peer::new();
        peer.owed = [2, 3];
        for class in [MessageClass::Request, MessageClass::Reply] {
            assert!(peer.reserve(class));
            let given = peer.give_back(class);
            assert_eq!(given.credits, [2, 3]);
            peer.take_back(class, given);
            peer.unreserve(class);
            assert_eq!((peer.owed, peer.n_riding), ([2, 3], 0));
            assert_eq!((peer.credits, peer.sent), ([CREDITS; 2], [0; 2]));
        }
        assert_eq!(ask(&mut peer), [2, 3]);
    }
}
