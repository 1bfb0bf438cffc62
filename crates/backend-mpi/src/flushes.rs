//! What this rank has begun on others and only a flush completes.
//!
//! A put that MPI gives no request for is known by its target and the number of flushes of that target before
//! it: it is complete once there was one more. So a flood of puts costs nothing beside `MPI_Put` and one flush.

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
}

#[derive(Debug)]
struct Peer {
    rank: u32,
    n_flushes: u64,
    is_open: bool,
}

impl Flushes {
    /// An operation on `rank` has begun; gives the number of flushes before it.
    #[inline]
    pub(crate) fn begin(&mut self, rank: u32) -> u64 {
        let place = match self.peers.get(self.last) {
            Some(peer) if peer.rank == rank => self.last,
            _ => self.place(rank),
        };
        self.last = place;
        let peer = &mut self.peers[place];
        if !peer.is_open {
            peer.is_open = true;
            self.open.push(rank);
        }
        peer.n_flushes
    }

    fn place(&mut self, rank: u32) -> usize {
        let peers = &mut self.peers;
        *self.places.entry(rank).or_insert_with(|| {
            peers.push(Peer {
                rank,
                n_flushes: 0,
                is_open: false,
            });
            peers.len() - 1
        })
    }

    fn peer(&self, rank: u32) -> Option<&Peer> {
        match self.peers.get(self.last) {
            Some(peer) if peer.rank == rank => Some(peer),
            _ => self.places.get(&rank).map(|place| &self.peers[*place]),
        }
    }

    /// How often operations on `rank` were completed.
    #[inline]
    pub(crate) fn n_flushes(&self, rank: u32) -> u64 {
        self.peer(rank).map_or(0, |peer| peer.n_flushes)
    }

    /// Whether there are operations on `rank` that a flush has to complete.
    pub(crate) fn is_open(&self, rank: u32) -> bool {
        self.peer(rank).is_some_and(|peer| peer.is_open)
    }

    /// The ranks of which this is so.
    pub(crate) fn open(&self) -> &[u32] {
        &self.open
    }

    /// All operations on `rank` are complete.
    pub(crate) fn complete(&mut self, rank: u32) {
        self.open.retain(|other| *other != rank);
        self.close(rank);
    }

    /// All operations on all ranks are.
    pub(crate) fn complete_all(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        for rank in open.drain(..) {
            self.close(rank);
        }
        self.open = open;
    }

    fn close(&mut self, rank: u32) {
        if let Some(place) = self.places.get(&rank) {
            let peer = &mut self.peers[*place];
            peer.is_open = false;
            peer.n_flushes += 1;
        }
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
    fn a_rank_that_nothing_was_begun_on_is_not_open() {
        let mut flushes = Flushes::default();
        flushes.complete(5);
        assert!(!flushes.is_open(5));
        assert_eq!(flushes.n_flushes(5), 0);
    }
}
