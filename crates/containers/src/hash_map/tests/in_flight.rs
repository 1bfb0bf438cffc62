//! Non-blocking operations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pgas_am::{Completes as _, PgasFuture, RemoteCalls as _, when_all};
use pgas_core::{Rank, Result, as_handler};

use super::concurrent::Random;
use super::*;
use crate::Error;
use crate::hash_map::{HashSet, Inserted};
use crate::testing::{in_many_orders, served_counted};

/// A value of a map that is compared with std's.
pub(super) trait Value: Object + Clone + PartialEq + std::fmt::Debug {
    fn of(n: u64) -> Self;
}

impl Value for u64 {
    fn of(n: u64) -> Self {
        n
    }
}

impl Value for [u64; 5] {
    fn of(n: u64) -> Self {
        [n; 5]
    }
}

impl Value for String {
    fn of(n: u64) -> Self {
        "v".repeat(usize::try_from(n % 150).unwrap())
    }
}

/// A check of the result of an operation in flight.
type Check = PgasFuture<()>;

fn expect<T: PartialEq + std::fmt::Debug + Send + 'static>(
    future: Result<PgasFuture<T>>,
    expected: T,
) -> Check {
    future.then(move |value| assert_eq!(value, expected))
}

/// Begins one operation on a key, and performs it on std's map.
fn begin<V: Value>(
    map: &HashMap<u64, V>,
    model: &mut BTreeMap<u64, V>,
    key: u64,
    random: &mut Random,
) -> Check {
    let there = model.get(&key).cloned();
    let value = V::of(random.next());
    match random.below(7) {
        0 | 1 => {
            let former = model.insert(key, value.clone());
            let expected = former.map_or(Inserted::New, |_| Inserted::Replaced);
            expect(map.insert_nb(&key, value), expected)
        }
        2 => {
            model.entry(key).or_insert_with(|| value.clone());
            expect(map.insert_if_absent_nb(&key, value), there)
        }
        3 => expect(map.find_nb(&key), there),
        4 => expect(map.contains_nb(&key), there.is_some()),
        5 => {
            if there.is_some() {
                model.insert(key, value.clone());
            }
            expect(map.update_nb(&key, move |_| value.clone()), there)
        }
        _ => {
            model.remove(&key);
            expect(map.remove_nb(&key), there.is_some())
        }
    }
}

/// As [`begin`], without a future.
fn perform<V: Value>(
    map: &HashMap<u64, V>,
    model: &mut BTreeMap<u64, V>,
    key: u64,
    random: &mut Random,
) {
    let there = model.get(&key).cloned();
    match random.below(3) {
        0 => {
            let value = V::of(random.next());
            let is_new = map.insert(&key, value.clone()).unwrap() == Inserted::New;
            assert_eq!(is_new, model.insert(key, value).is_none());
        }
        1 => assert_eq!(map.find(&key).unwrap(), there),
        _ => assert_eq!(map.remove(&key).unwrap(), model.remove(&key).is_some()),
    }
}

/// Rounds of operations on keys of this rank, which meet those of others in slots and fingerprints.
fn compare<V: Value>(world: &World, random: &mut Random) {
    let map = map::<u64, V>(world, 40);
    let n = usize::try_from(world.n_ranks()).unwrap();
    let me = world.rank().index();
    let of_rank = |i: usize| i % n == me;
    let colliding = colliding_keys().iter().copied();
    let all: Vec<u64> = colliding.chain(0..12).collect();
    let mine = (0..all.len()).filter(|&i| of_rank(i)).map(|i| all[i]);
    let mine: Vec<u64> = mine.collect();
    let mut model = BTreeMap::new();
    for _ in 0..30 {
        let (mut checks, mut n_waited) = (Vec::new(), 0);
        for &key in &mine {
            match random.below(3) {
                0 => checks.push(begin(&map, &mut model, key, random)),
                1 => {
                    perform(&map, &mut model, key, random);
                    n_waited += 1;
                }
                _ => {}
            }
        }
        let n_begun = checks.len();
        assert_eq!(when_all(checks).wait().unwrap().len(), n_begun);
        assert!(n_begun + n_waited <= mine.len());
    }
    world.barrier().unwrap();
    for &key in &mine {
        let (found, expected) = (map.find(&key).unwrap(), model.get(&key).cloned());
        assert_eq!(found, expected, "of key {key}");
    }
    world.barrier().unwrap();
    let sum = world.allreduce(model.len() as u64, |a: u64, b| a + b);
    assert_eq!(map.len().unwrap(), sum.unwrap());
}

#[test]
fn operations_in_flight_and_others_between_them_do_what_those_of_std_do() {
    for n_ranks in [1, 3] {
        attached_everywhere(n_ranks, |world| {
            let mut random = Random(u64::from(world.rank().number()));
            compare::<u64>(&world, &mut random);
            compare::<[u64; 5]>(&world, &mut random);
            compare::<String>(&world, &mut random);
        });
    }
}

/// Several operations of one rank count with one key at once. Nobody sees a part of a wide value.
#[test]
fn operations_in_flight_on_the_same_keys_are_atomic_in_every_order() {
    in_many_orders(3, |world, seed| {
        pgas_am::attach(&world).unwrap();
        let counts = map::<u64, u64>(&world, 12);
        let raised = map::<u64, u64>(&world, 12);
        let wide = map::<u64, [u64; 6]>(&world, 9);
        let texts = map::<String, String>(&world, 9);
        let [grown, whole] = ["g", "w"].map(|name| name.repeat(70));
        let me = u64::from(world.rank().number());
        raised.insert_if_absent(&1, 0).unwrap();
        texts.insert_if_absent(&grown, "-".repeat(70)).unwrap();
        let mut futures = Vec::new();
        for i in 0..4 {
            futures.push(counts.fetch_add_nb(&(i % 3), 1).then(drop));
            futures.push(raised.update_nb(&1, |n| n + 1).then(drop));
            futures.push(wide.insert_nb(&(i % 2), [100 * me + i; 6]).then(drop));
            futures.push(wide.find_nb(&((i + me) % 2)).then(|seen| {
                assert!(seen.is_none_or(|value| value == [value[0]; 6]), "{seen:?}");
            }));
            if i == 0 {
                futures.push(texts.update_nb(&grown, |text| text + "+").then(drop));
                futures.push(
                    texts
                        .insert_nb(&whole, me.to_string().repeat(80))
                        .then(drop),
                );
                futures.push(texts.find_nb(&whole).then(|seen| {
                    let is_whole = |text: String| text == text[..1].repeat(80);
                    assert!(seen.is_none_or(is_whole));
                }));
            }
            if i == seed % 4 {
                texts.update(&grown, |text| text + "+").unwrap();
                futures.push(texts.remove_nb(&whole).then(drop));
                futures.push(texts.take_nb(&whole).then(drop));
                counts.fetch_add(&(i % 3), 1).unwrap();
                raised.update(&1, |n| n + 1).unwrap();
                wide.update(&(i % 2), |value| value).unwrap();
                futures.push(wide.remove_nb(&1).then(drop));
            }
        }
        for future in futures {
            future.wait().unwrap();
        }
        world.barrier().unwrap();
        let found = counts.find_many(&[0, 1, 2]).unwrap();
        let n_added: u64 = found.into_iter().flatten().sum();
        assert_eq!(n_added, 3 * 5);
        assert_eq!(raised.find(&1).unwrap(), Some(3 * 5));
        let expected = "-".repeat(70) + &"+".repeat(3 * 2);
        assert_eq!(texts.find(&grown).unwrap(), Some(expected));
        assert_eq!(counts.len().unwrap(), 3);
        world.barrier().unwrap();
    });
}

/// The number of rounds of progress until all are ready.
fn rounds<T: Send + 'static>(world: &World, futures: &mut [PgasFuture<T>]) -> u32 {
    let mut n = 0;
    while !futures.iter_mut().all(PgasFuture::is_ready) {
        world.progress().unwrap();
        n += 1;
        assert!(n < 10_000, "they never end");
    }
    n
}

/// A hundred operations take about as many rounds of progress as one takes.
fn overlap<T: Send + 'static>(
    world: &World,
    begin: impl Fn(u64) -> Result<PgasFuture<T>>,
    most: u32,
) {
    let one = rounds(world, &mut [begin(1000).unwrap()]);
    assert!(one > 0, "it was in flight");
    let many = (0..100).map(|key| begin(key).unwrap());
    let mut many: Vec<_> = many.collect();
    let n = rounds(world, &mut many);
    // Each further slot of a search takes its steps, too.
    assert!(
        n <= most * one,
        "{n} rounds for 100 operations, {one} for one"
    );
}

#[test]
fn operations_in_flight_overlap() {
    loopback::run(1, |world| {
        pgas_am::attach(&world).unwrap();
        let words = map::<u64, u64>(&world, 1 << 12);
        overlap(&world, |key| words.insert_nb(&key, key), 4);
        overlap(&world, |key| words.fetch_add_nb(&key, key), 4);
        overlap(&world, |key| words.find_nb(&key), 4);
        overlap(&world, |key| words.update_nb(&key, |n| n + 1), 4);
        overlap(&world, |key| words.remove_nb(&key), 4);
        let texts = map::<String, [u64; 5]>(&world, 1 << 12);
        overlap(&world, |key| texts.insert_nb(&key.to_string(), [key; 5]), 4);
        overlap(&world, |key| texts.find_nb(&key.to_string()), 4);
        // Keys and values that are longer than their slots.
        let long = |key: u64| format!("{key:080}");
        let texts = map::<String, String>(&world, 1 << 12);
        overlap(&world, |key| texts.insert_nb(&long(key), long(key + 1)), 4);
        overlap(&world, |key| texts.find_nb(&long(key)), 4);
        overlap(
            &world,
            |key| texts.update_nb(&long(key), |text| text + "!"),
            4,
        );
        assert_eq!(texts.find(&long(7)).unwrap(), Some(long(8) + "!"));
        overlap(&world, |key| texts.take_nb(&long(key)), 4);
        assert!(texts.is_empty().unwrap());
        let words = words.into_find_phase().unwrap();
        overlap(&world, |key| words.find_nb(&key), 4);
    });
}

/// All requests are sent before the first one is answered.
#[test]
fn requests_of_operations_in_flight_are_with_their_rank_at_once() {
    fn check<V: Value>(begin: impl Fn(&HashMap<u64, V>, u64) -> Check + Sync) {
        let has_sent = AtomicBool::new(false);
        let served = loopback::Options::default().with_served_atomics();
        loopback::run_over(&served, 2, &Config::default(), |world| {
            pgas_am::attach(&world).unwrap();
            let map = map::<u64, V>(&world, 1 << 12);
            if world.rank() == Rank::ZERO {
                let begun = (0..40).map(|key| begin(&map, key));
                let mut begun: Vec<_> = begun.collect();
                has_sent.store(true, Ordering::Release);
                rounds_of_threads(&world, &mut begun);
                for future in begun {
                    future.wait().unwrap();
                }
            } else {
                // It serves nobody before the other rank has begun all.
                while !has_sent.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
            world.barrier().unwrap();
            let (n, last) = (map.len().unwrap(), map.find(&39).unwrap());
            assert_eq!((n, last), (40, Some(V::of(139))));
            world.barrier().unwrap();
        });
    }
    check::<u64>(|map, key| expect(map.fetch_add_nb(&key, key + 100), 0));
    check::<String>(|map, key| expect(map.insert_nb(&key, Value::of(key + 100)), Inserted::New));
}

/// Tasks, which must not wait, use a map of long keys and values of other ranks. What they overwrite
/// is released, once.
#[test]
fn tasks_work_on_long_keys_and_values() {
    fn long(key: u64) -> String {
        format!("{key:090}")
    }
    fn check(world: &World) {
        let used = || world.local_heap_use().used;
        let map = Arc::new(map::<String, String>(world, 300));
        let me = u64::from(world.rank().number());
        let rounds = |n: u64| {
            let tasks = (0..20).map(|i| {
                let (map, key) = (Arc::clone(&map), long(100 * me + i));
                world.spawn(async move {
                    for round in 0..n {
                        let inserted = map.insert_nb(&key, long(round))?.await?;
                        assert_eq!(inserted == Inserted::New, round == 0);
                        let former = map.update_nb(&key, |text| text + " changed")?.await?;
                        assert_eq!(former, Some(long(round)));
                        let found = map.find_nb(&key)?.await?;
                        assert_eq!(found, Some(long(round) + " changed"));
                        assert!(map.insert_if_absent_nb(&key, long(7))?.await?.is_some());
                    }
                    map.take_nb(&key)?.await
                })
            });
            let taken = when_all(tasks.collect::<Vec<_>>()).wait().unwrap();
            assert!(
                taken
                    .iter()
                    .flatten()
                    .all(|text| text.ends_with(" changed"))
            );
            assert_eq!(taken.iter().flatten().count(), 20);
            world.barrier().unwrap();
            used()
        };
        let after_few = rounds(3);
        let after_many = rounds(30);
        // In all three sizes a block for each key, whoever has it, and as many in flight.
        let most = after_few + 3 * 256 * 40 * u64::from(world.n_ranks());
        assert!(after_many <= most, "{after_few} bytes, then {after_many}");
        assert!(map.is_empty().unwrap());
    }
    for n_ranks in [1, 3] {
        attached_everywhere(n_ranks, |world| check(&world));
    }
}

/// Ranks that never call an operation that waits overwrite and take each other's long values.
#[test]
fn what_is_overwritten_in_flight_goes_back_to_the_rank_that_wrote_it() {
    attached_everywhere(2, |world| {
        const N: u64 = 10;
        let used = || world.local_heap_use().used;
        let map = map::<u64, String>(&world, 100);
        let me = u64::from(world.rank().number());
        let mut most = 0;
        for round in 0..40 {
            if round % 2 == me {
                let text = || "v".repeat(200);
                let begun = (0..N).map(|key| match (round / 2 + key) % 4 {
                    0 => map.take_nb(&key).unwrap().then(drop),
                    1 => map.remove_nb(&key).unwrap().then(drop),
                    2 => map.update_nb(&key, move |_| text()).unwrap().then(drop),
                    _ => map.insert_nb(&key, text()).unwrap().then(drop),
                });
                when_all(begun.collect::<Vec<_>>()).wait().unwrap();
            }
            world.barrier().unwrap();
            if round < 8 {
                most = used().max(most);
            }
        }
        // A block for each key, and one more for each that has come back and was not needed yet.
        let most = most + N * 256;
        assert!(used() <= most, "{} bytes of {most}", used());
        world.barrier().unwrap();
    });
}

/// A rank that calls containers in handlers alone.
#[test]
fn what_handlers_take_out_goes_back_to_the_rank_that_wrote_it() {
    attached_everywhere(2, |world| {
        let map = map::<u64, String>(&world, 300);
        for round in 0..150 {
            if world.rank() == Rank::ZERO {
                map.insert(&round, "v".repeat(200)).unwrap();
            }
            world.barrier().unwrap();
            if world.rank() == Rank::new(1) {
                // Some transports do not allow it.
                let removed = as_handler(|| map.remove(&round));
                assert!(removed.or_else(|_| map.remove(&round)).unwrap());
            }
            world.barrier().unwrap();
        }
        // The task may be some rounds behind, but not by more the longer it goes on.
        let used = world.local_heap_use().used;
        assert!(used <= 40 * 256, "{used} bytes");
        world.barrier().unwrap();
    });
}

/// A task that meets a slot on which another rank works goes on when it is free again.
#[test]
fn tasks_of_several_ranks_change_the_same_values() {
    const N: u64 = 8;
    fn check<V: Value>(world: &World, grow: fn(V) -> V, expected: &V) {
        let slots_stay = map::<u64, V>(world, 24);
        let reused = map::<u64, V>(world, 24).reuse_slots().unwrap();
        check_map(world, slots_stay, grow, expected);
        check_map(world, reused, grow, expected);
    }
    fn check_map<V: Value>(world: &World, map: HashMap<u64, V>, grow: fn(V) -> V, expected: &V) {
        let map = Arc::new(map);
        let tasks = (0..4).map(|_| {
            let map = Arc::clone(&map);
            world.spawn(async move {
                for _ in 0..N {
                    map.insert_if_absent_nb(&1, V::of(0))?.await?;
                    map.update_nb(&1, grow)?.await?;
                    let seen = map.find_nb(&1)?.await?;
                    assert!(seen.is_some());
                }
                Ok(())
            })
        });
        when_all(tasks.collect::<Vec<_>>()).wait().unwrap();
        world.barrier().unwrap();
        assert_eq!(map.find(&1).unwrap().as_ref(), Some(expected));
        world.barrier().unwrap();
    }
    attached_everywhere(3, |world| {
        let n = 3 * 4 * N;
        check::<[u64; 5]>(&world, |value| value.map(|n| n + 1), &[n; 5]);
        let text = "+".repeat(usize::try_from(n).unwrap());
        check::<String>(&world, |text| text + "+", &text);
    });
}

/// As [`rounds`], while another thread serves.
fn rounds_of_threads<T: Send + 'static>(world: &World, futures: &mut [PgasFuture<T>]) {
    let is_done = || Ok(futures.iter_mut().all(PgasFuture::is_ready));
    world
        .wait_for("operations in flight of a test", is_done)
        .unwrap();
}

#[test]
fn who_changes_the_map_as_a_whole_waits_for_operations_in_flight() {
    attached_everywhere(2, |world| {
        let n = u64::from(world.n_ranks());
        let mine = |i: u64| n * i + u64::from(world.rank().number());
        let mut map = map::<u64, u64>(&world, 200);
        let fill = |map: &HashMap<u64, u64>| {
            for i in 0..20 {
                drop(map.insert_nb(&mine(i), i).unwrap());
            }
        };
        fill(&map);
        let found = map.into_find_phase().unwrap();
        assert!((0..20).all(|i| found.find(&mine(i)).unwrap() == Some(i)));
        map = found.into_atomic_phase().unwrap();
        (0..20).for_each(|i| drop(map.remove_nb(&mine(i)).unwrap()));
        map.resize(400).unwrap();
        assert_eq!(map.len().unwrap(), 0);
        fill(&map);
        map.resize(300).unwrap();
        assert_eq!(map.len().unwrap(), 20 * n);
        fill(&map);
        map.clear().unwrap();
        assert!(map.is_empty().unwrap());
        fill(&map);
        drop(map);
        // It takes the memory of the former map: an operation in flight to it would be seen.
        let other = super::map::<u64, u64>(&world, 200);
        world.barrier().unwrap();
        let _progress = world.progress().unwrap();
        assert_eq!(other.local_len().unwrap(), 0);
        world.barrier().unwrap();
    });
}

/// The map has no free slots except those that they take, so their searches are long.
#[test]
fn a_phase_begins_when_what_was_in_flight_is_over() {
    attached_everywhere(2, |world| {
        let me = u64::from(world.rank().number());
        let map = map::<u64, u64>(&world, 60);
        if me == 0 {
            map.extend((0..54).map(|key| (key, key))).unwrap();
        }
        world.barrier().unwrap();
        for i in 0..3 {
            drop(map.insert_nb(&(100 * me + 60 + i), i).unwrap());
        }
        let map = map.into_find_phase().unwrap();
        for key in [60, 61, 62, 160, 161, 162] {
            assert_eq!(
                map.find(&key).unwrap(),
                Some(key % 100 - 60),
                "of key {key}"
            );
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_refused_operation_tells_it_by_its_future() {
    attached_everywhere(1, |world| {
        let map = map::<u64, u64>(&world, 8);
        let inserts = (0..12).map(|key| map.insert_nb(&key, key));
        let inserts: Vec<_> = inserts
            .map(|begun| begun.and_then(PgasFuture::wait))
            .collect();
        assert!(
            inserts[..8]
                .iter()
                .all(|done| matches!(done, Ok(Inserted::New)))
        );
        let is_full = |done: &Result<Inserted>| matches!(done, Err(Error::Full { capacity: 8 }));
        assert!(inserts[8..].iter().all(is_full), "{inserts:?}");
        assert_eq!(map.len().unwrap(), 8);
    });
}

#[test]
fn a_function_runs_once_for_each_value_that_it_meets() {
    loopback::run(1, |world| {
        pgas_am::attach(&world).unwrap();
        let map = map::<u64, [u64; 3]>(&world, 100);
        map.insert(&1, [1; 3]).unwrap();
        let calls = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&calls);
        let update = map.update_nb(&1, move |[n, ..]| {
            counter.fetch_add(1, Ordering::Relaxed);
            [n + 1; 3]
        });
        assert_eq!(update.unwrap().wait().unwrap(), Some([1; 3]));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let panics = map.update_nb(&1, |_| panic!("as the test wants")).unwrap();
        let error = panics.wait().unwrap_err();
        assert!(matches!(error, Error::RemotePanic(_)), "{error}");
        assert_eq!(map.find(&1).unwrap(), Some([2; 3]));
    });
}

#[test]
fn an_operation_in_flight_costs_what_one_costs_that_waits() {
    one_sided_counted(1, |world| {
        pgas_am::attach(&world).unwrap();
        let map = map::<u64, u64>(&world, 1 << 12);
        let of = |f: &dyn Fn()| price(&world, f);
        let insert = |key| _ = map.insert_nb(&key, 1).unwrap().wait().unwrap();
        assert_eq!(of(&|| insert(1)), (0, 1, 2));
        assert_eq!(of(&|| insert(1)), (1, 0, 2));
        let find = |key| map.find_nb(&key).unwrap().wait().unwrap();
        assert_eq!(of(&|| assert_eq!(find(1), Some(1))), (1, 0, 2));
        assert_eq!(of(&|| assert_eq!(find(2), None)), (0, 0, 1));
        let contains = |key| map.contains_nb(&key).unwrap().wait().unwrap();
        assert_eq!(of(&|| assert!(contains(1))), (1, 0, 1));
        let add = |key| map.fetch_add_nb(&key, 2).unwrap().wait().unwrap();
        assert_eq!(of(&|| assert_eq!(add(1), 1)), (1, 0, 2));
        assert_eq!(of(&|| assert_eq!(add(2), 0)), (0, 1, 2));
        let put = |key| map.insert_if_absent_nb(&key, 2).unwrap().wait().unwrap();
        assert_eq!(of(&|| assert_eq!(put(1), Some(3))), (1, 0, 2));
        let update = |key| map.update_nb(&key, |n| n + 1).unwrap().wait().unwrap();
        assert_eq!(of(&|| assert_eq!(update(1), Some(3))), (1, 0, 3));
        assert_eq!(of(&|| assert_eq!(update(9), None)), (0, 0, 1));
        let remove = |key| map.remove_nb(&key).unwrap().wait().unwrap();
        assert_eq!(of(&|| assert!(remove(1))), (1, 0, 2));
        let wide = super::map::<u64, [u64; 5]>(&world, 1 << 12);
        let insert = |key| _ = wide.insert_nb(&key, [1; 5]).unwrap().wait().unwrap();
        assert_eq!(of(&|| insert(1)), (0, 1, 2));
        assert_eq!(of(&|| insert(1)), (1, 1, 3));
        let map = map.into_find_phase().unwrap();
        let find = |key| map.find_nb(&key).unwrap().wait().unwrap();
        assert_eq!(of(&|| assert_eq!(find(2), Some(2))), (1, 0, 0));
    });
    served_counted(|world| {
        let map = map::<u64, u64>(&world, 1 << 12);
        if world.rank() == Rank::ZERO {
            let home = |key: &u64| {
                let hash = Hash::of::<u64>(key, &RapidHasher);
                map.table.shape.home_rank(hash)
            };
            let key = (0..).find(|key| home(key) == Rank::new(1)).unwrap();
            let asked = |f: &dyn Fn()| crate::testing::asked(&world, f);
            let add = || assert_eq!(map.fetch_add_nb(&key, 2).unwrap().wait().unwrap(), 0);
            assert_eq!(asked(&add), 1);
            let update = || map.update_nb(&key, |n| n + 1).unwrap().wait().unwrap();
            assert_eq!(asked(&|| assert_eq!(update(), Some(2))), 2);
        }
        world.barrier().unwrap();
    });
}

#[test]
fn operations_in_flight_on_sets_say_whether_the_key_was_there() {
    attached_everywhere(2, |world| {
        let set = HashSet::<u64>::with_capacity(&world, 100).unwrap();
        let me = u64::from(world.rank().number());
        let inserts = [me + 10, me + 10, 7].map(|key| set.insert_nb(&key).unwrap());
        let inserted = when_all(Vec::from(inserts)).wait().unwrap();
        assert_ne!(inserted[0], inserted[1], "one of both was first");
        let sum = world.allreduce(u64::from(inserted[2]), |a: u64, b| a + b);
        assert_eq!(sum.unwrap(), 1);
        assert!(set.contains_nb(&7).unwrap().wait().unwrap());
        assert!(set.remove_nb(&(me + 10)).unwrap().wait().unwrap());
        assert!(!set.contains_nb(&(me + 10)).unwrap().wait().unwrap());
        world.barrier().unwrap();
    });
}

/// Values of several words and on the heap.
#[test]
fn each_value_that_is_taken_in_flight_goes_to_one_rank() {
    fn check<V: Value>(world: &World) {
        const N: u64 = 40;
        let jobs = map::<u64, V>(world, 200);
        let me = u64::from(world.rank().number());
        let n = u64::from(world.n_ranks());
        let of = |job: u64| V::of(1000 * job);
        for job in (0..N).filter(|job| job % n == me) {
            jobs.insert(&job, of(job)).unwrap();
        }
        world.barrier().unwrap();
        let takes = (0..N).map(|job| jobs.take_nb(&job).unwrap());
        let taken = when_all(takes.collect::<Vec<_>>()).wait().unwrap();
        let mut n_taken = 0_u64;
        for (job, value) in (0..).zip(taken) {
            if let Some(value) = value {
                assert_eq!(value, of(job));
                n_taken += 1;
            }
        }
        let of_all = world.allreduce(n_taken, |a: u64, b| a + b).unwrap();
        assert_eq!(of_all, N);
        assert!(jobs.is_empty().unwrap());
        assert!(jobs.take_nb(&0).unwrap().wait().unwrap().is_none());
        world.barrier().unwrap();
    }
    attached_everywhere(3, |world| {
        check::<[u64; 5]>(&world);
        check::<String>(&world);
    });
}
