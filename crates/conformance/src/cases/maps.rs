//! Maps and sets, compared with those of std: values that are words, wide values, and values with
//! heap memory. There are few types, since every backend compiles them.

use std::collections::{BTreeMap, BTreeSet};

use pgas_am::when_all;
use pgas_containers::hash_map::Inserted;
use pgas_containers::{HashMap, HashSet, MultiMap};
use pgas_core::{Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::neighbour;

pub(super) const CASES: &[Case] = &[
    case!(1, counts_of_all_ranks_in_one_map_are_those_of_one),
    case!(
        1,
        texts_under_texts_are_found_changed_and_removed_by_any_rank
    ),
    case!(1, each_value_that_all_ranks_take_goes_to_one_of_them),
    case!(1, keys_that_are_inserted_again_take_no_further_room),
    case!(1, every_phase_of_a_map_sees_what_those_before_left),
    case!(1, sets_are_joined_and_cut_by_all_ranks),
    case!(
        1,
        operations_in_flight_of_all_ranks_are_done_when_their_futures_are_ready
    ),
    case!(2, a_full_map_refuses_new_keys_and_keeps_the_others),
];

/// Keys of a case.
const N_KEYS: u64 = 120;

type Words = HashMap<u64, u64>;

/// The content as all ranks see it after all have arrived here.
fn len(world: &World, map: &Words) -> Result<u64> {
    world.barrier()?;
    map.len()
}

fn counts_of_all_ranks_in_one_map_are_those_of_one(world: &World) -> Result<()> {
    let counts = Words::with_capacity(world, 1000)?;
    let n = u64::from(world.n_ranks());
    let me = u64::from(world.rank().number());
    for i in 0..2 * N_KEYS {
        counts.fetch_add(&(i % N_KEYS), me + 1)?;
    }
    let keys: Vec<u64> = (0..N_KEYS).collect();
    counts.add_many(&keys, 1)?;
    for key in (0..N_KEYS).step_by(10) {
        counts.update(&key, |value| value + 1_000_000)?;
    }
    assert_eq!(len(world, &counts)?, N_KEYS);
    let expected = |key: u64| n * (n + 1) + n + n * 1_000_000 * u64::from(key.is_multiple_of(10));
    let found = counts.find_many(&keys)?;
    for (key, found) in keys.into_iter().zip(found) {
        assert_eq!(found, Some(expected(key)), "of key {key}, of many");
        assert_eq!(counts.find(&key)?, found, "of key {key}");
    }
    assert_eq!(counts.find(&N_KEYS)?, None);
    world.barrier()?;
    let shared = N_KEYS + 1;
    let former = counts.modify_or_insert_with(&shared, |there| there + me + 1, || me + 1)?;
    assert!(former.is_none_or(|former| former <= n * (n + 1) / 2));
    world.barrier()?;
    assert_eq!(counts.find(&shared)?, Some(n * (n + 1) / 2));
    values_of_all_ranks_under_few_keys(world)
}

fn values_of_all_ranks_under_few_keys(world: &World) -> Result<()> {
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    let values = MultiMap::<u64, u64>::with_capacity(world, 1000)?;
    values.extend((0..30).map(|i| (i % 3, 100 * me + i)))?;
    world.barrier()?;
    assert_eq!((values.len()?, values.n_keys()?), (30 * n, 3));
    for key in 0..3 {
        let of_rank = |rank| {
            (0..30)
                .filter(move |i| i % 3 == key)
                .map(move |i| 100 * rank + i)
        };
        let mut found = values.find(&key)?;
        found.sort_unstable();
        assert!(found.into_iter().eq((0..n).flat_map(of_rank)));
    }
    world.barrier()
}

/// Values of every length: in the slot, and in the memory of the rank that wrote them.
fn text(i: u64) -> String {
    (0..=i % 40).map(|_| format!("{i};")).collect()
}

fn texts_under_texts_are_found_changed_and_removed_by_any_rank(world: &World) -> Result<()> {
    let map = HashMap::<String, String>::with_capacity(world, 1000)?;
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    let next = u64::from(neighbour(world, 1).number());
    let of = |rank: u64| (0..N_KEYS).filter(move |key| key % n == rank);
    for key in of(me) {
        assert_eq!(map.insert(&text(key), text(key + 1))?, Inserted::New);
    }
    world.barrier()?;
    for key in of(next) {
        let former = map.update(text(key).as_str(), |value| value + "!")?;
        assert_eq!(former, Some(text(key + 1)));
    }
    world.barrier()?;
    for key in 0..N_KEYS {
        assert_eq!(map.find(text(key).as_str())?, Some(text(key + 1) + "!"));
    }
    world.barrier()?;
    for key in of(me) {
        match key % 3 {
            0 => assert!(map.remove(text(key).as_str())?),
            1 => assert_eq!(map.take(text(key).as_str())?, Some(text(key + 1) + "!")),
            _ => assert_eq!(map.insert(&text(key), text(key))?, Inserted::Replaced),
        }
    }
    world.barrier()?;
    for key in 0..N_KEYS {
        let left = (key % 3 == 2).then(|| text(key));
        assert_eq!(map.find(&text(key))?, left);
    }
    world.barrier()
}

fn each_value_that_all_ranks_take_goes_to_one_of_them(world: &World) -> Result<()> {
    let map = HashMap::<u64, [u64; 5]>::with_capacity(world, 1000)?;
    if world.rank() == Rank::ZERO {
        let entries: Vec<_> = (0..N_KEYS).map(|key| (key, [key; 5])).collect();
        assert_eq!(map.insert_many(&entries)?, entries.len());
    }
    world.barrier()?;
    let mut sum = [0, 0];
    for key in 0..N_KEYS {
        if let Some(value) = map.take(&key)? {
            assert_eq!(value, [key; 5]);
            sum = [sum[0] + 1, sum[1] + key];
        }
    }
    world.team().allreduce_slice(&mut sum, |a: u64, b| a + b)?;
    assert_eq!(sum, [N_KEYS, N_KEYS * (N_KEYS - 1) / 2]);
    assert!(map.is_empty()?);
    world.barrier()
}

fn keys_that_are_inserted_again_take_no_further_room(world: &World) -> Result<()> {
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    let next = u64::from(neighbour(world, 1).number());
    let map = HashMap::<[u64; 2], u64>::with_capacity(world, 10 * world.ranks().len())?;
    for round in 0..6 {
        for i in 0..10 {
            assert_eq!(map.insert(&[me, i], round)?, Inserted::New);
        }
        world.barrier()?;
        for i in 0..10 {
            assert_eq!(map.find(&[next, i])?, Some(round));
            assert!(map.remove(&[next, i])?, "of rank {next} in round {round}");
        }
        world.barrier()?;
    }
    map.insert(&[me, 0], n)?;
    world.barrier()?;
    assert_eq!(map.len()?, n);
    world.barrier()
}

fn every_phase_of_a_map_sees_what_those_before_left(world: &World) -> Result<()> {
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    let map = Words::with_capacity(world, 1000)?.into_insert_phase()?;
    map.extend(
        (0..N_KEYS)
            .filter(|key| key % n == me)
            .map(|key| (key, 2 * key)),
    )?;
    let map = map.into_find_phase()?;
    for key in 0..N_KEYS {
        assert_eq!(map.find(&key)?, Some(2 * key));
    }
    assert!(!map.contains(&N_KEYS)?);
    let mut map = map.into_local_phase()?;
    let mut n_kept = [0];
    for entry in &map {
        let (key, value) = entry?;
        assert_eq!(value, 2 * key);
        n_kept[0] += u64::from(key % 3 == 0);
    }
    map.local_retain(|key, _| key % 3 == 0)?;
    world
        .team()
        .allreduce_slice(&mut n_kept, |a: u64, b| a + b)?;
    assert_eq!(n_kept[0], N_KEYS / 3);
    let map = map.into_atomic_phase()?;
    let all: BTreeMap<u64, u64> = world
        .ranks()
        .flat_map(|rank| map.entries_on(rank))
        .collect::<Result<_>>()?;
    assert!(
        all.into_iter()
            .eq((0..N_KEYS).step_by(3).map(|key| (key, 2 * key)))
    );
    world.barrier()
}

/// Keys of all ranks in one map and one set, and many operations of each at once.
fn operations_in_flight_of_all_ranks_are_done_when_their_futures_are_ready(
    world: &World,
) -> Result<()> {
    pgas_am::attach(world)?;
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    let counts = Words::with_capacity(world, 1000)?;
    let adds = (0..N_KEYS).map(|key| counts.fetch_add_nb(&key, me + 1));
    let sums = when_all(adds.collect::<Result<Vec<_>>>()?).wait()?;
    assert!(sums.into_iter().all(|former| former < n * (n + 1) / 2));
    world.barrier()?;
    let next = (0..N_KEYS).filter(|key| key % n == (me + 1) % n);
    let updates = next.clone().map(|key| counts.update_nb(&key, |n| 2 * n));
    let updates = when_all(updates.collect::<Result<Vec<_>>>()?);
    let finds = next.map(|key| counts.find_nb(&key).map(|find| (key, find)));
    for find in finds.collect::<Result<Vec<_>>>()? {
        let found = find.1.wait()?;
        let sum = n * (n + 1) / 2;
        assert!(
            found == Some(sum) || found == Some(2 * sum),
            "key {}",
            find.0
        );
    }
    updates.wait()?;
    world.barrier()?;
    let finds = (0..N_KEYS).map(|key| counts.find_nb(&key));
    let found = when_all(finds.collect::<Result<Vec<_>>>()?).wait()?;
    assert_eq!(found, vec![Some(n * (n + 1)); found.len()]);
    world.barrier()?;
    let removals = (0..N_KEYS).map(|key| counts.remove_nb(&key));
    let removed = when_all(removals.collect::<Result<Vec<_>>>()?).wait()?;
    let mut n_removed = [removed.into_iter().filter(|&it| it).count() as u64];
    world
        .team()
        .allreduce_slice(&mut n_removed, |a: u64, b| a + b)?;
    assert_eq!(n_removed[0], N_KEYS, "each by one rank");
    let jobs = HashMap::<String, String>::with_capacity(world, 1000)?;
    for key in (0..N_KEYS).filter(|key| key % n == me) {
        jobs.insert(&text(key), text(key + 1))?;
    }
    world.barrier()?;
    let takes = (0..N_KEYS).map(|key| jobs.take_nb(&text(key)));
    let taken = when_all(takes.collect::<Result<Vec<_>>>()?).wait()?;
    let mut n_taken = 0;
    for (key, value) in (0..).zip(taken) {
        assert!(value.is_none_or(|value| {
            n_taken += 1;
            value == text(key + 1)
        }));
    }
    let n_taken = world.allreduce(n_taken, |a: u64, b| a + b)?;
    assert_eq!(n_taken, N_KEYS, "each by one rank");
    let set = HashSet::<[u64; 2]>::with_capacity(world, 10 * world.ranks().len())?;
    (0..10).try_for_each(|i| set.insert_nb(&[me, i]).map(drop))?;
    let set = set.into_find_phase()?;
    let all = (0..10 * n).map(|i| set.contains_nb(&[i / 10, i % 10]));
    let found = when_all(all.collect::<Result<Vec<_>>>()?).wait()?;
    assert!(found.into_iter().all(|it| it));
    world.barrier()
}

fn sets_are_joined_and_cut_by_all_ranks(world: &World) -> Result<()> {
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    let set_of = |step: u64| {
        let set = HashSet::<u64>::with_capacity(world, 1000)?;
        let mine = (0..N_KEYS).filter(|key| key % n == me && key % step == 0);
        set.extend(mine)?;
        world.barrier().map(|()| set)
    };
    let check = |set: &HashSet<u64>, has: fn(u64) -> bool| {
        world.barrier()?;
        let keys = world.ranks().flat_map(|rank| set.keys_on(rank));
        let keys = keys.collect::<Result<BTreeSet<u64>>>()?;
        assert!(keys.into_iter().eq((0..N_KEYS).filter(|key| has(*key))));
        world.barrier()
    };
    let (twos, threes) = (set_of(2)?, set_of(3)?);
    let set = HashSet::<u64>::with_capacity(world, 1500)?;
    set.union_with(&twos)?;
    set.union_with(&threes)?;
    check(&set, |key| key % 2 == 0 || key % 3 == 0)?;
    set.intersect_with(&twos)?;
    check(&set, |key| key % 2 == 0)?;
    assert!(set.is_subset(&twos)? && twos.is_subset(&set)?);
    set.difference_with(&threes)?;
    assert!(set.is_subset(&twos)? && !twos.is_subset(&set)?);
    check(&set, |key| key % 2 == 0 && key % 3 != 0)
}

fn a_full_map_refuses_new_keys_and_keeps_the_others(world: &World) -> Result<()> {
    let map = Words::with_capacity(world, 64)?;
    let capacity = map.capacity();
    if world.rank() == Rank::ZERO {
        for key in 0..capacity {
            map.insert(&key, key)?;
        }
    }
    world.barrier()?;
    let refused = map.insert(&(capacity + 1), 1).expect_err("no slot is free");
    assert!(
        matches!(refused, pgas_core::Error::Full { .. }),
        "{refused}"
    );
    assert_eq!(map.insert(&1, 1)?, Inserted::Replaced);
    assert_eq!(len(world, &map)?, capacity);
    for key in 0..capacity {
        assert_eq!(map.find(&key)?, Some(key));
    }
    world.barrier()
}
