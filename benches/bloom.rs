//! Bloom filters over the memory of two ranks, compared with loops that set or test as many bits at
//! random places of one process's memory.
//!
//! 2^20 items at a false positive rate of 1 %. Both ranks do the same, and rank 0 reports.

mod support;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas::{BloomFilter, World};

fn main() {
    support::two_ranks(|world, _| all(world, true), |world| all(world, false));
}

fn n_items() -> usize {
    if support::is_smoke_test() {
        1 << 10
    } else {
        1 << 20
    }
}

const N_ROUNDS: usize = 7;

fn all(world: &World, reports: bool) {
    let items: Vec<u64> = (0..n_items() as u64)
        .map(|i| mix(2 * i + u64::from(world.rank().number())))
        .collect();
    filter::<1>(world, reports, &items, "blocks of a word");
    filter::<8>(world, reports, &items, "blocks of a cache line");
}

fn filter<const WORDS: usize>(world: &World, reports: bool, items: &[u64], what: &str) {
    let n = world.ranks().len() * items.len();
    let ours = BloomFilter::<u64, WORDS>::with_rate(world, n, 0.01).expect("memory");
    let n_words = usize::try_from(ours.bytes() / 8).expect("it lies in memory");
    let floor: Vec<AtomicU64> = (0..n_words.next_power_of_two())
        .map(|_| AtomicU64::new(0))
        .collect();
    let word = |item: u64| &floor[usize::try_from(item).expect("64 bits") & (floor.len() - 1)];
    let mut rounds = Vec::new();
    for _ in 0..N_ROUNDS {
        ours.clear().expect("the other rank comes");
        let bare_insert = time(world, items, |item| {
            black_box(word(item).fetch_or(item | 1, Ordering::AcqRel));
        });
        let insert = time(world, items, |item| {
            black_box(ours.insert(&item).expect("direct"));
        });
        let bare_find = time(world, items, |item| {
            black_box(word(item).load(Ordering::Relaxed) & item == item);
        });
        let find = time(world, items, |item| {
            black_box(ours.contains(&item).expect("direct"));
        });
        // Clear the filter for the batches.
        ours.clear().expect("the other rank comes");
        let insert_many = time_all(world, items, || {
            black_box(ours.insert_many(items).expect("direct"));
        });
        let find_many = time_all(world, items, || {
            black_box(ours.contains_many(items).expect("direct"));
        });
        rounds.push([bare_insert, insert, bare_find, find, insert_many, find_many]);
    }
    let median = |which: usize| {
        let mut times: Vec<f64> = rounds.iter().map(|round| round[which]).collect();
        times.sort_by(f64::total_cmp);
        times[N_ROUNDS / 2]
    };
    if reports {
        for (name, floor, ours) in [
            ("insert", 0, 1),
            ("insert_many", 0, 4),
            ("contains", 2, 3),
            ("contains_many", 2, 5),
        ] {
            let (floor, ours) = (median(floor), median(ours));
            support::report(
                &format!("Bloom filter, {what}, {name}"),
                floor,
                ours,
                ours / floor,
            );
        }
    }
}

/// Nanoseconds an item of `run`. All ranks begin together.
fn time(world: &World, items: &[u64], mut run: impl FnMut(u64)) -> f64 {
    time_all(world, items, || items.iter().for_each(|&item| run(item)))
}

/// The same for a function that handles all items.
fn time_all(world: &World, items: &[u64], run: impl FnOnce()) -> f64 {
    world.barrier().expect("the other rank comes");
    let start = support::time_on_processor();
    run();
    #[expect(clippy::cast_precision_loss, reason = "a count of items")]
    let per_item = 1e9 / items.len() as f64;
    (support::time_on_processor() - start) * per_item
}

fn mix(i: u64) -> u64 {
    let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
