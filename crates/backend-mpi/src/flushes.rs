//! What this rank has begun on others and only a flush completes.
//!
//! A put or get that MPI gives no request for is known by its target and the number of flushes of that target
//! before it: it is complete once there was one more. So a flood of them costs little beside MPI's calls and one
//! flush.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The ranks that this one has begun operations on; nothing is kept of others.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    places: HashMap<u32, usize, BuildHasherDefault<Mix>>,
    peers: Vec<Peer>,
    /// The place of the last one that was begun on.
    last: usize,
    /// Those with operations that no flush has completed.
    open: Vec<u32>,
    /// Those with operations that MPI may not have sent yet: no flush of either kind came after them.
    unsent: Vec<u32>,
    /// How many of them have puts whose sources are staged, and the last of these.
    n_staged: usize,
    last_staged: u32,
}

#[derive(Debug)]
struct Peer {
    rank: u32,
    /// How often what was begun was completed there and here, and how often here.
    n_flushes: u64,
    n_local_flushes: u64,
    is_open: bool,
    is_unsent: bool,
    /// Whether that is a put from a staged source, which then is open and unsent.
    is_staged: bool,
}

impl Flushes {
    /// An operation on `rank` has begun; gives the number of flushes before it.
    #[inline]
    pub(crate) fn begin(&mut self, rank: u32) -> u64 {
        let place = self.place(rank);
        let peer = &mut self.peers[place];
        if !peer.is_open {
            peer.is_open = true;
            self.open.push(rank);
        }
        peer.n_flushes
    }

    /// An operation on `rank` has begun that is not flushed before the next one begins; gives the number of local
    /// flushes before it.
    #[inline]
    pub(crate) fn leave_open(&mut self, rank: u32) -> u64 {
        let place = self.place(rank);
        let peer = &mut self.peers[place];
        if !peer.is_unsent {
            peer.is_unsent = true;
            self.unsent.push(rank);
        }
        peer.n_local_flushes
    }

    /// As [`begin`](Self::begin) for an operation that is [left open](Self::leave_open).
    #[inline]
    pub(crate) fn begin_unsent(&mut self, rank: u32) -> u64 {
        let n_flushes = self.begin(rank);
        self.leave_open(rank);
        n_flushes
    }

    /// A put to `rank` has begun whose source is staged, and that is left open.
    #[inline]
    pub(crate) fn stage(&mut self, rank: u32) {
        let place = self.place(rank);
        let peer = &mut self.peers[place];
        if peer.is_staged {
            return;
        }
        peer.is_staged = true;
        self.n_staged += 1;
        self.last_staged = rank;
        if !peer.is_open {
            peer.is_open = true;
            self.open.push(rank);
        }
        if !peer.is_unsent {
            peer.is_unsent = true;
            self.unsent.push(rank);
        }
    }

    /// Whether sources are staged.
    #[inline]
    pub(crate) fn has_staged(&self) -> bool {
        self.n_staged > 0
    }

    /// The last rank that sources were staged for, if there are any and it is another one than `rank`.
    #[inline]
    pub(crate) fn staged_beside(&self, rank: u32) -> Option<u32> {
        (self.has_staged() && self.last_staged != rank).then_some(self.last_staged)
    }

    /// Whether there are operations on `rank` that may not be sent yet.
    #[inline]
    pub(crate) fn is_unsent(&self, rank: u32) -> bool {
        !self.unsent.is_empty() && self.peer(rank).is_some_and(|peer| peer.is_unsent)
    }

    /// Whether there are operations on others than `rank` that may not be sent yet.
    #[inline]
    pub(crate) fn has_unsent_beside(&self, rank: u32) -> bool {
        self.unsent.iter().any(|other| *other != rank)
    }

    #[inline]
    fn place(&mut self, rank: u32) -> usize {
        if self
            .peers
            .get(self.last)
            .is_none_or(|peer| peer.rank != rank)
        {
            self.last = self.new_place(rank);
        }
        self.last
    }

    fn new_place(&mut self, rank: u32) -> usize {
        let peers = &mut self.peers;
        *self.places.entry(rank).or_insert_with(|| {
            peers.push(Peer {
                rank,
                n_flushes: 0,
                n_local_flushes: 0,
                is_open: false,
                is_unsent: false,
                is_staged: false,
            });
            peers.len() - 1
        })
    }

    #[inline]
    fn known_place(&self, rank: u32) -> Option<usize> {
        match self.peers.get(self.last) {
            Some(peer) if peer.rank == rank => Some(self.last),
            _ => self.places.get(&rank).copied(),
        }
    }

    #[inline]
    fn peer(&self, rank: u32) -> Option<&Peer> {
        self.known_place(rank).map(|place| &self.peers[place])
    }

    /// How often operations on `rank` were completed.
    #[inline]
    pub(crate) fn n_flushes(&self, rank: u32) -> u64 {
        self.peer(rank).map_or(0, |peer| peer.n_flushes)
    }

    /// How often they were completed here.
    #[inline]
    pub(crate) fn n_local_flushes(&self, rank: u32) -> u64 {
        self.peer(rank).map_or(0, |peer| peer.n_local_flushes)
    }

    /// What has begun on `rank` is complete here.
    #[inline]
    pub(crate) fn complete_here(&mut self, rank: u32) {
        if !self.unsent.is_empty()
            && let Some(place) = self.known_place(rank)
        {
            self.close_here(place);
        }
    }

    /// What has begun on any rank is.
    pub(crate) fn complete_all_here(&mut self) {
        while let Some(&rank) = self.unsent.last() {
            self.complete_here(rank);
        }
    }

    #[inline]
    fn close_here(&mut self, place: usize) {
        let peer = &mut self.peers[place];
        if !peer.is_unsent {
            return;
        }
        peer.is_unsent = false;
        peer.n_local_flushes += 1;
        self.n_staged -= usize::from(peer.is_staged);
        peer.is_staged = false;
        forget(&mut self.unsent, peer.rank);
    }

    /// Whether there are operations on `rank` that a flush has to complete.
    #[inline]
    pub(crate) fn is_open(&self, rank: u32) -> bool {
        self.peer(rank).is_some_and(|peer| peer.is_open)
    }

    /// The ranks of which this is so.
    pub(crate) fn open(&self) -> &[u32] {
        &self.open
    }

    /// All operations on `rank` are complete.
    #[inline]
    pub(crate) fn complete(&mut self, rank: u32) {
        let Some(place) = self.known_place(rank) else {
            return;
        };
        let peer = &mut self.peers[place];
        if peer.is_open {
            peer.is_open = false;
            peer.n_flushes += 1;
            forget(&mut self.open, rank);
        }
        self.close_here(place);
    }

    /// All operations on all ranks are.
    pub(crate) fn complete_all(&mut self) {
        while let Some(&rank) = self.open.last() {
            self.complete(rank);
        }
        self.complete_all_here();
    }
}

/// Takes `rank` out, which most often is the last one.
#[inline]
fn forget(ranks: &mut Vec<u32>, rank: u32) {
    if ranks.pop_if(|last| *last == rank).is_none() {
        ranks.retain(|other| *other != rank);
    }
}

/// A hash of one number.
#[derive(Debug, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // The multiplier of Fibonacci hashing: 2^64 over the golden ratio.
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_complete_after_the_next_flush_of_its_target() {
        let mut flushes = Flushes::default();
        let (first, other) = (flushes.begin(7), flushes.begin(3));
        assert_eq!(flushes.begin(7), first);
        assert_eq!(flushes.open(), [7, 3]);
        flushes.complete(7);
        assert!(!flushes.is_open(7) && flushes.is_open(3));
        assert_ne!(flushes.n_flushes(7), first);
        assert_eq!(flushes.n_flushes(3), other);
        let second = flushes.begin(7);
        assert_eq!(second, flushes.n_flushes(7));
        flushes.complete_all();
        assert!(flushes.open().is_empty());
        assert_ne!(flushes.n_flushes(7), second);
        assert_ne!(flushes.n_flushes(3), other);
    }

    #[test]
    fn a_get_is_complete_after_the_next_flush_of_either_kind() {
        let mut flushes = Flushes::default();
        let get = flushes.leave_open(4);
        let put = flushes.begin(4);
        flushes.complete_here(4);
        assert_ne!(flushes.n_local_flushes(4), get);
        assert_eq!(flushes.n_flushes(4), put);
        let get = flushes.leave_open(4);
        assert!(flushes.is_open(4));
        flushes.complete(4);
        assert_ne!(flushes.n_local_flushes(4), get);
    }

    #[test]
    fn what_may_not_be_sent_is_known_until_it_is_flushed() {
        let mut flushes = Flushes::default();
        assert!(!flushes.has_unsent_beside(1));
        flushes.leave_open(1);
        flushes.leave_open(2);
        assert!(flushes.has_unsent_beside(1));
        flushes.complete_here(2);
        assert!(!flushes.has_unsent_beside(1) && flushes.has_unsent_beside(2));
        flushes.complete_all_here();
        assert!(!flushes.has_unsent_beside(2));
    }

    #[test]
    fn sources_are_staged_until_a_flush_of_their_target() {
        let mut flushes = Flushes::default();
        for flush in [
            Flushes::complete_here,
            Flushes::complete,
            |flushes: &mut Flushes, _| flushes.complete_all_here(),
            |flushes: &mut Flushes, _| flushes.complete_all(),
        ] {
            flushes.begin(6);
            flushes.leave_open(6);
            flushes.stage(2);
            assert!(flushes.is_open(2) && flushes.is_unsent(2));
            flushes.stage(2);
            flushes.complete_here(6);
            assert!(flushes.has_staged());
            assert_eq!(flushes.staged_beside(6), Some(2));
            assert_eq!(flushes.staged_beside(2), None);
            flush(&mut flushes, 2);
            assert!(!flushes.has_staged() && flushes.staged_beside(6).is_none());
        }
    }

    #[test]
    fn sources_for_many_ranks_are_staged_until_all_are_flushed() {
        let mut flushes = Flushes::default();
        for rank in 0..5 {
            flushes.stage(rank);
        }
        flushes.complete_here(4);
        flushes.complete(1);
        flushes.leave_open(4);
        assert!(flushes.has_staged() && !flushes.is_unsent(1));
        for rank in [3, 0, 2] {
            assert!(flushes.has_staged());
            flushes.complete(rank);
        }
        assert!(!flushes.has_staged() && flushes.is_unsent(4));
    }

    #[test]
    fn a_rank_that_nothing_was_begun_on_is_not_open() {
        let mut flushes = Flushes::default();
        flushes.complete(5);
        assert!(!flushes.is_open(5));
        assert_eq!(flushes.n_flushes(5), 0);
    }
}
