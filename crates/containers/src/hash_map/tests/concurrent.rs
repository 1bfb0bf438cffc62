//! All ranks at once.

use std::fmt::Debug;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use pgas_core::atomics::AtomicNumber;

use super::*;
use crate::Error;
use crate::hash_map::Inserted;
use crate::object::Plain;

/// A generator of the same numbers on every machine (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[test]
fn additions_of_all_ranks_to_few_keys_are_all_counted() {
    const N: u64 = 600;
    for n_ranks in [2, 4, 7] {
        everywhere(n_ranks, |world| {
            let map = map::<u64, u64>(&world, 8);
            let keys = &colliding_keys()[..4];
            let mut random = Random(world.rank().number().into());
            let mut batch = Vec::new();
            for i in 0..N {
                let key = keys[usize::try_from(random.below(4)).unwrap()];
                if i % 2 == 0 {
                    map.fetch_add(&key, 1).unwrap();
                } else {
                    batch.push(key);
                }
                if batch.len() == 50 {
                    map.add_many(&batch, 1).unwrap();
                    batch.clear();
                }
            }
            map.add_many(&batch, 1).unwrap();
            world.barrier().unwrap();
            let values = map.find_many(keys).unwrap();
            let sum: u64 = values.iter().map(|value| value.unwrap()).sum();
            assert_eq!(sum, N * u64::from(world.n_ranks()));
            assert_eq!(map.len().unwrap(), 4, "one slot for each key");
            let mut held = [map.local_len().unwrap()];
            world
                .team()
                .allreduce_slice(&mut held, |a: u64, b| a + b)
                .unwrap();
            assert_eq!(held[0], 4);
        });
    }
}

#[test]
fn former_values_of_concurrent_additions_are_all_different() {
    everywhere(3, |world| {
        let map = map::<u32, i32>(&world, 16);
        let formers: Vec<_> = (0..200).map(|_| map.fetch_add(&5, 1).unwrap()).collect();
        assert!(formers.is_sorted());
        let mut seen = vec![0_u64; 600];
        for former in formers {
            seen[usize::try_from(former).unwrap()] += 1;
        }
        world
            .team()
            .allreduce_slice(&mut seen, |a: u64, b| a + b)
            .unwrap();
        assert_eq!(seen, vec![1; 600]);
    });
}

#[test]
fn ranks_that_insert_the_same_keys_fill_the_table_exactly() {
    for capacity in [1_usize, 30, 31] {
        everywhere(3, |world| {
            let map = map::<u64, [u64; 3]>(&world, capacity);
            let capacity = map.capacity();
            let mine = u64::from(world.rank().number());
            let mut n_new = [0_u64];
            let mut acknowledged = Vec::new();
            for key in 0..40_u64 {
                match map.insert(&key, [key, mine, key + mine]) {
                    Ok(inserted) => {
                        n_new[0] += u64::from(inserted == Inserted::New);
                        acknowledged.push(key);
                    }
                    Err(Error::Full { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            world.barrier().unwrap();
            // No acknowledged key is lost, and each value is one that was inserted.
            for (key, value) in acknowledged
                .iter()
                .zip(map.find_many(&acknowledged).unwrap())
            {
                let [k, rank, sum] = value.expect("an acknowledged key");
                assert_eq!((k, sum), (*key, key + rank));
            }
            world
                .team()
                .allreduce_slice(&mut n_new, |a: u64, b| a + b)
                .unwrap();
            assert_eq!(n_new[0], capacity, "every slot was new once");
            assert_eq!(map.len().unwrap(), capacity);
        });
    }
}

/// Writers fill values with one byte. Readers and updaters check that they never see two.
fn check_whole<const N: usize>(world: &World) {
    let map = map::<u64, [u8; N]>(world, 4);
    let rank = u8::try_from(world.rank().number()).unwrap();
    map.get_or_insert(&1, [0; N]).unwrap();
    let whole = |value: [u8; N]| assert!(value.iter().all(|&b| b == value[0]), "torn: {value:?}");
    for i in 0..200_u8 {
        match (i.wrapping_add(rank)) % 4 {
            0 => assert_eq!(map.insert(&1, [i; N]).unwrap(), Inserted::Replaced),
            1 => {
                let former = map.update(&1, |value| {
                    whole(value);
                    [value[0].wrapping_add(1); N]
                });
                whole(former.unwrap().unwrap());
            }
            2 => whole(map.get_or_insert(&1, [0; N]).unwrap()),
            _ => whole(map.find(&1).unwrap().unwrap()),
        }
        if i % 16 == 0 {
            map.find_many(&[1, 1])
                .unwrap()
                .into_iter()
                .for_each(|value| whole(value.unwrap()));
            map.for_each_local(|_, value| whole(value)).unwrap();
        }
    }
    world.barrier().unwrap();
}

#[test]
fn wide_values_are_never_seen_torn() {
    everywhere(3, |world| {
        check_whole::<3>(&world);
        check_whole::<16>(&world);
        check_whole::<40>(&world);
        check_whole::<5000>(&world);
    });
}

#[test]
fn the_threads_of_a_rank_share_one_handle() {
    everywhere(2, |world| {
        let map = map::<u64, u64>(&world, 100);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for i in 0..100 {
                        map.fetch_add(&(i % 10), 1).unwrap();
                    }
                    map.add_many(&[3; 50], 2).unwrap();
                });
            }
        });
        world.barrier().unwrap();
        let n = u64::from(world.n_ranks());
        assert_eq!(map.find(&3).unwrap(), Some(n * 3 * (10 + 100)));
        assert_eq!(map.find(&4).unwrap(), Some(n * 30));
        assert_eq!(map.len().unwrap(), 10);
    });
}

#[test]
fn whoever_waits_for_a_rank_that_died_while_it_wrote_an_entry_gets_an_error() {
    use pgas_lockfree::slots::ReadValue;
    use pgas_lockfree::slots::probe::ProbeResult;

    let waited = Mutex::new(Vec::new());
    // The library's barrier would fail on a rank that is still in it when the job fails.
    let (to_other, claimed) = mpsc::channel();
    let (to_claimer, go) = mpsc::channel();
    let (claimed, go) = (Mutex::new(claimed), Mutex::new(go));
    let limit = Duration::from_secs(20);
    let job = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        loopback::run(2, |world| {
            let map = map::<u64, u64>(&world, 8);
            if world.rank().number() == 0 {
                let view = map.table.view_remote();
                let hash = Hash::of::<u64>(&7, &RapidHasher);
                let claimed = view.claim_slot(hash, &7, 0, ReadValue::No).unwrap();
                assert!(matches!(claimed.0, ProbeResult::Free(_)));
                to_other.send(()).unwrap();
                go.lock().unwrap().recv_timeout(limit).unwrap();
                panic!("between claim and publication");
            }
            claimed.lock().unwrap().recv_timeout(limit).unwrap();
            // No other key is held up, and what lies behind is not hidden.
            let home = |key: u64| {
                map.table
                    .shape
                    .ring
                    .home(Hash::of::<u64>(&key, &RapidHasher))
            };
            let behind = (8..).find(|&key| home(key) == home(7)).unwrap();
            assert_eq!(map.insert(&behind, 1).unwrap(), Inserted::New);
            assert_eq!(map.find(&behind).unwrap(), Some(1));
            assert_eq!(map.find_many(&[behind]).unwrap(), [Some(1)]);
            to_claimer.send(()).unwrap();
            let errors = [
                map.find(&7).unwrap_err(),
                map.find_many(&[7, behind]).unwrap_err(),
                map.insert(&7, 1).unwrap_err(),
            ];
            *waited.lock().unwrap() = errors.map(|error| error.to_string()).to_vec();
        });
    }));
    assert!(job.is_err());
    let waited = waited.into_inner().unwrap();
    assert_eq!(waited.len(), 3);
    let names_it = |error: &String| error.contains("rank 0 panicked");
    assert!(waited.iter().all(names_it), "{waited:?}");
}

#[test]
fn an_update_whose_function_changes_its_own_entry_ends_at_the_limit() {
    let mut config = Config::default();
    config.timeout = Some(Duration::from_millis(300));
    let ends = |changed: crate::Result<Option<[u64; 4]>>| {
        let error = changed.unwrap_err();
        let is_over = matches!(&error, Error::Timeout(_));
        assert!(is_over, "{error}");
    };
    for direct in [true, false] {
        config.direct = direct;
        let ended = pgas_smp::threads_with(2, &config, |world| {
            let wide = HashMap::<u64, [u64; 4]>::with_capacity(&world, 16).unwrap();
            let word = HashMap::<u64, u64>::with_capacity(&world, 16).unwrap();
            let key = u64::from(world.rank().number());
            let overwritten = |value: [u64; 4]| {
                wide.insert(&key, value.map(|word| word + 1)).unwrap();
                value
            };
            wide.insert(&key, [0; 4]).unwrap();
            ends(wide.update(&key, overwritten));
            wide.insert(&key, [0; 4]).unwrap();
            ends(wide.upsert(&key, [0; 4], overwritten));
            word.insert(&key, 0).unwrap();
            let added = word.update(&key, |value| value + word.fetch_add(&key, 1).unwrap());
            ends(added.map(|value| value.map(|value| [value; 4])));
        });
        assert_eq!(ended.unwrap().len(), 2);
    }
}

#[test]
fn a_rank_that_does_nothing_but_look_at_its_own_keys_serves_those_that_change_them() {
    type Look = fn(&HashMap<u64, u64>, u64) -> bool;
    let looks: [Look; 5] = [
        |map, key| map.find(&key).unwrap() == Some(100),
        |map, key| map.find_many(&[key]).unwrap() == [Some(100)],
        |map, key| map.contains(&(key + 1)).unwrap(),
        |map, key| map.update(&(key + 1), |there| there).unwrap().is_some(),
        |map, key| map.remove(&(key + 1)).unwrap(),
    ];
    everywhere(2, |world| {
        for look in looks {
            let map = HashMap::<u64, u64>::with_capacity(&world, 100).unwrap();
            let map = map.into_local_phase().unwrap();
            let is_first = |key: &u64| map.home(key).unwrap().number() == 0;
            let key = (0..).find(|key| is_first(key) && is_first(&(key + 1)));
            let (key, map) = (key.unwrap(), map.into_atomic_phase().unwrap());
            if world.rank().number() == 0 {
                while !look(&map, key) {}
            } else {
                for _ in 0..100 {
                    map.fetch_add(&key, 1).unwrap();
                }
                map.insert(&(key + 1), 7).unwrap();
            }
            world.barrier().unwrap();
        }
    });
}

/// Each rank adds and updates; what is added in whichever way is there at the end.
fn count_together<V: AtomicNumber + Object<Repr = Plain> + Debug>(world: &World, one: V) {
    const N: u64 = 24;
    let map = HashMap::<u64, V>::with_capacity(world, 100).unwrap();
    for i in 0..N {
        let key = i % 2;
        map.fetch_add(&key, one).unwrap();
        map.add_many(&[key, key], one).unwrap();
        map.fetch_add_nb(&key, one).unwrap().wait().unwrap();
        map.update(&key, |there| there.plus(one)).unwrap();
    }
    world.barrier().unwrap();
    let n_added = 5 * N / 2 * u64::from(world.n_ranks());
    let expected = (0..n_added).fold(V::new_zeroed(), |sum, _| sum.plus(one));
    for key in 0..2 {
        assert_eq!(map.find(&key).unwrap(), Some(expected));
        assert_eq!(map.fetch_add(&key, V::new_zeroed()).unwrap(), expected);
    }
}

#[test]
fn numbers_of_every_width_are_added_to_as_one() {
    everywhere(3, |world| {
        count_together(&world, 1_u8);
        count_together(&world, 1_i16);
        count_together(&world, 1_u32);
        count_together(&world, 1_i64);
        count_together(&world, 0.25_f32);
        count_together(&world, -0.5_f64);
    });
}
