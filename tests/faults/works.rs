//! Resizing, saving and loading tell who watches the job how far they are.

use std::path::Path;

use libtest_mimic::Trial;
use pgas::{HashMap, World};
use pgas_smp::Observer;

use crate::jobs::{WATCHED, assert_well, start};
use crate::trial;

const N_RANKS: u32 = 2;
const N_KEYS: u64 = 1000;

pub(crate) fn trials() -> Vec<Trial> {
    let all_told = || {
        for way in WATCHED {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().to_str().unwrap();
            assert_well(&start(way, N_RANKS, &["works", path], &[]).end());
        }
    };
    vec![trial("works::told", all_told)]
}

/// Resizes, saves and loads a map, and looks at what it has told of each.
pub(crate) fn rank_that_works(world: &World, directory: &str) {
    let saved = Path::new(directory).join("counts");
    let mut map = HashMap::<u64, u64>::with_capacity(world, 1).unwrap();
    map.resize(usize::try_from(4 * N_KEYS).unwrap()).unwrap();
    let n_ranks = u64::from(world.n_ranks());
    let keys = (0..N_KEYS).filter(|key| key % n_ranks == u64::from(world.rank().number()));
    for key in keys {
        map.insert(&key, key).unwrap();
    }
    world.barrier().unwrap();
    map.resize(usize::try_from(8 * N_KEYS).unwrap()).unwrap();
    let [number, n_slots] = last_work(world, "resizing a hash map");
    assert!(number == 1 && n_slots * n_ranks >= 4 * N_KEYS, "{n_slots}");
    map.save(&saved).unwrap();
    let [number, n_saved] = last_work(world, "saving counts");
    assert_eq!(number, 2);
    let all = world.allreduce(n_saved, |a, b| a + b).unwrap();
    assert_eq!(all, N_KEYS);
    let loaded = HashMap::<u64, u64>::load(world, &saved).unwrap();
    let [number, n_loaded] = last_work(world, "loading counts");
    assert_eq!((number, loaded.len().unwrap()), (3, N_KEYS));
    assert!(n_loaded > 0);
}

/// The number of this rank's last work, and how much of it was done, as who watches the job reads
/// it.
#[track_caller]
fn last_work(world: &World, what: &str) -> [u64; 2] {
    let observer = Observer::of_process(std::process::id()).unwrap();
    let seen = observer.expect("the job's memory").look().unwrap();
    let mut lives = seen.into_iter().filter_map(|seen| seen.live);
    let own = lives.find(|live| live.rank == world.rank().number());
    let work = own.unwrap().work.unwrap();
    assert_eq!((work.what.as_str(), work.is_over), (what, true), "{work:?}");
    assert_eq!(work.done, work.total, "{work:?}");
    [work.number, work.done]
}
