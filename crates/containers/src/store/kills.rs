//! Processes that save over a checkpoint until they are killed leave the former one or the new one.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pgas_core::backend::loopback;
use pgas_core::{Config, Rank};
use pgas_testkit::setting;
use tempfile::tempdir;

use crate::testing::Random;
use crate::{HashMap, MultiMap};

/// The directory of the process that will be killed.
const DIR: &str = "PGAS_TEST_KILLED_DIR";
const SAVED: &str = "saved ";
const N_KEYS: u64 = 300;

/// Saves one checkpoint over the other, each with another number in all its values, after `before`.
#[expect(clippy::print_stdout, reason = "it says how far it has come")]
fn save_for_ever(dir: &Path, before: u64) {
    let mut config = Config::default();
    config.segment_bytes = Some(4 << 20);
    let body = |world: pgas_core::World| {
        let map = HashMap::<u64, String>::with_capacity(&world, 1000).unwrap();
        for number in before + 1.. {
            let multi = MultiMap::<u64, u64>::with_capacity(&world, 1000).unwrap();
            for key in 0..N_KEYS {
                if key % 2 == u64::from(world.rank().number()) {
                    map.insert(&key, number.to_string()).unwrap();
                    multi.insert(&(key % 7), number).unwrap();
                }
            }
            map.save(dir.join("map")).unwrap();
            multi.save(dir.join("multi")).unwrap();
            if world.rank() == Rank::ZERO {
                println!("\n{SAVED}{number}");
            }
        }
    };
    pgas_smp::threads_with(2, &config, body).unwrap();
}

/// The number of the checkpoint that there is, whole.
fn loaded(dir: &Path) -> u64 {
    let world = loopback::world();
    let map = HashMap::<u64, String>::load(&world, dir.join("map")).unwrap();
    let multi = MultiMap::<u64, u64>::load(&world, dir.join("multi")).unwrap();
    let number = map.find(&0).unwrap().unwrap();
    assert_eq!(map.len().unwrap(), N_KEYS);
    map.for_each_local(|_, value| assert_eq!(value, number))
        .unwrap();
    let number: u64 = number.parse().unwrap();
    let values: Vec<u64> = (0..7).flat_map(|key| multi.find(&key).unwrap()).collect();
    assert_eq!(values.len() as u64, N_KEYS);
    // The multimap is saved after the map.
    assert!(values[0] == number || values[0] + 1 == number);
    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    number
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "how the process is told what it is"
)]
fn a_checkpoint_that_is_saved_over_is_there_whenever_the_process_is_killed() {
    if let Some(dir) = std::env::var_os(DIR) {
        let dir = Path::new(&dir);
        let is_there = dir.join("multi").join("manifest").exists();
        return save_for_ever(dir, if is_there { loaded(dir) } else { 0 });
    }
    let dir = tempdir().unwrap();
    let mut random = Random(3);
    for kill in 0..setting("PGAS_TEST_KILLS", 30) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("store::kills::a_checkpoint_that_is_saved_over_is_there_whenever_the_process_is_killed")
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        // Open until the process is killed, or it would end because nobody reads.
        let mut saves = out
            .lines()
            .filter_map(|line| line.unwrap().strip_prefix(SAVED).map(str::to_owned));
        let last = saves.by_ref().take(1 + random.index(2)).last();
        // Somewhere within the next saves.
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let last: u64 = last.unwrap().parse().unwrap();
        let there = loaded(dir.path());
        assert!(
            there >= last,
            "kill {kill}: {last} was saved, {there} is there"
        );
    }
    // Remains of incomplete checkpoints are gone after the next complete one.
    let world = loopback::world();
    let map = HashMap::<u64, String>::load(&world, dir.path().join("map")).unwrap();
    map.save(dir.path().join("map")).unwrap();
    let mut names = super::names(&dir.path().join("map")).unwrap();
    names.sort_unstable();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0], "manifest");
}
