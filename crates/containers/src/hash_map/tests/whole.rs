//! The map as a whole: its memory, its size, its phases and hashers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::hash_map::Inserted;
use crate::object::KeyHasher;
use pgas_core::Rank;

#[test]
fn what_keys_and_values_take_outside_of_their_slots_is_free_when_they_are_gone() {
    everywhere(2, |world| {
        let long = |i: u64| format!("{i} ").repeat(60);
        let mut map = map::<String, String>(&world, 64);
        let mut most = 0;
        let me = u64::from(world.rank().number());
        for i in 0..400 {
            let key = long(2 * (i % 4) + me);
            map.insert(&key, long(i)).unwrap();
            let former = map.update(&key, |text| text + "more").unwrap();
            assert_eq!(former, Some(long(i)));
            match i % 3 {
                0 => {}
                1 => assert!(map.remove(&key).unwrap()),
                _ => assert_eq!(map.take(&key).unwrap(), Some(long(i) + "more")),
            }
            most = most.max(world.local_heap_use().used);
        }
        assert!(most < 20_000, "{most} bytes for four entries of a rank");
        for i in 0..4 {
            map.remove(&long(2 * i + me)).unwrap();
        }
        assert_eq!(map.len().unwrap(), 0);
        map.resize(64).unwrap();
        assert_eq!(map.local_iter().count(), 0);
        drop(map);
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(world.local_heap_use().used, 0);
    });
}

#[test]
fn a_map_that_is_nearly_full_grows_at_a_change_of_phase_without_being_asked() {
    everywhere(3, |world| {
        let map = map::<u64, u64>(&world, 90).into_insert_phase().unwrap();
        let me = u64::from(world.rank().number());
        for i in 0..29 {
            map.insert(&(3 * i + me), i).unwrap();
        }
        let map = map.into_find_phase().unwrap();
        assert!(map.capacity() >= 174, "{map:?}");
        assert!((0..87).all(|key| map.find(&key).unwrap() == Some(key / 3)));
        // Half full with present keys, full with removed ones.
        let map = map.into_atomic_phase().unwrap();
        for i in 0..29 {
            map.insert(&(1000 + 3 * i + me), i).unwrap();
        }
        world.barrier().unwrap();
        for i in 0..29 {
            assert!(map.remove(&(3 * i + me)).unwrap());
        }
        let map = map.into_atomic_phase().unwrap();
        for i in 0..28 {
            map.insert(&(2000 + 3 * i + me), i).unwrap();
        }
        assert_eq!(map.len().unwrap(), 87 + 84);
    });
}

#[test]
fn hashers_that_differ_between_ranks_are_an_error_that_names_them() {
    everywhere(2, |world| {
        let seed = SeededHasher::new(world.rank().number().into());
        let map = HashMap::<u64, u64, Atomic, _>::with_hasher(&world, 10, seed);
        let text = map.unwrap_err().to_string();
        assert!(text.contains("hasher") && text.contains("rank 0"), "{text}");
        let map =
            HashMap::<u64, u64, _, _>::with_hasher(&world, 100, SeededHasher::new(7)).unwrap();
        let key = u64::from(world.rank().number());
        map.insert(&key, key).unwrap();
        world.barrier().unwrap();
        assert_eq!(map.find_many(&[0_u64, 1]).unwrap(), [Some(0_u64), Some(1)]);
        world.barrier().unwrap();
    });
}

/// A hasher that gives keys other hashes when its number changes.
struct Fickle(AtomicU64);

impl KeyHasher for Fickle {
    fn hash(&self, bytes: &[u8]) -> u64 {
        RapidHasher.hash(bytes) ^ (self.0.load(Ordering::Relaxed) << 60)
    }
}

#[test]
fn a_map_that_has_a_key_twice_does_not_call_itself_full() {
    everywhere(2, |world| {
        let hasher = Fickle(AtomicU64::new(0));
        let mut map = HashMap::<u64, u64, _, _>::with_hasher(&world, 600, hasher).unwrap();
        let key = u64::from(world.rank().number());
        for n in 0..9 {
            map.table.shape.hasher.0.store(n, Ordering::Relaxed);
            map.insert(&key, n).unwrap();
        }
        let n_entries = map.len().unwrap();
        let text = map.resize(700).unwrap_err().to_string();
        assert!(text.contains("two entries of one key"), "{text}");
        assert_eq!(map.len().unwrap(), n_entries); // as it was
    });
}

#[test]
fn ranks_that_go_into_different_phases_get_an_error_that_names_both() {
    let mut config = Config::default();
    config.check = Some(true);
    pgas_smp::threads_with(2, &config, |world| {
        let map = map::<u64, u64>(&world, 10);
        let text = if world.rank() == Rank::ZERO {
            map.into_find_phase().unwrap_err().to_string()
        } else {
            map.into_local_phase().unwrap_err().to_string()
        };
        for part in [
            "phase of a hash map",
            "rank 0 has \"find only\"",
            "rank 1 has \"local\"",
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text:?}");
        }
    })
    .unwrap();
}

#[test]
fn a_map_of_a_team_stays_as_it_is_if_one_member_has_no_memory_for_more_slots() {
    everywhere(3, |world| {
        let color = (world.rank().number() < 2).then_some(0);
        let Some(team) = world.team().split(color, 0).unwrap() else {
            return;
        };
        let map = HashMap::<u64, u64>::with_capacity(&team, 64).unwrap();
        if team.rank() == 1 {
            let entries: Vec<_> = (0..60).map(|key| (key, 10 * key)).collect();
            map.insert_many(&entries).unwrap();
            let mut n_bytes = 1 << 20;
            while n_bytes >= 64 {
                if world.alloc::<u8>(n_bytes).is_err() {
                    n_bytes /= 2;
                }
            }
        }
        let map = map.into_find_phase().unwrap();
        assert_eq!(map.capacity(), 64);
        assert!((0..60).all(|key| map.find(&key).unwrap() == Some(10 * key)));
        team.barrier().unwrap();
    });
}

/// A removed key has its slot again when it comes back.
#[test]
fn keys_that_come_and_go_make_no_change_of_phase_move_the_slots() {
    pgas_smp::threads(2, |world| {
        let map = map::<u64, u64>(&world, 1000);
        for i in 0..1000 {
            let key = 2 * (i % 10) + u64::from(world.rank().number());
            assert_eq!(map.insert(&key, i).unwrap(), Inserted::New);
            assert!(map.remove(&key).unwrap());
        }
        let before = map.table.identity();
        let map = map.into_find_phase().unwrap();
        assert_eq!(map.table.identity(), before);
        let map = map.into_atomic_phase().unwrap();
        for key in 0..450 {
            let key = 2 * key + u64::from(world.rank().number());
            map.insert(&key, key).unwrap();
            assert!(map.remove(&key).unwrap());
        }
        // Now they take more than three quarters.
        let map = map.into_find_phase().unwrap();
        assert_ne!(map.table.identity(), before);
    })
    .unwrap();
}
