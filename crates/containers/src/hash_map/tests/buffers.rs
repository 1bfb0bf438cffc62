//! Buffered inserts and sets.

use std::collections::BTreeMap;

use super::concurrent::Random;
use super::*;
use crate::Error;
use crate::hash_map::{HashMapBuffer, HashSet};
use crate::testing::{everywhere_by, take_symmetric_memory};
use pgas_core::config::Routing;
use pgas_core::{Rank, as_handler};

/// Every rank adds to random keys, through buffers and inboxes of some size into a map of some
/// size, in two rounds.
fn check_counts(world: &World, capacity: usize, inbox: usize, n: u64, n_keys: u64) {
    let counts = map::<u64, u64>(world, capacity);
    let mut buffer = HashMapBuffer::new(counts, inbox, |there, more| there + more).unwrap();
    let mut expected = BTreeMap::new();
    for rank in 0..world.n_ranks() {
        let mut random = Random(u64::from(rank) << 32 | n);
        for round in 0..2 {
            for _ in 0..n {
                let (key, add) = (random.below(n_keys), random.below(10) + round);
                *expected.entry(key).or_insert(0) += add;
            }
        }
    }
    let mut random = Random(u64::from(world.rank().number()) << 32 | n);
    for round in 0..2 {
        for _ in 0..n {
            let (key, add) = (random.below(n_keys), random.below(10) + round);
            buffer.insert(key, add).unwrap();
        }
        buffer.flush().unwrap();
    }
    let counts = buffer.into_map().unwrap();
    assert_eq!(counts.len().unwrap(), expected.len() as u64);
    let keys: Vec<u64> = expected.keys().copied().collect();
    let values: Vec<_> = expected.into_values().map(Some).collect();
    assert_eq!(counts.find_many(&keys).unwrap(), values);
    world.barrier().unwrap();
}

#[test]
fn buffered_inserts_are_done_once_whatever_the_sizes_of_buffer_inbox_and_map() {
    for n_ranks in [1, 2, 3] {
        everywhere(n_ranks, |world| {
            check_counts(&world, 1000, 64, 300, 100);
            check_counts(&world, 1, 1, 20, 30);
            check_counts(&world, 40, 7, 100, 39);
            check_counts(&world, 3, 1000, 0, 1);
        });
    }
}

/// Every rank appends texts to values of its own keys.
fn check_texts(world: &World) {
    let texts = map::<String, String>(world, 8);
    let mut buffer = HashMapBuffer::new(texts, 4, |there: String, more: String| there + &more);
    let buffer_ref = buffer.as_mut().unwrap();
    let me = world.rank().number();
    for i in 0..20 {
        let key = format!("key {me} {}", i % 4);
        buffer_ref.insert(key, format!("{i} ")).unwrap();
    }
    let texts = buffer.unwrap().into_map().unwrap();
    for rank in 0..world.n_ranks() {
        for k in 0..4 {
            let expected: String = (0..5).map(|i| format!("{} ", 4 * i + k)).collect();
            let found = texts.find(&format!("key {rank} {k}")).unwrap();
            assert_eq!(found, Some(expected));
        }
    }
    world.barrier().unwrap();
}

#[test]
fn values_of_any_type_are_combined_in_the_order_of_their_sender() {
    everywhere(3, |world| check_texts(&world));
}

#[test]
fn entries_that_other_ranks_pass_on_are_inserted_once_and_in_order() {
    for (routing, n_ranks) in [(Routing::Grid, 7), (Routing::Cube, 9)] {
        everywhere_by(routing, n_ranks, |world| {
            check_counts(&world, 100, 5, 60, 100);
            check_texts(&world);
        });
    }
}

#[test]
fn of_several_entries_of_one_rank_the_last_one_stays() {
    everywhere(3, |world| {
        let words = map::<u64, u32>(&world, 16);
        let mut buffer = HashMapBuffer::new(words, 64, |_, new| new).unwrap();
        let me = u64::from(world.rank().number());
        for round in 0..3 {
            // Fewer entries than may wait for their places, and more.
            for i in 0..100 * round + 20 {
                buffer.insert(10 * me + u64::from(i % 4), i).unwrap();
            }
            buffer.flush().unwrap();
        }
        let words = buffer.into_map().unwrap();
        for rank in 0..3 {
            for k in 0..4 {
                let found = words.find(&(10 * rank + k)).unwrap();
                assert_eq!(found, Some(216 + u32::try_from(k).unwrap()));
            }
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_set_has_each_key_once_in_every_phase() {
    everywhere(2, |world| {
        let set = HashSet::<u64>::with_capacity(&world, 100).unwrap();
        let n_new = (0..30).filter(|key| set.insert(key).unwrap()).count() as u64;
        let n_new = world.allreduce(n_new, |a: u64, b| a + b).unwrap();
        assert_eq!((n_new, set.len().unwrap()), (30, 30));
        if world.rank() == Rank::ZERO {
            assert!(set.remove(&7).unwrap() && !set.remove(&7).unwrap());
            assert_eq!(set.insert_many(&[7, 8, 30]).unwrap(), 2);
            assert_eq!(set.remove_many(&[31, 30, 30]).unwrap(), 1);
            assert_eq!(set.insert_many(&[30]).unwrap(), 1);
        }
        let set = set.into_find_phase().unwrap();
        assert!((0..31).all(|key| set.contains(&key).unwrap()));
        assert!(!set.contains(&31).unwrap());
        let mut keys: Vec<u64> = world
            .ranks()
            .flat_map(|rank| set.keys_on(rank).map(Result::unwrap).collect::<Vec<_>>())
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, (0..31).collect::<Vec<_>>());
        let set = set.into_insert_phase().unwrap();
        assert!(!set.insert(&3).unwrap());
        let mut set = set.into_local_phase().unwrap();
        let here: Vec<u64> = set.local_iter().map(Result::unwrap).collect();
        for key in &here {
            assert_ne!(set.local_insert(key).unwrap(), Some(true));
        }
        set.resize(200).unwrap();
        assert_eq!(set.into_atomic_phase().unwrap().len().unwrap(), 31);
    });
}

#[test]
fn a_rank_that_has_flushed_takes_in_what_the_others_go_on_to_send() {
    everywhere(2, |world| {
        let counts = map::<u64, u64>(&world, 4000);
        let mut buffer = HashMapBuffer::new(counts, 8, |there, more| there + more).unwrap();
        // One rank has nothing to insert, and the inboxes are small.
        if world.rank() == Rank::ZERO {
            for key in 0..1500 {
                buffer.insert(key, 1).unwrap();
            }
        }
        assert_eq!(buffer.into_map().unwrap().len().unwrap(), 1500);
    });
}

#[test]
fn a_flush_that_a_handler_is_refused_has_no_effect() {
    everywhere(2, |world| {
        let counts = map::<u64, u64>(&world, 100);
        let mut buffer = HashMapBuffer::new(counts, 8, |there, more| there + more).unwrap();
        buffer.insert(7, 1).unwrap();
        let refused = as_handler(|| buffer.flush());
        assert!(matches!(refused, Err(Error::InHandler { .. })));
        let counts = buffer.into_map().unwrap();
        assert_eq!(counts.find(&7).unwrap(), Some(2));
        world.barrier().unwrap();
    });
}

#[test]
fn a_map_that_gets_no_buffer_is_as_it_was() {
    everywhere(2, |world| {
        let map = map::<u64, String>(&world, 100);
        map.insert(&u64::from(world.rank().number()), "text".into())
            .unwrap();
        let make = |map, n| HashMapBuffer::new(map, n, |_, new| new);
        let refused = as_handler(|| make(map, 8)).unwrap_err();
        assert!(matches!(refused.error, Error::InHandler { .. }));
        let refused = make(*refused.container, 0).unwrap_err();
        assert!(matches!(refused.error, Error::Argument(_)), "{refused}");
        let map = *refused.container;
        assert_eq!(map.len().unwrap(), 2);
        let taken = take_symmetric_memory(&world);
        let made = make(map, 1000);
        drop(taken);
        let map = match made {
            Ok(buffer) => {
                // Messages need no inbox.
                assert!(world.capabilities().ranks_serve_atomics());
                buffer.into_map().unwrap()
            }
            Err(refused) => {
                assert!(matches!(refused.error, Error::Exhausted(_)), "{refused}");
                *refused.container
            }
        };
        assert_eq!(map.find(&1).unwrap().as_deref(), Some("text"));
        let map = make(map, 1000).unwrap().into_map().unwrap();
        assert_eq!(map.len().unwrap(), 2);
        world.barrier().unwrap();
    });
}

#[test]
fn a_buffer_whose_entries_find_no_memory_keeps_them_and_the_map() {
    const N_KEYS: u64 = 300;
    everywhere(2, |world| {
        let counts = map::<u64, u64>(&world, 8);
        let mut buffer = HashMapBuffer::new(counts, 1000, |there, more| there + more).unwrap();
        for key in 0..N_KEYS {
            buffer.insert(key, 1).unwrap();
        }
        let refused = as_handler(|| buffer.into_map()).unwrap_err();
        assert!(matches!(refused.error, Error::InHandler { .. }));
        let taken = take_symmetric_memory(&world);
        let refused = refused.container.into_map().unwrap_err();
        let is_known = matches!(refused.error, Error::Full { .. } | Error::Elsewhere(_));
        assert!(is_known, "{refused}");
        let mut buffer = refused.container;
        buffer.flush().unwrap_err();
        drop(taken);
        buffer.insert(0, 1).unwrap();
        let counts = buffer.into_map().unwrap();
        assert_eq!(counts.len().unwrap(), N_KEYS);
        for key in 0..N_KEYS {
            let expected = if key == 0 { 4 } else { 2 };
            assert_eq!(counts.find(&key).unwrap(), Some(expected));
        }
        world.barrier().unwrap();
    });
}
