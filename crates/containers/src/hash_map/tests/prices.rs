//! What each method costs, in R, W and A, as its documentation says.

use super::*;
use pgas_core::Rank;

/// A map with one entry, far from full, so that no probe is longer than one slot.
fn with_one<V: Pod>(world: &World, value: V) -> HashMap<u64, V> {
    let map = map(world, 1 << 12);
    if world.rank() == Rank::ZERO {
        map.insert(&1, value).unwrap();
    }
    world.barrier().unwrap();
    map
}

#[test]
fn an_insert_costs_two_atomics_and_a_write() {
    everywhere_counted(1, |world| {
        let words = map::<u64, u64>(&world, 1 << 12);
        assert_eq!(price(&world, || words.insert(&1, 10).unwrap()), (0, 1, 2));
        let wide = map::<u64, [u8; 40]>(&world, 1 << 12);
        assert_eq!(
            price(&world, || wide.insert(&1, [1; 40]).unwrap()),
            (0, 1, 2)
        );
        let set = map::<u64, ()>(&world, 1 << 12);
        assert_eq!(price(&world, || set.insert(&1, ()).unwrap()), (0, 1, 2));
    });
}

#[test]
fn an_insert_over_a_present_key_costs_no_more_than_a_find_and_a_write_of_the_value() {
    everywhere_counted(1, |world| {
        let words = with_one(&world, 5_u32);
        assert_eq!(price(&world, || words.insert(&1, 6).unwrap()), (1, 0, 2));
        let wide = with_one(&world, [1_u8; 40]);
        assert_eq!(
            price(&world, || wide.insert(&1, [2; 40]).unwrap()),
            (1, 1, 3)
        );
        let set = with_one(&world, ());
        assert_eq!(price(&world, || set.insert(&1, ()).unwrap()), (1, 0, 1));
    });
}

#[test]
fn a_find_costs_two_atomics_and_a_read_and_an_absent_key_one_atomic() {
    everywhere_counted(1, |world| {
        let words = with_one(&world, 5_u64);
        assert_eq!(price(&world, || words.find(&1).unwrap()), (1, 0, 2));
        assert_eq!(price(&world, || words.find(&2).unwrap()), (0, 0, 1));
        assert_eq!(price(&world, || words.contains(&1).unwrap()), (1, 0, 1));
        assert_eq!(price(&world, || words.contains(&2).unwrap()), (0, 0, 1));
        let wide = with_one(&world, [1_u8; 40]);
        assert_eq!(price(&world, || wide.find(&1).unwrap()), (1, 0, 2));
        let set = with_one(&world, ());
        assert_eq!(price(&world, || set.find(&1).unwrap()), (1, 0, 1));
    });
}

#[test]
fn an_update_costs_a_read_and_three_or_four_atomics() {
    everywhere_counted(1, |world| {
        let words = with_one(&world, 5_u64);
        assert_eq!(
            price(&world, || words.update(&1, |v| v + 1).unwrap()),
            (1, 0, 3)
        );
        assert_eq!(
            price(&world, || words.update(&2, |v| v + 1).unwrap()),
            (0, 0, 1)
        );
        let wide = with_one(&world, [1_u8; 40]);
        assert_eq!(price(&world, || wide.update(&1, |v| v).unwrap()), (1, 1, 4));
    });
}

#[test]
fn a_fetch_add_costs_as_much_as_an_insert_or_a_find() {
    everywhere_counted(1, |world| {
        let counts = with_one(&world, 5_u64);
        assert_eq!(
            price(&world, || counts.fetch_add(&1, 1).unwrap()),
            (1, 0, 2)
        );
        assert_eq!(
            price(&world, || counts.fetch_add(&2, 1).unwrap()),
            (0, 1, 2)
        );
        assert_eq!(
            price(&world, || counts.get_or_insert(&1, 1).unwrap()),
            (1, 0, 2)
        );
        assert_eq!(
            price(&world, || counts.get_or_insert(&3, 1).unwrap()),
            (0, 1, 2)
        );
    });
}

#[test]
fn each_further_slot_costs_one_atomic_and_a_read_where_the_fingerprint_agrees() {
    everywhere_counted(1, |world| {
        let map = map::<u64, u64>(&world, 64);
        let keys = colliding_keys();
        for (i, key) in keys.iter().enumerate() {
            let i = i as u64;
            assert_eq!(price(&world, || map.insert(key, i).unwrap()), (i, 1, 2 + i));
        }
        for (i, key) in keys.iter().enumerate() {
            let i = i as u64;
            assert_eq!(price(&world, || map.find(key).unwrap()), (1 + i, 0, 2 + i));
        }
    });
}

#[test]
fn a_search_for_an_absent_key_stops_at_the_first_free_slot() {
    everywhere_counted(1, |world| {
        let map = map::<u64, u64>(&world, 1 << 14);
        let keys: Vec<u64> = (0..1 << 12).collect();
        map.add_many(&keys, 1).unwrap();
        let absent = 1_u64 << 40..(1 << 40) + 1000;
        let (_, _, atomics) = price(&world, || {
            for key in absent.clone() {
                assert_eq!(map.find(&key).unwrap(), None);
            }
        });
        // At a quarter load an absent key needs 1.4 slots on average.
        assert!(
            (1000..1800).contains(&atomics),
            "{atomics} slots for 1000 absent keys"
        );
    });
}

#[test]
fn batches_cost_what_their_operations_cost() {
    everywhere_counted(1, |world| {
        let map = map::<u64, u64>(&world, 1 << 17);
        let keys: Vec<u64> = (0..200).collect();
        let entries: Vec<_> = keys.iter().map(|&key| (key, key)).collect();
        let single = price(&world, || {
            for (key, value) in &entries {
                map.insert(&(key + 1000), *value).unwrap();
            }
        });
        // A batch behind a network looks before it inserts: one atomic more for a new key.
        let (reads, writes, atomics) = price(&world, || map.insert_many(&entries).unwrap());
        assert_eq!((reads, writes), (single.0, single.1));
        assert!(atomics <= single.2 + 210, "{atomics} atomics");
        let batches: [&dyn Fn(); 3] = [
            &|| drop(map.find_many(&keys).unwrap()),
            &|| assert_eq!(map.add_many(&keys, 1).unwrap(), 0),
            &|| assert_eq!(map.insert_many(&entries).unwrap(), 0),
        ];
        for f in batches {
            let (reads, writes, atomics) = price(&world, f);
            assert_eq!(writes, 0);
            assert!((200..205).contains(&reads), "{reads} reads");
            assert!((400..410).contains(&atomics), "{atomics} atomics");
        }
    });
}

#[test]
fn iteration_asks_no_other_rank() {
    let mut config = Config::default();
    config.statistics = Statistics::PerPeer;
    loopback::run_with(3, &config, |world| {
        let map = map::<u64, u64>(&world, 300);
        map.add_many(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 1).unwrap();
        world.barrier().unwrap();
        let others = |world: &World| -> Vec<_> {
            let others = world.ranks().filter(|&rank| rank != world.rank());
            others.map(|rank| world.costs_with(rank)).collect()
        };
        let before = others(&world);
        let n = map.local_iter().count() as u64;
        assert_eq!(map.local_len().unwrap(), n);
        assert_eq!(others(&world), before);
        world.barrier().unwrap();
    });
}
