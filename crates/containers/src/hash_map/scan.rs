//! The states of all slots of a block at once.

use pgas_core::rma::match_words;

use super::hash::Fingerprint;
use super::state::StateWord;

/// What the states of a block's slots tell a search: a bit for each slot, the lowest one for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// Those that are ready, and have the fingerprint.
    pub(super) ready: u32,
    /// Those that are ready, locked or removed, and have it.
    pub(super) written: u32,
    /// Those that are reserved for a key with the fingerprint.
    pub(super) reserved: u32,
    pub(super) free: u32,
}

/// The states that are looked at together.
const LANES: usize = 4;

impl Scan {
    /// Of four narrow state words as they are in memory.
    #[inline(always)]
    pub(super) fn of_four(states: [u64; 2], fingerprint: Fingerprint) -> Self {
        let written = StateWord::written(fingerprint);
        Self {
            ready: match_words(states, 0, StateWord::ready(fingerprint).narrow()),
            written: match_words(states, StateWord::UNWRITTEN, written),
            reserved: match_words(states, 0, StateWord::reserved(fingerprint).narrow()),
            free: match_words(states, 0, StateWord::FREE.narrow()),
        }
    }

    /// Of eight narrow state words as they are in memory.
    #[inline(always)]
    pub(super) fn of_eight([a, b, c, d]: [u64; 4], fingerprint: Fingerprint) -> Self {
        let low = Self::of_four([a, b], fingerprint);
        let high = Self::of_four([c, d], fingerprint);
        Self {
            ready: low.ready | high.ready << LANES,
            written: low.written | high.written << LANES,
            reserved: low.reserved | high.reserved << LANES,
            free: low.free | high.free << LANES,
        }
    }

    /// Of the first `n` slots alone.
    #[inline(always)]
    pub(super) const fn first(self, n: usize) -> Self {
        let mask = (1 << n) - 1;
        Self {
            ready: self.ready & mask,
            written: self.written & mask,
            reserved: self.reserved & mask,
            free: self.free & mask,
        }
    }

    /// The first slot that may hold the key, or slot `last` if none before it does.
    #[inline(always)]
    pub(super) const fn first_candidate_or(self, last: usize) -> usize {
        (self.written | 1 << last).trailing_zeros() as usize
    }

    /// Whether several slots may hold the key.
    #[inline(always)]
    pub(super) const fn has_several(self) -> bool {
        self.written & self.written.wrapping_sub(1) != 0
    }

    /// Reserved slots count as written: theirs may become the key.
    #[inline(always)]
    pub(super) const fn with_reserved(self) -> Self {
        Self {
            written: self.written | self.reserved,
            ..self
        }
    }

    /// The first free slot from slot `first` on, once around.
    #[inline(always)]
    pub(super) fn first_free_from(self, first: usize) -> Option<usize> {
        let behind = self.free >> first << first;
        let free = if behind != 0 { behind } else { self.free };
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    /// The slots that may hold the key.
    #[inline(always)]
    pub(super) fn candidates(self) -> impl Iterator<Item = usize> {
        each(self.written)
    }

    /// Those of them that are ready.
    #[inline(always)]
    pub(super) fn ready(self) -> impl Iterator<Item = usize> {
        each(self.ready)
    }

    /// Those that are not.
    #[inline(always)]
    pub(super) fn unready(self) -> impl Iterator<Item = usize> {
        each(self.written & !self.ready)
    }

    /// Whether one of the first `n` slots, which are those that there are, is free.
    #[inline(always)]
    pub(super) fn is_open(self, n: impl FnOnce() -> usize) -> bool {
        // Most blocks are whole, and most searches end before they ask.
        self.free != 0 && self.first(n()).free != 0
    }
}

/// The bits that are set.
#[inline(always)]
fn each(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let next = (left != 0).then(|| left.trailing_zeros() as usize);
        left &= left.wrapping_sub(1);
        next
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::{FromBytes as _, IntoBytes as _};

    /// Every kind of state, of a key with the fingerprint and of one without, in every place beside each of the others.
    #[test]
    fn a_scan_tells_the_slots_that_may_hold_the_key_and_those_that_are_free() {
        let [mine, other] = [0x1555, 0x1554].map(Fingerprint::of);
        let states = |fingerprint| {
            let ready = StateWord::ready(fingerprint);
            let gone = ready.removed();
            [ready, ready.locked(), gone, gone.locked()]
        };
        let mut all = vec![StateWord::FREE];
        // The second one is mine.
        all.extend([StateWord::reserved(mine), StateWord::reserved(other)]);
        all.extend(states(other));
        let n_others = all.len();
        all.extend(states(mine));
        for i in 0..all.len() {
            for j in 0..all.len() {
                for shift in 0..8 {
                    let mut chosen = [i, j, i, i, j, j, i, j];
                    chosen.rotate_left(shift);
                    let words: [u32; 8] = chosen.map(|i| all[i].narrow());
                    let words = <[u64; 4]>::read_from_bytes(words.as_bytes()).unwrap();
                    let scan = Scan::of_eight(words, mine);
                    let expected: Vec<_> = (0..8).filter(|&k| chosen[k] >= n_others).collect();
                    assert_eq!(scan.candidates().collect::<Vec<_>>(), expected);
                    let mut both: Vec<_> = scan.ready().chain(scan.unready()).collect();
                    both.sort_unstable();
                    assert_eq!(both, expected);
                    assert!(scan.ready().all(|k| chosen[k] == n_others));
                    assert!(scan.unready().all(|k| chosen[k] > n_others));
                    assert_eq!(scan.has_several(), expected.len() > 1);
                    let first = expected.first().copied().unwrap_or(7);
                    assert_eq!(scan.first_candidate_or(7), first);
                    let free = (0..8).map(|k| u32::from(chosen[k] == 0) << k).sum();
                    assert_eq!(scan.free, free);
                    let reserved = (0..8).map(|k| u32::from(chosen[k] == 1) << k).sum();
                    assert_eq!(scan.reserved, reserved);
                    let both = scan.with_reserved().written;
                    assert_eq!(both, scan.written | scan.reserved);
                    let few = scan.first(3);
                    let masked = [scan.written, scan.reserved, scan.free].map(|mask| mask & 7);
                    assert_eq!([few.written, few.reserved, few.free], masked);
                    for n in 1..=8 {
                        let is_open = chosen[..n].contains(&0);
                        assert_eq!(scan.is_open(|| n), is_open);
                    }
                    for first in 0..8 {
                        let around = (first..8).chain(0..first);
                        let expected = around.into_iter().find(|&k| chosen[k] == 0);
                        assert_eq!(scan.first_free_from(first), expected);
                    }
                }
            }
        }
    }
}
