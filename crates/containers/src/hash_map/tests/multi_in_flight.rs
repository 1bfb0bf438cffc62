//! Non-blocking operations on maps with several values per key.

use pgas_am::{PgasFuture, when_all};
use pgas_core::Result;

use super::*;
use crate::Error;
use crate::hash_map::MultiMap;
use crate::testing::in_many_orders;

/// The values of futures that are all in flight.
fn all<T: Send + 'static>(begun: impl Iterator<Item = Result<PgasFuture<T>>>) -> Vec<T> {
    let begun = begun.collect::<Result<Vec<_>>>().unwrap();
    when_all(begun).wait().unwrap()
}

/// The values of some keys are those that all ranks have inserted.
fn compare<V>(world: &World, value: impl Fn(u64) -> V)
where
    V: Object + Clone + Ord + std::fmt::Debug,
{
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    let map = MultiMap::<String, V>::with_capacity(world, 300).unwrap();
    let key = |i: u64| format!("{}", i % 3);
    let mut before = all((0..12).map(|i| map.insert_nb(&key(i), value(100 * me + i))));
    before.sort_unstable();
    assert!(before.into_iter().all(|before| before < 4 * n));
    world.barrier().unwrap();
    let expected = |k: u64| {
        let of_rank = |rank| (0..4).map(move |i| 100 * rank + 3 * i + k);
        let mut values: Vec<V> = (0..n).flat_map(of_rank).map(&value).collect();
        values.sort_unstable();
        values
    };
    let sorted = |mut found: Vec<V>| {
        found.sort_unstable();
        found
    };
    for (k, found) in (0..3).zip(all((0..3).map(|k| map.find_nb(&key(k))))) {
        assert_eq!(sorted(found), expected(k));
    }
    assert_eq!(map.find_nb("none").unwrap().wait().unwrap().len(), 0);
    let map = map.into_find_phase().unwrap();
    assert_eq!(all((0..3).map(|k| map.count_nb(&key(k)))), [4 * n; 3]);
    let found = map.find_nb("1").unwrap().wait().unwrap();
    assert_eq!(sorted(found), expected(1));
    let map = map.into_atomic_phase().unwrap();
    // Each value goes to one of the ranks.
    let removed = all((0..3).map(|k| map.remove_nb(&key(k))));
    let removed: Vec<V> = removed.into_iter().flat_map(|one| one.unwrap()).collect();
    let n_removed = world.allreduce(removed.len() as u64, |a: u64, b| a + b);
    assert_eq!(n_removed.unwrap(), 12 * n);
    assert!(map.is_empty().unwrap());
    world.barrier().unwrap();
}

#[test]
fn operations_in_flight_do_what_those_do_that_wait() {
    for n_ranks in [1, 3] {
        attached_everywhere(n_ranks, |world| {
            compare::<u64>(&world, |n| n);
            compare::<[u64; 3]>(&world, |n| [n; 3]);
            // These are performed at once.
            compare::<String>(&world, |n| "v".repeat(usize::try_from(n).unwrap()));
        });
    }
}

#[test]
fn each_value_is_removed_once_in_every_order_of_operations_in_flight() {
    in_many_orders(3, |world, seed| {
        pgas_am::attach(&world).unwrap();
        let map = MultiMap::<u64, u64>::with_capacity(&world, 200).unwrap();
        let me = u64::from(world.rank().number());
        let mut seen = [0_u64; 18];
        let mut see = |value: u64| seen[usize::try_from(value).unwrap()] += 1;
        let inserts = (0..6).map(|i| map.insert_nb(&(i % 2), 6 * me + i));
        let inserts = inserts.collect::<Result<Vec<_>>>().unwrap();
        let early = (seed + me).is_multiple_of(2);
        if early {
            let removed = map.remove_nb(&(seed % 2)).unwrap().wait().unwrap();
            removed.unwrap().into_iter().for_each(&mut see);
        }
        when_all(inserts).wait().unwrap();
        world.barrier().unwrap();
        for removed in all((0..2).map(|key| map.remove_nb(&key))) {
            removed.unwrap().into_iter().for_each(&mut see);
        }
        world.allreduce_slice(&mut seen, |a: u64, b| a + b).unwrap();
        assert_eq!(seen, [1; 18]);
        assert_eq!((map.len().unwrap(), map.n_keys().unwrap()), (0, 0));
        world.barrier().unwrap();
    });
}

#[test]
fn a_phase_waits_for_inserts_in_flight_and_a_refused_one_gives_its_number_back() {
    attached_everywhere(2, |world| {
        let me = u64::from(world.rank().number());
        let map = MultiMap::<u64, u64>::with_capacity(&world, 100).unwrap();
        (0..9).for_each(|i| drop(map.insert_nb(&me, i).unwrap()));
        let map = map.into_find_phase().unwrap();
        assert_eq!(map.count(&me).unwrap(), 9);
        world.barrier().unwrap();
    });
    attached_everywhere(1, |world| {
        let map = MultiMap::<u64, u64>::with_capacity(&world, 8).unwrap();
        let begun = (0..12).map(|i| map.insert_nb(&7, i));
        let done: Vec<_> = begun.map(|it| it.and_then(PgasFuture::wait)).collect();
        assert!(
            done[..8]
                .iter()
                .zip(0..)
                .all(|(done, n)| matches!(done, Ok(m) if *m == n))
        );
        let is_full = |done: &Result<u64>| matches!(done, Err(Error::Full { .. }));
        assert!(done[8..].iter().all(is_full), "{done:?}");
        assert_eq!(map.count_nb(&7).unwrap().wait().unwrap(), 8);
    });
}

#[test]
fn an_operation_in_flight_costs_what_one_costs_that_waits() {
    one_sided_counted(1, |world| {
        pgas_am::attach(&world).unwrap();
        let values = MultiMap::<u64, u64>::with_capacity(&world, 1 << 12).unwrap();
        let insert = |value| values.insert_nb(&1, value).unwrap().wait().unwrap();
        assert_eq!(price(&world, || insert(10)), (1, 2, 6));
        assert_eq!(price(&world, || insert(20)), (2, 1, 6));
        let count = || values.count_nb(&1).unwrap().wait().unwrap();
        assert_eq!(price(&world, count), (1, 0, 2));
        let find = |key| values.find_nb(&key).unwrap().wait().unwrap();
        assert_eq!(price(&world, || find(1)), (3, 0, 6));
        let remove = |key| values.remove_nb(&key).unwrap().wait().unwrap();
        assert_eq!(price(&world, || remove(1)), (5, 0, 11));
        assert_eq!(price(&world, || remove(2)), (0, 0, 1));
        let values = values.into_find_phase().unwrap();
        let find = |key| values.find_nb(&key).unwrap().wait().unwrap();
        assert_eq!(price(&world, || assert!(find(1).is_empty())), (1, 0, 0));
    });
}
