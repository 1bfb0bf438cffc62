//! Searches for keys by borrowed forms.

use super::*;
use crate::hash_map::Inserted;
use crate::{HashSet, MultiMap};

/// A text that fits into its slot, and one that is longer.
fn texts() -> [String; 2] {
    ["short".to_owned(), "long ".repeat(30)]
}

#[test]
fn every_operation_finds_an_owned_key_by_its_borrowed_form() {
    everywhere(1, |world| {
        for key in texts() {
            let by = key.as_str();
            let map = map::<String, u64>(&world, 100);
            assert_eq!(map.insert(by, 1).unwrap(), Inserted::New);
            assert_eq!(map.insert(&key, 2).unwrap(), Inserted::Replaced);
            assert_eq!(map.fetch_add(by, 3).unwrap(), 2);
            assert_eq!(map.update(by, |n| n * 2).unwrap(), Some(5));
            assert_eq!(map.upsert(by, 0, |n| n + 1).unwrap(), Some(10));
            assert_eq!(map.get_or_insert(by, 0).unwrap(), 11);
            assert_eq!(map.get_or_insert_with(by, || 0).unwrap(), 11);
            assert!(map.contains(by).unwrap());
            assert_eq!(map.find(&key).unwrap(), Some(11));
            assert_eq!(map.add_many(&[by, "other"], 1).unwrap(), 1);
            assert_eq!(map.add_each(&[(by, 1), ("other", 5)]).unwrap(), 0);
            assert_eq!(map.insert_many(&[("third", 7)]).unwrap(), 1);
            let found = map.find_many(&[by, "absent", "other", "third"]).unwrap();
            assert_eq!(found, [Some(13), None, Some(6), Some(7)]);
            assert_eq!(map.remove_many(&["other", "third", "absent"]).unwrap(), 2);

            let mut map = map.into_local_phase().unwrap();
            assert_eq!(map.home(by).unwrap(), map.home(&key).unwrap());
            assert_eq!(map.local_find(by).unwrap(), Some(13));
            let replaced = Some(Inserted::Replaced);
            assert_eq!(map.local_insert(by, &1).unwrap(), replaced);
            assert_eq!(map.local_upsert(by, &0, |n| n + 1).unwrap(), replaced);
            assert_eq!(map.local_remove(by).unwrap(), Some(2));
            assert_eq!(map.local_find(&key).unwrap(), None);
        }
    });
}

#[test]
fn sets_and_lists_are_looked_for_by_what_they_lend() {
    everywhere(1, |world| {
        let set = HashSet::<Vec<u16>>::with_capacity(&world, 100).unwrap();
        let list: Vec<u16> = (0..200).collect();
        for n in [0, 3, 200] {
            assert!(set.insert(&list[..n]).unwrap());
            assert!(set.contains(&list[..n].to_vec()).unwrap());
        }
        assert!(set.contains(&[0, 1, 2]).unwrap());
        assert!(!set.contains(&[0, 1, 3]).unwrap());
        assert!(set.remove(&list[..]).unwrap());
        assert_eq!(set.remove_many(&[&list[..3], &list[..2]]).unwrap(), 1);
    });
}

#[test]
fn a_borrowed_key_costs_what_an_owned_one_does() {
    everywhere_counted(1, |world| {
        for key in texts() {
            let owned = map::<String, u64>(&world, 1 << 12);
            let lent = map::<String, u64>(&world, 1 << 12);
            let by = key.as_str();
            for _ in 0..2 {
                assert_eq!(
                    price(&world, || owned.fetch_add(&key, 1).unwrap()),
                    price(&world, || lent.fetch_add(by, 1).unwrap()),
                );
                assert_eq!(
                    price(&world, || owned.find(&key).unwrap()),
                    price(&world, || lent.find(by).unwrap()),
                );
            }
            assert_eq!(
                price(&world, || owned.remove(&key).unwrap()),
                price(&world, || lent.remove(by).unwrap()),
            );
        }
    });
}

#[test]
fn the_values_of_an_owned_key_are_those_of_its_borrowed_form() {
    everywhere(1, |world| {
        let map = MultiMap::<String, u64>::with_capacity(&world, 100).unwrap();
        for key in texts() {
            let by = key.as_str();
            assert_eq!(map.insert(by, 1).unwrap(), 0);
            assert_eq!(map.insert(&key, 2).unwrap(), 1);
            map.extend([(key.clone(), 3)]).unwrap();
            assert_eq!(map.find(by).unwrap(), [1, 2, 3]);
            assert_eq!(map.find(&key).unwrap(), [1, 2, 3]);
            assert_eq!(map.count(by).unwrap(), 3);
            assert_eq!(map.remove(by).unwrap(), [1, 2, 3]);
            assert_eq!(map.count(&key).unwrap(), 0);
        }
    });
}
