//! Sets and maps of std as keys: equal ones are one key, whatever order their elements are in.

use std::collections::{BTreeSet, BinaryHeap, HashMap as StdMap, HashSet as StdSet};
use std::fmt::Debug;

use pgas_am::codec::Encoder;
use pgas_core::Rank;
use proptest::prelude::*;

use super::*;
use crate::HashMapBuffer;
use crate::hash_map::Inserted;
use crate::object::{FoundBy, KeyOf, Repr as _};

/// Sets of many orders that are equal: each has hash keys of its own.
fn sets(words: &[String]) -> [StdSet<String>; 8] {
    std::array::from_fn(|_| words.iter().cloned().collect())
}

fn words(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("word {i}")).collect()
}

#[test]
fn every_operation_finds_a_set_by_an_equal_one() {
    everywhere(2, |world| {
        let map = map::<StdSet<String>, u64>(&world, 100);
        for n in [0, 1, 3, 40] {
            let [a, b, c, d, e, f, g, h] = sets(&words(n));
            if world.rank() == Rank::ZERO {
                assert_eq!(map.insert(&a, 1).unwrap(), Inserted::New);
                assert_eq!(map.insert(&b, 2).unwrap(), Inserted::Replaced);
            }
            world.barrier().unwrap();
            map.fetch_add(&c, 1).unwrap();
            world.barrier().unwrap();
            assert_eq!(map.find(&d).unwrap(), Some(4));
            assert_eq!(map.find_many(&[e, f]).unwrap(), [Some(4); 2]);
            world.barrier().unwrap();
            if world.rank() != Rank::ZERO {
                assert!(map.remove(&g).unwrap());
                assert_eq!(map.find(&h).unwrap(), None);
            }
        }
    });
}

#[test]
fn buffers_combine_what_is_under_equal_sets() {
    everywhere(3, |world| {
        let map = map::<StdSet<String>, u64>(&world, 100);
        let mut buffer = HashMapBuffer::new(map, 10, |a, b| a + b).unwrap();
        for n in 0..20 {
            for set in sets(&words(n)) {
                buffer.insert(set, 1).unwrap();
            }
        }
        let map = buffer.into_map().unwrap();
        assert_eq!(map.len().unwrap(), 20);
        for n in 0..20 {
            let [set, ..] = sets(&words(n));
            assert_eq!(map.find(&set).unwrap(), Some(8 * 3));
        }
    });
}

fn assert_same<K: FoundBy<Q>, Q: ?Sized>(key: &K, by: &Q)
where
    KeyOf<K>: Debug,
{
    let (key, found) = (K::Repr::key(key).unwrap(), K::key_by(by).unwrap());
    assert!(K::Repr::is_same_key(&key, &found), "{key:?}, {found:?}");
}

proptest! {
    #[test]
    fn equal_values_of_nested_sets_and_maps_are_one_key(
        lists in prop::collection::vec(prop::collection::btree_set(".{0,9}", 0..6), 0..5),
        numbers in prop::collection::btree_map(any::<u16>(), prop::collection::vec(any::<u8>(), 0..3), 0..30),
    ) {
        let nested = || -> Vec<StdSet<BTreeSet<String>>> {
            lists.iter().map(|list| StdSet::from([list.clone(), BTreeSet::new()])).collect()
        };
        assert_same(&nested(), &nested());
        assert_same(&nested(), nested().as_slice());
        let map = || numbers.clone().into_iter().collect::<StdMap<_, _>>();
        assert_same(&map(), &map());
        let set_of_maps = || (StdMap::from([(1_u8, map())]), Some(map()));
        assert_same(&set_of_maps(), &set_of_maps());
        let heap = || numbers.clone().into_iter().collect::<BinaryHeap<_>>();
        let backwards = || numbers.clone().into_iter().rev().collect::<BinaryHeap<_>>();
        assert_same(&heap(), &backwards());
    }
}

#[test]
fn elements_are_as_many_and_as_deep_as_without_an_order() {
    let sets = StdSet::from([vec![(); 3]]);
    let (mut plain, mut sorted) = (Encoder::new(), Encoder::canonical());
    plain.put(&sets).unwrap();
    sorted.put(&sets).unwrap();
    assert_eq!(plain.bytes(), sorted.bytes());
}
