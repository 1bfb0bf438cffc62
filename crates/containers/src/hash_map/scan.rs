//! Which slot of a block comes first on the way of a search.

use super::hash;
use super::layout::{Blocks, MOST};

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

#[cfg(test)]
mod tests {
    use super::*;

    struct Eight;

    impl Blocks for Eight {
        const SLOTS: usize = 8;
    }

    struct Three;

    impl Blocks for Three {
        const SLOTS: usize = 3;
    }

    #[test]
    fn the_first_slot_in_the_order_of_a_search_comes_from_a_table() {
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
        for mask in 1_u32..1 << 8 {
            for first in 0..8_usize {
                let fraction = ((first as u64) << 61) + (1 << 60);
                let mut around = (first..8).chain(0..first);
                let expected = around.find(|&index| mask >> index & 1 != 0).unwrap();
                assert_eq!(first_of::<Eight>(mask, fraction), expected);
            }
        }
    }
}
