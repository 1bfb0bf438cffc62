//! The phases of containers in traces.

use std::fs;
use std::path::Path;

use pgas_containers::array::Distribution;
use pgas_containers::{CircularQueue, DArray, DMatrix, HashMap};
use pgas_core::backend::loopback;
use pgas_core::trace::{EVENT_BYTES, HEADER_BYTES, Kind};
use pgas_core::{Config, Rank};

/// The phases in a rank's trace, in order: the name, and whether the phase begins there.
fn phases(directory: &Path, rank: u32) -> Vec<(String, bool)> {
    let names = fs::read_to_string(directory.join(format!("rank-{rank}.names"))).unwrap();
    let trace = fs::read(directory.join(format!("rank-{rank}.trace"))).unwrap();
    let phase = |event: &[u8]| {
        let begins = match Kind::of(event[8])? {
            Kind::Phase => true,
            Kind::PhaseEnd => false,
            _ => return None,
        };
        let start = format!("{}\t", u16::from_le_bytes([event[10], event[11]]));
        let name = names.lines().find_map(|line| line.strip_prefix(&start))?;
        let (name, at) = name.split_once('@').unwrap();
        assert!(at.contains("traced_phases.rs:"), "{at}");
        Some((name.to_owned(), begins))
    };
    let events = trace[HEADER_BYTES..].chunks_exact(EVENT_BYTES);
    events.filter_map(phase).collect()
}

#[test]
fn traces_show_the_phases_of_containers_until_these_are_dropped() {
    let directory = std::env::temp_dir().join(format!("pgas-phases-{}", std::process::id()));
    let mut config = Config::default();
    config.trace = Some(directory.display().to_string());
    loopback::run_with(2, &config, |world| {
        let map = HashMap::<u64, u64>::with_capacity(&world, 10).unwrap();
        let mut map = map.into_find_phase().unwrap();
        map.resize(100).unwrap();
        drop(map.into_local_phase().unwrap());
        let queue = CircularQueue::<u64>::with_capacity(&world, Rank::ZERO, 10).unwrap();
        drop(queue.into_pop_phase().unwrap());
        let array = DArray::<u64>::new(&world, 10, Distribution::Cyclic, &0).unwrap();
        drop(array.into_local().unwrap().into_shared().unwrap());
        let matrix = DMatrix::<u64>::new(&world, [4, 4], [2, 2], 0).unwrap();
        drop(matrix.into_local().unwrap().into_shared().unwrap());
    });
    let expected = [
        "hash map: atomic",
        "hash map: find only",
        "hash map: local",
        "queue: push and pop",
        "queue: pop",
        "array: local",
        "matrix: local",
    ];
    let both = |name: &&str| [((*name).to_owned(), true), ((*name).to_owned(), false)];
    let expected: Vec<_> = expected.iter().flat_map(both).collect();
    for rank in 0..2 {
        assert_eq!(phases(&directory, rank), expected, "rank {rank}");
    }
    fs::remove_dir_all(directory).unwrap();
}
