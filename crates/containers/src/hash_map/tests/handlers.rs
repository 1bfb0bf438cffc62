//! Operations inside of handlers, where nothing may wait.

use std::sync::{Arc, mpsc};
use std::thread;

use pgas_core::as_handler;
use pgas_lockfree::slots::probe::ProbeResult;
use pgas_lockfree::slots::state::StateWord;
use pgas_lockfree::slots::{ReadValue, SlotMemory as _};

use super::*;
use crate::hash_map::reuse::REMOVALS_PER_RECLAIM;
use crate::hash_map::{Inserted, MultiMap};
use crate::object::KeyHasher;

type Wide = [u64; 5];

/// Runs `body` as one rank over shared memory, with active messages.
fn alone(body: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.segment_bytes = Some(if cfg!(miri) { 1 << 18 } else { 16 << 20 });
    let attached = |world: World| {
        pgas_am::attach(&world).unwrap();
        body(world);
    };
    pgas_smp::threads_with(1, &config, attached).unwrap();
}

/// Maps that keep the slots of removed keys, and that use them again.
fn both<V: Object>(world: &World) -> [HashMap<u64, V>; 2] {
    let reused = map(world, 64).reuse_slots().unwrap();
    assert!(reused.table.reused.is_some());
    [map(world, 64), reused]
}

/// Calls `call` in a handler, for a key that was removed.
fn on_removed<V: Object, T>(
    map: &HashMap<u64, V>,
    value: impl Fn() -> V,
    call: impl Fn(&HashMap<u64, V>) -> crate::Result<T>,
) -> T {
    map.insert(&1, value()).unwrap();
    assert!(map.remove(&1).unwrap());
    let done = as_handler(|| call(map)).unwrap();
    map.remove(&1).unwrap();
    done
}

fn check_removed<V: Object + Clone + PartialEq + std::fmt::Debug>(world: &World, value: &V) {
    for map in both::<V>(world) {
        let v = || value.clone();
        assert_eq!(on_removed(&map, v, |map| map.find(&1)), None);
        assert!(!on_removed(&map, v, |map| map.contains(&1)));
        assert!(!on_removed(&map, v, |map| map.remove(&1)));
        assert_eq!(
            on_removed(&map, v, |map| map.update(&1, |there| there)),
            None
        );
        assert_eq!(
            on_removed(&map, v, |map| map.insert(&1, v())),
            Inserted::New
        );
        assert_eq!(
            on_removed(&map, v, |map| map.insert_if_absent(&1, v())),
            None
        );
        assert_eq!(on_removed(&map, v, |map| map.get_or_insert(&1, v())), v());
        let upserted = on_removed(&map, v, |map| map.upsert(&1, v(), |there| there));
        assert_eq!(upserted, None);
        let modified = |map: &HashMap<u64, V>| map.modify_or_insert_with(&1, |there| there, v);
        assert_eq!(on_removed(&map, v, modified), None);
        let inserted = |map: &HashMap<u64, V>| map.insert_if_absent_nb(&1, v())?.wait();
        assert_eq!(on_removed(&map, v, inserted), None);
    }
}

/// No other rank works on the slot, so nothing has to be waited for.
#[test]
fn a_removed_key_is_no_reason_to_refuse_an_operation_in_a_handler() {
    alone(|world| {
        check_removed(&world, &7_u64);
        check_removed(&world, &[7_u64; 5]);
        check_removed(&world, &"v".repeat(300));
        for map in both::<Wide>(&world) {
            assert_eq!(on_removed(&map, || [7; 5], |map| map.take(&1)), None);
        }
    });
}

/// Locks the slot of a present key, as another rank does for a moment. Returns what unlocks it.
fn lock<V: Object>(map: &HashMap<u64, V>, key: u64) -> impl FnOnce() {
    let table = &map.table;
    let all = match &table.reused {
        Some(reused) => &reused.all,
        None => table.local.as_ref().unwrap(),
    };
    let view = table.view_local(all);
    let value = <crate::object::SlotOf<V> as zerocopy::FromZeros>::new_zeroed();
    let found = view.claim_slot(view.hash(&key), &key, value, ReadValue::No);
    let (ProbeResult::Found(slot, _), _) = found.unwrap() else {
        panic!("the key is absent");
    };
    let swap = move |from: StateWord, to: StateWord| slot.swap_state(from, to).unwrap().unwrap();
    let state = slot.load_state().unwrap();
    swap(state, state.locked());
    move || swap(state.locked(), state)
}

#[test]
fn an_operation_in_flight_goes_on_when_the_slot_is_free_again() {
    alone(|world| {
        for map in both::<Wide>(&world) {
            for key in 0..4 {
                map.insert(&key, [key; 5]).unwrap();
            }
            let unlocks = [0, 1, 2, 3].map(|key| lock(&map, key));
            let begin = || {
                let updated = map.update_nb(&0, |there| there.map(|n| n + 1))?;
                let (taken, removed) = (map.take_nb(&1)?, map.remove_nb(&2)?);
                Ok::<_, crate::Error>((updated, taken, removed, map.insert_nb(&3, [9; 5])?))
            };
            let (mut updated, taken, removed, inserted) = as_handler(begin).unwrap();
            world.progress().unwrap();
            assert!(!updated.is_ready());
            unlocks.into_iter().for_each(|unlock| unlock());
            assert_eq!(updated.wait().unwrap(), Some([0; 5]));
            assert_eq!(taken.wait().unwrap(), Some([1; 5]));
            assert!(removed.wait().unwrap());
            assert_eq!(inserted.wait().unwrap(), Inserted::Replaced);
            assert_eq!(map.len().unwrap(), 2);
            let found = [0, 1, 2, 3].map(|key| map.find(&key).unwrap());
            assert_eq!(found, [Some([1; 5]), None, None, Some([9; 5])]);
        }
    });
}

#[test]
fn a_map_whose_slots_are_to_be_used_again_waits_for_operations_in_flight() {
    alone(|world| {
        let map = map::<u64, Wide>(&world, 64);
        map.insert(&1, [1; 5]).unwrap();
        let unlock = lock(&map, 1);
        drop(as_handler(|| map.take_nb(&1)).unwrap());
        assert_eq!(Arc::strong_count(&map.table.common), 2);
        unlock();
        let map = map.reuse_slots().unwrap();
        assert_eq!(Arc::strong_count(&map.table.common), 1);
        assert_eq!(map.find(&1).unwrap(), None);
    });
}

/// A thread whose operation has begun keeps the slots of removed keys for a moment.
#[test]
fn an_insert_in_flight_goes_on_when_there_is_room() {
    alone(|world| {
        let map = map::<u64, Wide>(&world, 8).reuse_slots().unwrap();
        for key in 0..map.capacity() {
            map.insert(&key, [key; 5]).unwrap();
        }
        // Dropped by a panic, too: then the other thread ends.
        let (ready, is_ready) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        thread::scope(|threads| {
            let map = &map;
            threads.spawn(move || {
                let other = map.table.reused.as_ref().unwrap().sections.open();
                ready.send(()).unwrap();
                ends.recv().unwrap_err();
                drop(other);
            });
            is_ready.recv().unwrap();
            assert!(map.remove(&1).unwrap());
            let mut inserted = as_handler(|| map.insert_nb(&100, [0; 5])).unwrap();
            assert!(!inserted.is_ready());
            drop(end);
            assert_eq!(inserted.wait().unwrap(), Inserted::New);
        });
    });
}

/// An operation of this thread waits for another rank, and makes progress meanwhile.
#[test]
fn an_insert_in_flight_within_another_operation_goes_on_behind_it() {
    alone(|world| {
        let map = map::<u64, u64>(&world, 8).reuse_slots().unwrap();
        for key in 0..map.capacity() {
            map.insert(&key, key).unwrap();
        }
        assert!(map.remove(&1).unwrap());
        let outer = map.table.reused.as_ref().unwrap().sections.open();
        let mut inserted = as_handler(|| map.insert_nb(&100, 0)).unwrap();
        world.progress().unwrap();
        assert!(!inserted.is_ready());
        drop(outer);
        assert_eq!(inserted.wait().unwrap(), Inserted::New);
        let full = as_handler(|| map.insert_nb(&101, 0)).and_then(|inserted| inserted.wait());
        assert!(matches!(full, Err(crate::Error::Full { .. })), "{full:?}");
    });
}

#[test]
fn removals_in_flight_let_slots_be_used_again() {
    alone(|world| {
        let map = map::<u64, u64>(&world, 2000).reuse_slots().unwrap();
        for key in 0..3 * REMOVALS_PER_RECLAIM {
            let inserted = as_handler(|| map.insert_nb(&key, key)).unwrap();
            assert_eq!(inserted.wait().unwrap(), Inserted::New);
            assert!(as_handler(|| map.remove_nb(&key)).unwrap().wait().unwrap());
        }
        let sections = &map.table.reused.as_ref().unwrap().sections;
        assert!(sections.n_emptied() > 0);
    });
}

#[test]
fn tasks_change_lists_whose_slots_are_used_again() {
    attached_everywhere(2, |world| {
        use pgas_am::RemoteCalls as _;
        let lists = MultiMap::<u64, String>::with_capacity(&world, 400).unwrap();
        let lists = Arc::new(lists.reuse_slots().unwrap());
        let tasks = (0..3).map(|_| {
            let lists = Arc::clone(&lists);
            world.spawn(async move {
                for n in 0..10 {
                    lists.insert_nb(&1, "v".repeat(n * 20))?.await?;
                    let own = lists.find_nb(&1)?.await?;
                    assert!(!own.is_empty());
                }
                Ok(())
            })
        });
        let tasks = pgas_am::when_all(tasks.collect::<Vec<_>>());
        tasks.wait().unwrap();
        world.barrier().unwrap();
        let n = u64::from(world.n_ranks()) * 3 * 10;
        assert_eq!(lists.count(&1).unwrap(), n);
        world.barrier().unwrap();
    });
}

/// Has one hash for all keys.
struct Constant;

impl KeyHasher for Constant {
    fn hash(&self, _: &[u8]) -> u64 {
        7
    }
}

#[test]
fn values_that_a_removal_cannot_reach_at_once_do_not_stay() {
    alone(|world| {
        let lists = MultiMap::<u64, Wide, _, _>::with_hasher(&world, 64, Constant).unwrap();
        for key in 0..2 {
            lists.insert(&key, [key; 5]).unwrap();
        }
        // Another rank seems to insert what was inserted first, in the home slot of all values.
        let table = &lists.values().table;
        let view = table.view_local(table.local.as_ref().unwrap());
        let hash = view.hash(&(0, 0));
        let slot = view.home(hash).slot;
        let swap = |from, to| slot.swap_state(from, to).unwrap().unwrap();
        let state = slot.load_state().unwrap();
        let reserved = StateWord::reserved(hash.fingerprint());
        swap(state, reserved);
        let refused = as_handler(|| lists.remove(&1)).unwrap_err();
        let lost = refused.lost;
        assert!(matches!(lost.first, crate::Error::InHandler { .. }) && lost.n == 1);
        swap(reserved, state);
        world.progress().unwrap();
        assert_eq!(lists.len().unwrap(), 1);
        assert_eq!(lists.local_iter().count(), 1);
        assert_eq!(lists.find(&0).unwrap(), [[0; 5]]);
        assert!(lists.find(&1).unwrap().is_empty());
    });
}
