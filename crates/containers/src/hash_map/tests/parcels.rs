//! Keys and values that are longer than their slots, between ranks that serve each other.

use std::cell::Cell;
use std::collections::HashMap as Model;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use pgas_am::Wire;
use pgas_am::codec::{Codec, Decoder, Each, Encoder};
use pgas_core::Rank;

use super::super::{Combine, Inserted};
use super::concurrent::Random;
use super::*;
use crate::object::{Encoded, FoundBy};
use crate::testing::assert_names_panic;

/// Runs `body` on ranks that serve each other.
fn served(n_ranks: u32, body: impl Fn(World) + Sync) {
    served_within(n_ranks, 64 << 20, body);
}

/// The same, with segments of so many bytes.
fn served_within(n_ranks: u32, segment_bytes: u64, body: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    config.segment_bytes = Some(segment_bytes);
    let served = loopback::Options::default().with_served_atomics();
    loopback::run_over(&served, n_ranks, &config, |world| {
        pgas_am::attach(&world).unwrap();
        body(world);
    });
}

/// A text of `len` bytes that says `n`.
fn text(n: u64, len: usize) -> String {
    format!("{n:.<len$}")
}

/// A key of rank 1.
fn remote_key<V: Object>(map: &HashMap<String, V>, len: usize) -> String {
    let home = |key: &String| {
        let encoded = String::key_by(key.as_str()).unwrap();
        map.table.shape.home_rank(map.table.shape.hash(&encoded))
    };
    let mut keys = (0..).map(|n| text(n, len));
    keys.find(|key| home(key) == Rank::new(1)).unwrap()
}

/// Keys of rank 1.
fn remote_numbers<V: Object, const N: usize>(map: &HashMap<u64, V>) -> [u64; N] {
    let home = |key: &u64| map.table.shape.home_rank(map.table.shape.hash(key));
    let mut keys = (0..).filter(|key| home(key) == Rank::new(1));
    std::array::from_fn(|_| keys.next().unwrap())
}

/// Messages, and operations on global pointers, of `body`.
fn steps(world: &World, body: impl FnOnce()) -> (u64, u64) {
    let before = world.costs();
    body();
    let costs = world.costs() - before;
    (costs.messages, costs.reads + costs.writes + costs.atomics)
}

#[test]
fn an_operation_on_long_keys_and_values_is_one_message() {
    served(2, |world| {
        let map = map::<String, Vec<u64>>(&world, 1 << 10);
        if world.rank() == Rank::ZERO {
            for len in [10, 400] {
                let key = remote_key(&map, len);
                for n in [1, 100_u64] {
                    let value: Vec<u64> = (0..n).collect();
                    let inserts = |how| assert_eq!(map.insert(&key, value.clone()).unwrap(), how);
                    assert_eq!(steps(&world, || inserts(Inserted::New)), (1, 0));
                    assert_eq!(steps(&world, || inserts(Inserted::Replaced)), (1, 0));
                    let finds = || assert_eq!(map.find(&key).unwrap().as_ref(), Some(&value));
                    assert_eq!(steps(&world, finds), (1, 0));
                    let given = || {
                        let there = map.get_or_insert(&key, vec![7; 50]).unwrap();
                        assert_eq!(there, value);
                    };
                    assert_eq!(steps(&world, given), (1, 0));
                    let takes = || assert_eq!(map.take(&key).unwrap().as_ref(), Some(&value));
                    assert_eq!(steps(&world, takes), (1, 0));
                    inserts(Inserted::New);
                    let removes = || assert!(map.remove(&key).unwrap());
                    assert_eq!(steps(&world, removes), (1, 0));
                    assert_eq!(map.find(&key).unwrap(), None);
                }
            }
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_count_of_words_is_one_message_each() {
    served(2, |world| {
        let map = map::<String, u64>(&world, 1 << 10);
        if world.rank() == Rank::ZERO {
            for len in [10, 400] {
                let key = remote_key(&map, len);
                let counts = |former| assert_eq!(map.fetch_add(&key, 2).unwrap(), former);
                assert_eq!(steps(&world, || counts(0)), (1, 0));
                assert_eq!(steps(&world, || counts(2)), (1, 0));
                assert_eq!(map.update(&key, |n| n * 10).unwrap(), Some(4));
                let finds = || assert_eq!(map.find(&key).unwrap(), Some(40));
                assert_eq!(steps(&world, finds), (1, 0));
            }
        }
        world.barrier().unwrap();
    });
}

/// Batches of entries of all lengths, with answers that do not fit a message.
#[test]
fn a_batch_of_long_entries_travels_whole() {
    const N: u64 = 400;
    served(3, |world| {
        let map = map::<String, String>(&world, 1 << 13);
        let me = u64::from(world.rank().number());
        let len = |n: u64| usize::try_from([3, 40, 300, 20_000][(n % 4) as usize]).unwrap();
        let entries: Vec<(String, String)> = (0..N)
            .map(|n| (text(me * N + n, len(n / 4)), text(n, len(n))))
            .collect();
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        let borrowed = entries
            .iter()
            .map(|(key, value)| (key.as_str(), value.clone()));
        let borrowed: Vec<(&str, String)> = borrowed.collect();
        assert_eq!(map.insert_many(&borrowed).unwrap(), keys.len());
        assert_eq!(map.insert_many(&borrowed).unwrap(), 0);
        let found = map.find_many(&keys).unwrap();
        for ((_, value), found) in entries.iter().zip(found) {
            assert_eq!(found.as_ref(), Some(value));
        }
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), 3 * keys.len() as u64);
        assert_eq!(map.remove_many(&keys).unwrap(), keys.len());
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), 0);
    });
}

/// The longer of two texts.
enum Longer {}

impl Combine<String> for Longer {
    fn combine(there: String, given: &String) -> String {
        if given.len() > there.len() {
            given.clone()
        } else {
            there
        }
    }
}

#[test]
fn long_values_are_combined_where_they_are() {
    const N: u64 = 200;
    served(3, |world| {
        let used = || world.local_heap_use().used;
        let map = map::<u64, String>(&world, 1 << 12);
        let len = 100 + 50 * world.rank().index();
        let entries: Vec<(u64, String)> = (0..N).map(|n| (n, text(n, len))).collect();
        world.barrier().unwrap();
        map.upsert_many::<Longer>(&entries).unwrap();
        world.barrier().unwrap();
        let before = used();
        for _ in 0..20 {
            map.upsert_many::<Longer>(&entries).unwrap();
        }
        world.barrier().unwrap();
        assert!(
            used() <= 2 * before,
            "{} bytes, and {before} before",
            used()
        );
        for n in 0..N {
            assert_eq!(map.find(&n).unwrap(), Some(text(n, 200)));
        }
        world.barrier().unwrap();
    });
}

/// All ranks churn the same keys; the memory of what was replaced is used again.
#[test]
fn memory_stays_flat_while_ranks_replace_each_others_long_values() {
    const N: u64 = 3000;
    served(3, |world| {
        let used = || world.local_heap_use().used;
        let before = used();
        let map = map::<u64, String>(&world, 256);
        let mut random = Random(u64::from(world.rank().number()) << 32);
        let mut most = 0;
        for i in 0..N {
            let key = random.below(32);
            let value = text(key, usize::try_from(64 + random.below(900)).unwrap());
            match random.below(8) {
                0 => drop(map.remove(&key).unwrap()),
                1 => drop(map.take(&key).unwrap()),
                2 => drop(map.update(&key, |_| value.clone()).unwrap()),
                3 => drop(map.get_or_insert(&key, value).unwrap()),
                4 => drop(
                    map.insert_many(&[(key, value.clone()), (key, value)])
                        .unwrap(),
                ),
                5 => {
                    if let Some(found) = map.find(&key).unwrap() {
                        assert!(found.starts_with(&key.to_string()), "{key}: {found}");
                    }
                }
                _ => drop(map.insert(&key, value).unwrap()),
            }
            let now = used() - before;
            if i < N / 3 {
                most = now.max(most);
            } else {
                assert!(
                    now <= 2 * most + (64 << 10),
                    "{now} after {i}, and {most} before"
                );
            }
        }
        world.barrier().unwrap();
        drop(map);
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(used(), before);
    });
}

/// A shard without room: what its rank could not do is done by the asking rank, with values of its
/// own.
#[test]
fn what_a_full_shard_refuses_keeps_its_value() {
    served(2, |world| {
        let map = map::<u64, String>(&world, 40);
        if world.rank() == Rank::ZERO {
            let mut model = Model::new();
            let mut refused = 0;
            for n in 0..60 {
                let value = text(n, 500);
                match map.insert(&n, value.clone()) {
                    Ok(_) => drop(model.insert(n, value)),
                    Err(crate::Error::Full { .. }) => refused += 1,
                    Err(other) => panic!("{other}"),
                }
            }
            assert!(refused >= 20 && model.len() >= 38, "{refused} of 60");
            for n in 0..60 {
                assert_eq!(map.find(&n).unwrap().as_ref(), model.get(&n));
            }
        }
        world.barrier().unwrap();
    });
}

/// Values near and above what a call carries.
#[test]
fn what_is_too_long_for_a_message_arrives_all_the_same() {
    served_within(2, 1 << 30, |world| {
        let used = || world.local_heap_use().used;
        let before = used();
        let map = map::<u64, Vec<u8>>(&world, 64);
        let [key, other] = remote_numbers(&map);
        let is_asking = world.rank() == Rank::ZERO;
        for len in [17 << 20, 65 << 20] {
            let long = vec![7_u8; len];
            if !is_asking {
                // Its own memory holds the value.
                map.insert(&key, long.clone()).unwrap();
            }
            world.barrier().unwrap();
            if is_asking {
                assert_eq!(map.find(&key).unwrap().as_ref(), Some(&long));
                let found = map.find_many(&[other, key]).unwrap();
                assert!(found[0].is_none() && found[1].as_ref() == Some(&long));
                assert_eq!(map.take(&key).unwrap().as_ref(), Some(&long));
                assert!(!map.contains(&key).unwrap());
                let short = |n: u8| vec![n; 100];
                let entries = [(key, short(1)), (key, long.clone()), (other, long.clone())];
                assert_eq!(map.insert_many(&entries).unwrap(), 2);
                assert_eq!(map.find(&key).unwrap().as_ref(), Some(&long));
                assert_eq!(map.insert(&key, long.clone()).unwrap(), Inserted::Replaced);
                let entries = [(key, long.clone()), (key, short(2))];
                assert_eq!(map.insert_many(&entries).unwrap(), 0);
                assert_eq!(map.find(&key).unwrap(), Some(short(2)));
                assert_eq!(map.take(&other).unwrap().as_ref(), Some(&long));
                assert!(map.remove(&key).unwrap());
            }
            world.barrier().unwrap();
        }
        drop(map);
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(used(), before);
    });
}

/// What a rank that only serves cannot release, whoever has asked it releases.
#[test]
fn a_rank_that_only_serves_keeps_no_memory_of_others() {
    served_within(2, 16 << 20, |world| {
        let map = map::<String, String>(&world, 64);
        if world.rank() == Rank::ZERO {
            let key = remote_key(&map, 30);
            for n in 0..20_000 {
                map.insert(&key, text(n, 1000)).unwrap();
                // One-sided: the new value is of this rank.
                map.update(&key, |_| text(n + 1, 1000)).unwrap();
            }
            let used = world.local_heap_use().used;
            assert!(used < 1 << 20, "{used} bytes");
        }
        world.barrier().unwrap();
    });
}

/// A value that is refused when a part of it is in the parcel already.
#[test]
fn a_request_that_cannot_be_made_ends_its_batch_alone() {
    type Refused = (String, Vec<()>);
    const TOO_MANY: usize = pgas_am::codec::format::EMPTY + 1;
    served(2, |world| {
        let map = map::<u64, Refused>(&world, 64);
        let [first, second, third] = remote_numbers(&map);
        if world.rank() == Rank::ZERO {
            let value = |n| (text(n, 1000), Vec::new());
            let refused = (text(2, 1000), vec![(); TOO_MANY]);
            let entries = [(first, value(1)), (second, refused), (third, value(3))];
            let error = map.insert_many(&entries).unwrap_err();
            assert_eq!(error.done, 1, "{error}");
            assert_eq!(map.find(&first).unwrap(), Some(value(1)));
            assert_eq!(map.find(&third).unwrap(), None);
        }
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), 1);
    });
}

/// A function of the program that panics.
enum Refuse {}

impl Combine<String> for Refuse {
    fn combine(_: String, _: &String) -> String {
        panic!("never two of them")
    }
}

#[test]
fn a_combination_that_fails_takes_no_memory() {
    served(2, |world| {
        let used = || world.local_heap_use().used;
        let map = map::<u64, String>(&world, 64);
        let [key] = remote_numbers(&map);
        let entries = [(key, text(1, 1000))];
        if world.rank() == Rank::ZERO {
            map.insert(&key, text(0, 1000)).unwrap();
        }
        world.barrier().unwrap();
        let before = used();
        if world.rank() == Rank::ZERO {
            for _ in 0..300 {
                let refused = AssertUnwindSafe(|| map.upsert_many::<Refuse>(&entries));
                assert!(catch_unwind(refused).is_err());
            }
        }
        world.barrier().unwrap();
        assert!(used() <= before + (16 << 10), "{} and {before}", used());
        assert_eq!(map.find(&key).unwrap(), Some(text(0, 1000)));
        world.barrier().unwrap();
    });
}

/// Texts that cannot be written while `REFUSES`.
#[derive(Debug, PartialEq)]
struct Moody(String);

static REFUSES: AtomicBool = AtomicBool::new(false);

enum Moodily {}

impl Codec<Moody> for Moodily {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Moody, out: &mut Encoder) -> crate::Result<()> {
        assert!(!REFUSES.load(Ordering::Relaxed), "not now");
        out.put(&value.0)
    }

    fn decode(input: &mut Decoder<'_>) -> crate::Result<Moody> {
        input.get().map(Moody)
    }
}

impl Wire for Moody {
    type By = Moodily;
}

impl Object for Moody {
    type Repr = Encoded<28>;
}

#[test]
fn a_value_that_is_taken_need_not_be_written_once_more() {
    served(2, |world| {
        let map = map::<u64, Moody>(&world, 64);
        let keys: [u64; 2] = remote_numbers(&map);
        if world.rank() == Rank::ZERO {
            for (key, len) in keys.iter().zip([10, 1000]) {
                let value = || Moody(text(*key, len));
                map.insert(key, value()).unwrap();
                REFUSES.store(true, Ordering::Relaxed);
                assert_eq!(map.find(key).unwrap(), Some(value()));
                assert_eq!(map.take(key).unwrap(), Some(value()));
                assert_eq!(map.take(key).unwrap(), None);
                REFUSES.store(false, Ordering::Relaxed);
            }
        }
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), 0);
    });
}

/// Texts that cannot be read on a thread that is `BLIND`.
#[derive(Debug, PartialEq)]
struct Dim(String);

thread_local! {
    static BLIND: Cell<bool> = const { Cell::new(false) };
}

enum Dimly {}

impl Codec<Dim> for Dimly {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Dim, out: &mut Encoder) -> crate::Result<()> {
        out.put(&value.0)
    }

    fn decode(input: &mut Decoder<'_>) -> crate::Result<Dim> {
        assert!(!BLIND.get(), "not here");
        input.get().map(Dim)
    }
}

impl Wire for Dim {
    type By = Dimly;
}

impl Object for Dim {
    type Repr = Encoded<28>;
}

/// Its home rank can read it, and has removed it.
#[test]
fn a_value_that_cannot_be_read_where_it_is_taken_is_counted() {
    served(2, |world| {
        let map = map::<u64, Dim>(&world, 64);
        let keys: [u64; 2] = remote_numbers(&map);
        if world.rank() == Rank::ZERO {
            for (key, len) in keys.iter().zip([10, 1000]) {
                for in_flight in [false, true] {
                    map.insert(key, Dim(text(*key, len))).unwrap();
                    BLIND.set(true);
                    let taken = if in_flight {
                        map.take_nb(key).and_then(|taken| taken.wait())
                    } else {
                        map.take(key)
                    };
                    BLIND.set(false);
                    assert_names_panic(&taken.unwrap_err(), "not here");
                    assert_eq!(map.find(key).unwrap(), None);
                }
            }
        }
        world.barrier().unwrap();
        assert_eq!(map.len().unwrap(), 0);
    });
}

/// The other rank may carry the operation out later, and what is taken out then would be lost.
#[test]
fn an_operation_that_a_time_limit_ends_fails_the_job() {
    let has_ended = AtomicBool::new(false);
    let mut config = Config::default();
    config.timeout = Some(std::time::Duration::from_millis(300));
    let served = loopback::Options::default().with_served_atomics();
    loopback::run_over(&served, 2, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let map = map::<String, String>(&world, 1 << 10);
        if world.rank() == Rank::ZERO {
            let key = remote_key(&map, 70);
            let error = map.insert(&key, text(1, 100)).unwrap_err();
            assert!(matches!(error, crate::Error::Timeout(_)), "{error}");
            has_ended.store(true, Ordering::Release);
        } else {
            while !has_ended.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        let failed = world.barrier().unwrap_err();
        assert!(matches!(failed, crate::Error::RankFailed(_)), "{failed}");
    });
}
