//! From a key to its home slot: hashing, and the ring of slots over all ranks.

use pgas_core::Rank;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

use crate::object::{KeyHasher, KeyOf, Object, Repr, SECRETS};

/// The default hasher of keys: rapidhash V3, which is specified and the same on every platform.
#[derive(Clone, Copy, Debug, Default)]
pub struct RapidHasher;

impl KeyHasher for RapidHasher {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few multiplications for short keys")]
    fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, true, false>(bytes, &SECRETS)
    }
}

/// [`RapidHasher`] with a seed, against keys that were chosen to collide.
///
/// Every rank gives the same seed.
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
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few multiplications for short keys")]
    fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, true, false>(bytes, &self.0)
    }
}

/// A key's hash.
///
/// Its upper bits choose the home slot, its lowest ones are the fingerprint, so keys that live close
/// together differ in their fingerprints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hash(u64);

impl Hash {
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the key's length is a constant, which leaves two multiplications for short keys"
    )]
    pub(super) fn of<K: Object>(key: &KeyOf<K>, hasher: &impl KeyHasher) -> Self {
        Self(<K::Repr as Repr<K>>::hash_key(key, hasher))
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

/// One slot of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) rank: usize,
    /// Which one of the rank's slots.
    pub(super) local: usize,
}

impl Place {
    pub(super) fn rank(self) -> Rank {
        Rank::new(u32::try_from(self.rank).expect("a rank's number"))
    }
}

/// The ring of slots: `local_capacity` of them on each rank, from the first one of rank 0 to the last one
/// of the last rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    n_ranks: usize,
    local_capacity: usize,
}

impl Ring {
    pub(super) fn new(n_ranks: usize, local_capacity: usize) -> Self {
        Self {
            n_ranks,
            local_capacity,
        }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.n_ranks as u64 * self.local_capacity as u64
    }

    pub(super) fn local_capacity(&self) -> usize {
        self.local_capacity
    }

    /// The slot where the search for a key begins: number `hash * capacity / 2^64` of the ring.
    ///
    /// The upper half of `hash * n_ranks` is the rank, and the lower half, a fraction of that rank's
    /// slots, the place there: two multiplications and no division, for every capacity.
    #[inline(always)]
    pub(super) fn home(&self, hash: Hash) -> Place {
        let (rank, fraction) = widening_mul(hash.0, self.n_ranks);
        let (local, _) = widening_mul(fraction, self.local_capacity);
        Place { rank, local }
    }

    /// Which of `n` parts of its rank's slots the home slot lies in; all parts are as large.
    #[inline(always)]
    pub(super) fn part(&self, hash: Hash, n: usize) -> usize {
        let (_, fraction) = widening_mul(hash.0, self.n_ranks);
        widening_mul(fraction, n).0
    }

    /// The slot behind `place`.
    #[inline(always)]
    pub(super) fn next(&self, place: Place) -> Place {
        let local = place.local + 1;
        if local < self.local_capacity {
            return Place { local, ..place };
        }
        let rank = place.rank + 1;
        Place {
            rank: if rank < self.n_ranks { rank } else { 0 },
            local: 0,
        }
    }
}

/// The upper half of the product, which is below `b`, and the lower half.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "takes the halves")]
fn widening_mul(a: u64, b: usize) -> (usize, u64) {
    let product = u128::from(a) * b as u128;
    ((product >> 64) as usize, product as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of a slot in the ring.
    fn number(ring: &Ring, place: Place) -> u64 {
        (place.rank * ring.local_capacity + place.local) as u64
    }

    #[test]
    fn the_home_slot_is_the_hash_as_a_fraction_of_the_capacity() {
        for (n_ranks, local_capacity) in [(1, 1), (1, 1000), (2, 3), (3, 1 << 20), (7, 12_345)] {
            let ring = Ring::new(n_ranks, local_capacity);
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
            let ring = Ring::new(n_ranks, local_capacity);
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
        let ring = Ring::new(4, 1 << 10);
        let mut per_rank = [0_u32; 4];
        let mut fingerprints = vec![0_u32; 1 << 14];
        for key in 0..1_u64 << 16 {
            let hash = Hash::of::<u64>(&key, &RapidHasher);
            per_rank[ring.home(hash).rank] += 1;
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
