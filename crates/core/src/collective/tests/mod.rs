//! Collectives over the reference transport: their results, their order, their errors.

mod checks;
mod native;
mod prices;
mod results;
mod schedules;
mod traced;

use crate::backend::loopback::{self, Options};
use crate::{Config, Result, World};

/// One rank, powers of two, and other numbers.
const SIZES: [u32; 7] = [1, 2, 3, 4, 7, 8, 13];

/// A transport without collectives of its own, and one that has some.
fn kinds() -> [Options; 2] {
    [Options::default(), Options::default().with_collectives()]
}

/// Runs `body` as each rank of jobs of all sizes and kinds; an error of any rank fails the test.
fn on_all_sizes(body: impl Fn(World) -> Result<()> + Sync) {
    for n in SIZES {
        for options in kinds() {
            over(&options, n, &Config::default(), &body);
        }
    }
}

fn on(n_ranks: u32, config: &Config, body: impl Fn(World) -> Result<()> + Sync) {
    over(&Options::default(), n_ranks, config, body);
}

fn over(
    options: &Options,
    n_ranks: u32,
    config: &Config,
    body: impl Fn(World) -> Result<()> + Sync,
) {
    for (rank, result) in loopback::run_over(options, n_ranks, config, body)
        .into_iter()
        .enumerate()
    {
        if let Err(error) = result {
            panic!("rank {rank} of {n_ranks}: {error}");
        }
    }
}

/// An affine map `x -> scale * x + shift` on wrapping integers: composition is associative and not
/// commutative.
fn compose(first: [u64; 2], then: [u64; 2]) -> [u64; 2] {
    let ([a, b], [c, d]) = (first, then);
    [c.wrapping_mul(a), c.wrapping_mul(b).wrapping_add(d)]
}

/// The map that member `i` contributes at place `place` of a slice.
fn map(i: u32, place: usize) -> [u64; 2] {
    [u64::from(i) * 2 + 3, u64::from(i) * 7 + place as u64]
}

/// The composition of the maps of the members in `range`.
fn composed(range: std::ops::Range<u32>, place: usize) -> Option<[u64; 2]> {
    range.map(|i| map(i, place)).reduce(compose)
}
