//! Tests of the map over every transport that needs nothing installed.

mod asked;
mod buffers;
mod concurrent;
mod given_up;
mod handlers;
mod in_flight;
mod lines;
mod memory;
mod multi;
mod multi_in_flight;
mod overlap;
mod parcels;
mod refused;
mod replayed;
mod whole;

// Answers and prices for entries of many types. They make no access that the other tests do not
// make, and with a sanitizer they are two thirds of the build time.
#[cfg(not(pgas_sanitized))]
mod batches;
#[cfg(not(pgas_sanitized))]
mod borrowed;
#[cfg(not(pgas_sanitized))]
mod called_once;
#[cfg(not(pgas_sanitized))]
mod churn;
#[cfg(not(pgas_sanitized))]
mod histories;
#[cfg(not(pgas_sanitized))]
mod many;
#[cfg(not(pgas_sanitized))]
mod near_prices;
#[cfg(not(pgas_sanitized))]
mod panics;
#[cfg(not(pgas_sanitized))]
mod prices;
#[cfg(not(pgas_sanitized))]
mod prices_in_flight;
#[cfg(not(pgas_sanitized))]
mod sequential;
#[cfg(not(pgas_sanitized))]
mod sets;
#[cfg(not(pgas_sanitized))]
mod unordered;

use std::collections::HashMap as Groups;
use std::sync::LazyLock;

use pgas_core::backend::loopback;
use pgas_core::{Config, Statistics, World};

use super::hash::Hash;
use super::slot::LayoutOf;
use super::{Atomic, HashMap, RapidHasher, SeededHasher};
use crate::object::Object;
use crate::testing::{everywhere, everywhere_counted, one_sided_counted, price};

/// As [`everywhere`], with active messages.
fn attached_everywhere(n_ranks: u32, body: impl Fn(World) + Sync) {
    everywhere(n_ranks, |world| {
        pgas_am::attach(&world).unwrap();
        body(world);
    });
}

fn map<K: Object, V: Object>(world: &World, capacity: usize) -> HashMap<K, V> {
    HashMap::with_capacity(world, capacity).unwrap()
}

/// Reclaims some slots of removed keys, if slots are used again. Returns whether it could.
fn reclaim_some<K: Object, V: Object>(map: &HashMap<K, V>) -> bool {
    let table = &map.table;
    let reused = table.reused.as_ref();
    reused.is_none_or(|reused| table.shape.reclaim_some(reused, 0))
}

/// Keys with one fingerprint and, in a map of up to 64 slots, one home slot.
fn colliding_keys() -> &'static [u64] {
    static KEYS: LazyLock<Vec<u64>> = LazyLock::new(|| {
        let mut groups: Groups<_, Vec<u64>> = Groups::new();
        for key in 0.. {
            let hash = Hash::of::<u64>(&key, &RapidHasher);
            let upper = super::hash::Ring::<LayoutOf<u64, u64>>::new(1, 64).home(hash);
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
