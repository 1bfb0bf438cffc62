//! From a key to its home slot: hashing, and the ring of slots over all ranks.

use pgas_core::{GlobalPtr, Pod};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

/// One for all ranks and builds, so that every rank looks for a key in the same slots.
const SECRETS: RapidSecrets = RapidSecrets::seed(0x7067_6173);

/// A key's hash: rapidhash V3 of its bytes, which is specified and the same on every platform.
///
/// Its upper bits choose the home slot, its lowest ones are the fingerprint, so keys that live close
/// together differ in their fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hash(u64);

impl Hash {
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the key's length is a constant, which leaves two multiplications for short keys"
    )]
    pub(super) fn of<K: Pod>(key: &K) -> Self {
        Self(rapidhash_v3_inline::<true, true, false>(
            key.as_bytes(),
            &SECRETS,
        ))
    }

    #[inline]
    pub(super) const fn fingerprint(self) -> Fingerprint {
        Fingerprint::of(self.0)
    }
}

/// 14 bits of a key's hash that stand in the slot's state word, so that nearly every slot of another
/// key is passed without reading its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) const MASK: u64 = (1 << 14) - 1;

    #[inline]
    pub(super) const fn of(hash: u64) -> Self {
        Self(hash & Self::MASK)
    }

    #[inline]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }
}

/// Where the slots are: `local_capacity` of them on each rank, one after the other from the same offset,
/// in one ring from the first slot of rank 0 to the last one of the last rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    n_ranks: u64,
    local_capacity: u64,
    stride: u64,
    /// Offsets of a rank's first slot and of the end of its last one, in bytes.
    start: u64,
    end: u64,
}

impl Ring {
    pub(super) fn new(n_ranks: u32, local_capacity: u64, stride: u64, start: u64) -> Self {
        Self {
            n_ranks: n_ranks.into(),
            local_capacity,
            stride,
            start,
            end: start + local_capacity * stride,
        }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.n_ranks * self.local_capacity
    }

    pub(super) fn local_capacity(&self) -> u64 {
        self.local_capacity
    }

    /// The slot where the search for a key begins: number `hash * capacity / 2^64` of the ring.
    ///
    /// The upper half of `hash * n_ranks` is the rank, and the lower half, a fraction of that rank's
    /// slots, the place there: two multiplications and no division, for every capacity.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few instructions")]
    pub(super) fn home(&self, hash: Hash) -> GlobalPtr<u8> {
        let (rank, fraction) = widening_mul(hash.0, self.n_ranks);
        let (local, _) = widening_mul(fraction, self.local_capacity);
        self.slot(rank, local)
    }

    /// Slot `local` of `rank`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few instructions")]
    pub(super) fn slot(&self, rank: u64, local: u64) -> GlobalPtr<u8> {
        GlobalPtr::from_bits(
            rank * GlobalPtr::<u8>::OFFSET_LIMIT + self.start + local * self.stride,
        )
    }

    /// The slot behind `slot` in the ring.
    #[inline]
    pub(super) fn next(&self, slot: GlobalPtr<u8>) -> GlobalPtr<u8> {
        let next = slot.to_bits() + self.stride;
        if next % GlobalPtr::<u8>::OFFSET_LIMIT != self.end {
            return GlobalPtr::from_bits(next);
        }
        let rank = u64::from(slot.rank().number()) + 1;
        self.slot(if rank == self.n_ranks { 0 } else { rank }, 0)
    }
}

/// The upper and lower halves of the product.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one instruction")]
#[expect(clippy::cast_possible_truncation, reason = "takes the halves")]
fn widening_mul(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    ((product >> 64) as u64, product as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(n_ranks: u32, local_capacity: u64) -> Ring {
        Ring::new(n_ranks, local_capacity, 24, 4096)
    }

    /// The number of a slot in the ring.
    fn number(ring: &Ring, slot: GlobalPtr<u8>) -> u64 {
        let local = (slot.offset_bytes() - ring.start) / ring.stride;
        u64::from(slot.rank().number()) * ring.local_capacity + local
    }

    #[test]
    fn the_home_slot_is_the_hash_as_a_fraction_of_the_capacity() {
        for (n_ranks, local_capacity) in [(1, 1), (1, 1000), (2, 3), (3, 1 << 20), (7, 12_345)] {
            let ring = ring(n_ranks, local_capacity);
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
    }

    #[test]
    fn walking_on_visits_every_slot_of_every_rank_once_and_comes_back() {
        for (n_ranks, local_capacity) in [(1, 1), (1, 5), (2, 1), (3, 4), (7, 9)] {
            let ring = ring(n_ranks, local_capacity);
            let home = ring.home(Hash(0x8765_4321_0fed_cba9));
            let mut seen = vec![false; usize::try_from(ring.capacity()).unwrap()];
            let mut slot = home;
            for _ in 0..ring.capacity() {
                let visited = &mut seen[usize::try_from(number(&ring, slot)).unwrap()];
                assert!(!*visited, "a slot was visited twice");
                *visited = true;
                slot = ring.next(slot);
            }
            assert_eq!(slot, home);
        }
    }

    #[test]
    fn keys_in_sequence_spread_over_slots_and_fingerprints() {
        let ring = ring(4, 1 << 10);
        let mut per_rank = [0_u32; 4];
        let mut fingerprints = vec![0_u32; 1 << 14];
        for key in 0..1_u64 << 16 {
            let hash = Hash::of(&key);
            per_rank[ring.home(hash).rank().index()] += 1;
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
        assert_eq!(Hash::of(&42_u64), Hash(8_165_004_711_510_391_304));
        assert_eq!(Hash::of(&[7_u8; 40]), Hash(502_237_021_569_642_125));
    }
}
