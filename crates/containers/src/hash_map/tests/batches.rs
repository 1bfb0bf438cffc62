//! Batches so long that the lines of later finds are prefetched.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::Wire;
use pgas_am::codec::{Codec, Decoder, Each, Encoder};
use pgas_core::Rank;
use pgas_core::process::panic_text;

use super::concurrent::Random;
use super::*;
use crate::hash_map::Combine;
use crate::object::Encoded;

/// Batches of at most `longest` finds, among keys `0..2 * n_present`, of which every second one is
/// present. If the search for an absent key visits the whole table, few of them are searched.
fn check<K, V>(
    world: &World,
    (capacity, n_present, longest): (usize, u64, u64),
    key: fn(u64) -> K,
    value: fn(u64) -> V,
) where
    K: Object,
    V: Object + PartialEq + std::fmt::Debug,
{
    let map = map::<K, V>(world, capacity);
    let is_full = u64::try_from(capacity).unwrap() == n_present;
    if world.rank() == Rank::ZERO {
        for i in 0..n_present {
            map.insert(&key(2 * i), value(i)).unwrap();
        }
    }
    world.barrier().unwrap();
    let finds = |sizes: &[u64], find_many: &dyn Fn(&[K]) -> Vec<Option<V>>| {
        for &n in sizes {
            let mut random = Random(n);
            // All keys in the middle are present.
            let only_present = |place: u64| {
                (longest / 3..longest / 3 * 2).contains(&place) || is_full && place % 5 != 3
            };
            let asked: Vec<u64> = (0..n)
                .map(|place| (place, random.below(2 * n_present)))
                .map(|(place, i)| if only_present(place) { i & !1 } else { i })
                .collect();
            let keys: Vec<K> = asked.iter().map(|&i| key(i)).collect();
            for (i, found) in asked.into_iter().zip(find_many(&keys)) {
                let expected = i.is_multiple_of(2).then(|| value(i / 2));
                assert_eq!(found, expected, "key {i} of {n}");
            }
        }
    };
    finds(&[63, 64, 127, 128, 129, longest], &|keys| {
        map.find_many(keys).unwrap()
    });
    let map = map.into_find_phase().unwrap();
    finds(&[65, 129], &|keys| map.find_many(keys).unwrap());
}

fn small(i: u64) -> u32 {
    u32::try_from(i).unwrap()
}

/// Some are longer than a slot.
fn text(i: u64) -> String {
    format!("{i:030} ").repeat(1 + usize::try_from(i % 4).unwrap())
}

/// Entries of each number of words, in slots that lie beside each other in a line and in blocks.
fn check_each_layout(world: &World, sizes: (usize, u64, u64)) {
    check(world, sizes, |i| i, |i| i + 1);
    check(world, sizes, small, |_| ());
    check(world, sizes, |i| [i; 2], |i| i);
    // A slot to a block, of a word each.
    check(world, sizes, u128::from, |i| i);
}

#[test]
fn long_batches_find_what_is_there_at_half_load() {
    everywhere(3, |world| check_each_layout(&world, (100, 50, 1500)));
}

#[test]
fn long_batches_find_texts_of_any_length() {
    everywhere(2, |world| check(&world, (60, 30, 1500), text, text));
}

#[test]
fn long_batches_find_what_is_there_where_searches_are_long() {
    everywhere(3, |world| {
        let sizes = (100, 90, 400);
        check_each_layout(&world, sizes);
        check(&world, sizes, small, small);
        check(&world, sizes, |i| i.to_le_bytes(), |_| ());
        check(&world, sizes, |i| [i; 3], small);
        check(&world, sizes, |i| i, |i| [i; 5]);
    });
}

/// A search for an absent key visits the whole table.
#[test]
fn long_batches_find_what_is_there_in_a_full_table() {
    everywhere(3, |world| check_each_layout(&world, (30, 30, 200)));
}

/// Records the order in which values were joined.
enum Follow {}

impl Combine<u64> for Follow {
    fn combine(there: u64, given: &u64) -> u64 {
        there.wrapping_mul(3).wrapping_add(*given)
    }
}

/// Several messages to each rank, with all of the keys in each.
#[test]
fn a_long_batch_joins_values_in_their_order_and_its_last_insert_of_a_key_stays() {
    const N_KEYS: u64 = 40;
    everywhere(3, |world| {
        let map = map::<u64, u64>(&world, 400);
        // For each rank in turn: a message that came too late would change another rank's values.
        for rank in world.ranks() {
            let entries: Vec<(u64, u64)> = (0..2000_u64)
                .map(|i| (i.wrapping_mul(i) % 1009 % N_KEYS, i))
                .collect();
            if world.rank() == rank {
                let n_new = map.upsert_many::<Follow>(&entries).unwrap();
                let mut joined = std::collections::BTreeMap::new();
                for (key, value) in &entries {
                    let join = |there: &mut u64| *there = Follow::combine(*there, value);
                    joined.entry(*key).and_modify(join).or_insert(*value);
                }
                assert_eq!(n_new, joined.len());
                let keys: Vec<u64> = joined.keys().copied().collect();
                let joined: Vec<_> = joined.into_values().map(Some).collect();
                assert_eq!(map.find_many(&keys).unwrap(), joined);
                assert_eq!(map.insert_many(&entries).unwrap(), 0);
                let last: std::collections::BTreeMap<u64, u64> = entries.into_iter().collect();
                let last: Vec<_> = last.into_values().map(Some).collect();
                assert_eq!(map.find_many(&keys).unwrap(), last);
                let keys: Vec<u64> = (0..2 * N_KEYS).chain(0..N_KEYS).collect();
                assert_eq!(map.remove_many(&keys).unwrap(), n_new);
                assert_eq!(map.find_many(&keys).unwrap(), vec![None; keys.len()]);
            }
            world.barrier().unwrap();
        }
        assert_eq!(map.len().unwrap(), 0);
    });
}

enum Never {}

impl Combine<u64> for Never {
    fn combine(_: u64, given: &u64) -> u64 {
        assert_ne!(*given, 13, "values that are not joined");
        *given
    }
}

#[test]
fn a_panic_where_another_rank_joins_values_is_one_of_who_asked_and_leaves_the_entry() {
    let served = loopback::Options::default().with_served_atomics();
    loopback::run_over(&served, 2, &Config::default(), |world| {
        pgas_am::attach(&world).unwrap();
        let map = map::<u64, u64>(&world, 1 << 10);
        if world.rank() == Rank::ZERO {
            let home = |key: &u64| {
                map.table
                    .shape
                    .ring
                    .home(Hash::of::<u64>(key, &RapidHasher))
            };
            let keys = (0..).filter(|key| home(key).member() == 1);
            let keys: Vec<u64> = keys.take(3).collect();
            let entries = |value| keys.iter().map(|&key| (key, value)).collect::<Vec<_>>();
            map.insert_many(&entries(5)).unwrap();
            let [a, b, c] = [(keys[0], 6), (keys[1], 13), (keys[2], 7)];
            let upsert = || map.upsert_many::<Never>(&[a, b, c]);
            let panic = catch_unwind(AssertUnwindSafe(upsert)).unwrap_err();
            let text = panic_text(&*panic);
            assert!(text.contains("values that are not joined"), "{text}");
            assert_eq!(map.find_many(&keys).unwrap(), [Some(6), Some(5), Some(5)]);
            assert_eq!(map.upsert_many::<Never>(&[a, c]).unwrap(), 0);
            assert_eq!(map.find_many(&keys).unwrap(), [Some(6), Some(5), Some(7)]);
        }
        world.barrier().unwrap();
    });
}

/// The calls of a program's functions.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The sum of two values. Counts its calls.
enum Counted {}

impl<const N: usize> Combine<[u64; N]> for Counted {
    fn combine(there: [u64; N], given: &[u64; N]) -> [u64; N] {
        CALLS.fetch_add(1, Ordering::Relaxed);
        std::array::from_fn(|i| there[i] + given[i])
    }
}

/// A text of 100 bytes. Counts how often one is written.
#[derive(Clone, Debug, PartialEq)]
struct Written(String);

enum Writes {}

impl Codec<Written> for Writes {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Written, out: &mut Encoder) -> crate::Result<()> {
        CALLS.fetch_add(1, Ordering::Relaxed);
        out.put(&value.0)
    }

    fn decode(input: &mut Decoder<'_>) -> crate::Result<Written> {
        input.get().map(Written)
    }
}

impl Wire for Written {
    type By = Writes;
}

impl Object for Written {
    type Repr = Encoded<28>;
}

/// While a slot is locked nothing of the program runs, also where steps are in flight: it might
/// panic, or wait for the slot.
#[test]
fn a_batch_calls_functions_of_the_program_once_for_each_value_that_they_meet() {
    fn check<const N: usize>(world: &World) {
        let map = map::<u64, [u64; N]>(world, 200);
        let entries: Vec<_> = (0..20_u64).map(|key| (key, [key; N])).collect();
        map.insert_many(&entries).unwrap();
        let before = CALLS.load(Ordering::Relaxed);
        assert_eq!(map.upsert_many::<Counted>(&entries).unwrap(), 0);
        assert_eq!(CALLS.load(Ordering::Relaxed) - before, 20);
        assert_eq!(map.find(&7).unwrap(), Some([14; N]));
    }
    everywhere(1, |world| {
        check::<1>(&world);
        check::<3>(&world);
        let map = map::<u64, Written>(&world, 200);
        let text = |n: u64| Written(format!("{n:100}"));
        for round in 0..2 {
            let entries: Vec<_> = (0..20).map(|key| (key, text(key + round))).collect();
            let before = CALLS.load(Ordering::Relaxed);
            map.insert_many(&entries).unwrap();
            assert_eq!(CALLS.load(Ordering::Relaxed) - before, 20);
            assert_eq!(map.find(&7).unwrap(), Some(text(7 + round)));
        }
    });
}

#[test]
fn long_batches_see_each_value_as_it_was_inserted_and_never_forget_it() {
    const N: u64 = 500;
    everywhere(2, |world| {
        let map = map::<u64, u64>(&world, 600);
        let keys: Vec<u64> = (0..N).collect();
        if world.rank() == Rank::ZERO {
            for key in &keys {
                map.insert(key, key + 1).unwrap();
            }
        } else {
            let mut before = vec![None; keys.len()];
            while before.contains(&None) {
                let now = map.find_many(&keys).unwrap();
                for ((key, before), now) in keys.iter().zip(&before).zip(&now) {
                    assert!(now.is_none_or(|value| value == key + 1), "{now:?}");
                    assert!(before.is_none() || now == before, "{key} was forgotten");
                }
                before = now;
            }
        }
        world.barrier().unwrap();
    });
}
