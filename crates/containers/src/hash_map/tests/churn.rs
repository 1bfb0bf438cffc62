//! Slots of removed keys that are used again while all ranks go on.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use pgas_am::RemoteCalls as _;
use pgas_core::Rank;
use pgas_lockfree::slots::state::SlotState;
use pgas_testkit::setting;

use super::concurrent::Random;
use super::*;
use crate::hash_map::operations::Find;
use crate::hash_map::view::LocalView;
use crate::hash_map::{Atomic, Combine, HashSet, Inserted, MultiMap};
use crate::object::FoundBy as _;
use crate::testing::{near_counted, over_processes};
use crate::{Error, HashMapBuffer};

/// An event of one thread that others wait for.
#[derive(Default)]
struct Go(Mutex<bool>, Condvar);

impl Go {
    fn say(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        let limit = Duration::from_secs(30);
        let is_said = self.0.lock().unwrap();
        let waited = self
            .1
            .wait_timeout_while(is_said, limit, |is_said| !*is_said);
        assert!(!waited.unwrap().1.timed_out());
    }
}

/// Adds values.
enum Sum {}

impl Combine<u64> for Sum {
    fn combine(there: u64, given: &u64) -> u64 {
        there + given
    }
}

/// The result of rank 0.
type Ended = Option<crate::Result<Inserted>>;

fn reusing<K: Object, V: Object>(world: &World, capacity: usize) -> HashMap<K, V> {
    let map = map(world, capacity).reuse_slots().unwrap();
    assert!(map.table.reused.is_some(), "all is local");
    map
}

/// Key number `i` of this rank.
fn key(world: &World, i: u64) -> u64 {
    Random(i * u64::from(world.n_ranks()) + u64::from(world.rank().number())).next()
}

/// Each rank removes its oldest key, inserts a new one, and searches for the former and for a
/// present one.
fn churn<K: Object, V: Object + PartialEq + std::fmt::Debug>(
    world: &World,
    n: u64,
    of: &(impl Fn(u64) -> K, impl Fn(u64) -> V),
) -> HashMap<K, V> {
    const CAPACITY: u64 = 1024;
    let map = reusing::<K, V>(world, usize::try_from(CAPACITY).unwrap());
    let key = |i| of.0(key(world, i));
    let mine = CAPACITY / 2 / u64::from(world.n_ranks());
    for i in 0..mine {
        assert_eq!(map.insert(&key(i), of.1(i)).unwrap(), Inserted::New);
    }
    for i in mine..mine + n {
        let old = key(i - mine);
        assert!(map.remove(&old).unwrap());
        assert_eq!(map.insert(&key(i), of.1(i)).unwrap(), Inserted::New);
        assert_eq!(map.find(&old).unwrap(), None);
        let there = i - mine / 2;
        assert_eq!(map.find(&key(there)).unwrap(), Some(of.1(there)));
        assert!(map.contains(&key(there)).unwrap());
    }
    world.barrier().unwrap();
    let keys: Vec<_> = (n..n + mine).map(key).collect();
    let values = map.find_many(&keys).unwrap();
    for (i, value) in (n..).zip(values) {
        assert_eq!(value, Some(of.1(i)));
    }
    assert_eq!(map.len().unwrap(), mine * u64::from(world.n_ranks()));
    map
}

/// Reclaims all slots while no section is open. Returns the number of slots with a key afterwards.
fn empty_all<K: Object, V: Object>(map: &HashMap<K, V>) -> u64 {
    for _ in 0..=map.capacity() / 1024 {
        assert!(reclaim_some(map));
    }
    n_taken(map)
}

/// The number of slots with a key, present or removed.
fn n_taken<K: Object, V: Object>(map: &HashMap<K, V>) -> u64 {
    n_in_state(map, |state| {
        !matches!(state, SlotState::Free | SlotState::Vacant)
    })
}

fn n_in_state<K: Object, V: Object>(map: &HashMap<K, V>, is_in: fn(SlotState) -> bool) -> u64 {
    use pgas_lockfree::slots::SlotMemory as _;

    let view = map
        .table
        .view_local(&map.table.reused.as_ref().unwrap().all);
    let is_counted = |rank, slot| {
        let slot = view.slot(view.shape.ring.at(rank, slot));
        is_in(slot.load_state().unwrap().state())
    };
    let slots =
        |rank| (0..view.shape.ring.local_capacity()).filter(move |&slot| is_counted(rank, slot));
    (0..map.world().n_ranks())
        .map(|rank| slots(rank).count() as u64)
        .sum()
}

/// With 10000000 in `PGAS_TEST_CHURN` it takes a minute.
#[test]
fn ever_new_keys_find_room_in_a_map_at_half_load() {
    let n = setting("PGAS_TEST_CHURN", 3_000);
    for n_ranks in [1, 2, 3] {
        pgas_smp::threads_with(n_ranks, &Config::default(), |world| {
            let map = churn::<u64, u64>(&world, n, &(|key| key, |i| i));
            // No section is open now.
            let n = map.len().unwrap();
            if world.rank().number() == 0 {
                assert_eq!(empty_all(&map), n);
            }
            world.barrier().unwrap();
        })
        .unwrap();
    }
}

#[test]
fn ever_new_keys_of_batches_find_room() {
    // More keys than a section has, and several times as many as there are slots.
    const MINE: u64 = 300;
    pgas_smp::threads(2, |world| {
        let map = reusing::<u64, u64>(&world, 1024);
        let keys = |round: u64| (round * MINE..(round + 1) * MINE).map(|i| key(&world, i));
        let n = usize::try_from(MINE).unwrap();
        for round in 0..20 {
            let entries: Vec<_> = keys(round).map(|key| (key, round)).collect();
            assert_eq!(map.insert_many(&entries[..n / 2]).unwrap(), n / 2);
            assert_eq!(map.upsert_many::<Sum>(&entries).unwrap(), n - n / 2);
            let own: Vec<_> = keys(round).collect();
            for (i, value) in map.find_many(&own).unwrap().into_iter().enumerate() {
                let times = if i < n / 2 { 2 } else { 1 };
                assert_eq!(value, Some(times * round));
            }
            assert_eq!(map.remove_many(&own).unwrap(), n);
            assert_eq!(map.remove_many(&own).unwrap(), 0);
        }
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), 0);
    })
    .unwrap();
}

#[test]
fn a_batch_in_sections_gives_each_result_with_its_number() {
    // More than are performed, or counted, together.
    const N: u64 = 9000;
    let check = |map: &HashMap<u64, u64>| {
        let keys: Vec<u64> = (0..N).collect();
        let entries: Vec<_> = keys.iter().map(|&key| (key, !key)).collect();
        assert_eq!(map.insert_many(&entries).unwrap(), keys.len());
        let mut values = vec![None; keys.len()];
        let take = |i: usize, value| values[i] = value;
        let table = &map.table;
        let found =
            table.perform_many_into::<Find<Atomic>, _>(&keys, u64::key_by, |_, _| Ok(()), take);
        assert_eq!(found.unwrap(), 0);
        assert!(
            keys.iter()
                .zip(&values)
                .all(|(key, value)| *value == Some(!key))
        );
        assert_eq!(map.find_many(&keys).unwrap(), values);
    };
    pgas_smp::threads(1, |world| check(&reusing(&world, 20_000))).unwrap();
    near_counted(1, |world| check(&map(&world, 20_000)));
}

#[test]
fn a_batch_of_removals_gives_slots_back() {
    pgas_smp::threads(1, |world| {
        let map = reusing::<u64, u64>(&world, 1024);
        let keys: Vec<u64> = (0..600).collect();
        let entries: Vec<_> = keys.iter().map(|&key| (key, key)).collect();
        assert_eq!(map.insert_many(&entries).unwrap(), 600);
        assert_eq!(n_taken(&map), 600);
        assert_eq!(map.remove_many(&keys).unwrap(), 600);
        // The rest was removed since the last reclaim.
        let n = n_taken(&map);
        assert!(n < 256, "{n} slots");
    })
    .unwrap();
}

/// It looks for room in a part of the map, and leaves the rest of the removed keys.
#[test]
fn an_insert_without_room_takes_back_some_slots_and_not_all() {
    // Fewer removals than make a removal take back slots.
    const N_REMOVED: u64 = 100;
    pgas_smp::threads(1, |world| {
        let map = reusing::<u64, u64>(&world, 1 << 15);
        let n = map.capacity();
        let entries: Vec<_> = (0..n).map(|key| (key, key)).collect();
        assert_eq!(map.insert_many(&entries).unwrap() as u64, n);
        for i in 0..N_REMOVED {
            assert!(map.remove(&(i * (n / N_REMOVED))).unwrap());
        }
        assert_eq!(n_taken(&map), n);
        for new in 1..=N_REMOVED {
            map.insert(&(n + new), new).unwrap();
        }
        assert_eq!(map.len().unwrap(), n);
        let full = map.insert(&(2 * n + 1), 0).unwrap_err();
        assert!(matches!(full, Error::Full { .. }), "{full}");
        let n_emptied = |map: &HashMap<u64, u64>| {
            let reused = map.table.reused.as_ref().unwrap();
            reused.sections.n_emptied()
        };
        let before = n_emptied(&map);
        for i in 0..N_REMOVED {
            assert!(map.remove(&(n + 1 + i)).unwrap());
        }
        map.insert(&n, 7).unwrap();
        let n_more = n_emptied(&map) - before;
        assert!((1..N_REMOVED / 2).contains(&n_more), "{n_more} slots");
    })
    .unwrap();
}

/// Each may tell the slots to stay that another one is about to take back.
#[test]
fn inserts_of_all_ranks_without_room_find_what_was_removed() {
    const N_EACH: u64 = 50;
    pgas_smp::threads(4, |world| {
        let map = reusing::<u64, u64>(&world, 1 << 13);
        let (n, me) = (map.capacity(), u64::from(world.rank().number()));
        if me == 0 {
            let entries: Vec<_> = (0..n).map(|key| (key, key)).collect();
            map.insert_many(&entries).unwrap();
        }
        world.barrier().unwrap();
        for i in 0..N_EACH {
            assert!(map.remove(&(4 * i + me)).unwrap());
        }
        world.barrier().unwrap();
        for i in 0..N_EACH {
            map.insert(&(n + 4 * i + me), i).unwrap();
        }
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), n);
    })
    .unwrap();
}

/// Where none was free, slots become free when the looks for removed keys have come around.
#[test]
fn slots_of_a_full_map_are_free_again_when_its_keys_are_gone() {
    pgas_smp::threads(1, |world| {
        let map = reusing::<u64, u64>(&world, 1 << 12);
        let n = map.capacity();
        let keys: Vec<u64> = (0..n).collect();
        let entries: Vec<_> = keys.iter().map(|&key| (key, key)).collect();
        assert_eq!(map.insert_many(&entries).unwrap() as u64, n);
        assert_eq!(map.remove_many(&keys).unwrap() as u64, n);
        for key in 0..n {
            map.insert(&key, key).unwrap();
            assert!(map.remove(&key).unwrap());
        }
        let n_free = n_in_state(&map, |state| state == SlotState::Free);
        assert!(n_free > n / 4 * 3, "{n_free} of {n}");
    })
    .unwrap();
}

/// A pointer in a slot that is reclaimed while it is read leads anywhere.
#[test]
fn slots_with_pointers_are_read_in_sections() {
    fn is_read_in_section<K: Object, V: Object>(world: &World) -> bool {
        let map = reusing::<K, V>(world, 8);
        let reused = map.table.reused.as_ref().unwrap();
        let read = |_: LocalView<'_, K, V, _>| reused.sections.are_open_here();
        map.table.read_optimistically(reused, read)
    }
    pgas_smp::threads(1, |world| {
        assert!(!is_read_in_section::<u64, [u64; 5]>(&world));
        assert!(is_read_in_section::<u64, String>(&world));
        assert!(is_read_in_section::<String, u64>(&world));
    })
    .unwrap();
}

#[test]
fn keys_and_values_of_all_kinds_find_room() {
    let text = |i: u64| format!("{i:020} ").repeat(1 + usize::try_from(i % 5).unwrap());
    pgas_smp::threads_with(2, &Config::default(), |world| {
        let used = || world.local_heap_use().used;
        let before = used();
        drop(churn::<u128, u64>(&world, 600, &(u128::from, |i| i)));
        drop(churn::<u64, [u64; 5]>(
            &world,
            600,
            &(|key| key, |i| [i; 5]),
        ));
        drop(churn::<[u64; 2], ()>(
            &world,
            600,
            &(|key| [key; 2], |_| ()),
        ));
        drop(churn::<String, String>(&world, 600, &(text, text)));
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(
            used(),
            before,
            "what keys and values point to is given back"
        );
    })
    .unwrap();
}

#[test]
fn processes_find_room_for_ever_new_keys() {
    let name = "hash_map::tests::churn::processes_find_room_for_ever_new_keys";
    over_processes(name, 2, |world, _| {
        churn::<u64, u64>(world, 1_000, &(|key| key, |i| i));
        churn::<u64, [u64; 3]>(world, 1_000, &(|key| key, |i| [i; 3]));
    });
}

#[test]
fn a_full_map_has_room_for_as_many_keys_as_were_removed() {
    pgas_smp::threads_with(2, &Config::default(), |world| {
        let map = reusing::<u64, u64>(&world, 6);
        if world.rank().number() == 0 {
            for round in 0..100 {
                let keys: Vec<_> = (round * 10..round * 10 + 6)
                    .map(|key| (key, round))
                    .collect();
                assert_eq!(map.insert_many(&keys).unwrap(), 6);
                let full = map.insert(&(round * 10 + 6), 0).unwrap_err();
                assert!(matches!(full, Error::Full { capacity: 6 }), "{full}");
                for (key, _) in &keys[..4] {
                    assert!(map.remove(key).unwrap());
                }
                for i in 0..4 {
                    let former = map.fetch_add(&(round * 10 + 6 + i), 1).unwrap();
                    assert_eq!(former, 0);
                }
                assert!(map.insert(&u64::MAX, 0).is_err());
                for key in round * 10 + 4..round * 10 + 10 {
                    assert!(map.remove(&key).unwrap());
                }
            }
        }
        world.barrier().unwrap();
    })
    .unwrap();
}

#[test]
fn whoever_is_within_an_update_finds_no_room_and_says_so() {
    pgas_smp::threads_with(1, &Config::default(), |world| {
        let map = reusing::<u64, u64>(&world, 2);
        assert_eq!(map.insert_many(&[(1, 1), (2, 2)]).unwrap(), 2);
        map.update(&1, |there| {
            assert!(map.remove(&2).unwrap());
            reclaim_some(&map);
            assert!(matches!(map.insert(&3, 3), Err(Error::Full { .. })));
            assert_eq!(map.find(&2).unwrap(), None);
            there + 1
        })
        .unwrap();
        assert_eq!(map.insert(&3, 3).unwrap(), Inserted::New);
        assert_eq!(map.find_many(&[1, 2, 3]).unwrap(), [Some(2), None, Some(3)]);
    })
    .unwrap();
}

/// Few threads have a word of their own. The others share one.
#[test]
fn more_threads_than_have_words_find_room() {
    pgas_smp::threads_with(1, &Config::default(), |world| {
        let map = reusing::<u64, u64>(&world, 1 << 15);
        std::thread::scope(|scope| {
            for thread in 0..70_u64 {
                let map = &map;
                scope.spawn(move || {
                    for i in 0..300_u64 {
                        let key = thread << 32 | i;
                        assert_eq!(map.insert(&key, i).unwrap(), Inserted::New);
                        if let Some(old) = i.checked_sub(4) {
                            assert!(map.remove(&(thread << 32 | old)).unwrap());
                        }
                    }
                });
            }
        });
        assert_eq!(map.len().unwrap(), 70 * 4);
        assert_eq!(empty_all(&map), 70 * 4);
    })
    .unwrap();
}

#[test]
fn slots_are_used_again_after_phases_and_resizes() {
    pgas_smp::threads_with(2, &Config::default(), |world| {
        let mut map = churn::<u64, u64>(&world, 500, &(|key| key, |i| i));
        map.resize(700).unwrap();
        let map = map.into_find_phase().unwrap();
        let there = key(&world, 500);
        assert_eq!(map.find(&there).unwrap(), Some(500));
        let mut map = map.into_local_phase().unwrap();
        let sum = |map: &HashMap<u64, u64, super::super::Local>| {
            map.local_iter().map(|entry| entry.unwrap().1).sum::<u64>()
        };
        let before = sum(&map);
        let keys: Vec<_> = map.local_iter().map(|entry| entry.unwrap().0).collect();
        for key in keys {
            assert!(map.local_find(&key).unwrap().is_some());
            map.local_upsert(&key, &0, |there| there + 1).unwrap();
        }
        assert_eq!(sum(&map), before + map.local_len().unwrap());
        let mut buffer = HashMapBuffer::new(map, 64, |there, more| there + more).unwrap();
        buffer.insert(there, 1).unwrap();
        let map = buffer.into_map().unwrap();
        assert!(map.table.reused.is_some());
        assert_eq!(map.find(&there).unwrap(), Some(502));
        for i in 0..2_000 {
            let key = 3 * i + u64::from(world.rank().number());
            map.insert(&key, i).unwrap();
            assert!(map.remove(&key).unwrap());
        }
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), 512);
    })
    .unwrap();
}

#[test]
fn sets_and_multimaps_find_room() {
    pgas_smp::threads_with(2, &Config::default(), |world| {
        let set = HashSet::<u64>::with_capacity(&world, 64).unwrap();
        let set = set.reuse_slots().unwrap();
        let lists = MultiMap::<u64, u64>::with_capacity(&world, 64).unwrap();
        let lists = lists.reuse_slots().unwrap();
        let here = u64::from(world.rank().number());
        for i in 0..1_000 {
            assert!(set.insert(&key(&world, i)).unwrap());
            lists.insert(&here, i).unwrap();
            if i % 8 == 7 {
                assert_eq!(lists.remove(&here).unwrap().len(), 8);
                for i in i - 7..=i {
                    assert!(set.remove(&key(&world, i)).unwrap());
                }
            }
        }
        world.barrier().unwrap();
        assert!(set.is_empty().unwrap() && lists.is_empty().unwrap());
    })
    .unwrap();
}

#[test]
fn a_function_of_an_update_finds_no_room_at_once_where_it_would_wait_for_itself() {
    pgas_smp::threads_with(1, &Config::default(), |world| {
        let map = reusing::<u64, [u64; 2]>(&world, 64);
        map.insert(&0, [0; 2]).unwrap();
        let mut refused = None;
        let churn = |key: u64| map.insert(&key, [key; 2]).and_then(|_| map.remove(&key));
        let fill = |value| {
            refused = (1..1000).find_map(|key| churn(key).err());
            value
        };
        assert!(map.update(&0, fill).unwrap().is_some());
        let text = refused.expect("removed keys keep their slots").to_string();
        assert!(text.contains("not within a function"), "{text}");
        assert!((1..1000).all(|key| churn(key).unwrap()));
    })
    .unwrap();
}

#[test]
fn an_update_whose_function_panics_does_not_keep_slots_from_new_keys() {
    pgas_smp::threads_with(1, &Config::default(), |world| {
        let map = reusing::<u64, u64>(&world, 2);
        assert_eq!(map.insert_many(&[(1, 1), (2, 2)]).unwrap(), 2);
        let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
            map.update(&1, |_| panic!("in the function"))
        }));
        assert!(panicked.is_err());
        assert!(map.remove(&2).unwrap());
        assert_eq!(map.insert(&3, 3).unwrap(), Inserted::New);
        assert_eq!(map.find_many(&[1, 2, 3]).unwrap(), [Some(1), None, Some(3)]);
    })
    .unwrap();
}

/// Rank 0 waits for room for one more key, in a map with a removed key and without a free slot,
/// while rank 1 is inside of an update that calls `within`. Ranks are threads.
fn insert_beside_an_update(map: &HashMap<u64, u64>, go: &Go, within: &dyn Fn()) -> Ended {
    let world = map.world();
    match world.rank().number() {
        0 => {
            assert_eq!(map.insert_many(&[(1, 1), (2, 2), (3, 3)]).unwrap(), 3);
            assert!(map.remove(&3).unwrap());
            world.barrier().unwrap();
            go.wait();
            Some(map.insert(&4, 4))
        }
        1 => {
            world.barrier().unwrap();
            let update = map.update(&1, |there| {
                go.say();
                within();
                there + 1
            });
            assert_eq!(update.unwrap(), Some(1));
            None
        }
        _ => {
            world.barrier().unwrap();
            go.wait();
            None
        }
    }
}

#[test]
fn whoever_waits_for_room_serves_the_rank_that_is_in_the_way() {
    let go = Go::default();
    pgas_smp::threads_with(2, &Config::default(), |world| {
        pgas_am::attach(&world).unwrap();
        let map = reusing::<u64, u64>(&world, 3);
        let within = || {
            let called = world.rpc(Rank::ZERO, |n: u64| n + 1, 1);
            assert_eq!(called.unwrap().wait().unwrap(), 2);
        };
        if let Some(inserted) = insert_beside_an_update(&map, &go, &within) {
            assert_eq!(inserted.unwrap(), Inserted::New);
        }
        world.barrier().unwrap();
        assert_eq!(map.find_many(&[1, 3, 4]).unwrap(), [Some(2), None, Some(4)]);
    })
    .unwrap();
}

#[test]
fn whoever_waits_for_room_hears_of_a_rank_that_has_failed() {
    let (go, has_heard) = (Go::default(), Go::default());
    let heard = Mutex::new(None);
    let job = || {
        pgas_smp::threads_with(3, &Config::default(), |world| {
            let map = reusing::<u64, u64>(&world, 3);
            // Like a dead rank, it does not end its update before the other ranks know of the
            // failure.
            let ended = insert_beside_an_update(&map, &go, &|| has_heard.wait());
            if let Some(inserted) = ended {
                *heard.lock().unwrap() = Some(inserted.unwrap_err().to_string());
                has_heard.say();
            }
            assert_ne!(world.rank().number(), 2, "fails");
        })
    };
    drop(panic::catch_unwind(AssertUnwindSafe(job)));
    let heard = heard.into_inner().unwrap().unwrap();
    assert!(heard.contains("rank 2 panicked"), "{heard}");
}

/// If this process reaches all slots, keys come and go without end. Otherwise the map behaves like
/// one without reuse, on all ranks.
#[test]
fn where_memory_is_not_local_slots_stay_their_keys() {
    everywhere(2, |world| {
        let map = map::<u64, u64>(&world, 8);
        let is_local = map.table.local.is_some();
        let map = map.reuse_slots().unwrap();
        assert_eq!(map.table.reused.is_some(), is_local);
        let mine = |i| 2 * i + u64::from(world.rank().number());
        for i in 0..if is_local { 100 } else { 4 } {
            assert_eq!(map.insert(&mine(i), i).unwrap(), Inserted::New);
            assert_eq!(map.fetch_add(&mine(i), 1).unwrap(), i);
            assert_eq!(
                map.update(&mine(i), |there| there + 1).unwrap(),
                Some(i + 1)
            );
            assert_eq!(map.find_many(&[mine(i)]).unwrap(), [Some(i + 2)]);
            assert!(map.remove(&mine(i)).unwrap());
            assert!(!map.contains(&mine(i)).unwrap());
        }
        world.barrier().unwrap();
        if !is_local {
            assert!(matches!(
                map.insert(&(100 + mine(0)), 1),
                Err(Error::Full { .. })
            ));
        }
        world.barrier().unwrap();
        assert!(map.is_empty().unwrap());
    });
    everywhere_counted(2, |world| {
        let map = map::<u64, u64>(&world, 8).reuse_slots().unwrap();
        assert!(map.table.reused.is_none());
    });
}
