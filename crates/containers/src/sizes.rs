//! Every container with elements of no bytes, of more than a page and of the alignment of a page.

use std::fmt::Debug;

use pgas_core::{Rank, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::array::Distribution;
use crate::object::{Object, Plain};
use crate::testing::everywhere;
use crate::{
    Array, BloomFilter, CircularQueue, DArray, Distributor, FastQueue, HashMap, HashMapBuffer,
    HashSet, MultiMap,
};

const N_RANKS: u32 = 2;
/// Entries of each rank.
const N: u64 = 7;

/// An element that is made from a number, and holds as much of the number as fits.
trait Element: Object + Clone + PartialEq + Debug {
    /// The number of distinct elements.
    const N_DIFFERENT: u64;

    fn of(number: u64) -> Self;
}

impl Element for () {
    const N_DIFFERENT: u64 = 1;

    fn of(_: u64) -> Self {}
}

impl Element for u64 {
    const N_DIFFERENT: Self = Self::MAX;

    fn of(number: u64) -> Self {
        number
    }
}

/// Longer than what travels by messages.
impl Element for [u64; 600] {
    const N_DIFFERENT: u64 = u64::MAX;

    fn of(number: u64) -> Self {
        [number; 600]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Page([u64; 512]);

impl Object for Page {
    type Repr = Plain;
}

impl Element for Page {
    const N_DIFFERENT: u64 = u64::MAX;

    fn of(number: u64) -> Self {
        Self([number; 512])
    }
}

/// The numbers of a rank's own elements.
fn of_rank(rank: Rank) -> impl Iterator<Item = u64> {
    let first = u64::from(rank.number()) * N;
    first..first + N
}

fn of_all() -> std::ops::Range<u64> {
    0..u64::from(N_RANKS) * N
}

fn keyed<K: Element, V: Element>(world: &World) {
    let n_keys = K::N_DIFFERENT.min(u64::from(N_RANKS) * N);
    let capacity = usize::try_from(4 * N * u64::from(N_RANKS)).unwrap();
    let map = HashMap::<K, V>::with_capacity(world, capacity).unwrap();
    let set = HashSet::<K>::with_capacity(world, capacity).unwrap();
    let multi = MultiMap::<K, u64>::with_capacity(world, 2 * capacity).unwrap();
    let filter = BloomFilter::<K>::with_rate(world, capacity, 0.01).unwrap();
    for number in of_rank(world.rank()) {
        map.insert(&K::of(number), V::of(number)).unwrap();
        set.insert(&K::of(number)).unwrap();
        multi.insert(&K::of(number), number).unwrap();
        filter.insert(&K::of(number)).unwrap();
    }
    let entries: Vec<(K, V)> = of_all().map(|n| (K::of(n), V::of(n))).collect();
    let keys: Vec<K> = of_all().map(K::of).collect();
    map.insert_many(&entries).unwrap();
    set.insert_many(&keys).unwrap();
    world.barrier().unwrap();
    assert_eq!((map.len().unwrap(), set.len().unwrap()), (n_keys, n_keys));
    let is_one_of_all = |value: &V| of_all().any(|n| V::of(n) == *value);
    for number in of_all() {
        let value = map.find(&K::of(number)).unwrap().unwrap();
        // Keys that are equal have the value that came last.
        assert!(value == V::of(number) || K::N_DIFFERENT == 1 && is_one_of_all(&value));
        assert!(set.contains(&K::of(number)).unwrap() && filter.contains(&K::of(number)).unwrap());
        let n_values = u64::from(N_RANKS) * N / n_keys;
        assert_eq!(multi.count(&K::of(number)).unwrap(), n_values);
    }
    let found = map.find_many(&keys).unwrap();
    assert!(found.iter().flatten().all(is_one_of_all));
    assert_eq!(found.iter().flatten().count(), keys.len());
    world.barrier().unwrap();
    let mut buffer = HashMapBuffer::new(map, 8, |first, _| first).unwrap();
    for number in of_all() {
        buffer.insert(K::of(number), V::of(number)).unwrap();
    }
    let map = buffer.into_map().unwrap();
    assert_eq!(map.len().unwrap(), n_keys);
    let map = map.into_local_phase().unwrap();
    assert!(
        map.local_iter()
            .all(|entry| is_one_of_all(&entry.unwrap().1))
    );
}

fn ordered<T: Element>(world: &World) {
    let host = Rank::new(1);
    let n = usize::try_from(N).unwrap();
    let n_all = usize::try_from(of_all().end).unwrap();
    let mut own: Vec<T> = of_rank(world.rank()).map(T::of).collect();
    let circular = CircularQueue::<T>::with_capacity(world, host, 8 * n).unwrap();
    let fast = FastQueue::<T>::with_capacity(world, host, 8 * n).unwrap();
    circular.push(T::of(0)).unwrap();
    circular.push_slice(&own).unwrap();
    fast.push_slice(&own).unwrap();
    world.barrier().unwrap();
    let fast = fast.into_pop_phase().unwrap();
    if world.rank() == host {
        assert!(circular.pop().unwrap().is_some());
        assert_eq!(
            circular.pop_many(10 * n).unwrap().len(),
            n_all + usize::try_from(N_RANKS).unwrap() - 1
        );
        let popped = fast.pop_many(10 * n).unwrap();
        assert_eq!(popped.len(), n_all);
        assert!(of_all().all(|number| popped.contains(&T::of(number))));
    }
    let mut distributor = Distributor::<T>::with_capacity(world, 7).unwrap();
    for to in world.ranks() {
        for value in &own {
            distributor.send(to, value.clone()).unwrap();
        }
    }
    let come = distributor.finish().unwrap();
    assert_eq!(come.len(), n_all);
    assert!(of_all().all(|number| come.contains(&T::of(number))));
    let hosted = Array::<T>::new(world, host, n, &T::of(7)).unwrap();
    let spread = DArray::<T>::new(world, n_all, Distribution::Block, &T::of(7)).unwrap();
    assert_eq!(hosted.get(n - 1).unwrap(), T::of(7));
    world.barrier().unwrap();
    let first = usize::try_from(of_rank(world.rank()).next().unwrap()).unwrap();
    for (i, value) in own.iter().enumerate() {
        spread.put(first + i, value).unwrap();
    }
    if world.rank() == host {
        own.reverse();
        for (i, value) in own.iter().enumerate() {
            hosted.put(i, value).unwrap();
        }
    }
    world.barrier().unwrap();
    for number in of_all() {
        assert_eq!(
            spread.get(usize::try_from(number).unwrap()).unwrap(),
            T::of(number)
        );
    }
    let last = of_rank(host).last().unwrap();
    assert_eq!(hosted.get(0).unwrap(), T::of(last));
}

#[test]
fn elements_without_bytes_are_kept_and_counted() {
    everywhere(N_RANKS, |world| {
        keyed::<(), ()>(&world);
        keyed::<u64, ()>(&world);
        keyed::<(), u64>(&world);
        ordered::<()>(&world);
    });
}

#[test]
fn elements_of_more_than_a_page_are_kept_whole() {
    everywhere(N_RANKS, |world| {
        keyed::<[u64; 600], [u64; 600]>(&world);
        ordered::<[u64; 600]>(&world);
    });
}

#[test]
fn elements_that_begin_at_pages_are_kept_whole() {
    everywhere(N_RANKS, |world| {
        keyed::<u64, Page>(&world);
        keyed::<Page, ()>(&world);
        ordered::<Page>(&world);
    });
}
