//! One operation after the other, against the standard library's map, and the edges of the table.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::Error;
use crate::hash_map::{Combine, Inserted};
use pgas_core::Rank;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Find(u64),
    Contains(u64),
    Update(u64, u64),
    GetOrInsert(u64, u64),
    Upsert(u64, u64),
    Remove(u64),
    InsertMany(Vec<(u64, u64)>),
    UpsertMany(Vec<(u64, u64)>),
    FindMany(Vec<u64>),
    RemoveMany(Vec<u64>),
}

/// The value that is given.
enum Last {}

impl<V: Clone> Combine<V> for Last {
    fn combine(_: V, given: &V) -> V {
        given.clone()
    }
}

/// Few keys, so that they meet, and some that collide in slot and fingerprint.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![0..10_u64, (0..6_usize).prop_map(|i| colliding_keys()[i])]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (key(), any::<u64>()).prop_map(|(k, v)| Op::Insert(k, v)),
        3 => key().prop_map(Op::Find),
        1 => key().prop_map(Op::Contains),
        2 => (key(), any::<u64>()).prop_map(|(k, v)| Op::Update(k, v)),
        2 => (key(), any::<u64>()).prop_map(|(k, v)| Op::GetOrInsert(k, v)),
        2 => (key(), any::<u64>()).prop_map(|(k, v)| Op::Upsert(k, v)),
        3 => key().prop_map(Op::Remove),
        1 => prop::collection::vec((key(), any::<u64>()), 0..40).prop_map(Op::InsertMany),
        1 => prop::collection::vec((key(), any::<u64>()), 0..40).prop_map(Op::UpsertMany),
        1 => prop::collection::vec(key(), 0..40).prop_map(Op::FindMany),
        1 => prop::collection::vec(key(), 0..9).prop_map(Op::RemoveMany),
    ]
}

/// The standard library's map with a limited capacity.
struct Reference<V> {
    entries: BTreeMap<u64, V>,
    /// Keys that hold slots, including removed ones.
    keys: BTreeSet<u64>,
    capacity: u64,
}

impl<V: Clone> Reference<V> {
    /// As [`HashMap::insert`]. Returns `None` for a full table.
    fn insert(&mut self, key: u64, value: V) -> Option<Inserted> {
        if let Some(there) = self.entries.get_mut(&key) {
            *there = value;
            return Some(Inserted::Replaced);
        }
        if !self.keys.contains(&key) && self.keys.len() as u64 == self.capacity {
            return None;
        }
        self.keys.insert(key);
        self.entries.insert(key, value);
        Some(Inserted::New)
    }
}

/// The result of an operation; `None` stands for a full table.
#[derive(Debug, PartialEq)]
enum Answer<V> {
    Inserted(Option<Inserted>),
    Value(Option<V>),
    There(bool),
    Upserted(Option<Option<V>>),
    Many { done: usize, n_new: Option<usize> },
    Values(Vec<Option<V>>),
    Removed(usize),
}

/// The result, or `None` for a full table.
fn unless_full<T>(result: Result<T, Error>, capacity: u64) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Full { capacity: said }) => {
            assert_eq!(said, capacity);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

impl<V: Clone> Reference<V> {
    fn perform(&mut self, op: &Op, value: fn(u64) -> V) -> Answer<V> {
        match op {
            Op::Insert(k, v) => Answer::Inserted(self.insert(*k, value(*v))),
            Op::Find(k) => Answer::Value(self.entries.get(k).cloned()),
            Op::Contains(k) => Answer::There(self.entries.contains_key(k)),
            Op::Update(k, v) => {
                let there = self.entries.get_mut(k);
                Answer::Value(there.map(|there| std::mem::replace(there, value(*v))))
            }
            Op::GetOrInsert(k, v) => match self.entries.get(k) {
                Some(there) => Answer::Value(Some(there.clone())),
                None => Answer::Value(self.insert(*k, value(*v)).map(|_| value(*v))),
            },
            Op::Upsert(k, v) => {
                let there = self.entries.get_mut(k);
                match there.map(|there| std::mem::replace(there, value(!*v))) {
                    Some(former) => Answer::Upserted(Some(Some(former))),
                    None => Answer::Upserted(self.insert(*k, value(*v)).map(|_| None)),
                }
            }
            Op::Remove(k) => Answer::There(self.entries.remove(k).is_some()),
            Op::InsertMany(entries) | Op::UpsertMany(entries) => {
                let insert = |&(k, v): &(u64, u64)| self.insert(k, value(v));
                let inserted: Vec<_> = entries.iter().map_while(insert).collect();
                let n_new = inserted.iter().filter(|&&i| i == Inserted::New).count();
                let done = inserted.len();
                Answer::Many {
                    done,
                    n_new: (done == entries.len()).then_some(n_new),
                }
            }
            Op::FindMany(keys) => {
                let values = keys.iter().map(|k| self.entries.get(k).cloned());
                Answer::Values(values.collect())
            }
            Op::RemoveMany(keys) => {
                let there = keys.iter().filter(|k| self.entries.remove(k).is_some());
                Answer::Removed(there.count())
            }
        }
    }
}

fn perform<K: Object, V: Object + Clone>(
    map: &HashMap<K, V>,
    op: &Op,
    key: fn(u64) -> K,
    value: fn(u64) -> V,
) -> Answer<V> {
    let capacity = map.capacity();
    match op {
        Op::Insert(k, v) => {
            Answer::Inserted(unless_full(map.insert(&key(*k), value(*v)), capacity))
        }
        Op::Find(k) => Answer::Value(map.find(&key(*k)).unwrap()),
        Op::Contains(k) => Answer::There(map.contains(&key(*k)).unwrap()),
        Op::Update(k, v) => Answer::Value(map.update(&key(*k), |_| value(*v)).unwrap()),
        Op::GetOrInsert(k, v) => Answer::Value(unless_full(
            map.get_or_insert(&key(*k), value(*v)),
            capacity,
        )),
        Op::Upsert(k, v) => {
            let former = map.upsert(&key(*k), value(*v), |_| value(!*v));
            Answer::Upserted(unless_full(former, capacity))
        }
        Op::Remove(k) => Answer::There(map.remove(&key(*k)).unwrap()),
        Op::InsertMany(entries) | Op::UpsertMany(entries) => {
            let entries: Vec<_> = entries.iter().map(|&(k, v)| (key(k), value(v))).collect();
            let inserted = match op {
                Op::UpsertMany(_) => map.upsert_many::<Last>(&entries),
                _ => map.insert_many(&entries),
            };
            let done = inserted.as_ref().map_or_else(|e| e.done, |_| entries.len());
            let n_new = unless_full(inserted.map_err(Error::from), capacity);
            Answer::Many { done, n_new }
        }
        Op::FindMany(keys) => {
            let keys: Vec<K> = keys.iter().map(|&k| key(k)).collect();
            Answer::Values(map.find_many(&keys).unwrap())
        }
        Op::RemoveMany(keys) => {
            let keys: Vec<K> = keys.iter().map(|&k| key(k)).collect();
            Answer::Removed(map.remove_many(&keys).unwrap())
        }
    }
}

/// Whether many entries of a batch are under way at once.
fn travels<K: Object, V: Object>(map: &HashMap<K, V>, op: &Op) -> bool {
    let world = map.world();
    let is_served = world.n_ranks() > 1 && world.capabilities().ranks_serve_atomics();
    is_served || matches!(op, Op::InsertMany(_)) && !map.table.is_local()
}

/// As a batch of inserts.
fn one_by_one<K: Object, V: Object>(
    map: &HashMap<K, V>,
    entries: &[(u64, u64)],
    key: fn(u64) -> K,
    value: fn(u64) -> V,
) -> Answer<V> {
    let insert = |&(k, v): &(u64, u64)| {
        let inserted = map.insert(&key(k), value(v));
        unless_full(inserted, map.capacity())
    };
    let inserted: Vec<_> = entries.iter().map_while(insert).collect();
    let n_new = inserted.iter().filter(|&&i| i == Inserted::New).count();
    let done = inserted.len();
    let n_new = (done == entries.len()).then_some(n_new);
    Answer::Many { done, n_new }
}

/// The ranks take turns with the operations. Each result must be that of the reference map.
fn check<K, V>(
    world: &World,
    capacity: usize,
    ops: &[(u32, Op)],
    key: fn(u64) -> K,
    value: fn(u64) -> V,
) where
    K: Object + Ord + std::fmt::Debug,
    V: Object + Clone + PartialEq + std::fmt::Debug,
{
    let map = map::<K, V>(world, capacity);
    let mut reference = Reference {
        entries: BTreeMap::new(),
        keys: BTreeSet::new(),
        capacity: map.capacity(),
    };
    for (rank, op) in ops {
        let expected = reference.perform(op, value);
        if rank % world.n_ranks() == world.rank().number() {
            let is_refused = matches!(expected, Answer::Many { n_new: None, .. });
            let answer = match op {
                // Some entries behind the refused one may have found room.
                Op::InsertMany(entries) | Op::UpsertMany(entries)
                    if is_refused && travels(&map, op) =>
                {
                    one_by_one(&map, entries, key, value)
                }
                op => perform(&map, op, key, value),
            };
            assert_eq!(answer, expected, "{op:?}");
        }
        world.barrier().unwrap();
    }
    let all: BTreeMap<K, V> = reference
        .entries
        .iter()
        .map(|(k, v)| (key(*k), v.clone()))
        .collect();
    let n_keys = all.len() as u64;
    let here = map
        .local_iter()
        .collect::<Result<BTreeMap<_, _>, _>>()
        .unwrap();
    assert_eq!(here.len() as u64, map.local_len().unwrap());
    assert!(here.iter().all(|(k, v)| all.get(k) == Some(v)));
    let entries_of_all = |entries: &dyn Fn(Rank) -> Vec<(K, V)>| {
        let entries: Vec<(K, V)> = world.ranks().flat_map(entries).collect();
        assert_eq!(entries.len(), all.len(), "each once");
        assert!(entries.iter().all(|(k, v)| all.get(k) == Some(v)));
    };
    entries_of_all(&|rank| map.entries_on(rank).map(Result::unwrap).collect());
    let n = world.allreduce(here.len() as u64, |a: u64, b| a + b);
    assert_eq!((n.unwrap(), map.len().unwrap()), (n_keys, n_keys));

    in_every_phase(map, &all, &reference.keys, key, &here);
}

/// The same entries in every phase, and in more slots.
fn in_every_phase<K, V>(
    map: HashMap<K, V>,
    all: &BTreeMap<K, V>,
    tried: &BTreeSet<u64>,
    key: fn(u64) -> K,
    here: &BTreeMap<K, V>,
) where
    K: Object + Ord + std::fmt::Debug,
    V: Object + Clone + PartialEq + std::fmt::Debug,
{
    let world = map.world().clone();
    let capacity = map.capacity();
    let keys: Vec<K> = tried.iter().map(|&k| key(k)).collect();
    let expected: Vec<Option<V>> = keys.iter().map(|k| all.get(k).cloned()).collect();
    let mut map = map.into_find_phase().unwrap();
    for (k, v) in keys.iter().zip(&expected) {
        assert_eq!(&map.find(k).unwrap(), v);
        assert_eq!(map.contains(k).unwrap(), v.is_some());
    }
    assert_eq!(map.find(&key(123_456)).unwrap(), None);
    let entries: Vec<(K, V)> = world
        .ranks()
        .flat_map(|rank| map.entries_on(rank).map(Result::unwrap))
        .collect();
    assert_eq!(entries.len(), all.len(), "each once");
    assert!(entries.iter().all(|(k, v)| all.get(k) == Some(v)));
    map.resize(usize::try_from(capacity).unwrap() + 30).unwrap();
    assert!(map.capacity() >= capacity + 30);
    assert_eq!(map.find_many(&keys).unwrap(), expected);
    let mut map = map.into_local_phase().unwrap();
    for (k, v) in here {
        if map.local_find(k).unwrap().is_some() {
            let put = map.local_insert(k, v).unwrap();
            assert_eq!(put, Some(Inserted::Replaced));
            let removed = map.local_remove(k).unwrap();
            assert_eq!(removed.as_ref(), Some(v));
            assert_eq!(map.local_find(k).unwrap(), None);
            let put = map.local_upsert(k, v, |_| unreachable!("it was removed"));
            assert_eq!(put.unwrap(), Some(Inserted::New));
        }
    }
    let map = map.into_atomic_phase().unwrap();
    assert_eq!(map.find_many(&keys).unwrap(), expected);
    assert_eq!(map.len().unwrap(), all.len() as u64);
}

fn wide(v: u64) -> [u8; 40] {
    let mut bytes = [0; 40];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = v.to_le_bytes()[i % 8];
    }
    bytes
}

#[expect(clippy::cast_possible_truncation, reason = "any four bytes will do")]
fn half(v: u64) -> u32 {
    v as u32
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]
    #[test]
    fn every_sequence_of_operations_is_answered_as_the_standard_map_does(
        n_ranks in 1_u32..=3,
        capacity in 1_usize..14,
        ops in prop::collection::vec((0_u32..3, op()), 1..60),
    ) {
        everywhere(n_ranks, |world| {
            check(&world, capacity, &ops, |k| k, |v| v);
            check(&world, capacity, &ops, |k| k, half);
            check(&world, capacity, &ops, |k| k, wide);
            check(&world, capacity, &ops, |k| k, |_| ());
            check(&world, capacity, &ops, |k| (k, half(k)), text);
            check(&world, capacity, &ops, text, |v| Some(half(v)));
            check(&world, capacity, &ops, |k| (text(k), k), |v| v);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, ..ProptestConfig::default() })]
    /// Two to eight slots in a cache line, and words in slots that stand alone.
    #[test]
    fn entries_of_every_size_are_found_wherever_they_lie(
        n_ranks in 1_u32..=3,
        capacity in 1_usize..20,
        ops in prop::collection::vec((0_u32..3, op()), 1..60),
    ) {
        everywhere(n_ranks, |world| {
            check(&world, capacity, &ops, |k| [k, !k], |v| v);
            check(&world, capacity, &ops, |k| [half(k), 7], half);
            check(&world, capacity, &ops, half, half);
            check(&world, capacity, &ops, first_bytes::<6>, |_| ());
            check(&world, capacity, &ops, first_bytes::<5>, |_| ());
            check(&world, capacity, &ops, half, |_| ());
            check(&world, capacity, &ops, first_bytes::<3>, |v| v);
            check(&world, capacity, &ops, u128::from, |v| v);
            check(&world, capacity, &ops, |k| [k; 4], half);
        });
    }
}

/// The lowest bytes, which tell the keys of these tests apart.
fn first_bytes<const N: usize>(k: u64) -> [u8; N] {
    *k.to_le_bytes().first_chunk().unwrap()
}

/// Short for some, longer than a slot for others.
fn text(v: u64) -> String {
    let times = usize::try_from(v % 7).unwrap();
    format!("{v}: {}", "some words ".repeat(times * 3))
}

#[test]
fn every_slot_of_every_rank_is_used_before_the_table_is_full() {
    for n_ranks in [1, 2, 3, 7] {
        everywhere(n_ranks, |world| {
            // All from one home slot, in the middle of the ring.
            let keys = &colliding_keys()[..5];
            let map = map::<u64, u64>(&world, 5);
            let rounded = 5_u64.next_multiple_of(world.n_ranks().into());
            assert_eq!(map.capacity(), rounded);
            if world.rank() == Rank::ZERO {
                for (i, key) in keys.iter().enumerate() {
                    assert_eq!(map.insert(key, i as u64).unwrap(), Inserted::New);
                }
                let mut others = (0..).filter(|key| !keys.contains(key));
                for _ in 5..rounded {
                    map.insert(&others.next().unwrap(), 9).unwrap();
                }
                let one_more = others.next().unwrap();
                let refused = map.insert(&one_more, 1).unwrap_err();
                assert!(matches!(refused, Error::Full { capacity } if capacity == rounded));
                assert!(refused.to_string().contains(&rounded.to_string()));
                assert!(matches!(
                    map.get_or_insert(&one_more, 1),
                    Err(Error::Full { .. })
                ));
                assert!(matches!(
                    map.fetch_add(&one_more, 1),
                    Err(Error::Full { .. })
                ));
                assert_eq!(map.find(&one_more).unwrap(), None);
                // Former entries are still there and usable.
                for (i, key) in keys.iter().enumerate() {
                    assert_eq!(map.fetch_add(key, 1).unwrap(), i as u64);
                }
            }
            assert_eq!(map.len().unwrap(), rounded);
        });
    }
}

#[test]
fn a_capacity_of_zero_is_an_error_on_every_rank() {
    everywhere(3, |world| {
        let error = HashMap::<u64, u64>::with_capacity(&world, 0).unwrap_err();
        assert!(matches!(error, Error::NoCapacity), "{error}");
    });
}

#[test]
fn a_segment_too_small_is_an_error_on_every_rank_and_the_job_goes_on() {
    everywhere(2, |world| {
        let error = HashMap::<u64, u64>::with_capacity(&world, 1 << 30).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("PGAS_SEGMENT") && text.contains("symmetric"),
            "{text}"
        );
        assert!(HashMap::<u64, u64>::with_capacity(&world, usize::MAX).is_err());
        let map = map::<u64, u64>(&world, 100);
        map.fetch_add(&1, 1).unwrap();
        assert_eq!(map.len().unwrap(), 1);
    });
}

#[test]
fn different_capacities_are_an_error_that_names_ranks_and_values_everywhere() {
    everywhere(3, |world| {
        let capacity = [100, 100, 40][world.rank().index()];
        let error = HashMap::<u64, u64>::with_capacity(&world, capacity).unwrap_err();
        let text = error.to_string();
        for part in ["rank 2 has 40", "rank 0 has 100", "capacity"] {
            assert!(text.contains(part), "{part:?} is missing in {text:?}");
        }
    });
}

#[test]
fn keys_are_told_apart_by_their_bytes() {
    everywhere(1, |world| {
        let map = map::<f64, u32>(&world, 8);
        map.insert(&0.0, 1).unwrap();
        map.insert(&-0.0, 2).unwrap();
        map.insert(&f64::NAN, 3).unwrap();
        assert_eq!(
            map.find_many(&[0.0, -0.0, f64::NAN, 1.0]).unwrap(),
            [Some(1), Some(2), Some(3), None]
        );
        let nothing = super::map::<(), u64>(&world, 8);
        assert_eq!(nothing.fetch_add(&(), 3).unwrap(), 0);
        assert_eq!(nothing.fetch_add(&(), 3).unwrap(), 3);
        assert_eq!(nothing.len().unwrap(), 1);
    });
}

#[test]
fn a_map_whose_memory_was_used_before_is_empty() {
    everywhere(2, |world| {
        for round in 0..3_u64 {
            let map = map::<u64, u64>(&world, 64);
            assert!(map.is_empty().unwrap());
            assert_eq!(map.local_iter().count(), 0);
            world.barrier().unwrap();
            map.add_many(&(0..30).collect::<Vec<_>>(), round + 1)
                .unwrap();
            world.barrier().unwrap();
        }
    });
}

#[test]
fn an_update_whose_closure_panics_leaves_the_entry_as_it_was() {
    everywhere(1, |world| {
        fn check<V: Object + Clone + PartialEq + std::fmt::Debug>(world: &World, old: V, new: V) {
            let map = map::<u64, V>(world, 8);
            map.insert(&1, old.clone()).unwrap();
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                map.update(&1, |_| panic!("in the closure"))
            }));
            assert!(panicked.is_err());
            assert_eq!(map.find(&1).unwrap(), Some(old.clone()));
            assert_eq!(map.update(&1, |_| new.clone()).unwrap(), Some(old));
            assert_eq!(map.find(&1).unwrap(), Some(new));
        }
        check(&world, 1_u64, 2);
        check(&world, [1_u8; 40], [2; 40]);
        check(&world, "old".repeat(50), "new".repeat(50));
    });
}

#[test]
fn an_update_may_use_the_map_itself() {
    everywhere(1, |world| {
        let map = map::<u64, [u64; 2]>(&world, 8);
        map.insert(&1, [1, 1]).unwrap();
        map.insert(&2, [5, 5]).unwrap();
        let sum = |[a, b]: [u64; 2]| {
            let [c, d] = map.find(&2).unwrap().unwrap();
            assert_eq!(map.find(&1).unwrap(), Some([a, b]), "nothing is locked");
            [a + c, b + d]
        };
        map.update(&1, sum).unwrap();
        assert_eq!(map.find(&1).unwrap(), Some([6, 6]));
    });
}

#[test]
#[should_panic(expected = "2 keys, but room for 1 values")]
fn room_for_fewer_values_than_keys_is_refused() {
    let world = loopback::world();
    let map = map::<u64, u64>(&world, 8);
    map.find_many_into(&[1, 2], &mut [None]).unwrap();
}
