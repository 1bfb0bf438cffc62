//! Tests of the map over every transport that needs nothing installed.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

mod batches;
mod concurrent;
mod histories;
mod prices;
mod sequential;

use std::collections::HashMap as Groups;
use std::sync::LazyLock;

use pgas_core::backend::loopback;
use pgas_core::{Config, Pod, Statistics, World};

use super::HashMap;
use super::hash::Hash;

/// Runs `body` as ranks over the reference transport, where everything takes the path through the
/// backend, operations overtake each other and puts are late; over shared memory; and over shared memory
/// with the direct path turned off.
fn everywhere(n_ranks: u32, body: impl Fn(World) + Sync) {
    everywhere_with(n_ranks, Statistics::Off, body);
}

/// As [`everywhere`], with counted operations, which take a slower way through core.
fn everywhere_counted(n_ranks: u32, body: impl Fn(World) + Sync) {
    everywhere_with(n_ranks, Statistics::Total, body);
}

fn everywhere_with(n_ranks: u32, statistics: Statistics, body: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.statistics = statistics;
    config.segment_bytes = Some(16 << 20);
    loopback::run_with(n_ranks, &config, &body);
    for direct in [true, false] {
        config.direct = direct;
        pgas_smp::threads_with(n_ranks, &config, &body).unwrap();
    }
}

fn map<K: Pod, V: Pod>(world: &World, capacity: usize) -> HashMap<K, V> {
    HashMap::with_capacity(world, capacity).unwrap()
}

/// Keys with one fingerprint and, in a map of up to 64 slots, one home slot.
fn colliding_keys() -> &'static [u64] {
    static KEYS: LazyLock<Vec<u64>> = LazyLock::new(|| {
        let mut groups: Groups<_, Vec<u64>> = Groups::new();
        for key in 0.. {
            let hash = Hash::of(&key);
            let upper = super::hash::Ring::new(1, 64).home(hash);
            let group = groups
                .entry((upper, hash.fingerprint().bits()))
                .or_default();
            group.push(key);
            if group.len() == 6 {
                return group.clone();
            }
        }
        unreachable!("there are enough keys")
    });
    &KEYS
}

/// The costs of `f` in R, W and A.
fn price<T>(world: &World, f: impl FnOnce() -> T) -> (u64, u64, u64) {
    let before = world.costs();
    f();
    let costs = world.costs() - before;
    assert_eq!((costs.barriers, costs.messages), (0, 0), "one-sided");
    (costs.reads, costs.writes, costs.atomics)
}
