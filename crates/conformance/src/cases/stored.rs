//! What containers save in files, and load again: all kinds, and by other ranks than have saved it.
//! Of few types, as in `maps`.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pgas_am::ValueCollectives as _;
use pgas_containers::array::Distribution;
use pgas_containers::hash_map::SeededHasher;
use pgas_containers::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, HashMap, HashSet, MultiMap,
};
use pgas_core::collective::op;
use pgas_core::{Rank, Result, Team, World};

use super::team_containers::teams;
use super::{case, case_alone};
use crate::Case;

pub(super) const CASES: &[Case] = &[
    case_alone!(1, what_a_team_has_saved_another_one_loads),
    case!(1, maps_and_sets_are_loaded_as_they_were_saved),
    case!(1, arrays_queues_and_filters_are_loaded_as_they_were_saved),
    case!(1, what_former_runs_have_left_is_no_obstacle),
];

type Words = HashMap<u64, u64>;

fn what_a_team_has_saved_another_one_loads(world: &World) -> Result<()> {
    let Some(common) = directory(world, "teams")? else {
        return Ok(());
    };
    let [outer, _, uneven] = &teams(world)?;
    let dir = common.join(outer.world_rank(0).number().to_string());
    let map = Words::with_capacity(outer, 100)?;
    let me = u64::from(world.rank().number());
    map.insert(&me, me)?;
    map.save(&dir)?;
    world.barrier()?;
    // By members of both teams.
    let again = Words::load(uneven, &dir_of_first(uneven, &dir)?)?;
    let n = again.len()?;
    assert_eq!(n, team_size_of_first(world, outer, uneven)?);
    for entry in again.local_iter() {
        let (key, value) = entry?;
        assert_eq!(key, value);
    }
    removed(world, &common)
}

/// A number that no other call in a process that runs on this system has returned: several cases,
/// and all of their ranks, may run in one process at once.
fn unused() -> u64 {
    static N_CALLS: AtomicU32 = AtomicU32::new(0);
    let n_calls = N_CALLS.fetch_add(1, Ordering::Relaxed);
    u64::from(std::process::id()) << 32 | u64::from(n_calls)
}

/// The path of what a `case` makes for itself, with a number.
fn path_of(case: &str, number: u64) -> PathBuf {
    std::env::temp_dir().join(format!("pgas-{case}-{number:x}"))
}

/// The first of `numbers` by which `make` makes something of this `case` that is not there yet.
///
/// What is there stays: it is of a former run whose process had this one's id, of another simulated
/// node, or of another host, and may be in use.
fn first_made(
    case: &str,
    mut numbers: impl FnMut() -> u64,
    make: impl Fn(&Path) -> io::Result<()>,
) -> std::result::Result<u64, String> {
    loop {
        let number = numbers();
        let path = path_of(case, number);
        match make(&path) {
            Ok(()) => return Ok(number),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
}

/// Whether all ranks can write files. All can, but for those on simulated nodes.
fn has_a_directory(world: &World) -> Result<bool> {
    let make = |path: &Path| File::create_new(path).and_then(|_| std::fs::remove_file(path));
    let written = first_made("writes", unused, make);
    let is_simulated = cfg!(target_arch = "riscv64");
    assert!(written.is_ok() || is_simulated, "{written:?}");
    let n_writing = world.allreduce(u32::from(written.is_ok()), op::Sum)?;
    Ok(n_writing == world.n_ranks())
}

/// How large the first team is of which the first member of the second is one.
fn team_size_of_first(world: &World, first: &Team, second: &Team) -> Result<u64> {
    let sizes = world.allgather(&[first.n_ranks()])?;
    Ok(sizes[second.world_rank(0).index()].into())
}

/// The directory that the first member names.
fn dir_of_first(team: &Team, dir: &Path) -> Result<PathBuf> {
    let named = dir.to_str().expect("a plain path").to_owned();
    Ok(team.broadcast_value(0, named)?.into())
}

/// A directory of this `case` that all ranks can write in, if there is one.
///
/// Several hosts may have none in common. A simulated node has one that can be written only if it
/// is given (`rae run --files-rw`).
fn directory(world: &World, case: &str) -> Result<Option<PathBuf>> {
    if !has_a_directory(world)? {
        return Ok(None);
    }
    // The directory's name is the first rank's, and so is the directory.
    let is_first = world.rank() == Rank::ZERO;
    let number = match is_first {
        true => first_made(case, unused, |path| std::fs::create_dir(path))
            .unwrap_or_else(|why| panic!("a directory that can be written: {why}")),
        false => 0,
    };
    let directory = path_of(case, world.broadcast(Rank::ZERO, number)?);
    let is_common = world.allreduce_values(directory.is_dir(), op::And)?;
    if is_first && !is_common {
        std::fs::remove_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    }
    Ok(is_common.then_some(directory))
}

/// Removes the directory once all ranks have come here.
fn removed(world: &World, directory: &Path) -> Result<()> {
    world.barrier()?;
    if world.rank() == Rank::ZERO {
        std::fs::remove_dir_all(directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    }
    world.barrier()
}

fn maps_and_sets_are_loaded_as_they_were_saved(world: &World) -> Result<()> {
    let Some(dir) = directory(world, "maps")? else {
        return Ok(());
    };
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    let map = Words::with_capacity(world, 1000)?;
    let set = HashSet::<u64>::with_capacity(world, 1000)?;
    let values = MultiMap::<u64, u64>::with_capacity(world, 1000)?;
    for i in 0..30 {
        map.insert(&(n * i + me), i)?;
        set.insert(&(n * i + me))?;
        values.insert(&(i % 3), n * i + me)?;
    }
    map.save(dir.join("map"))?;
    set.save(dir.join("set"))?;
    values.save(dir.join("values"))?;
    drop((map, set, values));
    let map = Words::load(world, dir.join("map"))?;
    let set = HashSet::<u64>::load(world, dir.join("set"))?;
    let hasher = SeededHasher::new(11);
    let seeded = HashMap::<u64, u64, _, _>::load_with_hasher(world, dir.join("map"), hasher)?;
    let values = MultiMap::<u64, u64>::load(world, dir.join("values"))?;
    assert_eq!(
        (map.len()?, seeded.len()?, set.len()?),
        (30 * n, 30 * n, 30 * n)
    );
    for key in 0..30 * n {
        assert_eq!(map.find(&key)?, Some(key / n));
        assert_eq!(seeded.find(&key)?, Some(key / n));
        assert!(set.contains(&key)?);
    }
    for key in 0..3 {
        let mut found = values.find(&key)?;
        found.sort_unstable();
        assert!(
            found
                .into_iter()
                .eq((0..30 * n).filter(|value| value / n % 3 == key))
        );
    }
    removed(world, &dir)
}

fn arrays_queues_and_filters_are_loaded_as_they_were_saved(world: &World) -> Result<()> {
    let Some(dir) = directory(world, "arrays")? else {
        return Ok(());
    };
    let (len, host) = (25 * world.ranks().len() + 3, Rank::ZERO);
    let numbers: Vec<u64> = (0..len as u64).map(|i| i * i).collect();
    let me = u64::from(world.rank().number());
    let array = DArray::from_fn(world, len, Distribution::BlockCyclic(3), |i| (i * i) as u64)?;
    array.save(dir.join("array"))?;
    let hosted = Array::<u64>::new(world, host, len, &0)?;
    let matrix = DMatrix::<u64>::new(world, [len, 5], [2, 3], 0)?;
    let mut queue = CircularQueue::<u64>::with_capacity(world, host, len)?;
    if world.rank() == host {
        hosted.put_slice(1, &numbers[1..])?;
        for (row, number) in numbers.iter().enumerate() {
            matrix.put_block(row..row + 1, 0..5, &[*number; 5])?;
        }
        queue
            .push_slice(&numbers)
            .map_err(pgas_containers::Error::from)?;
    }
    let filter = BloomFilter::<u64>::with_rate(world, 400, 0.0001)?;
    filter.insert(&me)?;
    hosted.save(dir.join("hosted"))?;
    matrix.save(dir.join("matrix"))?;
    queue.save(dir.join("queue"))?;
    filter.save(dir.join("filter"))?;
    drop((array, hosted, matrix, queue, filter));
    let array = DArray::<u64>::load(world, dir.join("array"), Distribution::Cyclic, &0)?;
    assert_eq!(array.get_range(0..len)?, numbers);
    let hosted = Array::<u64>::load(world, dir.join("hosted"), host, &0)?;
    assert_eq!(hosted.get_range(0..len)?, numbers);
    let matrix = DMatrix::<u64>::load(world, dir.join("matrix"), [3, 2])?;
    assert_eq!(matrix.shape(), [len, 5]);
    for (row, number) in numbers.iter().enumerate() {
        assert_eq!(matrix.get_block(row..row + 1, 0..5)?, [*number; 5]);
    }
    let queue = CircularQueue::<u64>::load(world, host, dir.join("queue"))?;
    assert_eq!(queue.len()?, len);
    world.barrier()?;
    if world.rank() == host {
        let popped = queue.pop_many(len).map_err(pgas_containers::Error::from)?;
        assert_eq!(popped, numbers);
    }
    let filter = BloomFilter::<u64>::load(world, dir.join("filter"))?;
    for rank in world.ranks() {
        assert!(filter.contains(&rank.number().into())?);
    }
    removed(world, &dir)
}

fn what_former_runs_have_left_is_no_obstacle(world: &World) -> Result<()> {
    if !has_a_directory(world)? {
        return Ok(());
    }
    let left = first_made("left", unused, |path| std::fs::create_dir(path)).expect("a directory");
    let of_use = path_of("left", left).join("of_use");
    std::fs::write(&of_use, "to another process").expect("a file");
    // The number of what is left comes again, as it does if the process has the former one's id.
    let mut again = Some(left);
    let numbers = || again.take().unwrap_or_else(unused);
    let made = first_made("left", numbers, |path| std::fs::create_dir(path)).expect("another one");
    assert_ne!(made, left);
    assert!(of_use.is_file() && path_of("left", made).is_dir());
    let nowhere = |path: &Path| std::fs::create_dir(path.join("of").join("none"));
    let refused = first_made("none", || made, nowhere).expect_err("it has no parent");
    let named = path_of("none", made).display().to_string();
    assert!(refused.starts_with(&format!("{named}: ")), "{refused}");
    for number in [left, made] {
        let directory = path_of("left", number);
        std::fs::remove_dir_all(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    }
    world.barrier()
}
