//! What operations pay where all slots are near: steps by this process's own instructions, which
//! are those of the documented prices but for what a line of slots or a second look makes
//! different.

use super::*;
use crate::hash_map::Combine;
use crate::testing::near_counted;

/// The second value.
enum Second {}

impl Combine<u64> for Second {
    fn combine(_: u64, given: &u64) -> u64 {
        *given
    }
}

#[test]
fn operations_on_near_words_pay_the_documented_prices() {
    near_counted(1, |world| {
        let map = map::<u64, u64>(&world, 1 << 12);
        assert!(map.table.counted.is_some() && map.table.local.is_none());
        assert_eq!(price(&world, || map.insert(&1, 10).unwrap()), (0, 1, 2));
        assert_eq!(price(&world, || map.insert(&1, 11).unwrap()), (1, 0, 2));
        assert_eq!(price(&world, || map.find(&1).unwrap()), (1, 0, 2));
        assert_eq!(price(&world, || map.find(&2).unwrap()), (0, 0, 1));
        assert_eq!(price(&world, || map.contains(&1).unwrap()), (1, 0, 1));
        assert_eq!(price(&world, || map.contains(&2).unwrap()), (0, 0, 1));
        assert_eq!(price(&world, || map.fetch_add(&1, 1).unwrap()), (1, 0, 2));
        assert_eq!(price(&world, || map.fetch_add(&2, 1).unwrap()), (0, 1, 2));
        let update = |key| map.update(&key, |n| n + 1).unwrap();
        assert_eq!(price(&world, || update(1)), (1, 0, 3));
        assert_eq!(price(&world, || update(7)), (0, 0, 1));
        let get_or_insert = |key| map.get_or_insert(&key, 1).unwrap();
        assert_eq!(price(&world, || get_or_insert(1)), (1, 0, 2));
        assert_eq!(price(&world, || get_or_insert(3)), (0, 1, 2));
        assert_eq!(price(&world, || map.remove(&3).unwrap()), (1, 0, 2));
        let set = HashMap::<u64, ()>::with_capacity(&world, 1 << 12).unwrap();
        assert_eq!(price(&world, || set.insert(&1, ()).unwrap()), (0, 1, 2));
        assert_eq!(price(&world, || set.insert(&1, ()).unwrap()), (1, 0, 1));
        assert_eq!(price(&world, || set.find(&1).unwrap()), (1, 0, 1));
    });
}

#[test]
fn batches_on_near_words_pay_what_their_operations_pay() {
    near_counted(2, |world| {
        // No key of one rank is one of the other, and none meets another key in its line.
        let map = map::<u64, u64>(&world, 1 << 14);
        let first = u64::from(world.rank().number()) << 32;
        let keys: Vec<u64> = (first..first + 200).collect();
        let entries: Vec<(u64, u64)> = keys.iter().map(|&key| (key, key)).collect();
        let new = price(&world, || {
            assert_eq!(map.insert_many(&entries).unwrap(), 200);
        });
        assert_eq!(new, (0, 200, 400));
        let add = price(&world, || assert_eq!(map.add_many(&keys, 1).unwrap(), 0));
        assert_eq!(add, (200, 0, 400));
        let find = price(&world, || drop(map.find_many(&keys).unwrap()));
        assert_eq!(find, (200, 0, 400));
        let absent: Vec<u64> = (first + 1000..first + 1200).collect();
        let find = price(&world, || drop(map.find_many(&absent).unwrap()));
        assert_eq!(find, (0, 0, 200));
        let upsert = price(&world, || map.upsert_many::<Second>(&entries).unwrap());
        assert_eq!(upsert, (200, 0, 600));
        let remove = price(&world, || map.remove_many(&keys).unwrap());
        assert_eq!(remove, (200, 0, 400));
    });
}

#[test]
fn a_wide_value_of_near_slots_is_read_after_its_key() {
    near_counted(1, |world| {
        let map = map::<u64, [u8; 40]>(&world, 1 << 12);
        assert_eq!(
            price(&world, || map.insert(&1, [1; 40]).unwrap()),
            (0, 1, 2)
        );
        assert_eq!(
            price(&world, || map.insert(&1, [2; 40]).unwrap()),
            (1, 1, 3)
        );
        assert_eq!(price(&world, || map.find(&1).unwrap()), (2, 0, 2));
        assert_eq!(price(&world, || map.find(&2).unwrap()), (0, 0, 1));
    });
}

#[test]
fn in_the_find_phase_a_find_in_near_slots_costs_one_read() {
    near_counted(1, |world| {
        let map = map::<u64, u64>(&world, 1 << 12);
        let keys: Vec<u64> = (0..200).collect();
        map.insert_many(&[(1, 1)]).unwrap();
        let map = map.into_find_phase().unwrap();
        assert_eq!(price(&world, || map.find(&1).unwrap()), (1, 0, 0));
        assert_eq!(price(&world, || map.find(&2).unwrap()), (1, 0, 0));
        assert_eq!(price(&world, || map.contains(&1).unwrap()), (1, 0, 0));
        assert_eq!(price(&world, || map.contains(&2).unwrap()), (1, 0, 0));
        for keys in [&keys[..2], &keys] {
            let batch = price(&world, || drop(map.find_many(keys).unwrap()));
            assert_eq!(batch, (keys.len() as u64, 0, 0));
        }
        let wide = HashMap::<u64, [u8; 40]>::with_capacity(&world, 1 << 12).unwrap();
        wide.insert(&1, [1; 40]).unwrap();
        let wide = wide.into_find_phase().unwrap();
        assert_eq!(price(&world, || wide.find(&1).unwrap()), (1, 0, 0));
        assert_eq!(price(&world, || wide.find(&2).unwrap()), (1, 0, 0));
    });
}

/// What a search begins again was paid twice: a fast path that meets another key with the same
/// fingerprint leaves the work to the slow one.
#[test]
fn a_search_in_near_slots_that_begins_again_pays_again() {
    near_counted(1, |world| {
        let map = map::<u64, u64>(&world, 64);
        let [first, second] = colliding_keys()[..2] else {
            unreachable!("several keys")
        };
        assert_eq!(price(&world, || map.insert(&first, 1).unwrap()), (0, 1, 2));
        assert_eq!(price(&world, || map.insert(&second, 1).unwrap()), (2, 1, 4));
        assert_eq!(price(&world, || map.find(&first).unwrap()), (2, 0, 3));
        assert_eq!(price(&world, || map.find(&second).unwrap()), (1, 0, 2));
    });
}

#[test]
fn near_operations_have_rows_names_and_bytes_on_every_thread() {
    near_counted(1, |world| {
        let named = world.named("counts");
        let map = HashMap::<u64, u64>::with_capacity(&named, 1 << 12).unwrap();
        let before = world.costs();
        map.insert(&1, 10).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| map.find(&1).unwrap());
        });
        let costs = world.costs() - before;
        assert_eq!((costs.reads, costs.writes, costs.atomics), (1, 1, 4));
        // Keys and values of eight bytes, a line of four states of four, and a word as it is found.
        assert_eq!(costs.bytes, (16 + 2 * 4) + (16 + 8 + 8));
    });
}
