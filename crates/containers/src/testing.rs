//! What the tests of all containers share.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

use pgas_core::backend::loopback;
use pgas_core::{Config, Statistics, World};
use pgas_testkit::weak;

/// Orders in which a weak network delivers, that each test is run with.
const N_SEEDS: u64 = 2;

/// Runs `body` as ranks over the reference transport, where everything takes the path through the
/// backend, operations overtake each other and puts are late; over a weak network, where they are also torn
/// and in random orders; over shared memory; and over shared memory with the direct path turned off.
pub(crate) fn everywhere(n_ranks: u32, body: impl Fn(World) + Sync) {
    everywhere_with(n_ranks, Statistics::Off, body);
}

/// As [`everywhere`], with counted operations, which take a slower way through core.
pub(crate) fn everywhere_counted(n_ranks: u32, body: impl Fn(World) + Sync) {
    everywhere_with(n_ranks, Statistics::Total, body);
}

fn everywhere_with(n_ranks: u32, statistics: Statistics, body: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.statistics = statistics;
    config.segment_bytes = Some(16 << 20);
    loopback::run_with(n_ranks, &config, &body);
    for seed in 0..N_SEEDS {
        weak::run(n_ranks, &config, seed, &body);
    }
    for direct in [true, false] {
        config.direct = direct;
        pgas_smp::threads_with(n_ranks, &config, &body).unwrap();
    }
}

/// The costs of `f` in R, W and A.
pub(crate) fn price<T>(world: &World, f: impl FnOnce() -> T) -> (u64, u64, u64) {
    let before = world.costs();
    f();
    let costs = world.costs() - before;
    assert_eq!((costs.barriers, costs.messages), (0, 0), "one-sided");
    (costs.reads, costs.writes, costs.atomics)
}

/// Random numbers that are the same in every run (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap()
    }
}
