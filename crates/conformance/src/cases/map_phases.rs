//! Maps and sets: batches, inserts under a condition, local phases, clearing, and maps of several
//! values a key. Of the types of `maps`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::when_all;
use pgas_containers::hash_map::{Combine, Inserted, SeededHasher};
use pgas_containers::{HashMap, HashSet, MultiMap};
use pgas_core::collective::op::Sum;
use pgas_core::{Result, World};

use super::case;
use crate::Case;
use crate::support::neighbour;

pub(super) const CASES: &[Case] = &[
    case!(1, batches_of_all_ranks_add_up),
    case!(1, one_rank_inserts_where_all_ranks_try),
    case!(1, maps_with_hashers_of_their_own_find_their_keys),
    case!(1, each_rank_works_on_its_entries_in_the_local_phase),
    case!(1, a_map_that_was_cleared_has_all_its_room_again),
    case!(1, members_of_a_set_are_asked_for_and_removed_together),
    case!(1, values_in_flight_of_all_ranks_are_found_and_removed_once),
    case!(1, sets_and_maps_grow_and_forget_what_was_removed),
    case!(1, values_are_counted_and_read_in_every_phase),
    case!(1, values_move_to_further_slots_and_are_cleared),
    case!(1, entries_of_a_rank_are_visited_by_many_threads),
];

const N_KEYS: u64 = 90;

type Words = HashMap<u64, u64>;

/// The number of ranks, and that of this one.
fn numbers(world: &World) -> (u64, u64) {
    (world.n_ranks().into(), world.rank().number().into())
}

/// The sum of the values of a key.
enum Added {}

impl Combine<u64> for Added {
    fn combine(there: u64, given: &u64) -> u64 {
        there + given
    }
}

fn batches_of_all_ranks_add_up(world: &World) -> Result<()> {
    let (n, me) = numbers(world);
    let map = Words::with_capacity(world, 1000)?;
    let keys: Vec<u64> = (0..N_KEYS).collect();
    let entries: Vec<(u64, u64)> = keys.iter().map(|key| (*key, me + 1)).collect();
    map.upsert_many::<Added>(&entries)?;
    map.add_each(&entries)?;
    for key in &keys {
        map.upsert(key, 1, |there| there + 1)?;
    }
    world.barrier()?;
    let total = n * (n + 1) + n;
    let mut found = vec![None; keys.len()];
    map.find_many_into(&keys, &mut found)?;
    assert_eq!(found, vec![Some(total); keys.len()]);
    world.barrier()?;
    // A key of every rank's share, and one that nobody has.
    let mine = keys.iter().copied().filter(|key| key % n == me);
    let mine: Vec<u64> = mine.chain([N_KEYS + me]).collect();
    assert_eq!(map.remove_many(&mine)?, mine.len() - 1);
    world.barrier()?;
    assert!(map.is_empty()?);
    assert_eq!(map.find_many(&keys)?, vec![None; keys.len()]);
    world.barrier()
}

fn one_rank_inserts_where_all_ranks_try(world: &World) -> Result<()> {
    let (n, me) = numbers(world);
    let map = Words::with_capacity(world, 1000)?;
    let (mut n_first, mut others) = (0_u64, Vec::new());
    for key in 0..N_KEYS {
        match map.insert_if_absent(&key, me)? {
            None => n_first += 1,
            Some(other) => others.push((key, other)),
        }
        let there = map.get_or_insert(&(N_KEYS + key), me)?;
        assert!(there < n);
        let made = map.get_or_insert_with(&(N_KEYS + key), || unreachable!("it is there"))?;
        assert_eq!(made, there, "the first one stays");
    }
    assert_eq!(world.allreduce(n_first, Sum)?, N_KEYS, "each by one rank");
    for (key, other) in others {
        assert_eq!(map.find(&key)?, Some(other));
    }
    let begun = (0..N_KEYS).map(|key| map.insert_if_absent_nb(&(2 * N_KEYS + key), me));
    let there = when_all(begun.collect::<Result<Vec<_>>>()?).wait()?;
    let n_first = there.iter().filter(|there| there.is_none()).count() as u64;
    assert_eq!(world.allreduce(n_first, Sum)?, N_KEYS, "each by one rank");
    assert_eq!(map.len()?, 3 * N_KEYS);
    world.barrier()
}

fn maps_with_hashers_of_their_own_find_their_keys(world: &World) -> Result<()> {
    let (n, me) = numbers(world);
    let map = HashMap::<u64, u64, _, _>::with_hasher(world, 500, SeededHasher::new(7))?;
    let set = HashSet::<u64, _, _>::with_hasher(world, 500, SeededHasher::new(8))?;
    for i in 0..30 {
        map.insert(&(n * i + me), i)?;
        set.insert(&(n * i + me))?;
    }
    world.barrier()?;
    for key in 0..30 * n {
        assert_eq!(map.find(&key)?, Some(key / n));
        assert!(set.contains(&key)?);
    }
    world.barrier()
}

fn each_rank_works_on_its_entries_in_the_local_phase(world: &World) -> Result<()> {
    let n = u64::from(world.n_ranks());
    let mut map = Words::with_capacity(world, 1000)?.into_local_phase()?;
    let mut n_here = 0;
    for key in 0..N_KEYS {
        let is_here = map.home(&key)? == world.rank();
        let inserted = map.local_insert(&key, &key)?;
        assert!(inserted.is_none() || inserted == Some(Inserted::New));
        assert!(inserted.is_some() || !is_here, "a home slot was free");
        if inserted.is_some() {
            let upserted = map.local_upsert(&key, &0, |there| there + 1)?;
            assert_eq!(upserted, Some(Inserted::Replaced));
            assert_eq!(map.local_find(&key)?, Some(key + 1));
            n_here += 1;
        }
    }
    assert_eq!(map.local_len()?, n_here);
    let mut sum = 0;
    map.for_each_local(|key, value| sum += value - key)?;
    assert_eq!(sum, n_here);
    assert_eq!(world.allreduce(n_here, Sum)?, N_KEYS, "each on one rank");
    // The multiples of three go one by one, the others are drained.
    let mut left = BTreeMap::new();
    for key in (0..N_KEYS).step_by(3) {
        let removed = map.local_remove(&key)?;
        assert!(removed.is_none_or(|value| value == key + 1));
    }
    for entry in map.local_drain() {
        let (key, value) = entry?;
        assert!(left.insert(key, value).is_none());
    }
    let mut n_left = [left.len() as u64, 0];
    n_left[1] = left.values().sum();
    world.allreduce_slice(&mut n_left, Sum)?;
    let expected = (0..N_KEYS).filter(|key| key % 3 != 0);
    assert_eq!(
        n_left,
        [N_KEYS - N_KEYS / 3, expected.map(|key| key + 1).sum()]
    );
    let map = map.into_atomic_phase()?;
    assert!(map.is_empty()?);
    map.fetch_add(&7, 1)?;
    world.barrier()?;
    assert_eq!(map.find(&7)?, Some(n));
    world.barrier()
}

fn a_map_that_was_cleared_has_all_its_room_again(world: &World) -> Result<()> {
    let (n, me) = numbers(world);
    let mut map = Words::with_capacity(world, 40 * world.ranks().len())?;
    for round in 0..4 {
        for i in 0..40 {
            map.insert(&(1000 * round + n * i + me), round)?;
        }
        world.barrier()?;
        assert_eq!(map.len()?, 40 * n);
        map.clear()?;
        assert!(map.is_empty()?);
    }
    let map = Words::with_capacity(world, 8 * world.ranks().len())?.reuse_slots()?;
    for _ in 0..6 {
        map.insert(&me, 1)?;
        assert!(map.remove(&me)?);
    }
    world.barrier()?;
    assert!(map.is_empty()?);
    world.barrier()
}

fn members_of_a_set_are_asked_for_and_removed_together(world: &World) -> Result<()> {
    let (n, me) = numbers(world);
    let mut set = HashSet::<u64>::with_capacity(world, 1000)?;
    let of_rank = |rank: u64| (0..20).map(move |i| n * i + rank);
    let mine: Vec<u64> = of_rank(me).collect();
    set.insert_many(&mine)?;
    world.barrier()?;
    let asked: Vec<u64> = of_rank((me + 1) % n).chain([20 * n + me]).collect();
    let there = set.contains_many(&asked)?;
    assert!(there[..20].iter().all(|it| *it) && !there[20]);
    world.barrier()?;
    assert_eq!(set.remove_many(&mine[..10])?, 10);
    let mut local = set.into_local_phase()?;
    let mut n_here = 0;
    for key in 0..20 * n {
        if local.local_contains(&key)? {
            n_here += 1;
            assert!(local.local_remove(&key)?);
            assert_eq!(local.local_insert(&key)?, Some(true));
        }
    }
    assert_eq!(world.allreduce(n_here, Sum)?, 10 * n);
    assert_eq!(local.local_len()?, n_here);
    set = local.into_atomic_phase()?;
    assert_eq!(set.len()?, 10 * n);
    let mut sum = 0;
    set.for_each_local(|key| sum += key)?;
    let mut local = set.into_local_phase()?;
    let drained = local.local_drain().collect::<Result<Vec<u64>>>()?;
    assert_eq!(
        (drained.len() as u64, drained.iter().sum::<u64>()),
        (n_here, sum)
    );
    set = local.into_atomic_phase()?;
    assert!(set.is_empty()?);
    set.insert(&me)?;
    set.clear()?;
    assert!(set.is_empty()?);
    world.barrier()
}

fn values_in_flight_of_all_ranks_are_found_and_removed_once(world: &World) -> Result<()> {
    pgas_am::attach(world)?;
    let (n, me) = numbers(world);
    let map = MultiMap::<u64, u64>::with_capacity(world, 1000)?;
    let inserts = (0..30).map(|i| map.insert_nb(&(i % 3), 100 * me + i));
    when_all(inserts.collect::<Result<Vec<_>>>()?).wait()?;
    world.barrier()?;
    let finds = (0..3).map(|key| map.find_nb(&key));
    let counts = (0..3).map(|key| map.count_nb(&key));
    let found = when_all(finds.collect::<Result<Vec<_>>>()?).wait()?;
    for (key, mut found) in (0..).zip(found) {
        found.sort_unstable();
        let of_rank = |rank| (key..30).step_by(3).map(move |i| 100 * rank + i);
        assert!(
            found.into_iter().eq((0..n).flat_map(of_rank)),
            "of key {key}"
        );
    }
    let counts = when_all(counts.collect::<Result<Vec<_>>>()?).wait()?;
    assert_eq!(counts, [10 * n; 3]);
    world.barrier()?;
    let removals = (0..3).map(|key| map.remove_nb(&key));
    let mut n_removed = 0;
    for removed in when_all(removals.collect::<Result<Vec<_>>>()?).wait()? {
        n_removed += removed?.len() as u64;
    }
    assert_eq!(world.allreduce(n_removed, Sum)?, 30 * n, "each by one rank");
    assert!(map.is_empty()?);
    world.barrier()
}

fn sets_and_maps_grow_and_forget_what_was_removed(world: &World) -> Result<()> {
    pgas_am::attach(world)?;
    let (n, me) = numbers(world);
    let mut map = Words::with_capacity(world, 10 * world.ranks().len())?;
    let set = HashSet::<u64>::with_capacity(world, 10 * world.ranks().len())?;
    let mut set = set.into_insert_phase()?;
    for i in 0..5 {
        map.insert(&(n * i + me), i)?;
        set.insert(&(n * i + me))?;
    }
    map.resize(150 * world.ranks().len())?;
    set.resize(150 * world.ranks().len())?;
    assert!(map.capacity() >= 150 * n && set.capacity() >= 150 * n);
    for i in 5..90 {
        map.insert(&(n * i + me), i)?;
        set.insert(&(n * i + me))?;
    }
    assert_eq!(set.len()?, 90 * n);
    let mut local = set.into_local_phase()?;
    local.local_retain(|key| key / n < 20)?;
    let set = local.into_atomic_phase()?.reuse_slots()?;
    world.barrier()?;
    let next = (me + 1) % n;
    for key in (0..20).map(|i| n * i + next) {
        assert_eq!(map.find(&key)?, Some(key / n));
        assert!(set.remove(&key)?, "it was not removed before");
        assert!(!set.remove(&key)?);
    }
    world.barrier()?;
    assert!(set.is_empty()?);
    for round in 0..4 {
        let keys: Vec<u64> = (0..10).map(|i| n * (10 * round + i) + me).collect();
        set.insert_many(&keys)?;
        let removals = keys.iter().map(|key| set.remove_nb(key));
        let removed = when_all(removals.collect::<Result<Vec<_>>>()?).wait()?;
        assert!(removed.into_iter().all(|removed| removed));
    }
    world.barrier()?;
    assert!(set.is_empty()?);
    world.barrier()
}

fn values_are_counted_and_read_in_every_phase(world: &World) -> Result<()> {
    let (n, me) = numbers(world);
    let map = MultiMap::<u64, u64>::with_capacity(world, 1000)?.reuse_slots()?;
    map.extend((0..30).map(|i| (i % 3, n * i + me)))?;
    let map = map.into_find_phase()?;
    for key in 0..3 {
        assert_eq!(map.count(&key)?, 10 * n);
        let mut found = map.find(&key)?;
        found.sort_unstable();
        assert!(
            found
                .into_iter()
                .eq((0..30 * n).filter(|value| value / n % 3 == key))
        );
    }
    let mut here = [0, 0];
    for entry in map.local_iter() {
        let (key, value) = entry?;
        assert_eq!(value / n % 3, key);
        here = [here[0] + 1, here[1] + value];
    }
    world.allreduce_slice(&mut here, Sum)?;
    assert_eq!(here, [30 * n, (0..30 * n).sum()]);
    let map = map.into_atomic_phase()?;
    map.insert(&(3 + me), 1)?;
    world.barrier()?;
    assert_eq!((map.n_keys()?, map.len()?), (3 + n, 31 * n));
    if me == 0 {
        assert_eq!(map.remove(&0)?.len() as u64, 10 * n);
    }
    world.barrier()?;
    assert_eq!((map.n_keys()?, map.count(&0)?), (2 + n, 0));
    world.barrier()
}

fn values_move_to_further_slots_and_are_cleared(world: &World) -> Result<()> {
    let (n, me) = numbers(world);
    let (ranks, hasher) = (world.ranks().len(), SeededHasher::new(11));
    let mut map = MultiMap::<u64, u64, _, _>::with_hasher(world, 30 * ranks, hasher)?;
    map.extend((0..12).map(|i| (i % 3, 1000 * me + i)))?;
    map.resize(300 * ranks)?;
    assert!(map.capacity() >= 300 * n);
    map.extend((12..150).map(|i| (i % 3, 1000 * me + i)))?;
    world.barrier()?;
    assert_eq!((map.len()?, map.n_keys()?), (150 * n, 3));
    let found = map.find_many(&[2, 7, 0])?;
    for (key, mut found) in [2, 7, 0].into_iter().zip(found) {
        found.sort_unstable();
        let of_rank = |rank| (key..150).step_by(3).map(move |i| 1000 * rank + i);
        let all = (0..n).flat_map(of_rank).filter(|_| key < 3);
        assert!(found.into_iter().eq(all), "of key {key}");
        assert_eq!(map.contains(&key)?, key < 3);
    }
    world.barrier()?;
    let map = map.into_local_phase()?;
    let mut here = [map.local_len()?, 0, 0];
    map.for_each_local(|_, _| here[1] += 1)?;
    for entry in &map {
        let (key, value) = entry?;
        assert_eq!(value % 1000 % 3, key);
        here[2] += 1;
    }
    assert_eq!(here, [here[0]; 3]);
    assert_eq!(world.allreduce(here[0], Sum)?, 150 * n);
    let mut map = map.into_atomic_phase()?;
    let next = (me + 1) % n;
    let of_next = map
        .entries_on(neighbour(world, 1))
        .collect::<Result<Vec<_>>>()?;
    assert!(of_next.iter().all(|(key, value)| value % 1000 % 3 == *key));
    world.barrier()?;
    map.clear()?;
    assert!(map.is_empty()? && map.n_keys()? == 0);
    map.insert(&me, 7)?;
    world.barrier()?;
    assert_eq!(map.find(&next)?, [7]);
    world.barrier()
}

fn entries_of_a_rank_are_visited_by_many_threads(world: &World) -> Result<()> {
    let (n, me) = numbers(world);
    let map = Words::with_capacity(world, 2000)?;
    let set = HashSet::<u64>::with_capacity(world, 2000)?;
    let values = MultiMap::<u64, u64>::with_capacity(world, 2000)?;
    let keys: Vec<u64> = (0..N_KEYS).map(|i| n * i + me).collect();
    map.insert_many(&keys.iter().map(|key| (*key, 2 * key)).collect::<Vec<_>>())?;
    set.insert_many(&keys)?;
    values.extend(keys.iter().map(|key| (key % 5, *key)))?;
    world.barrier()?;
    let (entries, of_set, of_values) = <[AtomicU64; 3]>::default().into();
    map.par_for_each_local(|key, value| {
        assert_eq!(value, 2 * key);
        entries.fetch_add(key, Ordering::Relaxed);
    })?;
    set.par_for_each_local(|key| {
        of_set.fetch_add(key, Ordering::Relaxed);
    })?;
    values.par_for_each_local(|key, value| {
        assert_eq!(value % 5, key);
        of_values.fetch_add(value, Ordering::Relaxed);
    })?;
    let mut sums = [entries, of_set, of_values].map(AtomicU64::into_inner);
    world.allreduce_slice(&mut sums, Sum)?;
    assert_eq!(sums, [(0..n * N_KEYS).sum(); 3]);
    world.barrier()
}
