//! Maps with several values per key.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pgas_core::{Rank, as_handler};

use super::*;
use crate::TakeError;
use crate::hash_map::{MultiMap, SeededHasher, loaded_numbers};
use crate::object::KeyHasher;

#[test]
fn a_multimap_keeps_every_value_of_a_key_once() {
    everywhere(3, |world| {
        let values = MultiMap::<String, [u64; 3]>::with_capacity(&world, 200).unwrap();
        let me = u64::from(world.rank().number());
        for i in 0..12 {
            values.insert(&format!("{}", i % 3), [me, i, 7]).unwrap();
        }
        world.barrier().unwrap();
        assert_eq!((values.len().unwrap(), values.n_keys().unwrap()), (36, 3));
        let values = values.into_find_phase().unwrap();
        for key in 0..3 {
            let mut found = values.find(&format!("{key}")).unwrap();
            assert_eq!(values.count(&format!("{key}")).unwrap(), 12);
            // The values of one rank are in its order.
            for rank in 0..3 {
                let of_rank = found.iter().filter(|value| value[0] == rank);
                assert!(of_rank.is_sorted());
            }
            found.sort_unstable();
            let expected = (0..3).flat_map(|rank| (0..4).map(move |i| [rank, 3 * i + key, 7]));
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
        let here = values.local_iter().count() as u64;
        assert_eq!(world.allreduce(here, |a: u64, b| a + b).unwrap(), 36);
        assert!(values.find(&"none".to_owned()).unwrap().is_empty());
        assert!(!values.into_atomic_phase().unwrap().is_empty().unwrap());
    });
}

#[test]
fn what_is_removed_from_a_multimap_is_what_was_there_and_is_there_no_more() {
    everywhere(2, |world| {
        let values = MultiMap::<u64, String>::with_capacity(&world, 200).unwrap();
        let me = u64::from(world.rank().number());
        for round in 0..3 {
            for i in 0..10 {
                let before = values.insert(&me, format!("{round} {i}")).unwrap();
                assert_eq!(before, i);
            }
            world.barrier().unwrap();
            assert_eq!(values.n_keys().unwrap(), 2);
            let expected: Vec<_> = (0..10).map(|i| format!("{round} {i}")).collect();
            assert_eq!(values.find(&(1 - me)).unwrap(), expected);
            world.barrier().unwrap();
            assert_eq!(values.remove(&me).unwrap(), expected);
            assert!(values.remove(&me).unwrap().is_empty());
            assert_eq!(values.count(&me).unwrap(), 0);
            world.barrier().unwrap();
            assert_eq!((values.len().unwrap(), values.n_keys().unwrap()), (0, 0));
        }
        assert!(values.remove(&7).unwrap().is_empty());
    });
}

#[test]
fn each_value_of_a_multimap_is_removed_once_whoever_inserts_meanwhile() {
    const N: u64 = 300;
    everywhere(4, |world| {
        // A slot for each of 1200 inserts, and one for each repeated insert: each of 400 removals
        // makes at most three ranks repeat theirs.
        let values = MultiMap::<u64, [u64; 2]>::with_capacity(&world, 2 * 4 * 300).unwrap();
        let me = u64::from(world.rank().number());
        let mut seen = vec![0_u64; 4 * 300];
        let mut take = |key| {
            for [rank, i] in values.remove(&key).unwrap() {
                seen[usize::try_from(rank * N + i).unwrap()] += 1;
            }
        };
        for i in 0..N {
            // One by one, and some together.
            if i < N / 2 {
                values.insert(&(i % 2), [me, i]).unwrap();
            } else if i % 5 == 0 {
                let some = i..i + 5;
                values.extend(some.map(|i| (i % 2, [me, i]))).unwrap();
            }
            if i % 3 == me % 3 {
                take(i / 3 % 2);
            }
        }
        world.barrier().unwrap();
        take(me % 2);
        world.barrier().unwrap();
        assert_eq!(values.len().unwrap(), 0);
        world
            .team()
            .allreduce_slice(&mut seen, |a: u64, b| a + b)
            .unwrap();
        assert_eq!(seen, vec![1; 4 * 300]);
    });
}

#[test]
fn of_many_values_those_before_the_first_refused_one_are_there() {
    everywhere(1, |world| {
        let values = MultiMap::<u64, u64>::with_capacity(&world, 10).unwrap();
        let entries = |range: std::ops::Range<u64>| range.map(|i| (i % 2, i));
        values.extend(entries(0..2)).unwrap();
        // Their keys are present, so all take numbers at once.
        let refused = values.extend(entries(2..30)).unwrap_err();
        assert!(matches!(refused.error, crate::Error::Full { .. }));
        let done = 2 + refused.done as u64;
        let is_in_order = map::<u64, u64>(&world, 8).table.is_local();
        let least = if is_in_order { 10 } else { 2 };
        assert!((least..20).contains(&done), "{done}");
        assert_eq!(values.len().unwrap(), done);
        for key in 0..2 {
            let expected: Vec<u64> = (0..done).filter(|i| i % 2 == key).collect();
            assert_eq!(values.find(&key).unwrap(), expected);
            assert_eq!(values.count(&key).unwrap(), expected.len() as u64);
        }
        // The numbers of refused values were given back.
        assert_eq!(values.remove(&0).unwrap().len() as u64, done.div_ceil(2));
        let before = values.count(&1).unwrap();
        if is_in_order {
            let refused = values.extend([(1, 7), (1, 8)]).unwrap_err();
            assert_eq!((refused.done, values.count(&1).unwrap()), (0, before));
        }
    });
}

/// What a hasher does once, at so many bytes.
type Hook = RefCell<Option<(usize, Box<dyn FnOnce()>)>>;

thread_local! {
    static HOOK: Hook = const { RefCell::new(None) };
}

/// The bytes of a key, and of a number behind it.
const KEY: usize = size_of::<u32>();
const NUMBER: usize = size_of::<u64>();

/// Calls a function of the test at some point of an insert.
struct Hooked;

impl KeyHasher for Hooked {
    fn hash(&self, bytes: &[u8]) -> u64 {
        let hook = HOOK.with_borrow_mut(|hook| hook.take_if(|(len, _)| *len == bytes.len()));
        if let Some((_, hook)) = hook {
            hook();
        }
        RapidHasher.hash(bytes)
    }
}

fn hook(len: usize, hook: impl FnOnce() + 'static) {
    HOOK.set(Some((len, Box::new(hook))));
}

/// What another rank does between the numbers and the values.
#[test]
fn values_that_find_no_room_behind_a_removal_leave_nothing() {
    let world = loopback::world();
    let map = MultiMap::<u32, u64, _, _>::with_hasher(&world, 4, Hooked).unwrap();
    let map = Rc::new(map);
    map.extend([(2, 1), (2, 2)]).unwrap();
    let other = Rc::clone(&map);
    hook(NUMBER, move || assert_eq!(other.remove(&1).unwrap(), []));
    let refused = map.extend([(1, 10), (3, 30)]).unwrap_err();
    assert!(matches!(refused.error, crate::Error::Full { .. }));
    assert_eq!(refused.done, 0);
    for key in [1, 3] {
        assert_eq!(map.find(&key).unwrap(), []);
        assert_eq!(map.count(&key).unwrap(), 0);
    }
    assert_eq!((map.len().unwrap(), map.n_keys().unwrap()), (2, 1));
    assert_eq!(map.local_iter().count(), 2);
}

/// Each insert ends by a panic of the hasher after it has taken its number.
#[test]
fn a_number_without_a_value_after_a_panic_is_a_gap() {
    type Map = MultiMap<u32, u64, Atomic, Hooked>;
    type Insert = fn(&Map) -> Result<(), crate::Error>;
    let inserts: [Insert; 3] = [
        |map| map.insert(&1, 10).map(drop),
        |map| Ok(map.extend([(1, 10), (1, 20), (2, 30)])?),
        |map| map.insert_nb(&1, 10)?.wait().map(drop),
    ];
    everywhere(1, |world| {
        for insert in inserts {
            let map = Map::with_hasher(&world, 100, Hooked).unwrap();
            map.insert(&2, 7).unwrap();
            hook(NUMBER, || panic!("no hash"));
            // The panic of a task is an error of who waits for it.
            let ended = catch_unwind(AssertUnwindSafe(|| insert(&map)));
            assert!(!matches!(ended, Ok(Ok(()))));
            assert_eq!((map.count(&1).unwrap(), map.find(&1).unwrap()), (0, vec![]));
            assert!(!map.contains(&1).unwrap());
            assert_eq!((map.n_keys().unwrap(), map.count(&2).unwrap()), (1, 1));
            insert(&map).unwrap();
            assert_eq!(map.find(&1).unwrap()[0], 10);
            assert_eq!(map.count(&1).unwrap(), map.find(&1).unwrap().len() as u64);
            assert_eq!(map.local_len().unwrap(), map.len().unwrap());
        }
    });
}

/// Panics at the next key that is hashed once the map has a value.
fn panic_beside_value(map: Rc<MultiMap<u32, u64, Atomic, Hooked>>) {
    hook(KEY, move || {
        assert_eq!(map.local_iter().count(), 0, "no hash");
        panic_beside_value(map);
    });
}

/// The removal has passed the number, and has not found the value.
#[test]
fn a_removal_before_a_panic_leaves_no_value() {
    let world = loopback::world();
    let map = MultiMap::<u32, u64, _, _>::with_hasher(&world, 10, Hooked).unwrap();
    let map = Rc::new(map);
    let other = Rc::clone(&map);
    hook(NUMBER, move || {
        assert_eq!(other.remove(&1).unwrap(), []);
        panic_beside_value(other);
    });
    catch_unwind(AssertUnwindSafe(|| map.insert(&1, 10))).unwrap_err();
    assert_eq!((map.count(&1).unwrap(), map.len().unwrap()), (0, 0));
    assert_eq!(map.insert(&1, 20).unwrap(), 0);
    assert_eq!(
        (map.count(&1).unwrap(), map.remove(&1).unwrap()),
        (1, vec![20])
    );
}

/// Panics at a hash of a number, behind `n` others.
fn panic_behind(n: u32) {
    hook(NUMBER, move || match n.checked_sub(1) {
        Some(n) => panic_behind(n),
        None => panic!("no hash"),
    });
}

/// At each of its calls the hasher panics, and what is left is removed nevertheless.
#[test]
fn a_removal_that_ends_by_a_panic_leaves_no_value_without_a_key() {
    type Map = MultiMap<u32, u64, Atomic, Hooked>;
    type Remove = fn(&Map) -> Result<Vec<u64>, TakeError<u64>>;
    let removes: [Remove; 2] = [|map| map.remove(&1), |map| map.remove_nb(&1)?.wait()?];
    attached_everywhere(1, |world| {
        for remove in removes {
            for n in 0.. {
                let map = Map::with_hasher(&world, 100, Hooked).unwrap();
                map.extend([(1, 10), (2, 7), (1, 20), (1, 30)]).unwrap();
                panic_behind(n);
                let ended = catch_unwind(AssertUnwindSafe(|| remove(&map)));
                let has_panicked = HOOK.take().is_none();
                assert_eq!((map.count(&1).unwrap(), map.find(&1).unwrap()), (0, vec![]));
                assert_eq!((map.len().unwrap(), map.n_keys().unwrap()), (1, 1));
                let left: Vec<_> = map.local_iter().map(Result::unwrap).collect();
                assert_eq!(left, [(2, 7)]);
                match ended {
                    Ok(Ok(removed)) => assert_eq!(removed, [10, 20, 30]),
                    Ok(Err(failed)) => assert_eq!((failed.taken.len(), failed.lost.n), (2, 1)),
                    Err(_panic) => assert!(has_panicked),
                }
                if !has_panicked {
                    assert!(n > 3, "{n} hashes of numbers");
                    break;
                }
            }
        }
    });
}

/// Where each step is done when it is begun, a handler may wait for the result.
#[test]
fn a_removal_in_flight_is_over_at_once_where_its_steps_are() {
    pgas_smp::threads(1, |world| {
        pgas_am::attach(&world).unwrap();
        let map = MultiMap::<u32, u64>::with_capacity(&world, 100).unwrap();
        map.extend([(1, 10), (1, 20)]).unwrap();
        let removed = as_handler(|| map.remove_nb(&1).unwrap().wait());
        assert_eq!(removed.unwrap().unwrap(), [10, 20]);
    })
    .unwrap();
}

/// The values that others have taken out are not lost by one that panics.
#[test]
fn a_removal_in_flight_that_panics_returns_the_other_values() {
    loopback::run(1, |world| {
        pgas_am::attach(&world).unwrap();
        let map = MultiMap::<u32, u64, _, _>::with_hasher(&world, 100, Hooked).unwrap();
        map.extend([(1, 10), (1, 20), (1, 30)]).unwrap();
        panic_behind(1);
        let TakeError { taken, lost } = map.remove_nb(&1).unwrap().wait().unwrap().unwrap_err();
        assert_eq!((taken, lost.n), (vec![10, 30], 1));
        assert!(matches!(lost.first, crate::Error::RemotePanic(_)));
        assert_eq!(map.len().unwrap(), 0);
    });
}

#[test]
fn a_multimap_costs_what_its_two_maps_cost() {
    one_sided_counted(1, |world| {
        let values = MultiMap::<u64, u64>::with_capacity(&world, 1 << 12).unwrap();
        let insert = |value| values.insert(&1, value).unwrap();
        assert_eq!(price(&world, || insert(10)), (1, 2, 6));
        assert_eq!(price(&world, || insert(20)), (2, 1, 6));
        assert_eq!(price(&world, || values.count(&1).unwrap()), (1, 0, 2));
        assert_eq!(price(&world, || values.find(&1).unwrap()), (3, 0, 6));
        assert_eq!(price(&world, || values.contains(&1).unwrap()), (1, 0, 2));
        let find_many = || values.find_many(&[1]).unwrap();
        assert_eq!(price(&world, find_many), (3, 0, 6));
        assert_eq!(price(&world, || values.remove(&1).unwrap()), (5, 0, 11));
        assert_eq!(price(&world, || values.remove(&2).unwrap()), (0, 0, 1));
        let extend = |entries: &[(u64, u64)]| {
            let entries = entries.iter().copied();
            price(&world, || values.extend(entries).unwrap())
        };
        assert_eq!(extend(&[(1, 30)]), (2, 1, 6), "as inserts");
        assert_eq!(extend(&[(1, 40), (1, 50)]), (4, 2, 12));
        assert_eq!(extend(&[(3, 10)]), (1, 2, 6));
    });
}

#[test]
fn numbers_of_a_key_run_out_before_they_wrap() {
    everywhere(1, |world| {
        let values = MultiMap::<u64, u64>::with_capacity(&world, 10).unwrap();
        values.insert(&1, 10).unwrap();
        let most = (1 << 31) - (1 << 24);
        values.give_numbers(&1, most - 2);
        assert_eq!(values.insert(&1, 20).unwrap(), most - 1);
        for _ in 0..3 {
            let refused = values.insert(&1, 30).unwrap_err().to_string();
            assert!(refused.contains("at most 2130706432 inserts"), "{refused}");
        }
        values.insert(&2, 30).unwrap();
        assert_eq!(values.len().unwrap(), 3);
        let refused = values.extend([(2, 40), (1, 50), (2, 60)]).unwrap_err();
        assert!(refused.to_string().contains("at most 2130706432"));
        assert_eq!((refused.done, values.find(&2).unwrap()), (1, vec![30, 40]));
        assert_eq!(values.len().unwrap(), 4);
    });
}

/// Between the two steps of a refused insert.
#[test]
fn a_removal_beside_an_insert_beyond_the_last_number_leaves_a_range() {
    everywhere(1, |world| {
        let values = MultiMap::<u64, u64>::with_capacity(&world, 10).unwrap();
        values.insert(&1, 10).unwrap();
        let most = (1 << 31) - (1 << 24);
        values.give_numbers(&1, most - 1);
        values.give_numbers(&1, 1);
        values.pass_all(&1);
        values.give_numbers(&1, u64::MAX);
        assert_eq!(values.count(&1).unwrap(), 0);
        let refused = values.insert(&1, 30).unwrap_err().to_string();
        assert!(refused.contains("at most 2130706432 inserts"), "{refused}");
        assert_eq!(values.find(&1).unwrap(), []);
    });
}

#[test]
fn numbers_beyond_all_values_are_given_anew_if_there_are_gaps_and_refused_if_not() {
    const GAPS: u64 = 1 << 63;
    let range = |first: u64, next: u64| first << 32 | next;
    for word in [range(3, 10), range(3, 10) | GAPS] {
        assert_eq!(loaded_numbers(word, 7), Ok(word));
    }
    loaded_numbers(range(3, 10), 6).unwrap_err();
    for word in [range(3, 10), range(3, 10_000_000)] {
        assert_eq!(loaded_numbers(word | GAPS, 6), Ok(range(0, 6) | GAPS));
    }
    loaded_numbers(range(11, 10) | GAPS, 100).unwrap_err();
    loaded_numbers(range(0, (1 << 31) - 1) | GAPS, 100).unwrap_err();
}

#[test]
fn a_multimap_grows_and_keeps_every_value_in_its_order() {
    everywhere(2, |world| {
        let mut values = MultiMap::<u64, String>::with_capacity(&world, 10).unwrap();
        let me = u64::from(world.rank().number());
        let text = |i: u64| format!("{me} {i} ").repeat(20);
        for i in 0..4 {
            values.insert(&me, text(i)).unwrap();
        }
        // No room for the values that are there: the map stays as it was.
        let refused = values.resize(7).unwrap_err();
        assert!(matches!(refused, crate::Error::Argument(_)), "{refused}");
        assert_eq!(values.capacity(), 10);
        values.resize(40).unwrap();
        assert!(values.capacity() >= 40);
        for i in 4..15 {
            assert_eq!(values.insert(&me, text(i)).unwrap(), i);
        }
        let expected: Vec<String> = (0..15).map(text).collect();
        assert_eq!(values.find(&me).unwrap(), expected);
        world.barrier().unwrap();
        assert_eq!((values.len().unwrap(), values.n_keys().unwrap()), (30, 2));
        values.clear().unwrap();
        assert_eq!((values.len().unwrap(), values.n_keys().unwrap()), (0, 0));
        assert!(!values.contains(&me).unwrap() && values.find(&me).unwrap().is_empty());
        assert_eq!(values.insert(&me, text(1)).unwrap(), 0);
        assert_eq!(values.find(&me).unwrap(), [text(1)]);
        world.barrier().unwrap();
    });
}

#[test]
fn many_keys_of_a_multimap_are_found_as_one_after_the_other() {
    everywhere(2, |world| {
        let hasher = SeededHasher::new(7);
        let values = MultiMap::<String, u64, _, _>::with_hasher(&world, 200, hasher).unwrap();
        let key = |i: u64| i.to_string();
        let entries = (0..10).flat_map(|i| (0..i).map(move |n| (key(i), 100 * i + n)));
        if world.rank() == Rank::ZERO {
            values.extend(entries).unwrap();
            values.remove(&key(4)).unwrap();
        }
        world.barrier().unwrap();
        let keys: Vec<String> = [3, 0, 9, 77, 4, 3, 1].map(key).into();
        let one_by_one = keys.iter().map(|key| values.find(key).unwrap());
        let found = values.find_many(&keys).unwrap();
        assert!(one_by_one.eq(found.iter().cloned()));
        assert_eq!(found[0], [300, 301, 302]);
        let is_there = keys.iter().map(|key| values.contains(key).unwrap());
        assert!(is_there.eq(found.iter().map(|values| !values.is_empty())));
        assert_eq!(values.find_many::<&str>(&[]).unwrap(), [] as [Vec<u64>; 0]);
        world.barrier().unwrap();
        // In every phase the ranks hold all values together.
        let sum_of = |mut n: u64| {
            n = world.allreduce(n, |a: u64, b| a + b).unwrap();
            assert_eq!(n, 41);
        };
        sum_of(values.local_len().unwrap());
        sum_of(values.entries_on(1 - world.rank().number()).count() as u64);
        let values = values.into_find_phase().unwrap();
        assert_eq!(values.find_many(&keys).unwrap(), found);
        sum_of(values.entries_on(world.rank()).count() as u64);
        let values = values.into_local_phase().unwrap();
        let (mut n, mut looped) = (0, Vec::new());
        values.for_each_local(|_, _| n += 1).unwrap();
        sum_of(n);
        for entry in &values {
            looped.push(entry.unwrap());
        }
        assert_eq!(looped.len() as u64, n);
        assert!(
            looped
                .iter()
                .all(|(key, value)| *key == (value / 100).to_string())
        );
        let values = values.into_atomic_phase().unwrap();
        assert_eq!(values.find_many(&keys).unwrap(), found);
        world.barrier().unwrap();
    });
}
