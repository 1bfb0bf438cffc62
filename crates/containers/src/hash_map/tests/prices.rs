//! The cost of each method in R, W and A, as its documentation says.

use super::*;
use crate::hash_map::{Combine, HashSet, Inserted};
use crate::prices;
use crate::testing::{asked, served_counted};
use pgas_core::Rank;
use pgas_core::stats::Operation;

/// A map with one entry, far from full, so that no probe is longer than one slot.
fn with_one<V: Object>(world: &World, value: V) -> HashMap<u64, V> {
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
    one_sided_counted(1, |world| {
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
    one_sided_counted(1, |world| {
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
fn what_is_made_of_other_operations_costs_what_they_do() {
    one_sided_counted(1, |world| {
        let counts = with_one(&world, 5_u64);
        let change = price(&world, || {
            let changed = counts.modify_or_insert_with(&1, |v| v + 1, || 1);
            assert_eq!(changed.unwrap(), Some(5));
        });
        assert_eq!(
            change,
            price(&world, || counts.upsert(&1, 1, |v| v + 1).unwrap())
        );
        let insert = price(&world, || {
            let changed = counts.modify_or_insert_with(&2, |v| v + 1, || 1);
            assert_eq!(changed.unwrap(), None);
        });
        assert_eq!(
            insert,
            price(&world, || counts.upsert(&3, 1, |v| v + 1).unwrap())
        );

        let (keys, mut values) = ([1, 2, 9], [None; 3]);
        let into = price(&world, || {
            counts.find_many_into(&keys, &mut values).unwrap();
        });
        assert_eq!(into, price(&world, || counts.find_many(&keys).unwrap()));
        assert_eq!(values.map(|value| value.is_some()), [true, true, false]);
    });
}

#[test]
fn operations_on_two_sets_cost_what_those_on_their_keys_do() {
    one_sided_counted(1, |world| {
        let of = |keys: std::ops::Range<u64>| {
            let set = HashSet::<u64>::with_capacity(&world, 1 << 12).unwrap();
            set.extend(keys).unwrap();
            set
        };
        let sum = |prices: &[(u64, u64, u64)]| {
            let add = |a: (u64, u64, u64), b: &(u64, u64, u64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2);
            prices.iter().fold((0, 0, 0), add)
        };
        let other = of(0..20);
        let look = price(&world, || assert_eq!(other.local_iter().count(), 20));
        let (set, twin) = (of(10..15), of(10..15));
        let extend = price(&world, || twin.extend(0..20).unwrap());
        let union = price(&world, || assert_eq!(set.union_with(&other).unwrap(), 15));
        assert_eq!(union, sum(&[look, extend]));

        let keys: Vec<u64> = (0..20).collect();
        let few = of(0..5);
        let contains = price(&world, || few.contains_many(&keys).unwrap());
        let twin = of(0..20);
        let remove = price(&world, || twin.remove_many(&keys[5..]).unwrap());
        let intersect = price(&world, || assert_eq!(set.intersect_with(&few).unwrap(), 15));
        assert_eq!(intersect, sum(&[look, contains, remove]));
        let look = price(&world, || assert_eq!(few.local_iter().count(), 5));
        let contains = price(&world, || set.contains_many(&keys[..5]).unwrap());
        let twin = of(0..5);
        let remove = price(&world, || twin.remove_many(&keys[..5]).unwrap());
        let difference = price(&world, || assert_eq!(few.difference_with(&set).unwrap(), 5));
        assert_eq!(difference, sum(&[look, contains, remove]));
        assert_eq!(
            price(&world, || assert_eq!(set.keys_on(Rank::ZERO).count(), 5)),
            price(&world, || assert_eq!(set.local_iter().count(), 5)),
        );
    });
}

#[test]
fn each_further_slot_costs_one_atomic_and_a_read_where_the_fingerprint_agrees() {
    one_sided_counted(1, |world| {
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
        let (reads, writes, atomics) = price(&world, || map.insert_many(&entries).unwrap());
        assert_eq!((reads, writes), (single.0, single.1));
        // Other keys have met others in their home slots.
        assert!(atomics.abs_diff(single.2) < 10, "{atomics} atomics");
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
        // As single ones, again.
        let (reads, writes, atomics) = price(&world, || {
            assert_eq!(map.upsert_many::<Sum>(&entries).unwrap(), 0);
        });
        assert_eq!(writes, 0);
        assert!((200..205).contains(&reads), "{reads} reads");
        assert!((600..610).contains(&atomics), "{atomics} atomics");
        let (reads, writes, atomics) = price(&world, || {
            assert_eq!(map.remove_many(&keys).unwrap(), 200);
        });
        assert_eq!(writes, 0);
        assert!((200..205).contains(&reads), "{reads} reads");
        assert!((400..410).contains(&atomics), "{atomics} atomics");
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

#[test]
fn in_the_find_phase_a_find_costs_one_read() {
    one_sided_counted(1, |world| {
        let words = with_one(&world, 5_u64).into_find_phase().unwrap();
        assert_eq!(price(&world, || words.find(&1).unwrap()), (1, 0, 0));
        assert_eq!(price(&world, || words.find(&2).unwrap()), (1, 0, 0));
        assert_eq!(price(&world, || words.contains(&1).unwrap()), (1, 0, 0));
        let wide = with_one(&world, [1_u8; 40]).into_find_phase().unwrap();
        assert_eq!(price(&world, || wide.find(&1).unwrap()), (1, 0, 0));
        let aligned = with_one(&world, 1_u128).into_find_phase().unwrap();
        assert_eq!(price(&world, || aligned.find(&1).unwrap()), (1, 0, 0));
        let text = with_one(&world, "short".to_owned());
        let text = text.into_find_phase().unwrap();
        assert_eq!(price(&world, || text.find(&1).unwrap()), (1, 0, 0));
        let text = with_one(&world, "long".repeat(50));
        let text = text.into_find_phase().unwrap();
        assert_eq!(price(&world, || text.find(&1).unwrap()), (2, 0, 0));
    });
}

#[test]
fn in_the_find_phase_a_read_serves_all_slots_of_a_cache_line() {
    one_sided_counted(1, |world| {
        let keys = colliding_keys();
        let map = map::<u64, u64>(&world, 64);
        for key in keys {
            map.insert(key, *key).unwrap();
        }
        let map = map.into_find_phase().unwrap();
        for (i, key) in keys.iter().enumerate() {
            // Three of them lie in each line.
            let n_lines = 1 + i as u64 / 3;
            let single = price(&world, || assert_eq!(map.find(key).unwrap(), Some(*key)));
            assert_eq!(single, (n_lines, 0, 0));
            let batch = price(&world, || {
                assert_eq!(map.find_many(&[*key]).unwrap(), [Some(*key)]);
            });
            assert_eq!(batch, (n_lines, 0, 0));
        }
    });
}

#[test]
fn in_the_find_phase_a_batch_costs_one_read_for_each_key() {
    one_sided_counted(2, |world| {
        let map = map::<u64, u64>(&world, 1 << 17);
        let keys: Vec<u64> = (0..200).collect();
        if world.rank() == Rank::ZERO {
            map.add_many(&keys, 1).unwrap();
        }
        let map = map.into_find_phase().unwrap();
        for (keys, value) in [(0..200, Some(1)), (1000..1200, None)] {
            let keys: Vec<u64> = keys.collect();
            let mut found = Vec::new();
            let (reads, writes, atomics) = price(&world, || found = map.find_many(&keys).unwrap());
            assert_eq!(found, [value; 200]);
            assert_eq!((writes, atomics), (0, 0));
            // A few meet another key in their home slot.
            assert!((200..205).contains(&reads), "{reads} reads");
        }
    });
}

#[test]
fn in_the_insert_phase_an_insert_costs_two_atomics_and_a_write() {
    everywhere_counted(1, |world| {
        let words = map::<u64, u64>(&world, 1 << 12)
            .into_insert_phase()
            .unwrap();
        assert_eq!(price(&world, || words.insert(&1, 10).unwrap()), (0, 1, 2));
        assert_eq!(price(&world, || words.insert(&1, 11).unwrap()), (1, 0, 2));
    });
}

#[test]
fn in_the_local_phase_no_method_uses_an_atomic_or_asks_another_rank() {
    everywhere_counted(1, |world| {
        let mut map = map::<u64, u64>(&world, 1 << 12).into_local_phase().unwrap();
        let local = |f: &mut dyn FnMut()| {
            let before = world.costs();
            f();
            let costs = world.costs() - before;
            assert_eq!((costs.atomics, costs.messages, costs.local), (0, 0, 1));
            (costs.reads, costs.writes)
        };
        let insert = local(&mut || assert!(map.local_insert(&1, &10).unwrap().is_some()));
        assert_eq!(insert, (1, 1), "of this rank's own memory");
        let upsert =
            local(&mut || assert!(map.local_upsert(&1, &10, |n| n + 1).unwrap().is_some()));
        assert_eq!(upsert, (1, 1));
        let find = local(&mut || assert_eq!(map.local_find(&1).unwrap(), Some(11)));
        assert_eq!(find, (1, 0));
        let remove = local(&mut || assert_eq!(map.local_remove(&1).unwrap(), Some(11)));
        assert_eq!(remove, (1, 1));
    });
}

#[test]
fn a_removal_costs_two_atomics_and_a_read() {
    one_sided_counted(1, |world| {
        let words = with_one(&world, 5_u64);
        assert_eq!(price(&world, || words.remove(&2).unwrap()), (0, 0, 1));
        assert_eq!(price(&world, || words.remove(&1).unwrap()), (1, 0, 2));
        assert_eq!(price(&world, || words.find(&1).unwrap()), (0, 0, 2));
        // The free state is read, then that of the key; then the word and the state are written.
        assert_eq!(price(&world, || words.insert(&1, 6).unwrap()), (1, 0, 5));
        let wide = with_one(&world, [1_u8; 40]);
        assert_eq!(price(&world, || wide.remove(&1).unwrap()), (1, 0, 2));
        let text = with_one(&world, "long".repeat(50));
        assert_eq!(price(&world, || text.remove(&1).unwrap()), (1, 0, 2));
    });
}

#[test]
fn to_take_a_value_costs_an_atomic_more_than_to_remove_it() {
    one_sided_counted(1, |world| {
        let wide = with_one(&world, [1_u8; 40]);
        assert_eq!(price(&world, || wide.take(&2).unwrap()), (0, 0, 1));
        assert_eq!(price(&world, || wide.take(&1).unwrap()), (1, 0, 3));
        let set = with_one(&world, ());
        assert_eq!(price(&world, || set.take(&1).unwrap()), (1, 0, 2));
    });
    served_counted(|world| {
        let wide = map::<u64, [u8; 40]>(&world, 1 << 12);
        if world.rank() == Rank::ZERO {
            let [key, absent] = keys_of(&wide, Rank::new(1), 2)[..] else {
                unreachable!("two keys")
            };
            wide.insert(&key, [7; 40]).unwrap();
            let take = |key| assert_eq!(wide.take(&key).unwrap(), Some([7; 40]));
            assert_eq!(asked(&world, || take(key)), 1);
            assert_eq!(
                asked(&world, || assert_eq!(wide.take(&absent).unwrap(), None)),
                1
            );
        }
        world.barrier().unwrap();
    });
}

#[test]
fn upserts_cost_as_much_as_an_update_or_an_insert_and_a_look() {
    everywhere_counted(1, |world| {
        let words = with_one(&world, 5_u64);
        let upsert = |key: u64| words.upsert(&key, 1, |n| n + 1).unwrap();
        assert_eq!(price(&world, || upsert(1)), (1, 0, 3));
        assert_eq!(price(&world, || upsert(2)), (0, 1, 3));
        let get = |key: u64| words.get_or_insert_with(&key, || 7).unwrap();
        assert_eq!(price(&world, || get(1)), (1, 0, 2));
        assert_eq!(price(&world, || get(3)), (0, 1, 3));
    });
}

#[test]
fn a_key_or_value_that_is_longer_than_its_slot_costs_what_the_documentation_says() {
    one_sided_counted(1, |world| {
        let map = map::<String, String>(&world, 1 << 12);
        let (short, long) = ("short".to_owned(), "long ".repeat(50));
        let insert = |key: &String, value: &String| map.insert(key, value.clone()).unwrap();
        assert_eq!(price(&world, || insert(&short, &short)), (0, 1, 2));
        assert_eq!(price(&world, || insert(&short, &short)), (1, 1, 3));
        assert_eq!(price(&world, || map.find(&short).unwrap()), (1, 0, 2));
        // The key is searched before memory is allocated for it, and the allocation first checks
        // for released blocks.
        let (reads, writes, atomics) = price(&world, || insert(&long, &long));
        assert_eq!((reads, writes), (0, 3));
        assert!(atomics <= 5, "{atomics} atomics");
        assert_eq!(price(&world, || map.find(&long).unwrap()), (3, 0, 3));
    });
}

#[test]
fn a_rank_fetches_the_slots_of_another_one_in_chunks() {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    loopback::run_with(2, &config, |world| {
        let map = map::<u64, u64>(&world, 2048);
        if world.rank() == Rank::ZERO {
            map.add_many(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 1).unwrap();
        }
        let map = map.into_find_phase().unwrap();
        let other = Rank::new(1 - world.rank().number());
        let mut n = 0;
        let (reads, writes, atomics) = price(&world, || n = map.entries_on(other).count() as u64);
        assert_eq!((reads, writes, atomics), (4 + n, 0, 2 * n));
        world.barrier().unwrap();
    });
}

/// The first `n` keys whose home rank is this one.
pub(super) fn keys_of<V: Object>(map: &HashMap<u64, V>, rank: Rank, n: usize) -> Vec<u64> {
    let home = |key: &u64| {
        let hash = Hash::of::<u64>(key, &RapidHasher);
        map.table.shape.home_rank(hash)
    };
    (0..).filter(|key| home(key) == rank).take(n).collect()
}

/// Runs `body` on rank 0 of two that serve each other, with keys of rank 1.
fn asking(body: impl Fn(&World, &HashMap<u64, u64>, [u64; 3]) + Sync) {
    served_counted(|world| {
        let map = map::<u64, u64>(&world, 1 << 14);
        if world.rank() == Rank::ZERO {
            let keys = keys_of(&map, Rank::new(1), 3);
            body(&world, &map, [keys[0], keys[1], keys[2]]);
        }
        world.barrier().unwrap();
    });
}

/// Messages that are counted, the operation and the case in the table of prices, and the call.
type Case<'a> = (u64, (&'static Operation, &'static str), &'a dyn Fn());

#[test]
fn where_ranks_serve_each_other_an_operation_is_one_message_and_an_update_two() {
    asking(|world, map, [key, other, absent]| {
        let cases: [Case<'_>; 11] = [
            (1, (&prices::HASH_MAP_INSERT, "new"), &|| {
                assert_eq!(map.insert(&key, 5).unwrap(), Inserted::New);
            }),
            (1, (&prices::HASH_MAP_INSERT, "over a word"), &|| {
                assert_eq!(map.insert(&key, 6).unwrap(), Inserted::Replaced);
            }),
            (1, (&prices::HASH_MAP_FIND, "present"), &|| {
                assert_eq!(map.find(&key).unwrap(), Some(6));
            }),
            (1, (&prices::HASH_MAP_FIND, "absent"), &|| {
                assert_eq!(map.find(&absent).unwrap(), None);
            }),
            (1, (&prices::HASH_MAP_CONTAINS, "present"), &|| {
                assert!(map.contains(&key).unwrap());
            }),
            (1, (&prices::HASH_MAP_FETCH_ADD, "present"), &|| {
                assert_eq!(map.fetch_add(&key, 2).unwrap(), 6);
            }),
            (1, (&prices::HASH_MAP_GET_OR_INSERT, "new"), &|| {
                assert_eq!(map.get_or_insert(&other, 9).unwrap(), 9);
            }),
            (2, (&prices::HASH_MAP_UPDATE, "a word"), &|| {
                assert_eq!(map.update(&key, |n| n + 1).unwrap(), Some(8));
            }),
            (1, (&prices::HASH_MAP_UPDATE, "absent"), &|| {
                assert_eq!(map.update(&absent, |n| n + 1).unwrap(), None);
            }),
            (2, (&prices::HASH_MAP_UPDATE, "a word"), &|| {
                assert_eq!(map.upsert(&other, 1, |n| n + 1).unwrap(), Some(9));
            }),
            (1, (&prices::HASH_MAP_REMOVE, "present"), &|| {
                assert!(map.remove(&key).unwrap());
            }),
        ];
        for (n, (operation, when), f) in cases {
            let name = format!("{} {when}", operation.name());
            assert_eq!(asked(world, f), n, "{name}");
            let documented = operation.prices().iter().find(|price| price.when == when);
            assert_eq!(documented.map(|price| price.messages), Some(n), "{name}");
        }
    });
}

#[test]
fn where_ranks_serve_each_other_a_batch_is_a_few_messages() {
    asking(|world, map, _| {
        let keys = keys_of(map, Rank::new(1), 1000);
        let entries: Vec<_> = keys.iter().map(|&key| (key, key + 1)).collect();
        // The rest in the lanes is sent, too.
        let limit = 3 + (16_000_u64).div_ceil(world.capabilities().max_medium as u64 - 100);
        let n = asked(world, || {
            assert_eq!(map.insert_many(&entries).unwrap(), 1000);
        });
        assert!((1..=limit).contains(&n), "{n} messages");
        let n = asked(world, || assert_eq!(map.add_many(&keys, 1).unwrap(), 0));
        assert!((1..=limit).contains(&n), "{n} messages");
        let mut found = Vec::new();
        let n = asked(world, || found = map.find_many(&keys).unwrap());
        assert!(
            found
                .iter()
                .zip(&keys)
                .all(|(found, key)| *found == Some(key + 2))
        );
        assert!((1..=limit).contains(&n), "{n} messages");
        let n = asked(world, || {
            assert_eq!(map.upsert_many::<Sum>(&entries).unwrap(), 0);
        });
        assert!((1..=limit).contains(&n), "{n} messages");
        assert_eq!(map.find(&keys[9]).unwrap(), Some(2 * keys[9] + 3));
        let n = asked(world, || assert_eq!(map.remove_many(&keys).unwrap(), 1000));
        assert!((1..=limit).contains(&n), "{n} messages");
    });
}

/// Adds the given value.
enum Sum {}

impl Combine<u64> for Sum {
    fn combine(there: u64, given: &u64) -> u64 {
        there + given
    }
}

#[cfg(feature = "rayon")]
#[test]
fn all_threads_together_read_as_much_as_one() {
    one_sided_counted(1, |world| {
        let map = map::<u64, u64>(&world, 100);
        map.extend((0..50).map(|i| (i, i))).unwrap();
        let one = price(&world, || map.for_each_local(|_, _| {}).unwrap());
        assert!(one.0 > 0 || one.2 > 0, "{one:?}");
        let all = price(&world, || map.par_for_each_local(|_, _| {}).unwrap());
        assert_eq!(all, one);
    });
}
