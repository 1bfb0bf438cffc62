//! The hash map over the memory of two ranks, one operation at a time and in batches, compared with
//! `hashbrown` in one process.
//!
//! 2^24 slots, half of them full, with keys and values of eight bytes.

mod support;

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput};
use pgas::{HashMap, World};

/// Keys of one iteration.
const BATCH: usize = 4096;

fn n_slots() -> usize {
    if support::is_smoke_test() {
        1 << 15
    } else {
        1 << 24
    }
}

fn main() {
    support::two_ranks(measure, |world| {
        for _ in 0..2 * N_FILLS {
            drop(table(world));
        }
        drop(table(world));
    });
}

/// Tables that are filled for the measurement.
const N_FILLS: usize = 3;

fn table(world: &World) -> HashMap<u64, u64> {
    HashMap::with_capacity(world, n_slots()).expect("memory for the table")
}

/// Distinct random keys, by a fixed generator (splitmix64, which is a permutation).
fn keys(n: usize) -> Vec<u64> {
    let mix = |i: u64| {
        let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (1..=n as u64).map(mix).collect()
}

fn measure(world: &World, criterion: &mut Criterion) {
    let n = n_slots() / 2;
    let keys = keys(n);
    let entries: Vec<(u64, u64)> = keys.iter().map(|&key| (key, key)).collect();
    for _ in 0..N_FILLS {
        fill("insert of new keys", world, &entries, |ours| {
            for (key, value) in &entries {
                ours.insert(key, *value).expect("half the slots stay free");
            }
        });
        fill("insert_many of new keys", world, &entries, |ours| {
            for batch in entries.chunks(BATCH) {
                ours.insert_many(batch).expect("half the slots stay free");
            }
        });
    }
    let ours = table(world);
    ours.insert_many(&entries).expect("half the slots are free");
    let theirs: hashbrown::HashMap<u64, u64> = entries.iter().copied().collect();

    // The same keys, in a different order.
    let mut asked: Vec<u64> = keys;
    asked.sort_unstable_by_key(|key| key.rotate_left(32));
    finds(criterion, &ours, &theirs, &asked);
    updates(criterion, &ours, theirs, &asked);
}

/// New keys into empty tables. The first touch of a page is a part of the cost on both sides.
fn fill(
    name: &str,
    world: &World,
    entries: &[(u64, u64)],
    insert_all: impl FnOnce(&HashMap<u64, u64>),
) {
    let ours = table(world);
    let per_key = |start: Instant| {
        #[expect(clippy::cast_precision_loss, reason = "a count of keys")]
        let n = entries.len() as f64;
        start.elapsed().as_secs_f64() * 1e9 / n
    };
    let start = Instant::now();
    insert_all(&ours);
    let ours = per_key(start);
    let start = Instant::now();
    let mut theirs = hashbrown::HashMap::<u64, u64>::with_capacity(entries.len());
    for (key, value) in entries {
        theirs.insert(*key, *value);
    }
    black_box(&theirs);
    let theirs = per_key(start);
    support::report(name, theirs, ours, ours / theirs);
}

fn finds(
    criterion: &mut Criterion,
    ours: &HashMap<u64, u64>,
    theirs: &hashbrown::HashMap<u64, u64>,
    asked: &[u64],
) {
    let mut chunks = asked.chunks_exact(BATCH).cycle();
    let mut next = || chunks.next().expect("it cycles");
    let single = |chunk: &[u64]| {
        let found = chunk
            .iter()
            .filter_map(|key| ours.find(key).expect("direct"));
        black_box(found.fold(0, u64::wrapping_add));
    };
    let mut values = vec![None; BATCH];
    let mut batched = |chunk: &[u64]| {
        ours.find_many_into(chunk, &mut values).expect("direct");
        black_box(&values);
    };
    let floor = |chunk: &[u64]| {
        let found = chunk.iter().filter_map(|key| theirs.get(key).copied());
        black_box(found.fold(0, u64::wrapping_add));
    };
    let mut other = asked.chunks_exact(BATCH).rev().cycle();
    let mut far = || other.next().expect("it cycles");
    support::paired(
        "find beside hashbrown",
        BATCH,
        || floor(next()),
        || single(far()),
    );
    support::paired(
        "find_many beside hashbrown",
        BATCH,
        || floor(next()),
        || batched(far()),
    );
    support::paired(
        "find_many beside find",
        BATCH,
        || single(next()),
        || batched(far()),
    );

    other_finds(ours, theirs, asked);

    let mut group = criterion.benchmark_group("hash_map/find");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function(BenchmarkId::from_parameter("hashbrown"), |b| {
        b.iter(|| floor(next()));
    });
    group.bench_function(BenchmarkId::from_parameter("single"), |b| {
        b.iter(|| single(next()));
    });
    group.bench_function(BenchmarkId::from_parameter("batched"), |b| {
        b.iter(|| batched(next()));
    });
    group.finish();
}

/// Finds that the processor cannot overlap by itself: a mispredicted branch, or a key that depends
/// on the previous find, makes it wait for memory.
fn other_finds(ours: &HashMap<u64, u64>, theirs: &hashbrown::HashMap<u64, u64>, asked: &[u64]) {
    let mut values = vec![None; BATCH];
    let mut batched = |chunk: &[u64]| {
        ours.find_many_into(chunk, &mut values).expect("direct");
        black_box(&values);
    };
    let single = |chunk: &[u64]| {
        let found = chunk
            .iter()
            .filter_map(|key| ours.find(key).expect("direct"));
        black_box(found.fold(0, u64::wrapping_add));
    };
    let floor = |chunk: &[u64]| {
        let found = chunk.iter().filter_map(|key| theirs.get(key).copied());
        black_box(found.fold(0, u64::wrapping_add));
    };
    let chained = |chunk: &[u64]| {
        let mut last = 0;
        for key in chunk {
            let key = black_box(key ^ last) ^ last;
            last = ours.find(&key).expect("direct").unwrap_or(0);
        }
        black_box(last);
    };
    // Half of these keys are in the table, in an unpredictable order.
    let mut mixed = asked.to_vec();
    for key in &mut mixed {
        if key.count_ones() % 2 == 0 {
            *key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    let mut chunks = mixed.chunks_exact(BATCH).cycle();
    let mut next = || chunks.next().expect("it cycles");
    let mut other = mixed.chunks_exact(BATCH).rev().cycle();
    let mut far = || other.next().expect("it cycles");
    support::paired(
        "find beside hashbrown, half of the keys absent",
        BATCH,
        || floor(next()),
        || single(far()),
    );
    support::paired(
        "find_many beside find, half of the keys absent",
        BATCH,
        || single(next()),
        || batched(far()),
    );
    let mut chunks = asked.chunks_exact(BATCH).cycle();
    let mut next = || chunks.next().expect("it cycles");
    let mut other = asked.chunks_exact(BATCH).rev().cycle();
    let mut far = || other.next().expect("it cycles");
    support::paired(
        "find_many beside finds that wait for each other",
        BATCH,
        || chained(next()),
        || batched(far()),
    );
}

fn updates(
    criterion: &mut Criterion,
    ours: &HashMap<u64, u64>,
    mut theirs: hashbrown::HashMap<u64, u64>,
    asked: &[u64],
) {
    let mut chunks = asked.chunks_exact(BATCH).cycle();
    let mut next = || chunks.next().expect("it cycles");
    let single = |chunk: &[u64]| {
        for key in chunk {
            ours.fetch_add(key, 1).expect("direct");
        }
    };
    let batched = |chunk: &[u64]| {
        ours.add_many(chunk, 1).expect("direct");
    };
    let mut floor = |chunk: &[u64]| {
        for key in chunk {
            *theirs.entry(*key).or_insert(0) += 1;
        }
    };
    let mut other = asked.chunks_exact(BATCH).rev().cycle();
    let mut far = || other.next().expect("it cycles");
    support::paired(
        "fetch_add beside hashbrown",
        BATCH,
        || floor(next()),
        || single(far()),
    );
    support::paired(
        "add_many beside hashbrown",
        BATCH,
        || floor(next()),
        || batched(far()),
    );

    let mut group = criterion.benchmark_group("hash_map/add");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function(BenchmarkId::from_parameter("hashbrown"), |b| {
        b.iter(|| floor(next()));
    });
    group.bench_function(BenchmarkId::from_parameter("single"), |b| {
        b.iter(|| single(next()));
    });
    group.bench_function(BenchmarkId::from_parameter("batched"), |b| {
        b.iter(|| batched(next()));
    });
    group.finish();
}
