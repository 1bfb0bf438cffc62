//! The cost of the slots that a search passes behind the key's home slot.

use pgas_containers::hash_map::Combine;
use pgas_containers::{HashMap, prices};
use pgas_core::backend::loopback;
use pgas_core::stats::Operation;
use pgas_core::{Config, Statistics, World};

type Map = HashMap<u64, u64>;

/// An operation, its case, and a call on a key.
type Row = (&'static Operation, &'static str, fn(&Map, u64));

/// The given value.
enum Second {}

impl Combine<u64> for Second {
    fn combine(_: u64, given: &u64) -> u64 {
        *given
    }
}

/// New keys, which are present afterwards.
const NEW: &[Row] = &[
    (&prices::HASH_MAP_INSERT, "new", |map, key| {
        map.insert(&key, 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_INSERT_MANY, "new", |map, key| {
        map.insert_many(&[(key, 1)]).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_FETCH_ADD, "new", |map, key| {
        map.fetch_add(&key, 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_ADD_MANY, "new", |map, key| {
        map.add_many(&[key], 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_GET_OR_INSERT, "new", |map, key| {
        map.get_or_insert(&key, 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_UPSERT_MANY, "new", |map, key| {
        map.upsert_many::<Second>(&[(key, 1)]).map(drop).unwrap();
    }),
];

/// Present keys.
const PRESENT: &[Row] = &[
    (&prices::HASH_MAP_INSERT, "over a word", |map, key| {
        map.insert(&key, 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_INSERT_MANY, "over a word", |map, key| {
        map.insert_many(&[(key, 1)]).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_FIND, "present", |map, key| {
        map.find(&key).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_FIND_MANY, "present", |map, key| {
        map.find_many(&[key]).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_CONTAINS, "present", |map, key| {
        map.contains(&key).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_FETCH_ADD, "present", |map, key| {
        map.fetch_add(&key, 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_ADD_MANY, "present", |map, key| {
        map.add_many(&[key], 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_GET_OR_INSERT, "present", |map, key| {
        map.get_or_insert(&key, 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_UPDATE, "a word", |map, key| {
        map.update(&key, |n| n + 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_UPSERT_MANY, "a word", |map, key| {
        map.upsert_many::<Second>(&[(key, 1)]).map(drop).unwrap();
    }),
];

/// Absent keys, some of which were removed.
const ABSENT: &[Row] = &[
    (&prices::HASH_MAP_FIND, "absent", |map, key| {
        map.find(&key).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_FIND_MANY, "absent", |map, key| {
        map.find_many(&[key]).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_CONTAINS, "absent", |map, key| {
        map.contains(&key).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_UPDATE, "absent", |map, key| {
        map.update(&key, |n| n + 1).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_REMOVE, "absent", |map, key| {
        map.remove(&key).map(drop).unwrap();
    }),
    (&prices::HASH_MAP_REMOVE_MANY, "absent", |map, key| {
        map.remove_many(&[key]).map(drop).unwrap();
    }),
];

/// The number of atomics of `run`. `None` if another slot had the key's fingerprint, which costs a
/// read.
fn atomics(world: &World, n_reads: u64, run: impl FnOnce()) -> Option<u64> {
    let before = world.costs();
    run();
    let costs = world.costs() - before;
    (costs.reads == n_reads).then_some(costs.atomics)
}

#[track_caller]
fn check(world: &World, map: &Map, key: u64, n_further: u64, (operation, when, run): Row) {
    let mut prices = operation.prices().iter();
    let price = prices.find(|price| price.when == when).unwrap();
    let paid = atomics(world, price.reads, || run(map, key)).unwrap();
    let expected = price.atomics + n_further * price.further;
    let name = operation.name();
    assert_eq!(paid, expected, "{name} {when}, {n_further} further slots");
}

#[test]
fn each_further_slot_of_a_search_costs_what_the_table_says() {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    loopback::run_with(1, &config, |world| {
        let map = Map::with_capacity(&world, 256).unwrap();
        let room = map.capacity() * 3 / 4;
        map.insert_many(&(0..room).map(|key| (key, key)).collect::<Vec<_>>())
            .unwrap();
        let mut keys = (1 << 32..).filter_map(|key| {
            let find = || assert_eq!(map.find(&key).unwrap(), None);
            let n_further = atomics(&world, 0, find)? - 1;
            (n_further > 0).then_some((key, n_further))
        });
        for new in NEW {
            let (key, n_further) = keys.next().unwrap();
            for absent in ABSENT {
                check(&world, &map, key, n_further, *absent);
            }
            check(&world, &map, key, n_further, *new);
            for present in PRESENT {
                check(&world, &map, key, n_further, *present);
            }
        }
    });
}
