//! Maps and their buffers.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pgas_containers::{Error, HashMap, HashMapBuffer, MultiMap, Object};
use pgas_core::{Rank, World};

use super::common::{Picky, everywhere, used};

const SEGMENT: u64 = 4 << 20;

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Full { .. })
}

fn is_elsewhere(error: &Error) -> bool {
    matches!(error, Error::Elsewhere(_))
}

#[test]
fn a_buffer_is_flushed_into_a_map_whose_slots_are_held_by_removed_keys() {
    everywhere(2, SEGMENT, |world| {
        // Few slots, and fewer removed keys than a change of phase turns into free slots.
        for (n, n_removed, n_new) in [(10, 10, 1), (100, 70, 60)] {
            let map = HashMap::<u64, u64>::with_capacity(&world, n).unwrap();
            let is_first = world.rank() == Rank::ZERO;
            let n = n as u64;
            for key in (0..n_removed).filter(|_| is_first) {
                map.insert(&key, key).unwrap();
                map.remove(&key).unwrap();
            }
            world.barrier().unwrap();
            let mut buffer = HashMapBuffer::new(map, 16, |there, more| there + more).unwrap();
            for key in n..n + n_new {
                buffer.insert(key, 1).unwrap();
            }
            buffer.flush().unwrap();
            let map = buffer.into_map().unwrap();
            assert_eq!(map.len().unwrap(), n_new);
            assert_eq!(map.find(&n).unwrap(), Some(2));
            world.barrier().unwrap();
        }
    });
}

#[test]
fn slots_of_removed_keys_are_free_after_a_change_of_phase_however_small_the_map_is() {
    everywhere(2, SEGMENT, |world| {
        let map = HashMap::<u64, u64>::with_capacity(&world, 10).unwrap();
        if world.rank() == Rank::ZERO {
            for key in 0..10 {
                map.insert(&key, key).unwrap();
                map.remove(&key).unwrap();
            }
            assert!(is_full(&map.insert(&10, 1).unwrap_err()));
        }
        let map = map.into_atomic_phase().unwrap();
        assert_eq!((map.capacity(), map.len().unwrap()), (10, 0));
        if world.rank() == Rank::ZERO {
            for key in 10..20 {
                map.insert(&key, key).unwrap();
            }
            assert!(is_full(&map.insert(&20, 1).unwrap_err()));
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_small_map_grows_by_the_keys_that_are_inserted_and_not_by_the_inserts_or_ranks() {
    for n_ranks in [2, 4] {
        everywhere(n_ranks, 16 << 20, |world| {
            let map = HashMap::<u64, u64>::with_capacity(&world, 8).unwrap();
            let mut buffer = HashMapBuffer::new(map, 256, |there, more| there + more).unwrap();
            for i in 0..10_000 {
                buffer.insert(i % 500, 1).unwrap();
            }
            let map = buffer.into_map().unwrap();
            assert_eq!(map.len().unwrap(), 500);
            assert!(map.capacity() <= 2000, "{} slots", map.capacity());
            let count = 20 * u64::from(n_ranks);
            assert!((0..500).all(|key| map.find(&key).unwrap() == Some(count)));
            world.barrier().unwrap();
        });
    }
}

/// The payload of the panic of the function that combines.
const THROWN: &str = "thrown on purpose";

/// Inserts 1, 100 and 2 for many keys of each rank into a map of a capacity. 100 cannot be
/// combined.
fn throw_for_some<V: Object>(world: &World, capacity: usize, of: fn(u64) -> V, to: fn(V) -> u64) {
    let map = HashMap::<u64, V>::with_capacity(world, capacity).unwrap();
    let combine = |there, more| match to(more) {
        100 => resume_unwind(Box::new(THROWN)),
        more => of(to(there) + more),
    };
    let mut buffer = HashMapBuffer::new(map, 64, combine).unwrap();
    let first = 1000 * u64::from(world.rank().number());
    for (n_keys, value) in [(400, 1), (50, 100), (400, 2)] {
        for key in first..first + n_keys {
            buffer.insert(key, of(value)).unwrap();
        }
    }
    let n_thrown = match catch_unwind(AssertUnwindSafe(|| buffer.flush())) {
        Err(panic) => panic
            .downcast_ref()
            .map_or(0, |&what: &&str| u64::from(what == THROWN)),
        Ok(flushed) => {
            let error = flushed.unwrap_err();
            assert!(is_elsewhere(&error), "{error}");
            0
        }
    };
    let n_thrown = world.allreduce(n_thrown, |a: u64, b| a + b).unwrap();
    assert!(n_thrown > 0, "a rank that has called the function panics");
    let map = buffer.into_map().unwrap();
    assert_eq!(map.len().unwrap(), 400 * u64::from(world.n_ranks()));
    for key in first..first + 400 {
        assert_eq!(map.find(&key).unwrap().map(to), Some(3), "key {key}");
    }
    world.barrier().unwrap();
}

#[test]
fn a_function_that_panics_costs_the_entry_that_it_was_called_for_and_no_other_one() {
    everywhere(3, SEGMENT, |world| {
        let text = |n: u64| Picky::long(&n.to_string());
        let number = |text: Picky| text.0.split(' ').next().unwrap().parse().unwrap();
        let before = used(&world);
        for capacity in [4000, 4] {
            throw_for_some(&world, capacity, |n| n, |n| n);
            throw_for_some(&world, capacity, text, number);
        }
        assert_eq!(used(&world), before);
    });
}

/// A function whose result depends on the order of all calls.
fn digits(there: u64, more: u64) -> u64 {
    (there * 10 + more) % 1_000_000_007
}

#[test]
fn entries_that_find_no_place_are_combined_as_if_they_had_one() {
    everywhere(2, SEGMENT, |world| {
        let map = HashMap::<u64, u64>::with_capacity(&world, 4).unwrap();
        let me = u64::from(world.rank().number());
        let mut buffer = HashMapBuffer::new(map, 4, digits).unwrap();
        let mut expected = BTreeMap::new();
        for round in 0..4 {
            for i in 0..60 {
                let (key, value) = (1000 * me + i * 7 % 20, (i + round) % 10);
                buffer.insert(key, value).unwrap();
                let former = expected.insert(key, value);
                if let Some(former) = former {
                    expected.insert(key, digits(former, value));
                }
            }
            buffer.flush().unwrap();
        }
        let map = buffer.into_map().unwrap();
        for (key, value) in expected {
            assert_eq!(map.find(&key).unwrap(), Some(value));
        }
        world.barrier().unwrap();
    });
}

/// Buffers with texts that the map cannot hold or combine.
fn refuse_texts(world: &World) {
    let map = HashMap::<u64, Picky>::with_capacity(world, 50).unwrap();
    let is_first = world.rank() == Rank::ZERO;
    if is_first {
        map.insert(&1, Picky::of("one")).unwrap();
    }
    let combine = |there: Picky, more: Picky| match more.0.as_str() {
        "bad" => Picky::long("!w"),
        more => Picky(there.0 + more),
    };
    let mut buffer = HashMapBuffer::new(map, 4, combine).unwrap();
    if is_first {
        let refused = buffer.insert(5, Picky::of("!w")).unwrap_err();
        assert!(matches!(refused, Error::Codec(_)), "{refused}");
        for (key, text) in [
            (1, " two"),
            (1, "bad"),
            (2, "!r"),
            (3, "three"),
            (1, " three"),
        ] {
            buffer.insert(key, Picky::of(text)).unwrap();
        }
        for key in 10..30 {
            buffer.insert(key, Picky::long("text")).unwrap();
        }
    }
    let mut told = 0;
    loop {
        match buffer.flush() {
            Ok(()) => break,
            Err(Error::Codec(_)) => told += 1,
            Err(other) => assert!(is_elsewhere(&other), "{other}"),
        }
    }
    let all_told = world.allreduce(told, |a: u64, b| a + b).unwrap();
    assert!((1..=2).contains(&all_told), "{all_told} ranks were told");
    let map = buffer.into_map().unwrap();
    assert_eq!(map.len().unwrap(), 22);
    assert_eq!(map.find(&1).unwrap(), Some(Picky::of("one two three")));
    assert_eq!(map.find(&2).unwrap(), None);
    assert_eq!(map.find(&29).unwrap(), Some(Picky::long("text")));
    world.barrier().unwrap();
}

#[test]
fn an_entry_that_cannot_be_combined_is_told_once_and_costs_no_other_one() {
    everywhere(2, SEGMENT, |world| {
        let before = used(&world);
        refuse_texts(&world);
        assert_eq!(used(&world), before);
    });
}

#[test]
fn all_ranks_learn_that_a_flush_has_failed_and_what_is_left_is_inserted_when_there_is_room() {
    everywhere(2, 2 << 20, |world| {
        let map = HashMap::<u64, u64>::with_capacity(&world, 1000).unwrap();
        let mut buffer = HashMapBuffer::new(map, 64, |_, new| new).unwrap();
        // Takes the memory into which the map would grow.
        let room = world.symmetric_heap_use();
        let n = usize::try_from(room.capacity - room.used).unwrap() / 8 - 2048;
        let taken = world.alloc_symmetric::<u64>(n).unwrap();
        let me = u64::from(world.rank().number());
        // Only one rank has more entries than fit, and only a few more.
        let n_mine = if me == 0 { 1100 } else { 3 };
        for i in 0..n_mine {
            buffer.insert(10_000 * me + i, i).unwrap();
        }
        for _ in 0..2 {
            let error = buffer.flush().unwrap_err();
            assert!(is_full(&error) || is_elsewhere(&error), "{error}");
        }
        drop(taken);
        world.reclaim().unwrap();
        buffer.flush().unwrap();
        let map = buffer.into_map().unwrap();
        assert_eq!(map.len().unwrap(), 1103);
        for (rank, n) in [(0, 1100), (1, 3)] {
            let found = |i| map.find(&(10_000 * rank + i)).unwrap() == Some(i);
            assert!((0..n).all(found));
        }
        world.barrier().unwrap();
    });
}

/// Memory that was given back twice, or too early, shows when no other memory is left, or when
/// others write to it.
#[test]
fn memory_of_what_a_buffer_has_sent_is_given_back_once() {
    everywhere(2, SEGMENT, |world| {
        let mut map = HashMap::<u64, Picky>::with_capacity(&world, 40).unwrap();
        let is_first = world.rank() == Rank::ZERO;
        for round in 0..6 {
            let replace = |_: Picky, more: Picky| more;
            let mut buffer = HashMapBuffer::new(map, 8, replace).unwrap();
            let text = |key: u64| Picky::long(&format!("{key} in round {round}"));
            for key in (0..20).filter(|_| is_first) {
                buffer.insert(key, text(key)).unwrap();
            }
            map = buffer.into_map().unwrap();
            for key in (10..20).filter(|_| is_first) {
                map.insert(&key, text(key)).unwrap();
            }
            let too_long = Picky("h".repeat(2 * usize::try_from(SEGMENT).unwrap()));
            map.insert(&50, too_long).unwrap_err();
            for key in (0..20).filter(|_| is_first) {
                assert_eq!(map.find(&key).unwrap(), Some(text(key)));
            }
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_refused_insert_is_no_value_of_its_key() {
    everywhere(2, SEGMENT, |world| {
        let values = MultiMap::<u64, Picky>::with_capacity(&world, 8).unwrap();
        if world.rank() == Rank::ZERO {
            for i in 0..8 {
                assert_eq!(values.insert(&1, Picky::of("text")).unwrap(), i);
            }
            for key in [1, 2] {
                assert!(is_full(
                    &values.insert(&key, Picky::of("more")).unwrap_err()
                ));
            }
            let refused = values.insert(&1, Picky::of("!w")).unwrap_err();
            assert!(matches!(refused, Error::Codec(_)), "{refused}");
            assert_eq!(
                (values.count(&1).unwrap(), values.count(&2).unwrap()),
                (8, 0)
            );
            assert_eq!(values.find(&1).unwrap().len(), 8);
        }
        assert_eq!((values.len().unwrap(), values.n_keys().unwrap()), (8, 1));
        let values = values.into_find_phase().unwrap();
        assert_eq!(
            (values.count(&1).unwrap(), values.count(&2).unwrap()),
            (8, 0)
        );
        world.barrier().unwrap();
    });
}

#[test]
fn inserts_that_are_refused_at_once_are_not_counted() {
    everywhere(3, SEGMENT, |world| {
        for _ in 0..20 {
            let values = MultiMap::<u64, u64>::with_capacity(&world, 30).unwrap();
            let me = u64::from(world.rank().number());
            let mut n_inserted = 0;
            for i in 0..30 {
                match values.insert(&(i % 3), 100 * me + i) {
                    Ok(_) => n_inserted += 1,
                    Err(error) => assert!(is_full(&error), "{error}"),
                }
            }
            let n = world.allreduce(n_inserted, |a: u64, b| a + b).unwrap();
            assert_eq!((n, values.len().unwrap()), (30, 30));
            let counts: u64 = (0..3).map(|key| values.count(&key).unwrap()).sum();
            let found: usize = (0..3).map(|key| values.find(&key).unwrap().len()).sum();
            assert_eq!((counts, found), (30, 30));
            assert_eq!(values.n_keys().unwrap(), 3);
            world.barrier().unwrap();
            let mut n_removed = 0;
            for key in 0..3 {
                n_removed += values.remove(&key).unwrap().len() as u64;
            }
            let n = world.allreduce(n_removed, |a: u64, b| a + b).unwrap();
            assert_eq!((n, values.n_keys().unwrap()), (30, 0));
        }
    });
}

#[test]
fn one_value_that_cannot_be_read_costs_no_other_one_of_its_key() {
    everywhere(2, SEGMENT, |world| {
        let before = used(&world);
        let values = MultiMap::<u64, Picky>::with_capacity(&world, 20).unwrap();
        if world.rank() == Rank::ZERO {
            for text in [Picky::of("one"), Picky::long("!r"), Picky::long("two")] {
                values.insert(&1, text).unwrap();
            }
            let refused = values.remove(&1).unwrap_err();
            assert_eq!(refused.taken, [Picky::of("one"), Picky::long("two")]);
            assert_eq!(refused.lost.n, 1);
            assert_eq!(values.count(&1).unwrap(), 0);
            assert_eq!(values.remove(&1).unwrap(), []);
        }
        assert_eq!(values.len().unwrap(), 0);
        drop(values);
        assert_eq!(used(&world), before);
    });
}

#[test]
fn local_inserts_that_are_refused_leave_no_memory_behind() {
    everywhere(1, SEGMENT, |world| {
        let map = HashMap::<Picky, Picky>::with_capacity(&world, 20).unwrap();
        let mut map = map.into_local_phase().unwrap();
        map.local_insert(&Picky::long("key"), &Picky::long("one"))
            .unwrap();
        let before = world.local_heap_use().used;
        for _ in 0..50 {
            let (bad, good) = (Picky::long("!w"), Picky::long("good"));
            map.local_insert(&bad, &good).unwrap_err();
            map.local_insert(&good, &bad).unwrap_err();
            map.local_upsert(&bad, &good, |there| there).unwrap_err();
            map.local_upsert(&Picky::long("key"), &good, |_| bad.clone())
                .unwrap_err();
            map.local_remove(&bad).unwrap_err();
        }
        assert_eq!(world.local_heap_use().used, before);
        let one = map.local_find(&Picky::long("key")).unwrap();
        assert_eq!((one, map.len().unwrap()), (Some(Picky::long("one")), 1));
    });
}
