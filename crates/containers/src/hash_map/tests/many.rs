//! Operations on all entries, or on many, and inserts where there is none.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::Error;
use pgas_core::collective::op::Sum;

/// Texts, half of which are longer than a slot.
fn text(i: u64) -> String {
    format!("{i} ").repeat(if i.is_multiple_of(2) { 1 } else { 60 })
}

/// Inserts `n` texts, of this rank alone.
fn fill(map: &HashMap<String, String>, n: u64) {
    let me = u64::from(map.world().rank().number());
    let entries = (0..n).map(|i| (text(me * n + i), text(i)));
    assert_eq!(map.extend(entries).unwrap() as u64, n);
}

#[test]
fn of_several_ranks_one_inserts_where_a_key_is_absent() {
    everywhere(4, |world| {
        let map = map::<u64, u64>(&world, 100);
        let me = u64::from(world.rank().number());
        let first = (0..50).filter(|key| map.insert_if_absent(key, me).unwrap().is_none());
        let n_first = first.count() as u64;
        assert_eq!(world.allreduce(n_first, Sum).unwrap(), 50);
        for key in 0..50 {
            let there = map.find(&key).unwrap();
            assert_eq!(map.insert_if_absent(&key, 9).unwrap(), there);
        }
        world.barrier().unwrap();
    });
}

#[test]
fn an_insert_where_a_key_is_absent_costs_as_much_as_an_insert_or_a_find() {
    everywhere_counted(1, |world| {
        let words = map::<u64, u64>(&world, 1 << 12);
        let insert = || words.insert_if_absent(&1, 5).unwrap();
        assert_eq!(price(&world, insert), (0, 1, 2));
        assert_eq!(price(&world, insert), (1, 0, 2));
    });
}

#[test]
fn an_iterator_ends_at_the_entry_that_finds_no_room() {
    everywhere(1, |world| {
        let map = map::<u64, u64>(&world, 1500);
        let refused = map.extend((0..2000).map(|i| (i, i))).unwrap_err();
        // If they are sent by messages, some behind the refused one were inserted.
        assert!((1200..=1500).contains(&refused.done));
        assert!((0..refused.done as u64).all(|i| map.contains(&i).unwrap()));
        assert!(matches!(refused.error, Error::Full { capacity: 1500 }));
        assert_eq!(map.len().unwrap(), 1500);
        assert_eq!(map.extend((0..1100).map(|i| (i, i + 1))).unwrap(), 0);
        assert_eq!(map.find(&1099).unwrap(), Some(1100));
        assert_eq!(map.find(&1100).unwrap(), Some(1100));
    });
}

#[test]
fn a_map_that_was_cleared_is_empty_and_its_memory_serves_the_next_entries() {
    everywhere(2, |world| {
        let used = || {
            world.barrier().unwrap();
            world.reclaim().unwrap();
            world.allreduce(world.local_heap_use().used, Sum).unwrap()
        };
        for is_reused in [false, true] {
            let mut map = map::<String, String>(&world, 100);
            if is_reused {
                map = map.reuse_slots().unwrap();
            }
            map.clear().unwrap();
            let mut before = None;
            for _ in 0..3 {
                fill(&map, 40);
                world.barrier().unwrap();
                map.remove(&text(7)).unwrap();
                world.barrier().unwrap();
                assert_eq!(map.len().unwrap(), 79);
                map.clear().unwrap();
                assert!(map.is_empty().unwrap());
                assert_eq!(map.find(&text(8)).unwrap(), None);
                assert_eq!((map.local_iter().count(), map.capacity()), (0, 100));
                let now = used();
                assert_eq!(*before.get_or_insert(now), now);
            }
        }
    });
}

/// With values that are a word, behind a version, and on the heap, each of which gets another
/// length.
#[test]
fn each_rank_replaces_all_values_that_it_holds() {
    everywhere(2, |world| {
        let all = |n: u64| world.allreduce(n, Sum).unwrap();
        let words = map::<u64, u64>(&world, 100);
        let short = map::<u64, u8>(&world, 100);
        let long = map::<u64, String>(&world, 100);
        for key in (0..40).filter(|key| key % 2 == u64::from(world.rank().number())) {
            words.insert(&key, key).unwrap();
            short.insert(&key, 1).unwrap();
            long.insert(&key, "x".repeat(100)).unwrap();
        }
        world.barrier().unwrap();
        words.remove(&0).unwrap();
        let mut words = words.into_local_phase().unwrap();
        let mut short = short.into_local_phase().unwrap();
        let mut long = long.into_local_phase().unwrap();
        assert_eq!(
            all(words.local_update_all(|key, n| 1000 * key + n).unwrap()),
            39
        );
        assert_eq!(all(short.local_update_all(|_, n| n + 1).unwrap()), 40);
        let longer = |key: &u64, text: String| text.repeat(usize::try_from(*key).unwrap());
        assert_eq!(all(long.local_update_all(longer).unwrap()), 40);

        let fails = || short.local_update_all(|_, _| panic!("no value"));
        let panicked = catch_unwind(AssertUnwindSafe(fails)).is_err();
        assert_eq!(panicked, short.local_iter().count() > 0);
        let short = short.into_find_phase().unwrap();
        let (words, long) = (
            words.into_find_phase().unwrap(),
            long.into_find_phase().unwrap(),
        );
        for key in 0..40 {
            assert_eq!(words.find(&key).unwrap(), (key > 0).then_some(1001 * key));
            assert_eq!(short.find(&key).unwrap(), Some(2));
            let length = long.find(&key).unwrap().unwrap().len() as u64;
            assert_eq!(length, 100 * key);
        }
        world.barrier().unwrap();
    });
}

#[test]
fn each_rank_drains_and_retains_what_it_holds() {
    everywhere(2, |world| {
        let map = map::<String, String>(&world, 2000);
        fill(&map, 40);
        let mut map = map.into_local_phase().unwrap();
        let all = |n: u64| world.allreduce(n, Sum).unwrap();
        let is_even =
            |value: &str| value.split(' ').next().unwrap().parse::<u64>().unwrap() % 2 == 0;
        let n_removed = map.local_retain(|_, value| is_even(value)).unwrap();
        assert_eq!((all(n_removed), map.len().unwrap()), (40, 40));
        assert_eq!(map.local_retain(|_, _| true).unwrap(), 0);
        assert!(map.local_iter().all(|entry| is_even(&entry.unwrap().1)));

        let n_here = map.local_iter().count();
        let some: Vec<_> = map
            .local_drain()
            .take(n_here / 2)
            .map(Result::unwrap)
            .collect();
        assert_eq!(
            map.local_iter().count(),
            n_here - n_here / 2,
            "the others stay"
        );
        for (key, _) in &some {
            assert_eq!(map.local_find(key).unwrap(), None);
        }
        let rest: Vec<_> = map.local_drain().map(Result::unwrap).collect();
        assert_eq!(all((some.len() + rest.len()) as u64), 40);
        assert!(some.iter().chain(&rest).all(|(_, value)| is_even(value)));
        assert_eq!((map.len().unwrap(), map.local_iter().count()), (0, 0));
        for (key, value) in &some {
            assert!(map.local_insert(key, value).unwrap().is_some());
        }
        assert_eq!(map.len().unwrap(), all(some.len() as u64));
        let map = map.into_find_phase().unwrap();
        for (key, value) in &some {
            assert_eq!(map.find(key).unwrap().as_ref(), Some(value));
        }
        world.barrier().unwrap();
    });
}

#[test]
fn clearing_costs_as_many_barriers_as_it_says() {
    everywhere_counted(1, |world| {
        let mut map = map::<u64, u64>(&world, 100);
        let before = world.costs();
        map.clear().unwrap();
        let costs = world.costs() - before;
        assert_eq!(costs.barriers, 2, "{costs:?}");
    });
}
