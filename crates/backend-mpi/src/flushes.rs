//! Operations on other ranks that only a flush completes.
//!
//! A put or get that MPI gives no request for is known by its target and the number of flushes of
//! that target before it: it is complete once there was one more. So a flood of them costs little
//! beside MPI's calls and one flush.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use pgas_network::mix::Mix;

/// The ranks that this one has begun operations on. There is no entry for others.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    places: HashMap<u32, usize, BuildHasherDefault<Mix>>,
    peers: Vec<Peer>,
    /// The place of the rank with the last operation.
    last: usize,
    /// The number of targets with operations that no flush has completed.
    n_open: usize,
    /// The number of targets with operations that MPI may not have sent yet: no flush of either
    /// kind came after them.
    n_unsent: usize,
    /// The number of targets with staged puts, and the last of these targets.
    n_staged: usize,
    last_staged: u32,
}

#[derive(Debug)]
struct Peer {
    rank: u32,
    is_open: bool,
    is_unsent: bool,
    /// Whether there is a put from a staged source, which then is open and unsent.
    is_staged: bool,
    /// Completed remote flushes and completed local flushes of this target.
    n_flushes: u64,
    n_local_flushes: u64,
}

impl Flushes {
    /// Records that an operation on `rank` has begun. Returns the number of flushes before it.
    #[inline]
    pub(crate) fn begin(&mut self, rank: u32) -> u64 {
        let place = self.place(rank);
        let peer = &mut self.peers[place];
        self.n_open += usize::from(!peer.is_open);
        peer.is_open = true;
        peer.n_flushes
    }

    /// Records that an operation on `rank` has begun that is not flushed before the next one
    /// begins. Returns the number of local flushes before it.
    #[inline]
    pub(crate) fn begin_unflushed(&mut self, rank: u32) -> u64 {
        let place = self.place(rank);
        let peer = &mut self.peers[place];
        self.n_unsent += usize::from(!peer.is_unsent);
        peer.is_unsent = true;
        peer.n_local_flushes
    }

    /// As [`begin`](Self::begin) for an operation that is [left open](Self::begin_unflushed).
    #[inline]
    pub(crate) fn begin_unsent(&mut self, rank: u32) -> u64 {
        let n_flushes = self.begin(rank);
        self.begin_unflushed(rank);
        n_flushes
    }

    /// Records that a put to `rank` has begun whose source is staged, and that is left open.
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
        self.n_open += usize::from(!peer.is_open);
        peer.is_open = true;
        self.n_unsent += usize::from(!peer.is_unsent);
        peer.is_unsent = true;
    }

    /// Whether sources are staged.
    #[inline]
    pub(crate) fn has_staged(&self) -> bool {
        self.n_staged > 0
    }

    /// The last rank with staged puts, if it is not `rank`.
    #[inline]
    pub(crate) fn staged_beside(&self, rank: u32) -> Option<u32> {
        (self.has_staged() && self.last_staged != rank).then_some(self.last_staged)
    }

    /// Whether there are operations on `rank` that may not be sent yet.
    #[inline]
    pub(crate) fn is_unsent(&self, rank: u32) -> bool {
        self.n_unsent > 0 && self.peer(rank).is_some_and(|peer| peer.is_unsent)
    }

    /// Whether there are operations on any rank that may not be sent yet.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.n_unsent > 0
    }

    /// Whether there are operations on others than `rank` that may not be sent yet.
    #[inline]
    pub(crate) fn has_unsent_beside(&self, rank: u32) -> bool {
        self.n_unsent > usize::from(self.is_unsent(rank))
    }

    /// As [`has_unsent_beside`](Self::has_unsent_beside), for the rank at this place.
    #[inline]
    pub(crate) fn has_unsent_beside_place(&self, place: usize) -> bool {
        self.n_unsent > usize::from(self.peers[place].is_unsent)
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

    #[inline(never)]
    fn new_place(&mut self, rank: u32) -> usize {
        let peers = &mut self.peers;
        *self.places.entry(rank).or_insert_with(|| {
            peers.push(Peer {
                rank,
                is_open: false,
                is_unsent: false,
                is_staged: false,
                n_flushes: 0,
                n_local_flushes: 0,
            });
            peers.len() - 1
        })
    }

    #[inline]
    fn known_place(&self, rank: u32) -> Option<usize> {
        match self.peers.get(self.last) {
            Some(peer) if peer.rank == rank => Some(self.last),
            _ => self.find(rank),
        }
    }

    #[inline(never)]
    fn find(&self, rank: u32) -> Option<usize> {
        self.places.get(&rank).copied()
    }

    #[inline]
    fn peer(&self, rank: u32) -> Option<&Peer> {
        self.known_place(rank).map(|place| &self.peers[place])
    }

    /// The number of remote flushes of `rank`.
    #[inline]
    pub(crate) fn n_flushes(&self, rank: u32) -> u64 {
        self.peer(rank).map_or(0, |peer| peer.n_flushes)
    }

    /// The number of local flushes of `rank`.
    #[inline]
    pub(crate) fn n_local_flushes(&self, rank: u32) -> u64 {
        self.peer(rank).map_or(0, |peer| peer.n_local_flushes)
    }

    /// Records a local flush of `rank`.
    #[inline]
    pub(crate) fn complete_here(&mut self, rank: u32) {
        if self.n_unsent > 0
            && let Some(place) = self.known_place(rank)
        {
            self.close_here(place);
        }
    }

    /// Records a local flush of all ranks.
    pub(crate) fn complete_all_here(&mut self) {
        for place in 0..self.peers.len() {
            if self.n_unsent == 0 {
                return;
            }
            self.close_here(place);
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
        self.n_unsent -= 1;
        // Without the branch the compiler reads both numbers at once. They were written one by one,
        // so that such a read would wait for both stores.
        if peer.is_staged {
            peer.is_staged = false;
            self.n_staged -= 1;
        }
    }

    /// Whether there are operations on `rank` that a flush has to complete.
    #[inline]
    pub(crate) fn is_open(&self, rank: u32) -> bool {
        self.open_place(rank).is_some()
    }

    /// The place of `rank`, for [`complete_at`](Self::complete_at), if [it is open](Self::is_open).
    #[inline]
    pub(crate) fn open_place(&self, rank: u32) -> Option<usize> {
        let place = self.known_place(rank)?;
        self.peers[place].is_open.then_some(place)
    }

    /// The number of ranks with operations that no flush has completed.
    #[inline]
    pub(crate) fn n_open(&self) -> usize {
        self.n_open
    }

    /// These ranks; first the one with the last operation.
    pub(crate) fn open(&self) -> impl Iterator<Item = u32> {
        let others = self.peers.iter().enumerate();
        let others = others.filter_map(|(place, peer)| (place != self.last).then_some(peer));
        let all = self.peers.get(self.last).into_iter().chain(others);
        all.filter(|peer| peer.is_open)
            .map(|peer| peer.rank)
            .take(self.n_open)
    }

    /// Records that all operations on `rank` are complete.
    #[inline]
    pub(crate) fn complete(&mut self, rank: u32) {
        if let Some(place) = self.known_place(rank) {
            self.complete_at(place);
        }
    }

    /// As [`complete`](Self::complete), for the rank at that place.
    #[inline]
    pub(crate) fn complete_at(&mut self, place: usize) {
        let peer = &mut self.peers[place];
        if peer.is_open {
            peer.is_open = false;
            peer.n_flushes += 1;
            self.n_open -= 1;
        }
        self.close_here(place);
    }

    /// Records that all operations on all ranks are complete.
    pub(crate) fn complete_all(&mut self) {
        for place in 0..self.peers.len() {
            if self.n_open == 0 && self.n_unsent == 0 {
                return;
            }
            self.complete_at(place);
        }
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
        assert_eq!(flushes.n_open(), 2);
        assert!(flushes.open().eq([7, 3]));
        flushes.begin(3);
        assert!(flushes.open().eq([3, 7]));
        flushes.begin(7);
        flushes.complete(7);
        assert!(!flushes.is_open(7) && flushes.is_open(3));
        assert_ne!(flushes.n_flushes(7), first);
        assert_eq!(flushes.n_flushes(3), other);
        let second = flushes.begin(7);
        assert_eq!(second, flushes.n_flushes(7));
        flushes.complete_all();
        assert_eq!(flushes.open().next(), None);
        assert_ne!(flushes.n_flushes(7), second);
        assert_ne!(flushes.n_flushes(3), other);
    }

    #[test]
    fn a_get_is_complete_after_the_next_flush_of_either_kind() {
        let mut flushes = Flushes::default();
        let get = flushes.begin_unflushed(4);
        let put = flushes.begin(4);
        flushes.complete_here(4);
        assert_ne!(flushes.n_local_flushes(4), get);
        assert_eq!(flushes.n_flushes(4), put);
        let get = flushes.begin_unflushed(4);
        assert!(flushes.is_open(4));
        flushes.complete(4);
        assert_ne!(flushes.n_local_flushes(4), get);
    }

    #[test]
    fn what_may_not_be_sent_is_known_until_it_is_flushed() {
        let mut flushes = Flushes::default();
        assert!(!flushes.has_unsent_beside(1));
        flushes.begin_unflushed(1);
        flushes.begin_unflushed(2);
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
            flushes.begin_unflushed(6);
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
        flushes.begin_unflushed(4);
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
