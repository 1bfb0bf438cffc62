//! Ranks that make different collective calls get an error that names both calls, each with the
//! line of this program. That is the default among threads and in builds with debug assertions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::panic::Location;
use std::process::Command;

use pgas::array::{Distribution, Halo};
use pgas::collective::op::Sum;
use pgas::prelude::*;
use pgas::{Config, Error, Lock, quiet};

type Call = fn(&World) -> pgas::Result<()>;

/// Rank 0 meets the others in a barrier, and rank 1 makes another `call`, in the caller's line.
#[track_caller]
fn differs<T>(world: &World, call: impl FnOnce() -> pgas::Result<T>) -> pgas::Result<()> {
    let here = Location::caller();
    let outcome = match world.rank() {
        Rank::ZERO => world.barrier(),
        _ => call().map(drop),
    };
    let Err(Error::Mismatch(mismatch)) = outcome else {
        panic!("the ranks agree: {outcome:?}, {here}");
    };
    let line_b = mismatch.line_b.as_deref().unwrap();
    let (file, line) = line_b.rsplit_once(':').unwrap();
    // A call may take a few lines.
    let after = line.parse::<u32>().unwrap().checked_sub(here.line());
    assert!(
        file == file!() && after.is_some_and(|lines| lines < 4),
        "{mismatch}, {here}"
    );
    assert!(mismatch.line_a.unwrap().starts_with(file!()));
    Ok(())
}

/// Runs `body` on two ranks that compare their calls, whatever the environment says.
fn on_two<R: Send>(body: impl Fn(World) -> R + Sync) -> Vec<R> {
    let mut config = Config::default();
    config.check = Some(true);
    pgas::threads_with(2, &config, body).unwrap()
}

/// Calls of the world and of teams.
const OF_TEAMS: &[Call] = &[
    |world| differs(world, || world.broadcast(Rank::ZERO, 1)),
    |world| differs(world, || world.broadcast_slice(Rank::ZERO, &mut [1])),
    |world| differs(world, || world.reduce(Rank::ZERO, 1, Sum)),
    |world| differs(world, || world.allreduce(1, Sum)),
    |world| differs(world, || world.allreduce_slice(&mut [1], Sum)),
    |world| differs(world, || world.gather(Rank::ZERO, &[1])),
    |world| differs(world, || world.allgather(&[1])),
    |world| differs(world, || world.all_to_all(&[1, 2])),
    |world| differs(world, || world.scan_inclusive(1, Sum)),
    |world| differs(world, || world.scan_exclusive(1, 0, Sum)),
    |world| differs(world, || world.broadcast_nb(Rank::ZERO, 1).wait()),
    |world| {
        differs(world, || {
            world.broadcast_slice_nb(Rank::ZERO, vec![1]).wait()
        })
    },
    |world| differs(world, || world.reduce_nb(Rank::ZERO, 1, Sum).wait()),
    |world| differs(world, || world.allreduce_nb(1, Sum).wait()),
    |world| differs(world, || world.allreduce_slice_nb(vec![1], Sum).wait()),
    |world| differs(world, || world.gather_nb(Rank::ZERO, vec![1]).wait()),
    |world| differs(world, || world.allgather_nb(vec![1]).wait()),
    |world| differs(world, || world.all_to_all_nb(vec![1, 2]).wait()),
    |world| differs(world, || world.scan_inclusive_nb(1, Sum).wait()),
    |world| differs(world, || world.scan_exclusive_nb(1, 0, Sum).wait()),
    |world| differs(world, || world.reduce_slice(Rank::ZERO, &[1], Sum)),
    |world| {
        differs(world, || {
            world.reduce_slice_nb(Rank::ZERO, vec![1], Sum).wait()
        })
    },
    |world| differs(world, || world.gather_varying(Rank::ZERO, &[1])),
    |world| {
        differs(world, || {
            world.gather_varying_nb(Rank::ZERO, vec![1]).wait()
        })
    },
    |world| differs(world, || world.allgather_varying(&[1])),
    |world| differs(world, || world.allgather_varying_nb(vec![1]).wait()),
    |world| differs(world, || world.all_to_all_varying(&[vec![1], vec![]])),
    |world| {
        differs(world, || {
            world.all_to_all_varying_nb(vec![vec![1], vec![]]).wait()
        })
    },
    |world| differs(world, || world.scan_inclusive_slice(&mut [1], Sum)),
    |world| differs(world, || world.scan_exclusive_slice(&mut [1], 0, Sum)),
    |world| differs(world, || world.team().split(Some(0), 0)),
    |world| differs(world, || world.team().reorder(0)),
    |world| differs(world, || world.team().split_host()),
    |world| differs(world, || world.team().agree("a number", 1)),
    |world| {
        differs(world, || {
            world.team().all_succeeded("a step", Ok::<_, Error>(()))
        })
    },
    |world| {
        differs(world, || {
            world.team().all_try("a step", || Ok::<_, Error>(()))
        })
    },
    |world| {
        differs(world, || {
            world
                .team()
                .all_try_reduce("a step", || Ok::<_, Error>(1), Sum)
        })
    },
    |world| differs(world, || world.team().alloc_symmetric::<u64>(1)),
    |world| differs(world, || world.team().reclaim()),
    |world| differs(world, || world.alloc_symmetric::<u64>(1)),
    |world| differs(world, || Lock::new(world, Rank::ZERO)),
    |world| differs(world, || quiet(world)),
    |world| differs(world, || world.broadcast_value(Rank::ZERO, String::new())),
    |world| {
        differs(world, || {
            world.scatter_values(Rank::ZERO, Vec::<String>::new())
        })
    },
    |world| differs(world, || world.gather_values(Rank::ZERO, String::new())),
    |world| differs(world, || world.allgather_values(String::new())),
    |world| {
        differs(world, || {
            world.all_to_all_values(vec![String::new(), String::new()])
        })
    },
    |world| {
        differs(world, || {
            world.reduce_values(Rank::ZERO, String::new(), |a, _| a)
        })
    },
    |world| {
        differs(world, || {
            world.allreduce_values(String::new(), |a: String, _| a)
        })
    },
    |world| differs(world, || world.scan_values(String::new(), |a: String, _| a)),
    |world| differs(world, || world.broadcast_value_nb(Rank::ZERO, true).wait()),
    |world| differs(world, || world.allgather_values_nb(true).wait()),
];

/// Constructors of containers, and their collective methods.
const OF_CONTAINERS: &[Call] = &[
    |world| differs(world, || HashMap::<u64, String>::with_capacity(world, 8)),
    |world| differs(world, || HashSet::<u64>::with_capacity(world, 8)),
    |world| differs(world, || MultiMap::<u64, u64>::with_capacity(world, 8)),
    |world| {
        differs(world, || {
            CircularQueue::<u64>::with_capacity(world, Rank::ZERO, 8)
        })
    },
    |world| {
        differs(world, || {
            FastQueue::<u64>::with_capacity(world, Rank::ZERO, 8)
        })
    },
    |world| differs(world, || Array::<u64>::new(world, Rank::ZERO, 8, &0)),
    |world| {
        differs(world, || {
            DArray::<u64>::new(world, 8, Distribution::Block, &0)
        })
    },
    |world| differs(world, || DMatrix::<u64>::new(world, [4, 4], [2, 2], 0)),
    |world| differs(world, || BloomFilter::<u64>::with_rate(world, 100, 0.1)),
    |world| differs(world, || Distributor::<u64>::with_capacity(world, 8)),
    |world| {
        let map = map(world)?;
        differs(world, || map.into_local_phase())
    },
    |world| {
        let mut map = map(world)?;
        differs(world, || map.resize(16))
    },
    |world| {
        let mut map = map(world)?;
        differs(world, || map.clear())
    },
    |world| {
        let map = map(world)?;
        differs(world, || map.len())
    },
    |world| {
        let map = map(world)?;
        differs(world, || Ok(HashMapBuffer::new(map, 8, |_, new| new)?))
    },
    |world| {
        let queue = queue(world)?;
        differs(world, || queue.into_local_phase())
    },
    |world| {
        let mut queue = queue(world)?;
        differs(world, || queue.resize(16))
    },
    |world| {
        let array = DArray::<u64>::new(world, 8, Distribution::Block, &0)?;
        differs(world, || Ok(array.into_local()?))
    },
    |world| {
        let array = DArray::<u64>::new(world, 8, Distribution::Block, &0)?;
        differs(world, || array.sum())
    },
    |world| {
        let array = DArray::<u64>::new(world, 8, Distribution::Block, &0)?;
        differs(world, || array.fill(1))
    },
    |world| {
        let filter = BloomFilter::<u64>::with_rate(world, 100, 0.1)?;
        differs(world, || filter.clear())
    },
    |world| {
        let array = DArray::<u64>::new(world, 8, Distribution::Block, &0)?.into_local()?;
        differs(world, || array.into_shared())
    },
    |world| {
        let matrix = DMatrix::<u64>::new(world, [4, 4], [2, 2], 0)?;
        differs(world, || Halo::new(&matrix, 1, 0))
    },
    |world| {
        let matrix = DMatrix::<u64>::new(world, [4, 4], [2, 2], 0)?;
        let mut halo = Halo::new(&matrix, 1, 0)?;
        differs(world, || halo.exchange())
    },
];

fn map(world: &World) -> pgas::Result<HashMap<u64, u64>> {
    HashMap::with_capacity(world, 8)
}

fn queue(world: &World) -> pgas::Result<CircularQueue<u64>> {
    CircularQueue::with_capacity(world, Rank::ZERO, 8)
}

fn all_are_told(calls: &[Call]) {
    for call in calls {
        for outcome in on_two(|world| call(&world)) {
            outcome.unwrap();
        }
    }
}

#[test]
fn calls_of_teams_that_differ_are_named_with_their_lines() {
    all_are_told(OF_TEAMS);
}

#[test]
fn calls_of_containers_that_differ_are_named_with_their_lines() {
    all_are_told(OF_CONTAINERS);
}

/// The text of the error if the ranks call the same method of `call`, but not on the same objects.
fn text_of(call: fn(&World, bool) -> pgas::Result<()>) -> String {
    let outcomes = on_two(|world| call(&world, world.rank() == Rank::ZERO));
    let mut texts = outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_err().to_string());
    let text = texts.next().unwrap();
    assert_eq!(texts.next().unwrap(), text);
    text
}

#[test]
fn phases_are_named() {
    let text = text_of(|world, is_first| {
        let map = map(world)?;
        if is_first {
            map.into_find_phase().map(drop)
        } else {
            map.into_local_phase().map(drop)
        }
    });
    for part in [
        "the next phase of a hash map: rank 0 has \"find only\" at ",
        "rank 1 has \"local\" at ",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_same_method_of_different_containers_is_a_difference() {
    let text = text_of(|world, is_first| {
        let mut maps = [map(world)?, map(world)?];
        maps[usize::from(is_first)].clear()
    });
    let part = "the object of a clear of a hash map: rank 0 has one at ";
    assert!(text.contains(part), "{text}");
    let text = text_of(|world, is_first| {
        let [one, other] = [queue(world)?, queue(world)?];
        if is_first {
            one.into_local_phase().map(drop)
        } else {
            other.into_local_phase().map(drop)
        }
    });
    let part = "the object of a change of the phase of a queue: rank 0 has one at ";
    assert!(text.contains(part), "{text}");
}

fn check_of(config: &Config) -> Option<bool> {
    let checks = pgas::threads_with(1, config, |world| world.config().check).unwrap();
    checks[0]
}

#[test]
fn the_program_may_switch_it_off() {
    let mut config = Config::default();
    config.check = Some(false);
    assert_eq!(check_of(&config), Some(false));
}

#[test]
fn a_joined_job_compares_in_builds_with_debug_assertions() {
    if Config::check_from_env().unwrap().is_none() {
        let world = pgas::init_with(&Config::default()).unwrap();
        assert_eq!(world.config().check, Some(cfg!(debug_assertions)));
    }
}

#[test]
fn the_environment_may_switch_it_off() {
    match Config::check_from_env().unwrap() {
        None => {
            assert_eq!(check_of(&Config::default()), Some(true));
            // This test again, in a process of its own.
            let mut again = Command::new(env::current_exe().unwrap());
            again.args(["--exact", "the_environment_may_switch_it_off"]);
            let output = again.env("PGAS_CHECK", "0").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && text.contains("1 passed"),
                "{text}"
            );
        }
        wanted => assert_eq!(check_of(&Config::default()), wanted),
    }
}
