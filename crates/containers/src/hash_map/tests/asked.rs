//! Requests between ranks that serve each other, also where a rank cannot be asked or must not ask.

use pgas_core::Rank;

use super::*;

/// Runs `body` on each of two ranks that serve each other, with a map and keys of rank 1.
fn asked(body: impl Fn(World, HashMap<u64, u64>, [u64; 4]) + Sync) {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    let served = loopback::Options::default().with_served_atomics();
    loopback::run_over(&served, 2, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let map = map::<u64, u64>(&world, 1 << 12);
        let home = |key: &u64| {
            let hash = Hash::of::<u64>(key, &RapidHasher);
            map.table.shape.home_rank(hash)
        };
        let mut keys = (0..).filter(|key| home(key) == Rank::new(1));
        let keys = std::array::from_fn(|_| keys.next().unwrap());
        body(world, map, keys);
    });
}

/// A rank may leave at any moment: served operations are not repeated.
#[test]
fn what_a_rank_that_leaves_does_not_serve_is_done_one_sidedly_and_all_of_it_once() {
    const N: u64 = 300;
    for n_served in [0, 1, 2, 20] {
        asked(|world, map, keys| {
            if world.rank() == Rank::new(1) {
                // Messages, not rounds: where both ranks share a processor, a round serves dozens.
                let n_sent = || world.costs().messages;
                let before = n_sent();
                while n_sent() - before < n_served {
                    world.progress().unwrap();
                }
                return;
            }
            for i in 0..N {
                assert_eq!(map.fetch_add(&keys[0], 1).unwrap(), i);
            }
            let entries = keys.map(|key| (key, 1));
            for i in 0..N {
                assert_eq!(map.add_each(&entries).unwrap(), if i == 0 { 3 } else { 0 });
            }
            let found = map.find_many(&keys).unwrap();
            assert_eq!(found, [Some(2 * N), Some(N), Some(N), Some(N)]);
            assert_eq!(map.update(&keys[1], |n| n + 1).unwrap(), Some(N));
            assert!(map.remove(&keys[1]).unwrap());
            assert_eq!(map.remove_many(&keys).unwrap(), 3);
        });
    }
}

#[test]
fn an_operation_in_a_handler_asks_nobody() {
    asked(|world, map, keys| {
        if world.rank() == Rank::ZERO {
            let before = world.costs().messages;
            pgas_core::as_handler(|| {
                assert_eq!(map.fetch_add(&keys[0], 5).unwrap(), 0);
                assert_eq!(map.find(&keys[0]).unwrap(), Some(5));
                assert_eq!(map.update(&keys[0], |n| n + 1).unwrap(), Some(5));
                assert_eq!(map.get_or_insert(&keys[1], 7).unwrap(), 7);
                assert!(map.remove(&keys[0]).unwrap());
            });
            assert_eq!(world.costs().messages, before);
        }
        world.barrier().unwrap();
    });
}

/// Operations that reach the end of a shard are left to the asking rank, and those behind them in
/// the message are requested again.
#[test]
fn a_batch_that_is_served_in_part_is_carried_out_once_in_its_order() {
    asked(|world, _, _| {
        let map = map::<u64, u64>(&world, 60);
        if world.rank() == Rank::ZERO {
            let entries: Vec<(u64, u64)> = (0..60).chain(0..60).map(|key| (key, 1)).collect();
            assert_eq!(map.add_each(&entries).unwrap(), 60);
            let keys: Vec<u64> = (0..60).collect();
            assert_eq!(map.find_many(&keys).unwrap(), vec![Some(2); 60]);
            let entries: Vec<(u64, u64)> = (0..120).map(|i| (i % 60, i)).collect();
            assert_eq!(map.insert_many(&entries).unwrap(), 0);
            let expected: Vec<_> = (60..120).map(Some).collect();
            assert_eq!(map.find_many(&keys).unwrap(), expected);
            let refused = map.insert_many(&[(1, 2), (70, 1), (1, 3)]).unwrap_err();
            assert_eq!(refused.done, 1, "there is no room for 70");
            assert_eq!(map.remove_many(&keys).unwrap(), 60);
        }
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), 0);
    });
}

/// Several messages at once to a rank.
#[test]
fn a_long_batch_of_finds_and_removals_has_an_answer_for_each_key() {
    asked(|world, map, _| {
        if world.rank() == Rank::ZERO {
            let keys: Vec<u64> = (0..1500).collect();
            assert_eq!(map.add_many(&keys, 4).unwrap(), 1500);
            assert_eq!(map.find_many(&keys).unwrap(), vec![Some(4); 1500]);
            assert_eq!(map.remove_many(&keys).unwrap(), 1500);
        }
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), 0);
    });
}

#[test]
fn updates_of_several_ranks_are_all_there() {
    const N: u64 = 200;
    asked(|world, map, keys| {
        if world.rank() == Rank::ZERO {
            map.insert(&keys[0], 0).unwrap();
        }
        world.barrier().unwrap();
        for _ in 0..N {
            map.update(&keys[0], |n| n + 1).unwrap();
        }
        world.barrier().unwrap();
        assert_eq!(map.find(&keys[0]).unwrap(), Some(2 * N));
        world.barrier().unwrap();
    });
}

#[test]
fn an_update_that_was_overtaken_begins_again_with_the_newer_value() {
    asked(|world, map, keys| {
        if world.rank() == Rank::ZERO {
            map.insert(&keys[0], 1).unwrap();
            let mut seen = Vec::new();
            let former = map.update(&keys[0], |n| {
                seen.push(n);
                if n == 1 {
                    map.insert(&keys[0], 10).unwrap();
                }
                n + 1
            });
            assert_eq!((former.unwrap(), seen), (Some(10), vec![1, 10]));
            assert_eq!(map.find(&keys[0]).unwrap(), Some(11));
        }
        world.barrier().unwrap();
    });
}
