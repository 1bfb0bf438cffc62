//! The states of all slots of a block at once.

use pgas_core::rma::FourWords;

use super::hash::{self, Fingerprint};
use super::layout::{Blocks, MOST};
use super::state::StateWord;

/// What the states of a block's slots tell a search: a bit for each slot, the lowest one for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// Those that are ready, and have the fingerprint.
    pub(super) ready: u32,
    /// Those that are not free, and have it: ready, locked, removed or reserved.
    pub(super) written: u32,
    pub(super) free: u32,
}

/// The states that are looked at together.
const LANES: usize = 4;

/// The narrow state words of a block's slots, as they were read together.
#[derive(Clone, Copy, Debug)]
pub(super) struct States {
    first: FourWords,
    /// If there are more than four.
    others: Option<FourWords>,
    /// A bit for each that there is.
    mask: u32,
}

impl States {
    /// Those of `n` slots, eight at most.
    #[inline(always)]
    pub(super) const fn new(n: usize, first: FourWords, others: Option<FourWords>) -> Self {
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
    #[inline(always)]
    pub(super) fn ready(self, fingerprint: Fingerprint) -> u32 {
        self.matching(0, StateWord::ready(fingerprint).narrow())
    }

    /// The slots that are not free, and have it; and free ones, if no bit of the fingerprint is set.
    #[inline(always)]
    pub(super) fn written_or_free(self, fingerprint: Fingerprint) -> u32 {
        self.matching(StateWord::UNWRITTEN, StateWord::written(fingerprint))
    }

    #[inline(always)]
    pub(super) fn free(self) -> u32 {
        self.matching(0, StateWord::FREE.narrow())
    }
}

impl Scan {
    #[inline(always)]
    pub(super) fn new(states: States, fingerprint: Fingerprint) -> Self {
        let free = states.free();
        Self {
            ready: states.ready(fingerprint),
            written: states.written_or_free(fingerprint) & !free,
            free,
        }
    }

    /// Of the first `n` slots alone.
    #[inline(always)]
    pub(super) const fn first(self, n: usize) -> Self {
        let mask = (1 << n) - 1;
        Self {
            ready: self.ready & mask,
            written: self.written & mask,
            free: self.free & mask,
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

/// The first of the slots that are set in `mask`, of which there are some, once around in a block like `B` from where the search for a key
/// begins there, by the `fraction` of a block that is left of its hash. From a table: a branch would be guessed wrong where neither is rare.
#[inline(always)]
pub(super) fn first_of<B: Blocks>(mask: u32, fraction: u64) -> usize {
    let first = hash::first_in_block::<B>(fraction);
    let orders = const { &Orders::of(B::SLOTS) };
    usize::from(orders.0[first % MOST][mask as usize % (1 << MOST)]) % MOST
}

/// By the slot that comes first, and then by the slots that are set, the first one of these.
struct Orders([[u8; 1 << MOST]; MOST]);

impl Orders {
    /// Of blocks of `n` slots.
    const fn of(n: usize) -> Self {
        let mut orders = [[0; 1 << MOST]; MOST];
        let mut first = 0;
        while first < n {
            let mut mask = 1_usize;
            while mask < 1 << n {
                let mut index = first;
                while mask >> index & 1 == 0 {
                    index = (index + 1) % n;
                }
                #[expect(clippy::cast_possible_truncation, reason = "a block has few slots")]
                let slot = index as u8;
                orders[first][mask] = slot;
                mask += 1;
            }
            first += 1;
        }
        Self(orders)
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
        check([0x1555, 0x1554].map(Fingerprint::of));
        check([0, 0x2000].map(Fingerprint::of));
        check([0x2000, 0].map(Fingerprint::of));
    }

    struct Eight;

    impl Blocks for Eight {
        const SLOTS: usize = 8;
    }

    #[test]
    fn the_first_slot_in_the_order_of_a_search_comes_from_a_table() {
        struct Three;
        impl Blocks for Three {
            const SLOTS: usize = 3;
        }
        let third = u64::MAX / 3;
        for (mask, [a, b, c]) in [
            (0b001, [0, 0, 0]),
            (0b010, [1, 1, 1]),
            (0b101, [0, 2, 2]),
            (0b011, [0, 1, 0]),
            (0b111, [0, 1, 2]),
        ] {
            assert_eq!(first_of::<Three>(mask, third / 2), a);
            assert_eq!(first_of::<Three>(mask, third + third / 2), b);
            assert_eq!(first_of::<Three>(mask, 2 * third + third / 2), c);
        }
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
                    let words = <[[u64; 2]; 2]>::read_from_bytes(words.as_bytes()).unwrap();
                    let [low, high] = words.map(FourWords::from);
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
                        if let Some(expected) = expected {
                            let fraction = ((first as u64) << 61) + (1 << 60);
                            assert_eq!(first_of::<Eight>(free, fraction), expected);
                        }
                    }
                }
            }
        }
    }
}
