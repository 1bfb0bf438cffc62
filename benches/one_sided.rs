//! Put, get and atomics of eight bytes at random places of a peer's 1 GiB, and long transfers. Each
//! is compared with the same loop on raw pointers into the same memory.
#![expect(unsafe_code, reason = "the floor is a loop on raw pointers")]

mod support;

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use pgas::{GlobalPtr, Rank, Symmetric, World};

/// Words in 1 GiB, or a few if nothing is measured.
fn n_words() -> usize {
    if support::is_smoke_test() {
        1 << 16
    } else {
        1 << 27
    }
}

/// Accesses of one iteration.
const BATCH: usize = 4096;

fn main() {
    support::two_ranks(measure, |world| drop(memory(world)));
}

/// 1 GiB on each rank, with all pages touched, and the pointer to rank 1's memory.
fn memory(world: &World) -> (Symmetric<u64>, GlobalPtr<u64>) {
    let n_words = n_words();
    let array = world.alloc_symmetric::<u64>(n_words).expect("1 GiB a rank");
    let page = [1_u64; 512];
    for at in (0..n_words).step_by(512) {
        array
            .here()
            .add(at)
            .put_slice(world, &page)
            .expect("shared memory");
    }
    world.barrier().expect("both ranks touch their memory");
    let peer = array.on(Rank::new(1));
    (array, peer)
}

fn measure(world: &World, criterion: &mut Criterion) {
    let (array, peer) = memory(world);
    let base = peer.local(world).expect("ranks of one host are direct");
    let places = places(n_words());
    eight_bytes(world, criterion, peer, base, &places);
    bulk(world, criterion, peer, base);
    drop(array);
}

/// Random indices, by a fixed generator (splitmix64).
fn places(n_words: usize) -> Vec<usize> {
    let mut state = 42_u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..BATCH * 64)
        .map(|_| usize::try_from(next()).expect("64 bits") % n_words)
        .collect()
}

/// Word `i` after `base`, for the raw loops.
fn word(base: NonNull<u64>, i: usize) -> &'static AtomicU64 {
    // SAFETY: every index is below the length of the allocation behind `base`.
    let at = unsafe { base.add(i) };
    // SAFETY: it is mapped and aligned, lives as long as the job, and is accessed atomically only.
    unsafe { AtomicU64::from_ptr(at.as_ptr()) }
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// Measures `raw` and `ours` on the same places, one after the other.
fn pair(
    group: &mut Group<'_>,
    name: &str,
    places: &[usize],
    mut raw: impl FnMut(usize) -> u64,
    mut ours: impl FnMut(usize) -> u64,
) {
    let mut chunks = places.chunks(BATCH).cycle();
    let mut other = places.chunks(BATCH).rev().cycle();
    support::paired(
        name,
        BATCH,
        || {
            let chunk = other.next().expect("it cycles");
            black_box(
                chunk
                    .iter()
                    .fold(0, |sum: u64, &i| sum.wrapping_add(raw(i))),
            );
        },
        || {
            let chunk = chunks.next().expect("it cycles");
            black_box(
                chunk
                    .iter()
                    .fold(0, |sum: u64, &i| sum.wrapping_add(ours(i))),
            );
        },
    );
    let mut next = || chunks.next().expect("it cycles");
    group.bench_function(BenchmarkId::new(name, "raw"), |bencher| {
        bencher.iter(|| {
            next()
                .iter()
                .fold(0, |sum: u64, &i| sum.wrapping_add(raw(i)))
        });
    });
    group.bench_function(BenchmarkId::new(name, "pgas"), |bencher| {
        bencher.iter(|| {
            next()
                .iter()
                .fold(0, |sum: u64, &i| sum.wrapping_add(ours(i)))
        });
    });
}

fn eight_bytes(
    world: &World,
    criterion: &mut Criterion,
    peer: GlobalPtr<u64>,
    base: NonNull<u64>,
    places: &[usize],
) {
    let mut group = criterion.benchmark_group("one_sided/8_bytes");
    group.throughput(Throughput::Elements(BATCH as u64));
    pair(
        &mut group,
        "get",
        places,
        |i| word(base, i).load(Ordering::Relaxed),
        |i| peer.add(i).get(world).expect("direct"),
    );
    pair(
        &mut group,
        "put",
        places,
        |i| {
            word(base, i).store(i as u64, Ordering::Relaxed);
            0
        },
        |i| {
            peer.add(i).put(world, i as u64).expect("direct");
            0
        },
    );
    pair(
        &mut group,
        "fetch_add",
        places,
        |i| word(base, i).fetch_add(1, Ordering::Relaxed),
        |i| peer.add(i).fetch_add(world, 1).expect("direct"),
    );
    pair(
        &mut group,
        "compare_exchange",
        places,
        |i| {
            word(base, i)
                .compare_exchange(1, 2, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
                .into()
        },
        |i| {
            peer.add(i)
                .compare_exchange(world, 1, 2)
                .expect("direct")
                .is_ok()
                .into()
        },
    );
    group.finish();
}

fn bulk(world: &World, criterion: &mut Criterion, peer: GlobalPtr<u64>, base: NonNull<u64>) {
    let mut group = criterion.benchmark_group("one_sided/bulk");
    for bytes in [64, 256, 1024, 4096, 65_536, 1 << 20, 64 << 20] {
        let n = bytes / 8;
        let mut private = vec![7_u64; n];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("put/memcpy", bytes), |bencher| {
            // SAFETY: both ranges have `n` words, and nobody else accesses them during the bench.
            bencher.iter(|| unsafe {
                base.as_ptr()
                    .copy_from_nonoverlapping(black_box(&private).as_ptr(), n);
            });
        });
        group.bench_function(BenchmarkId::new("put/pgas", bytes), |bencher| {
            bencher.iter(|| peer.put_slice(world, black_box(&private)).expect("direct"));
        });
        group.bench_function(BenchmarkId::new("get/memcpy", bytes), |bencher| {
            // SAFETY: as above.
            bencher.iter(|| unsafe {
                black_box(&mut private)
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(base.as_ptr(), n);
            });
        });
        group.bench_function(BenchmarkId::new("get/pgas", bytes), |bencher| {
            bencher.iter(|| {
                peer.get_slice(world, black_box(&mut private))
                    .expect("direct");
            });
        });
    }
    group.finish();
}
