//! Repeatable random numbers.

use fastrand::Rng;
use pgas_core::World;

/// Numbers that are the same on every rank, and differ by `salt`.
#[must_use]
pub fn rng(salt: u64) -> Rng {
    Rng::with_seed(0x9e37_79b9_7f4a_7c15 ^ salt.wrapping_mul(0xd134_2543_de82_ef95))
}

/// Numbers that differ by rank and by `salt`.
#[must_use]
pub fn rng_of(world: &World, salt: u64) -> Rng {
    rng((salt << 32) + u64::from(world.rank().number()) + 1)
}
