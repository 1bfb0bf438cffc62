//! Every container over a network that delays, reorders and tears transfers, with many seeds. With
//! some of them ranks serve each other's requests. Nothing is lost, nothing comes twice, and
//! nothing is seen in part.

use pgas_containers::array::Distribution;
use pgas_containers::{
    Array, BloomFilter, CircularQueue, DArray, Distributor, FastQueue, HashMap, HashMapBuffer,
    MultiMap, WideBloomFilter,
};
use pgas_core::backend::loopback::Options;
use pgas_core::{Config, Rank, World};
use pgas_testkit::{setting, weak};

/// The number of seeds for each container, unless `PGAS_TEST_SEEDS` has another one.
const N_SEEDS: u64 = 1000;

fn with_many_seeds(n_ranks: u32, body: impl Fn(World, u64) + Sync) {
    with_seeds(n_ranks, setting("PGAS_TEST_SEEDS", N_SEEDS), body);
}

fn with_seeds(n_ranks: u32, n_seeds: u64, body: impl Fn(World, u64) + Sync) {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    let served = Options::default().with_served_atomics();
    for seed in 0..n_seeds {
        weak::run(n_ranks, &config, seed, |world| body(world, seed));
        if seed.is_multiple_of(4) {
            weak::run_over(&served, n_ranks, &config, seed, |world| {
                pgas_am::attach(&world).unwrap();
                body(world, seed);
            });
        }
    }
}

fn sum(world: &World, value: u64) -> u64 {
    world.allreduce(value, |a: u64, b| a + b).unwrap()
}

#[test]
fn a_map_counts_every_addition_and_shows_wide_values_whole() {
    with_many_seeds(3, |world, seed| {
        let counts = HashMap::<u64, u64>::with_capacity(&world, 30).unwrap();
        let wide = HashMap::<u64, [u64; 6]>::with_capacity(&world, 12).unwrap();
        let me = u64::from(world.rank().number());
        for i in 0..12 {
            counts.fetch_add(&(i % 5), 1).unwrap();
            counts.add_many(&[i % 3, seed % 3], 1).unwrap();
            wide.insert(&(i % 4), [100 * me + i; 6]).unwrap();
            let seen = wide.find(&((i + me) % 4)).unwrap();
            assert!(seen.is_none_or(|value| value == [value[0]; 6]), "{seen:?}");
        }
        world.barrier().unwrap();
        let mut all = 0;
        counts.for_each_local(|_, n| all += n).unwrap();
        assert_eq!(sum(&world, all), 3 * 36);
        assert_eq!((counts.len().unwrap(), wide.len().unwrap()), (5, 4));
    });
}

#[test]
fn texts_that_are_removed_and_inserted_again_are_whole_or_absent() {
    with_many_seeds(3, |world, seed| {
        let map = HashMap::<String, String>::with_capacity(&world, 9).unwrap();
        let me = u64::from(world.rank().number());
        let text = |n: u64, letter: &str| letter.repeat(usize::try_from(n * 23 % 150).unwrap());
        for i in 0..8 {
            let key = text((i + seed) % 3 + 1, "k");
            match (i + me) % 4 {
                0 => {
                    map.remove(&key).unwrap();
                }
                1 => drop(map.upsert(&key, text(i, "v"), |there| there + "v").unwrap()),
                2 => {
                    map.insert(&key, text(me + i, "v")).unwrap();
                }
                _ => {
                    let seen = map.find(&key).unwrap();
                    assert!(seen.is_none_or(|value| value.bytes().all(|byte| byte == b'v')));
                }
            }
        }
        let n = map.len().unwrap();
        let map = map.into_find_phase().unwrap();
        let here = map.local_iter().map(Result::unwrap).count() as u64;
        assert_eq!(sum(&world, here), n);
    });
}

#[test]
fn buffered_inserts_and_values_of_a_multimap_are_all_there() {
    with_many_seeds(2, |world, seed| {
        let size = usize::try_from(1 + seed % 11).unwrap();
        let counts = HashMap::<u64, u64>::with_capacity(&world, size).unwrap();
        let mut buffer = HashMapBuffer::new(counts, size, |there, more| there + more).unwrap();
        let values = MultiMap::<u64, [u64; 4]>::with_capacity(&world, 40).unwrap();
        for i in 0..12 {
            buffer.insert(i % (1 + seed % 5), 1).unwrap();
            values.insert(&(i % 2), [i; 4]).unwrap();
        }
        let counts = buffer.into_map().unwrap();
        let mut all = 0;
        counts.for_each_local(|_, n| all += n).unwrap();
        assert_eq!(sum(&world, all), 24);
        let values = values.into_find_phase().unwrap();
        let found = values.find(&1).unwrap();
        assert_eq!(found.len(), 12);
        assert!(found.iter().all(|value| *value == [value[0]; 4]), "torn");
        let values = values.into_atomic_phase().unwrap();
        let removed = values.remove(&(seed % 2)).unwrap();
        assert!(removed.iter().all(|value| *value == [value[0]; 4]), "torn");
        assert_eq!(sum(&world, removed.len() as u64), 12, "each by one rank");
    });
}

#[test]
fn a_queue_that_all_push_to_and_pop_from_loses_and_doubles_nothing() {
    with_many_seeds(3, |world, seed| {
        let host = Rank::new(u32::try_from(seed % 3).unwrap());
        let queue = CircularQueue::<[u64; 3]>::with_capacity(&world, host, 4).unwrap();
        let mut popped = [0, 0];
        let mut take = |value: [u64; 3]| {
            assert_eq!(value, [value[0]; 3], "torn");
            popped[0] += 1;
            popped[1] += value[0];
        };
        for i in 0..10_u64 {
            while queue.push([i; 3]).is_err() {
                queue.pop_many(2).unwrap().into_iter().for_each(&mut take);
            }
            if i % 3 == 0 {
                queue.pop().unwrap().into_iter().for_each(&mut take);
            }
        }
        world.barrier().unwrap();
        while let Some(value) = queue.pop().unwrap() {
            take(value);
        }
        assert_eq!((sum(&world, popped[0]), sum(&world, popped[1])), (30, 135));
    });
}

#[test]
fn memory_of_long_elements_goes_back_to_who_has_allocated_it() {
    const N: u64 = 30;
    // Ranks that wait for each other by polling take long.
    let n_seeds = setting("PGAS_TEST_SEEDS", N_SEEDS).div_ceil(50);
    with_seeds(2, n_seeds, |world, seed| {
        let queue = CircularQueue::<String>::with_capacity(&world, Rank::ZERO, 3).unwrap();
        let text = |i: u64| {
            let letter = char::from(b'a' + u8::try_from(i % 26).unwrap());
            let len = 60 + 50 * ((i + seed) % 3);
            letter.to_string().repeat(usize::try_from(len).unwrap())
        };
        let before = world.local_heap_use().used;
        for i in 0..N {
            if world.rank() == Rank::ZERO {
                while queue.push(text(i)).is_err() {
                    world.progress().unwrap();
                }
                continue;
            }
            let mut popped = queue.pop().unwrap();
            while popped.is_none() {
                world.progress().unwrap();
                popped = queue.pop().unwrap();
            }
            assert_eq!(popped.unwrap(), text(i));
        }
        world.barrier().unwrap();
        // Those in the queue, and a few that are on their way back.
        let used = world.local_heap_use().used - before;
        assert!(used <= 16 * 128, "{used} bytes, seed {seed}");
    });
}

#[test]
fn a_phased_queue_of_strings_has_in_the_next_phase_what_was_pushed() {
    with_many_seeds(2, |world, seed| {
        let queue = FastQueue::<String>::with_capacity(&world, Rank::ZERO, 16).unwrap();
        let text = |i: u64| "x".repeat(usize::try_from(i * 13 + seed % 7).unwrap());
        for i in 0..8 {
            queue.push(text(i)).unwrap();
        }
        let queue = queue.into_pop_phase().unwrap();
        let mut bytes = 0;
        while let Some(value) = queue.pop().unwrap() {
            assert!(value.bytes().all(|byte| byte == b'x'));
            bytes += value.len() as u64;
        }
        let expected = 2 * (0..8).map(|i| text(i).len() as u64).sum::<u64>();
        assert_eq!(sum(&world, bytes), expected);
    });
}

#[test]
fn a_phased_queue_has_in_the_next_phase_what_a_late_rank_has_pushed() {
    with_many_seeds(2, |world, seed| {
        let queue = FastQueue::<u64>::with_capacity(&world, Rank::ZERO, 16).unwrap();
        let is_late = world.rank() != Rank::ZERO;
        if is_late {
            // The other one has long since asked for the next phase.
            std::thread::sleep(std::time::Duration::from_millis(seed % 3));
            for i in 0..8 {
                queue.push(i).unwrap();
            }
        }
        let queue = queue.into_pop_phase().unwrap();
        if !is_late {
            for i in 0..8 {
                assert_eq!(queue.pop().unwrap(), Some(i));
            }
        }
        world.barrier().unwrap();
    });
}

#[test]
fn what_was_inserted_into_a_filter_is_found() {
    with_many_seeds(2, |world, seed| {
        let words = BloomFilter::<u64>::with_rate(&world, 50, 0.01).unwrap();
        let lines = WideBloomFilter::<u64>::with_rate(&world, 50, 0.01).unwrap();
        let mine = |i: u64| seed + 2 * i + u64::from(world.rank().number());
        for i in 0..20 {
            words.insert(&mine(i)).unwrap();
            lines.insert(&mine(i)).unwrap();
            assert!(words.contains(&mine(i)).unwrap() && lines.contains(&mine(i)).unwrap());
        }
        world.barrier().unwrap();
        let found =
            |i| words.contains(&(seed + i)).unwrap() && lines.contains(&(seed + i)).unwrap();
        assert!((0..40).all(found));
        world.barrier().unwrap();
    });
}

#[test]
fn elements_of_arrays_are_seen_whole_while_they_are_overwritten() {
    with_many_seeds(3, |world, seed| {
        let names = DArray::new(&world, 3, Distribution::Cyclic, &vec![0_u8]).unwrap();
        let hosted = Array::new(&world, Rank::ZERO, 2, &String::new()).unwrap();
        let me = world.rank().index();
        for i in 0..8 {
            let n = (i * 31 + me * 7) % 120 + 1;
            names
                .put((i + me) % 3, &vec![u8::try_from(n).unwrap(); n])
                .unwrap();
            let seen = names.get(i % 3).unwrap();
            assert!(
                seen.iter()
                    .all(|&byte| byte as usize == seen.len() || byte == 0),
                "{seen:?}"
            );
            hosted.put(i % 2, &"y".repeat(n)).unwrap();
            assert!(
                hosted
                    .get((i + 1) % 2)
                    .unwrap()
                    .bytes()
                    .all(|byte| byte == b'y'),
                "{seed}"
            );
        }
        world.barrier().unwrap();
    });
}

/// The first overwriting gives back the memory that is being read. After the second one it has
/// another value.
#[test]
fn an_element_that_is_overwritten_twice_while_it_is_read_is_read_again() {
    with_many_seeds(2, |world, seed| {
        let texts = Array::new(&world, Rank::ZERO, 1, &String::new()).unwrap();
        for letter in ('a'..='z').cycle().take(30) {
            if world.rank() == Rank::ZERO {
                let seen = texts.get(0).unwrap();
                let mut letters = seen.chars();
                let first = letters.next();
                assert!(letters.all(|it| Some(it) == first), "{seen}, seed {seed}");
            } else {
                texts.put(0, &String::from(letter).repeat(150)).unwrap();
            }
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_distributor_delivers_every_element_once() {
    with_many_seeds(3, |world, seed| {
        let capacity = usize::try_from(1 + seed % 9).unwrap();
        let mut distributor = Distributor::<(u64, u64)>::with_capacity(&world, capacity).unwrap();
        for i in 0..20_u64 {
            let to = Rank::new(u32::try_from((i + seed) % 3).unwrap());
            distributor.send(to, (i, !i)).unwrap();
        }
        let received = distributor.finish().unwrap();
        assert!(received.iter().all(|&(a, b)| a == !b), "torn");
        let total = received.iter().map(|&(i, _)| i).sum();
        assert_eq!(sum(&world, received.len() as u64), 60);
        assert_eq!(sum(&world, total), 3 * 190);
    });
}
