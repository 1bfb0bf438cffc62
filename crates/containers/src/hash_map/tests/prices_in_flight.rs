//! The cost of each operation in flight: that of the one that waits, as its documentation says.

use std::fmt::Debug;

use pgas_am::PgasFuture;
use pgas_core::Rank;

use super::prices::keys_of;
use super::*;
use crate::hash_map::{HashSet, MultiMap};
use crate::testing::{asked, served_counted};
use crate::{Error, Result};

type Begun<T> = Result<PgasFuture<T>, Error>;

/// Checks that an operation in flight gives what the one that waits gives, at the same price, on
/// two containers with the same entries.
#[track_caller]
fn same<T: Debug + PartialEq + Send + 'static>(
    world: &World,
    waits: impl FnOnce() -> Result<T>,
    begins: impl FnOnce() -> Begun<T>,
) {
    let (mut waited, mut ended) = (None, None);
    let single = price(world, || waited = Some(waits().unwrap()));
    let in_flight = price(world, || ended = Some(begins().unwrap().wait().unwrap()));
    assert_eq!((ended, in_flight), (waited, single));
}

/// As [`everywhere_counted`], with active messages, without which nothing is in flight.
fn attached_counted(body: impl Fn(World) + Sync) {
    everywhere_counted(1, |world| {
        pgas_am::attach(&world).unwrap();
        body(world);
    });
}

#[test]
fn an_operation_in_flight_costs_what_the_one_that_waits_costs() {
    attached_counted(|world| {
        let [a, b] = [0, 1].map(|_| map::<u64, u64>(&world, 1 << 12));
        let world = &world;
        for value in [10, 11] {
            // New, then over a word.
            same(world, || a.insert(&1, value), || b.insert_nb(&1, value));
        }
        for key in [1, 2] {
            // Present, then absent.
            same(world, || a.find(&key), || b.find_nb(&key));
            same(world, || a.contains(&key), || b.contains_nb(&key));
            same(
                world,
                || a.update(&key, |n| n + 1),
                || b.update_nb(&key, |n| n + 1),
            );
        }
        for key in [1, 3] {
            // Present, then new.
            same(world, || a.fetch_add(&key, 1), || b.fetch_add_nb(&key, 1));
        }
        for key in [1, 4] {
            let single = || a.insert_if_absent(&key, 1);
            same(world, single, || b.insert_if_absent_nb(&key, 1));
        }
        for key in [1, 5] {
            same(world, || a.remove(&key), || b.remove_nb(&key));
        }
    });
}

#[test]
fn an_operation_in_flight_on_long_values_costs_what_the_one_that_waits_costs() {
    attached_counted(|world| {
        let [a, b] = [0, 1].map(|_| map::<u64, String>(&world, 1 << 12));
        let world = &world;
        let text = || "long".repeat(50);
        let longer = |text: String| text + "er";
        for _ in 0..2 {
            same(world, || a.insert(&1, text()), || b.insert_nb(&1, text()));
        }
        same(world, || a.find(&1), || b.find_nb(&1));
        same(world, || a.update(&1, longer), || b.update_nb(&1, longer));
        same(world, || a.take(&1), || b.take_nb(&1));
    });
}

#[test]
fn an_operation_in_flight_on_a_set_or_lists_costs_what_the_one_that_waits_costs() {
    attached_counted(|world| {
        let [a, b] = [0, 1].map(|_| HashSet::<u64>::with_capacity(&world, 1 << 12).unwrap());
        let [c, d] = [0, 1].map(|_| MultiMap::<u64, u64>::with_capacity(&world, 1 << 12).unwrap());
        let world = &world;
        for value in [10, 11] {
            same(world, || a.insert(&1), || b.insert_nb(&1));
            same(world, || c.insert(&1, value), || d.insert_nb(&1, value));
        }
        for key in [1, 2] {
            same(world, || a.contains(&key), || b.contains_nb(&key));
            same(world, || a.remove(&key), || b.remove_nb(&key));
            same(world, || c.count(&key), || d.count_nb(&key));
            same(world, || c.find(&key), || d.find_nb(&key));
            let remove = || Ok(c.remove(&key).unwrap());
            same(world, remove, || {
                let removed = d.remove_nb(&key)?;
                Ok(removed.then(|values| values.unwrap()))
            });
        }
    });
}

#[test]
fn an_operation_in_flight_that_a_rank_serves_costs_a_message_and_an_update_two() {
    served_counted(|world| {
        let map = map::<u64, u64>(&world, 1 << 12);
        if world.rank() == Rank::ZERO {
            let [key, absent] = keys_of(&map, Rank::new(1), 2)[..] else {
                unreachable!("two keys")
            };
            let one = |f: &dyn Fn() -> bool| assert_eq!(asked(&world, || assert!(f())), 1);
            one(&|| map.insert_nb(&key, 1).unwrap().wait().is_ok());
            one(&|| map.find_nb(&key).unwrap().wait().unwrap() == Some(1));
            one(&|| !map.contains_nb(&absent).unwrap().wait().unwrap());
            one(&|| map.fetch_add_nb(&key, 1).unwrap().wait().unwrap() == 1);
            let update = |key| map.update_nb(key, |n| n * 2).unwrap().wait().unwrap();
            assert_eq!(asked(&world, || assert_eq!(update(&key), Some(2))), 2);
            one(&|| update(&absent).is_none());
            one(&|| map.remove_nb(&key).unwrap().wait().unwrap());
        }
        world.barrier().unwrap();
    });
}
