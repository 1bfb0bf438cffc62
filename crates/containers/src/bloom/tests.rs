//! Tests of the filter over every transport that needs nothing installed.

use std::collections::HashSet;

use pgas_core::Rank;
use pgas_core::backend::loopback;
use proptest::prelude::*;

use super::*;
use crate::testing::{asked, everywhere, everywhere_counted, price, served_counted, told_apart};

fn filter<const WORDS: usize>(world: &World, n: usize, rate: f64) -> BloomFilter<u64, WORDS> {
    BloomFilter::with_rate(world, n, rate).unwrap()
}

#[test]
fn an_insert_costs_an_atomic_and_a_query_a_read() {
    everywhere_counted(1, |world| {
        let word = filter::<1>(&world, 1000, 0.01);
        assert_eq!(price(&world, || word.insert(&1).unwrap()), (0, 0, 1));
        assert_eq!(price(&world, || word.contains(&1).unwrap()), (1, 0, 0));
        let line = filter::<8>(&world, 1000, 0.01);
        let (reads, writes, atomics) = price(&world, || line.insert(&1).unwrap());
        assert_eq!((reads, writes), (0, 0));
        assert!((1..=u64::from(line.n_bits())).contains(&atomics));
        assert_eq!(price(&world, || line.contains(&1).unwrap()), (1, 0, 0));
    });
}

#[test]
fn where_ranks_serve_each_other_an_insert_is_a_message_and_a_batch_a_few() {
    served_counted(|world| {
        let filter = filter::<8>(&world, 10_000, 0.001);
        let other = Rank::new(1);
        if world.rank() == Rank::ZERO {
            let items = (0..).filter(|item| {
                filter.locate(object::hash_of(item).unwrap()).rank == other.number()
            });
            let items: Vec<u64> = items.take(1000).collect();
            assert_eq!(asked(&world, || filter.insert(&items[0]).unwrap()), 1);
            assert_eq!(
                asked(&world, || assert!(filter.insert(&items[0]).unwrap())),
                1
            );
            // A request has the number of a block and its 64 bytes. An answer has at most as many.
            let limit = 72_000_u64.div_ceil(world.capabilities().max_medium as u64 - 100);
            let twice = [&items[..], &items[..]].concat();
            let mut new = Vec::new();
            let n = asked(&world, || new = filter.insert_many(&twice).unwrap());
            // The last message of each of a few ways is not full.
            assert!((1..=2 * limit + 8).contains(&n), "{n} messages");
            // The first item was there before. Errors of the filter are rare.
            assert!(new[0] && new[1..1000].iter().filter(|there| **there).count() < 20);
            assert!(new[1000..].iter().all(|there| *there));
            let mut there = Vec::new();
            let n = asked(&world, || there = filter.contains_many(&items).unwrap());
            assert!((1..=2 * limit).contains(&n), "{n} messages");
            assert_eq!(there, [true; 1000]);
        }
        world.barrier().unwrap();
    });
}

#[test]
fn what_any_rank_inserted_is_found_by_all() {
    fn check<const WORDS: usize>(world: &World) {
        let filter = filter::<WORDS>(world, 600, 0.02);
        let me = u64::from(world.rank().number());
        for i in 0..200 {
            filter.insert(&(1000 * me + i)).unwrap();
        }
        world.barrier().unwrap();
        for i in 0..600 {
            assert!(filter.contains(&(i / 200 * 1000 + i % 200)).unwrap());
        }
        filter.clear().unwrap();
        assert!((0..600).all(|i| !filter.contains(&i).unwrap()));
        world.barrier().unwrap();
    }
    everywhere(3, |world| {
        check::<1>(&world);
        check::<8>(&world);
    });
}

#[test]
fn a_batch_tells_of_each_item_what_single_calls_tell() {
    fn check<const WORDS: usize>(world: &World) {
        let [single, batch] = [(); 2].map(|()| filter::<WORDS>(world, 300, 0.02));
        let me = u64::from(world.rank().number());
        // Some items come twice, in one batch and in two. Some batches are longer than the prefetch
        // distance.
        for n in [0, 1, 31, 32, 33, 100] {
            let items: Vec<u64> = (0..n).map(|i| 1000 * me + i * i % 37 + n / 2).collect();
            if world.rank() == Rank::ZERO {
                let one_by_one = items.iter().map(|item| single.insert(item).unwrap());
                let one_by_one: Vec<bool> = one_by_one.collect();
                assert_eq!(batch.insert_many(&items).unwrap(), one_by_one, "{n}");
            }
            world.barrier().unwrap();
            let one_by_one = items.iter().map(|item| single.contains(item).unwrap());
            let one_by_one: Vec<bool> = one_by_one.collect();
            assert_eq!(batch.contains_many(&items).unwrap(), one_by_one, "{n}");
            world.barrier().unwrap();
        }
    }
    everywhere(2, |world| {
        check::<1>(&world);
        check::<8>(&world);
    });
}

#[test]
fn of_all_ranks_that_insert_an_item_one_is_told_that_it_is_new() {
    everywhere(4, |world| {
        let filter = filter::<1>(&world, 100_000, 0.000_001);
        let is_new = |i: u64| u64::from(!filter.insert(&i).unwrap());
        let mut new: Vec<u64> = (0..300).map(is_new).collect();
        let items: Vec<u64> = (300..600).collect();
        let were_there = filter.insert_many(&items).unwrap().into_iter();
        new.extend(were_there.map(|was_there| u64::from(!was_there)));
        world
            .team()
            .allreduce_slice(&mut new, |a: u64, b| a + b)
            .unwrap();
        assert!(new.iter().all(|&n| n == 1), "{new:?}");
    });
}

fn measured_rate<const WORDS: usize>(rate: f64) {
    const N: u64 = 20_000;
    let world = loopback::world();
    let filter = filter::<WORDS>(&world, 20_000, rate);
    for item in 0..N {
        filter.insert(&item).unwrap();
    }
    // Enough queries for two thousand errors, whose scatter is 2 %.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count"
    )]
    let n_queries = (2000.0 / rate) as u64;
    let found = |item: &u64| filter.contains(&(item + (1 << 40))).unwrap();
    let n_found = (0..n_queries).filter(found).count();
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let measured = n_found as f64 / n_queries as f64;
    let ratio = measured / filter.rate();
    assert!(
        (0.9..1.1).contains(&ratio),
        "{measured} beside {} for {WORDS} words",
        filter.rate()
    );
    assert!(filter.rate() <= rate * 1.0001);
}

#[test]
fn the_measured_rate_is_that_of_theory() {
    measured_rate::<1>(0.1);
    measured_rate::<1>(0.01);
    measured_rate::<8>(0.05);
    measured_rate::<8>(0.005);
}

#[test]
fn all_bits_of_a_block_are_used_alike() {
    let mut counts = [0_u32; 64];
    for i in 0..10_000_u64 {
        let [mask] = mask::<1>(mix(i), 4);
        assert!((1..=4).contains(&mask.count_ones()));
        for (bit, count) in counts.iter_mut().enumerate() {
            *count += u32::from(mask >> bit & 1 == 1);
        }
    }
    assert!(
        counts.iter().all(|count| (500..760).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn items_of_any_type_are_found_by_what_they_are() {
    everywhere(2, |world| {
        let filter = BloomFilter::<(u8, String)>::with_rate(&world, 100, 0.001).unwrap();
        let long = "long ".repeat(100);
        if world.rank() == Rank::ZERO {
            assert!(!filter.insert(&(1, long.clone())).unwrap());
        }
        world.barrier().unwrap();
        assert!(filter.contains(&(1, long.clone())).unwrap());
        assert!(!filter.contains(&(2, long)).unwrap());
        world.barrier().unwrap();
    });
}

#[test]
fn bad_arguments_are_errors_on_every_rank_that_name_the_values() {
    everywhere(2, |world| {
        let refused = |n, rate| {
            BloomFilter::<u64>::with_rate(&world, n, rate)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(0, 0.01).contains("with 0 items"));
        for rate in [0.0, 1.0, -1.0, f64::NAN, 1e-300] {
            assert!(
                refused(10, rate).contains(&format!("a rate of {rate:?}")),
                "{rate}"
            );
        }
        assert!(refused(10, 1e-300).contains("a rate of 1e-300 with"));
        let mine = 10 + world.rank().index();
        assert!(refused(mine, 0.1).contains("rank 0 has 10, rank 1 has 11"));
    });
}

/// Whose mathematical functions are not bit for bit the same.
#[test]
fn ranks_that_compute_different_shapes_take_one_of_them() {
    everywhere(3, |world| {
        let n_blocks = [100, 101, 100][world.rank().index()];
        let rate = 0.25 - 1.0 / f64::from(u32::try_from(n_blocks).unwrap());
        let (n_bits, n) = (16, 10);
        let mine = theory::Shape {
            n_bits,
            n_blocks,
            rate,
        };
        let words = wish(n, 0.5, Some(mine));
        let [_, _, of_shape, of_rate] = extremes(&world.team(), words).unwrap();
        let agreed = agreed_shape(of_shape, of_rate).unwrap();
        assert_eq!((agreed.n_bits, agreed.n_blocks), (16, 101));
        assert!(agreed.rate == 0.25 - 1.0 / 101.0);
    });
    assert_eq!(
        agreed_shape([(Rank::ZERO, 0); 2], [(Rank::ZERO, 0); 2]),
        None
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn an_item_that_was_inserted_is_found(items in prop::collection::hash_set(any::<u64>(), 1..200)) {
        let world = loopback::world();
        let filter = filter::<1>(&world, items.len(), 0.01);
        let mut model = HashSet::new();
        for item in &items {
            // If the filter says that an item is new, it is. Only the other answer may be wrong.
            if !filter.insert(item).unwrap() {
                prop_assert!(model.insert(*item));
            }
        }
        for item in &items {
            prop_assert!(filter.contains(item).unwrap());
        }
    }
}

#[test]
fn methods_of_different_filters_are_told_apart() {
    told_apart("the object of a clear of a filter", |world| {
        let filters = [(); 2].map(|()| filter::<1>(&world, 50, 0.01));
        filters[world.rank().index()].clear()
    });
}

#[test]
fn different_rates_are_told_as_numbers() {
    everywhere(2, |world| {
        let rate = [0.25, 1e-9][world.rank().index()];
        let error = BloomFilter::<u64>::with_rate(&world, 10, rate).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("has 0.25") && text.contains("has 1e-9"),
            "{text}"
        );
    });
}
