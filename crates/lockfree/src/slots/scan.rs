//! The states of all slots of a block at once.

use super::state::{Fingerprint, StateWord};
use crate::memory::{FourWords, Memory};

/// What the states of a block's slots tell a search: a bit for each slot, the lowest one for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Those that are ready, and have the fingerprint.
    pub ready: u32,
    /// Those that are not free, and have it: ready, locked, removed or reserved.
    pub written: u32,
    /// Those that are free.
    pub free: u32,
}

/// The states that are looked at together.
const LANES: usize = 4;

/// The narrow state words of a block's slots, as they were read together.
#[derive(Clone, Copy, Debug)]
pub struct States<F> {
    first: F,
    /// If there are more than four.
    others: Option<F>,
    /// A bit for each that there is.
    mask: u32,
}

/// The most slots in one block: as many as [`States`] holds states of.
pub const MOST: usize = 2 * LANES;

/// Those of the `n` slots of a block that begins with them, read in any order.
#[inline(always)]
pub fn states<M: Memory>(memory: &M, n: usize) -> States<M::Four> {
    let others = (n > LANES).then(|| memory.load_four(4 * LANES));
    States::new(n, memory.load_four(0), others)
}

impl<F: FourWords> States<F> {
    /// Those of `n` slots, eight at most.
    #[must_use]
    #[inline(always)]
    pub const fn new(n: usize, first: F, others: Option<F>) -> Self {
        let mask = (1 << n) - 1;
        Self {
            first,
            others,
            mask,
        }
    }

    /// Which of them are `wanted` once the bits of `ignored` are set in them.
    #[inline(always)]
    fn matching(self, ignored: u32, wanted: u32) -> u32 {
        let first = self.first.matching(ignored, wanted);
        let others = self.others.map(|words| words.matching(ignored, wanted));
        (first | others.unwrap_or(0) << LANES) & self.mask
    }

    /// The slots that are ready, and have the fingerprint.
    #[must_use]
    #[inline(always)]
    pub fn ready(self, fingerprint: Fingerprint) -> u32 {
        self.matching(0, StateWord::ready(fingerprint).narrow())
    }

    /// The slots that are not free, and have it; and free ones, if no bit of the fingerprint is set.
    #[must_use]
    #[inline(always)]
    pub fn written_or_free(self, fingerprint: Fingerprint) -> u32 {
        self.matching(StateWord::UNWRITTEN, StateWord::written(fingerprint))
    }

    /// The free slots.
    #[must_use]
    #[inline(always)]
    pub fn free(self) -> u32 {
        self.matching(0, StateWord::FREE.narrow())
    }
}

impl Scan {
    /// What these states tell.
    #[must_use]
    #[inline(always)]
    pub fn new<F: FourWords>(states: States<F>, fingerprint: Fingerprint) -> Self {
        let free = states.free();
        Self {
            ready: states.ready(fingerprint),
            written: states.written_or_free(fingerprint) & !free,
            free,
        }
    }

    /// Of the first `n` slots alone.
    #[must_use]
    #[inline(always)]
    pub const fn first(self, n: usize) -> Self {
        let mask = (1 << n) - 1;
        Self {
            ready: self.ready & mask,
            written: self.written & mask,
            free: self.free & mask,
        }
    }

    /// The first free slot from slot `first` on, once around.
    #[must_use]
    #[inline(always)]
    pub fn first_free_from(self, first: usize) -> Option<usize> {
        let behind = self.free >> first << first;
        let free = if behind != 0 { behind } else { self.free };
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    /// The slots that may hold the key.
    #[inline(always)]
    pub fn candidates(self) -> impl Iterator<Item = usize> {
        each(self.written)
    }

    /// Those of them that are ready.
    #[inline(always)]
    pub fn ready(self) -> impl Iterator<Item = usize> {
        each(self.ready)
    }

    /// Those that are not.
    #[inline(always)]
    pub fn unready(self) -> impl Iterator<Item = usize> {
        each(self.written & !self.ready)
    }

    /// Whether one of the first `n` slots, which are those that there are, is free.
    #[must_use]
    #[inline(always)]
    pub fn is_open(self, n: impl FnOnce() -> usize) -> bool {
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
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Every kind of state, of a key with the fingerprint and of one without, in every place beside each of the others.
    #[test]
    fn a_scan_tells_the_slots_that_may_hold_the_key_and_those_that_are_free() {
        check([0x1555, 0x1554].map(Fingerprint::of));
        check([0, 0x2000].map(Fingerprint::of));
        check([0x2000, 0].map(Fingerprint::of));
    }

    fn check([mine, other]: [Fingerprint; 2]) {
        let states = |fingerprint| {
            let ready = StateWord::ready(fingerprint);
            let gone = ready.removed();
            [ready, ready.locked(), gone, gone.locked()]
        };
        let mut all = vec![StateWord::FREE];
        all.push(StateWord::reserved(other));
        all.extend(states(other));
        let n_others = all.len();
        all.extend(states(mine));
        all.push(StateWord::reserved(mine));
        for i in 0..all.len() {
            for j in 0..all.len() {
                for shift in 0..8 {
                    let mut chosen = [i, j, i, i, j, j, i, j];
                    chosen.rotate_left(shift);
                    let words: [u32; 8] = chosen.map(|i| all[i].narrow());
                    let [a, b, c, d, e, f, g, h] = words;
                    let (low, high) = ([a, b, c, d], [e, f, g, h]);
                    let states = States::new(8, low, Some(high));
                    let scan = Scan::new(states, mine);
                    assert_eq!(Scan::new(States::new(3, low, None), mine), scan.first(3));
                    let expected: Vec<_> = (0..8).filter(|&k| chosen[k] >= n_others).collect();
                    assert_eq!(scan.candidates().collect::<Vec<_>>(), expected);
                    let mut both: Vec<_> = scan.ready().chain(scan.unready()).collect();
                    both.sort_unstable();
                    assert_eq!(both, expected);
                    assert!(scan.ready().all(|k| chosen[k] == n_others));
                    assert!(scan.unready().all(|k| chosen[k] > n_others));
                    let free = (0..8).map(|k| u32::from(chosen[k] == 0) << k).sum();
                    assert_eq!(scan.free, free);
                    let few = scan.first(3);
                    let masked = [scan.ready, scan.written, scan.free].map(|mask| mask & 7);
                    assert_eq!([few.ready, few.written, few.free], masked);
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
