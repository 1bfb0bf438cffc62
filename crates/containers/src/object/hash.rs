//! Hashes of values: the same on every rank, platform and build, since ranks look for a value where
//! another one has put it.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

const SECRETS: RapidSecrets = RapidSecrets::seed(0x7067_6173);

/// The hash of `bytes`, rapidhash V3, which is specified, continued from `former`, the hash of what comes
/// before them.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "the length is a constant for plain values, which leaves a few multiplications"
)]
pub(super) fn of_bytes(bytes: &[u8], former: u64) -> u64 {
    let hash = rapidhash_v3_inline::<true, true, false>(bytes, &SECRETS);
    mix(hash ^ former.rotate_left(32))
}

/// A permutation of the 64-bit numbers after which every bit depends on all (the end of SplitMix64).
#[inline(always)]
#[expect(clippy::inline_always, reason = "a few instructions")]
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
