//! Hashes keys, and finds a hash's home slot in the ring of slots over all ranks.

use std::marker::PhantomData;

use pgas_lockfree::slots::state::Fingerprint;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

use super::slot::layout::{Blocks, MOST};
use crate::object::{KeyHasher, KeyOf, Object, Repr, SECRETS};

/// The default hasher of keys: rapidhash V3, which is specified and the same on every platform.
#[derive(Clone, Copy, Debug, Default)]
pub struct RapidHasher;

impl KeyHasher for RapidHasher {
    #[inline]
    fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, true, false>(bytes, &SECRETS)
    }
}

/// [`RapidHasher`] with a seed, against keys that were chosen to collide.
///
/// Every rank gives the same seed.
///
/// # Examples
///
/// ```
/// use pgas_containers::hash_map::{RapidHasher, SeededHasher};
/// use pgas_containers::object::KeyHasher;
///
/// let (one, other) = (SeededHasher::new(1), SeededHasher::new(2));
/// assert_ne!(one.hash(b"key"), other.hash(b"key"));
/// assert_eq!(RapidHasher.hash(b"key"), RapidHasher.hash(b"key"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SeededHasher(RapidSecrets);

impl SeededHasher {
    /// The hasher with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(RapidSecrets::seed(seed))
    }
}

impl KeyHasher for SeededHasher {
    #[inline]
    fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, true, false>(bytes, &self.0)
    }
}

/// A key's hash.
///
/// The upper bits choose the home slot, the lowest ones are the fingerprint. So keys in
/// neighbouring slots differ in their fingerprints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hash(u64);

impl Hash {
    // Inlined: with a constant key length, a short key takes two multiplications.
    #[inline(always)]
    pub(super) fn of<K: Object>(key: &KeyOf<K>, hasher: &impl KeyHasher) -> Self {
        Self(<K::Repr as Repr<K>>::hash_key(key, hasher))
    }

    #[inline]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) const fn fingerprint(self) -> Fingerprint {
        Fingerprint::of(self.0)
    }

    /// The hash that chooses the home slot within the home rank's shard. There are `n_ranks` ranks.
    #[inline]
    pub(super) fn of_rank(self, n_ranks: usize) -> Self {
        Self(widening_mul(self.0, n_ranks).1)
    }
}

/// The position of a slot in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Position {
    rank: u32,
    /// The slot's index in its block.
    index: u8,
    /// The index at which the probe begins in each block.
    first: u8,
    /// The block's index on its rank.
    pub(super) block: usize,
}

impl Position {
    /// The first slot of a block.
    #[expect(clippy::cast_possible_truncation, reason = "the number of a rank")]
    #[inline]
    pub(super) const fn begin(rank: usize, block: usize) -> Self {
        Self {
            rank: rank as u32,
            index: 0,
            first: 0,
            block,
        }
    }

    /// The number of the rank that has it, among those that share the map.
    #[inline]
    pub(super) const fn member(self) -> u32 {
        self.rank
    }

    #[inline]
    pub(super) const fn rank_index(self) -> usize {
        self.rank as usize
    }

    #[inline]
    pub(super) const fn index(self) -> usize {
        self.index as usize
    }

    /// The slot of the same block with this index.
    #[expect(clippy::cast_possible_truncation, reason = "a block has few slots")]
    #[inline]
    pub(super) const fn with_index(self, index: usize) -> Self {
        let index = index as u8;
        Self { index, ..self }
    }

    /// Whether both are in the same block.
    #[inline]
    pub(super) const fn is_same_block(self, other: Self) -> bool {
        self.rank == other.rank && self.block == other.block
    }

    /// Whether both are the same slot. The probes may begin at different indices.
    #[inline]
    pub(super) const fn is_same(self, other: Self) -> bool {
        self.is_same_block(other) && self.index == other.index
    }
}

/// The ring of slots. Each rank holds `local_capacity` of them, from the first slot of rank 0 to
/// the last slot of the last rank. They lie in blocks as `B` says; the last block of a rank may
/// have fewer slots.
///
/// A probe goes once around in each block, from where it begins there, and then on to the next
/// block.
///
/// A *shard* is the slots of one rank as a ring with one rank, number 0. A probe for a key whose
/// home slot is in the shard takes the same way there, by [`of_rank`](Hash::of_rank), up to the
/// last slot.
pub(super) struct Ring<B> {
    n_ranks: usize,
    local_capacity: usize,
    n_blocks: usize,
    n_whole_blocks: usize,
    blocks: PhantomData<fn() -> B>,
}

impl<B> Clone for Ring<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Ring<B> {}

impl<B: Blocks> Ring<B> {
    pub(super) fn new(n_ranks: usize, local_capacity: usize) -> Self {
        Self {
            n_ranks,
            local_capacity,
            n_blocks: local_capacity.div_ceil(B::SLOTS),
            n_whole_blocks: local_capacity / B::SLOTS,
            blocks: PhantomData,
        }
    }

    /// The ring of one shard.
    pub(super) fn shard(&self) -> Self {
        Self::new(1, self.local_capacity)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.n_ranks as u64 * self.local_capacity as u64
    }

    pub(super) fn local_capacity(&self) -> usize {
        self.local_capacity
    }

    /// The number of blocks of each rank.
    pub(super) fn n_blocks(&self) -> usize {
        self.n_blocks
    }

    /// The number of full blocks of each rank: all but maybe the last one.
    #[inline]
    pub(super) fn n_whole_blocks(&self) -> usize {
        self.n_whole_blocks
    }

    /// The number of slots of a block.
    #[inline]
    pub(super) fn slots_of(&self, block: usize) -> usize {
        if B::IS_PACKED {
            B::SLOTS.min(self.local_capacity - block * B::SLOTS)
        } else {
            1
        }
    }

    /// The home slot: number `hash * capacity / 2^64` of the ring, if all blocks are full.
    ///
    /// The upper half of `hash * n_ranks` is the rank. The lower half is a fraction of that rank's
    /// blocks, and chooses block and index in the same way. This takes multiplications and no
    /// division, for every capacity.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "numbers of ranks and of a block's slots"
    )]
    pub(super) fn home(&self, hash: Hash) -> Position {
        let (rank, fraction) = widening_mul(hash.0, self.n_ranks);
        let (block, fraction) = widening_mul(fraction, self.n_blocks);
        let first = first_in_block::<B>(fraction) as u8;
        self.first(Position {
            rank: rank as u32,
            index: first,
            first,
            block,
        })
    }

    /// Slot number `local` of a rank, as a position where a probe may begin.
    #[inline]
    pub(super) fn at(&self, rank: u32, local: usize) -> Position {
        let position = Position {
            rank,
            index: 0,
            first: 0,
            block: local / B::SLOTS,
        };
        position.with_index(local % B::SLOTS)
    }

    /// The next slot of the probe.
    #[inline]
    pub(super) fn next(&self, position: Position) -> Position {
        if B::IS_PACKED {
            let n = self.slots_of(position.block);
            let behind = position.index() + 1;
            let next = position.with_index(if behind < n { behind } else { 0 });
            if next != self.first(position) {
                return next;
            }
        }
        self.next_block(position)
    }

    /// Whether the probe from `home` reaches `slot` before `taken`, which is in the same block.
    pub(super) fn is_before(&self, home: Position, slot: Position, taken: Position) -> bool {
        let count = self.slots_of(taken.block);
        let first = home.first;
        let first = self.first(Position { first, ..taken }).index();
        let order = |position: Position| (position.index() + count - first) % count;
        order(slot) < order(taken)
    }

    /// The number of blocks from `from` on to `to`.
    pub(super) fn n_blocks_to(&self, from: Position, to: Position) -> usize {
        let all = self.n_ranks * self.n_blocks;
        (self.block_number(to) + all - self.block_number(from)) % all
    }

    /// Where the probe enters the block that is `n` blocks behind that of `from`.
    pub(super) fn blocks_on(&self, from: Position, n: usize) -> Position {
        let number = (self.block_number(from) + n) % (self.n_ranks * self.n_blocks);
        let begin = Position::begin(number / self.n_blocks, number % self.n_blocks);
        let first = from.first;
        self.first(Position { first, ..begin })
    }

    /// The number of a block among those of all ranks.
    fn block_number(&self, position: Position) -> usize {
        position.rank_index() * self.n_blocks + position.block
    }

    /// Where the probe enters the next block.
    #[inline]
    pub(super) fn next_block(&self, position: Position) -> Position {
        let block = position.block + 1;
        if block < self.n_blocks {
            return self.first(Position { block, ..position });
        }
        let rank = position.rank + 1;
        self.first(Position {
            rank: if (rank as usize) < self.n_ranks {
                rank
            } else {
                0
            },
            block: 0,
            ..position
        })
    }

    /// Where the probe begins in the block of `position`.
    #[inline]
    fn first(&self, position: Position) -> Position {
        let first = usize::from(position.first);
        let is_there = first < self.slots_of(position.block);
        position.with_index(if is_there { first } else { 0 })
    }
}

/// The index at which a probe begins in its home block, which is full. `fraction` is what the
/// choice of the block leaves of the hash.
fn first_in_block<B: Blocks>(fraction: u64) -> usize {
    widening_mul(fraction, B::SLOTS).0
}

/// The first slot, in probe order, of those set in `mask`, which is not empty. `fraction` is what
/// the choice of the block leaves of the hash. A table answers: a branch would be mispredicted,
/// since no case is rare.
#[inline]
pub(super) fn first_in_probe_order<B: Blocks>(mask: u32, fraction: u64) -> usize {
    let first = first_in_block::<B>(fraction);
    let orders = const { &Orders::of(B::SLOTS) };
    usize::from(orders.0[first % MOST][mask as usize % (1 << MOST)]) % MOST
}

/// For each first index and each mask, the first set slot in probe order.
struct Orders([[u8; 1 << MOST]; MOST]);

impl Orders {
    /// The table for blocks of `n` slots.
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

/// Returns the upper half of the product, which is below `b`, and the lower half.
#[expect(clippy::cast_possible_truncation, reason = "takes the halves")]
fn widening_mul(a: u64, b: usize) -> (usize, u64) {
    let product = u128::from(a) * b as u128;
    ((product >> 64) as usize, product as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of `N` slots.
    struct Of<const N: usize>;

    impl<const N: usize> Blocks for Of<N> {
        const SLOTS: usize = N;
    }

    /// The number of a slot in the ring.
    fn number<B: Blocks>(ring: &Ring<B>, position: Position) -> u64 {
        assert!(
            position.index() < ring.slots_of(position.block),
            "{position:?}"
        );
        let local = position.block * B::SLOTS + position.index();
        (position.rank_index() * ring.local_capacity + local) as u64
    }

    fn check_homes<B: Blocks>(n_ranks: usize, local_capacity: usize) {
        let ring = Ring::<B>::new(n_ranks, local_capacity);
        for i in 0..10_000_u64 {
            let hash = Hash(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let expected = (u128::from(hash.0) * u128::from(ring.capacity())) >> 64;
            assert_eq!(u128::from(number(&ring, ring.home(hash))), expected);
        }
        assert_eq!(number(&ring, ring.home(Hash(0))), 0);
        assert_eq!(
            number(&ring, ring.home(Hash(u64::MAX))),
            ring.capacity() - 1
        );
    }

    #[test]
    fn the_home_slot_is_the_hash_as_a_fraction_of_the_capacity() {
        for (n_ranks, local_capacity) in [(1, 1), (1, 1000), (2, 3), (3, 1 << 20), (7, 12_345)] {
            check_homes::<Of<1>>(n_ranks, local_capacity);
            check_homes::<Of<3>>(n_ranks, 3 * local_capacity);
            check_homes::<Of<8>>(n_ranks, 8 * local_capacity);
        }
    }

    fn check_walk<B: Blocks>(n_ranks: usize, local_capacity: usize) {
        let ring = Ring::<B>::new(n_ranks, local_capacity);
        for i in 0..20_u64 {
            let home = ring.home(Hash(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let mut seen = vec![false; usize::try_from(ring.capacity()).unwrap()];
            let (mut slot, mut n_blocks) = (home, 0);
            for _ in 0..ring.capacity() {
                let visited = &mut seen[usize::try_from(number(&ring, slot)).unwrap()];
                assert!(!*visited, "a slot was visited twice");
                *visited = true;
                let next = ring.next(slot);
                let is_on = (next.rank, next.block) != (slot.rank, slot.block);
                assert!(!is_on || next == ring.next_block(slot));
                n_blocks += usize::from(is_on);
                let has_passed = ring.n_blocks_to(home, next);
                assert!(!is_on || next == ring.blocks_on(home, has_passed));
                slot = next;
            }
            assert_eq!(slot, home);
            if ring.n_blocks * n_ranks > 1 {
                assert_eq!(n_blocks, ring.n_blocks * n_ranks, "each block once");
            }
        }
        let numbers = (0..local_capacity).map(|i| number(&ring, ring.at(0, i)));
        assert!(numbers.eq(0..local_capacity as u64));
    }

    #[test]
    fn walking_on_visits_every_slot_of_every_rank_once_and_comes_back() {
        for (n_ranks, local_capacity) in [(1, 1), (1, 5), (2, 1), (3, 4), (7, 9), (2, 16)] {
            check_walk::<Of<1>>(n_ranks, local_capacity);
            check_walk::<Of<2>>(n_ranks, local_capacity);
            check_walk::<Of<3>>(n_ranks, local_capacity);
            check_walk::<Of<8>>(n_ranks, local_capacity);
        }
    }

    #[test]
    fn a_search_in_the_part_of_a_rank_goes_the_way_of_the_ring_up_to_the_last_slot() {
        check_shard::<Of<1>>(3, 5);
        check_shard::<Of<1>>(2, 1);
        check_shard::<Of<3>>(3, 8);
        check_shard::<Of<8>>(4, 8);
    }

    fn check_shard<B: Blocks>(n_ranks: usize, local_capacity: usize) {
        let ring = Ring::<B>::new(n_ranks, local_capacity);
        let shard = ring.shard();
        for i in 0..200_u64 {
            let hash = Hash(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let (home, begin) = (ring.home(hash), shard.home(hash.of_rank(n_ranks)));
            let (mut slot, mut seen) = (home, begin);
            while slot.rank == home.rank {
                let same = Position {
                    rank: slot.rank,
                    ..seen
                };
                assert_eq!((seen.rank, same), (0, slot));
                (slot, seen) = (ring.next(slot), shard.next(seen));
                let is_over = slot.rank != home.rank || slot == home;
                let is_wrapped = seen.is_same(begin) || seen.block < begin.block;
                assert_eq!(is_wrapped, is_over);
                if is_over {
                    break;
                }
            }
        }
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
            assert_eq!(first_in_probe_order::<Of<3>>(mask, third / 2), a);
            assert_eq!(first_in_probe_order::<Of<3>>(mask, third + third / 2), b);
            assert_eq!(
                first_in_probe_order::<Of<3>>(mask, 2 * third + third / 2),
                c
            );
        }
        for mask in 1_u32..1 << 8 {
            for first in 0..8_usize {
                let fraction = ((first as u64) << 61) + (1 << 60);
                let mut around = (first..8).chain(0..first);
                let expected = around.find(|&index| mask >> index & 1 != 0).unwrap();
                assert_eq!(first_in_probe_order::<Of<8>>(mask, fraction), expected);
            }
        }
    }

    #[test]
    fn keys_in_sequence_spread_over_slots_and_fingerprints() {
        let ring = Ring::<Of<3>>::new(4, 1 << 10);
        let mut per_rank = [0_u32; 4];
        let mut fingerprints = vec![0_u32; 1 << 14];
        for key in 0..1_u64 << 16 {
            let hash = Hash::of::<u64>(&key, &RapidHasher);
            per_rank[ring.home(hash).rank_index()] += 1;
            fingerprints[usize::try_from(hash.fingerprint().bits()).unwrap()] += 1;
        }
        // Binomial with mean 16384 and standard deviation 111; Poisson with mean 4.
        assert!(
            per_rank.iter().all(|n| (15_800..17_000).contains(n)),
            "{per_rank:?}"
        );
        assert!(fingerprints.iter().all(|&n| n < 25));
    }

    #[test]
    fn the_hash_is_the_same_in_every_build() {
        assert_eq!(
            Hash::of::<u64>(&42, &RapidHasher),
            Hash(8_165_004_711_510_391_304)
        );
        assert_eq!(
            Hash::of::<[u8; 40]>(&[7; 40], &RapidHasher),
            Hash(502_237_021_569_642_125)
        );
    }
}
