//! Jobs of more ranks than processors, where no rank reaches the memory of another one: whether an
//! operation takes as long with many ranks as with two.
//!
//! All ranks work at once. The number of operations of all ranks together is the same in each job.
//! So without a loss each job takes as long as that of two ranks, which is the floor here.

use std::hint::black_box;
use std::time::Instant;

use pgas_containers::HashMap;
use pgas_core::{Config, Rank, Statistics, World};
use serde_json::{Value, json};

use crate::measure::{is_smoke_test, median, tell_row};

/// The number of ranks of each job. The first job is the floor of the others.
pub(crate) fn sizes() -> &'static [u32] {
    if is_smoke_test() {
        &[2, 4]
    } else {
        &[2, 4, 8, 16, 64]
    }
}

/// Keys in a batch.
const BATCH: usize = 1 << 10;

/// Measures as one of the ranks. Rank 0 prints the figures.
pub(crate) fn measure(wanted: &[String]) {
    let mut config = Config::from_env().expect("usable settings");
    config.statistics = Statistics::Off;
    config.segment_bytes = Some(16 << 20);
    let world = pgas_mpi::init(&config).expect("ranks over MPI");
    pgas_am::attach(&world).expect("once for a world");
    let n = if is_smoke_test() { 1 << 8 } else { 1 << 14 };
    let map = HashMap::<u64, u64>::with_capacity(&world, 2 * n).expect("room");
    let keys: Vec<u64> = (0..n as u64).collect();
    let (n_ranks, here) = (world.n_ranks() as usize, world.rank().index());
    let own: Vec<u64> = keys.iter().copied().skip(here).step_by(n_ranks).collect();
    let entries: Vec<(u64, u64)> = own.iter().map(|key| (*key, !key)).collect();
    map.insert_many(&entries).expect("room");
    let rows: [(&str, usize, &dyn Fn()); 3] = [
        ("find", n, &|| {
            for key in &own {
                assert_eq!(map.find(key).expect("no error"), Some(!key));
            }
        }),
        ("fetch_add", n, &|| {
            for key in &own {
                black_box(map.fetch_add(key, 0).expect("no error"));
            }
        }),
        ("find_many", 16 * n, &|| {
            // A part of the keys, of the same length on each rank.
            let mut left = 16 * n / n_ranks;
            let mut at = here * left;
            while left > 0 {
                let len = left.min(BATCH).min(n - at % n);
                let sought = &keys[at % n..][..len];
                let found = map.find_many(sought).expect("no error");
                assert_eq!(found[0], Some(!sought[0]));
                (left, at) = (left - len, at + len);
            }
        }),
    ];
    for (name, n, row) in rows {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            compare(&world, name, n, row);
        }
    }
    world.barrier().expect("all live");
}

fn compare(world: &World, name: &str, n: usize, row: &dyn Fn()) {
    let mut rounds = Vec::new();
    for _ in 0..if is_smoke_test() { 2 } else { 6 } {
        world.barrier().expect("all live");
        let start = Instant::now();
        row();
        world.barrier().expect("all live");
        rounds.push(start.elapsed().as_secs_f64());
    }
    if world.rank() == Rank::ZERO {
        #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
        let each = 1e9 / n as f64;
        let name = format!("{name}, {} ranks", world.n_ranks());
        // The first one warms up and is not counted.
        let figures =
            json!({ "name": name, "n": n, "pgas_ns": median(rounds.split_off(1)) * each });
        tell_row(&figures);
    }
}

/// Adds the floor to the rows of a job: the figures of the first job, in the same order.
pub(crate) fn beside(first: &[Value], rows: &mut [Value]) {
    for (row, floor) in rows.iter_mut().zip(first) {
        let number = |row: &Value| row["pgas_ns"].as_f64().unwrap_or(f64::NAN);
        let (ours, floor) = (number(row), number(floor));
        row["floor_ns"] = json!(floor);
        row["ratio"] = json!(ours / floor);
    }
}
