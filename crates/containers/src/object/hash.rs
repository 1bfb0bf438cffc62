//! Hashes of values. They are the same on every rank, platform and build, so that all ranks find a
//! value.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

/// The seed of all hashes that have no seed of the user's.
pub(crate) const SECRETS: RapidSecrets = RapidSecrets::seed(0x7067_6173);

/// A hash function for the keys of a map; the same on every rank.
///
/// The upper bits of a hash choose the key's home slot, and its lowest bits tell keys in nearby
/// slots apart. So every bit has to depend on all bytes of the key.
///
/// # Examples
///
/// ```
/// use pgas_containers::object::KeyHasher;
///
/// /// FNV-1a, and a multiplication that mixes its upper bits.
/// struct Fnv;
///
/// impl KeyHasher for Fnv {
///     fn hash(&self, bytes: &[u8]) -> u64 {
///         let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
///         let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
///         (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
///     }
/// }
/// assert_ne!(Fnv.hash(b"a"), Fnv.hash(b"b"));
/// ```
pub trait KeyHasher: Send + Sync + 'static {
    /// The hash of a key's bytes, or of its encoding.
    ///
    /// # Cost
    ///
    /// ℓ.
    fn hash(&self, bytes: &[u8]) -> u64;
}

/// The hash of `bytes` (rapidhash V3, which is specified), combined with `former`, the hash of the
/// parts before them.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "the length is a constant for plain values, which leaves a few multiplications"
)]
pub(super) fn of_bytes(bytes: &[u8], former: u64) -> u64 {
    let hash = rapidhash_v3_inline::<true, true, false>(bytes, &SECRETS);
    mix(hash ^ former.rotate_left(32))
}

/// A permutation of the 64-bit numbers after which every bit depends on all (the end of
/// SplitMix64).
#[inline(always)]
#[expect(clippy::inline_always, reason = "a few instructions")]
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
