//! What traces tell of collectives.

use std::fs;

use crate::backend::loopback;
use crate::trace::Kind;
use crate::{Config, Rank};

/// The bytes of an element.
const SIZE: usize = size_of::<u64>();

/// The bytes of the collectives in the trace in `directory` of `rank`, one after the other.
fn traced_bytes(directory: &str, rank: Rank) -> Vec<usize> {
    let bytes = fs::read(format!("{directory}/rank-{rank}.trace")).unwrap();
    let words = bytes.chunks_exact(8);
    let words: Vec<u64> = words
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let events = words[crate::trace::HEADER_BYTES / 8..].chunks_exact(4);
    let calls = events.filter(|event| event[1] & 0xff == Kind::Collective as u64);
    calls
        .map(|event| usize::try_from(event[2]).unwrap())
        .collect()
}

#[test]
fn a_trace_has_the_bytes_that_each_member_gives_also_of_varying_lengths() {
    let directory = std::env::temp_dir().join(format!("pgas-traced-{}", std::process::id()));
    let directory = directory.to_str().unwrap().to_owned();
    let config = Config {
        trace: Some(directory.clone()),
        ..Config::default()
    };
    let root = Rank::new(1);
    loopback::run_with(2, &config, |world| {
        let me = world.rank().index();
        let parts = [vec![0_u64; me], vec![1; 5]];
        world.allgather(&[0_u64; 3]).unwrap();
        world.scatter(root, &[0_u64; 4]).unwrap();
        world.scatter_nb(root, vec![0_u64; 6]).wait().unwrap();
        world.scatter_varying(root, &parts).unwrap();
        world
            .scatter_varying_nb(root, parts.to_vec())
            .wait()
            .unwrap();
        world.gather_varying(root, &parts[0]).unwrap();
        world
            .gather_varying_nb(root, parts[0].clone())
            .wait()
            .unwrap();
        world.allgather_varying(&parts[0]).unwrap();
        world.allgather_varying_nb(parts[0].clone()).wait().unwrap();
        world.all_to_all_varying(&parts).unwrap();
        world.all_to_all_varying_nb(parts.to_vec()).wait().unwrap();
    });
    let expected = [
        [3, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5],
        [3, 4, 6, 6, 6, 1, 1, 1, 1, 6, 6],
    ];
    for (rank, counts) in (0..2).map(Rank::new).zip(expected) {
        let bytes = counts.map(|n| n * SIZE);
        assert_eq!(traced_bytes(&directory, rank), bytes, "rank {rank}");
    }
    fs::remove_dir_all(directory).unwrap();
}
