//! Limits: exhausted memory, and waits that take too long.

use std::fmt::Debug;
use std::hint::black_box;
use std::process::{Command, Output};
use std::time::Duration;
use std::{env, thread};

use libtest_mimic::Trial;
use pgas::{Config, HashMap, Rank, World};
use pgas_testkit::fault::give_up;

use crate::jobs::{WATCHED, assert_well, start};
use crate::parts::THREADS;
use crate::trial;
use crate::waits::FAILING;

const N_RANKS: u32 = 3;

/// The time limit of a wait, as `PGAS_TIMEOUT=1` sets it.
const LIMIT: Duration = Duration::from_secs(1);

/// Either heap of a segment of a megabyte is smaller than this.
const TOO_MANY: usize = 1 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("exhausted_memory::processes", || {
            for way in WATCHED {
                assert_well(&start(way, N_RANKS, &["exhaust"], &[("PGAS_SEGMENT", "1M")]).end());
            }
        }),
        trial("exhausted_memory::threads", || {
            let mut config = Config::default();
            config.segment_bytes = Some(1 << 20);
            let ranks = pgas::threads_with(N_RANKS, &config, |world| exhaust(&world)).unwrap();
            ranks.into_iter().for_each(|rank| rank.unwrap());
        }),
        trial("timeout::processes", || {
            for way in WATCHED {
                a_late_rank_is_named_by_processes(way);
            }
        }),
        trial("timeout::threads", a_late_rank_is_named_by_threads),
        trial("stacks::threads", || {
            let ended = threads_with_stacks_of(None);
            assert!(ended.status.success(), "{ended:?}");
        }),
        trial("no_thread::threads", || {
            let ended = threads_with_stacks_of(Some("70368744177664"));
            let text = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(101), "{text}");
            assert!(
                text.contains("the system gives rank 0 no thread: "),
                "{text}"
            );
        }),
    ]
}

/// Asks for too much memory on all ranks together. Each gets an error, and the job goes on.
pub(crate) fn exhaust(world: &World) -> pgas::Result<()> {
    let rank = world.rank();
    let symmetric = format!("rank {rank}: the symmetric heap cannot serve ");
    assert_refused(
        world.alloc::<u64>(TOO_MANY),
        &format!("rank {rank}: the local heap cannot serve 8388608 bytes"),
    );
    assert_refused(world.alloc_symmetric::<u64>(TOO_MANY), &symmetric);
    assert_refused(
        HashMap::<u64, u64>::with_capacity(world, 1 << 20),
        &symmetric,
    );
    // Allocate in small steps, until neither heap has memory left.
    let pieces = fill(|| world.alloc::<u64>(1000));
    let arrays = fill(|| world.alloc_symmetric::<u64>(1000));
    assert!(
        pieces.len() > 10 && arrays.len() > 10,
        "{pieces:?}, {arrays:?}"
    );
    let most = world.allreduce(arrays.len() as u64, u64::max)?;
    assert_eq!(
        most,
        arrays.len() as u64,
        "the ranks agree on when it is over"
    );
    // Allocated memory is intact, and freed memory is allocated again.
    arrays
        .iter()
        .try_for_each(|array| array.on(Rank::ZERO).fetch_add(world, 1).map(drop))?;
    world.barrier()?;
    let here = arrays[0].on(Rank::ZERO).atomic_load(world)?;
    assert_eq!(here, u64::from(world.n_ranks()));
    world.free(pieces[3]);
    world.alloc::<u64>(1000)?;
    drop(arrays);
    let map = HashMap::<u64, u64>::with_capacity(world, 100)?;
    map.fetch_add(&1, 1)?;
    world.barrier()?;
    assert_eq!(map.find(&1)?, Some(u64::from(world.n_ranks())));
    // No rank leaves while another one reads.
    world.barrier()
}

/// Allocations until nothing is left.
fn fill<T, E: std::error::Error>(mut ask: impl FnMut() -> Result<T, E>) -> Vec<T> {
    let mut given = Vec::new();
    loop {
        match ask() {
            Ok(one) => given.push(one),
            Err(error) => {
                assert!(error.to_string().contains("raise PGAS_SEGMENT"), "{error}");
                return given;
            }
        }
    }
}

fn assert_refused<T: Debug, E: std::error::Error>(outcome: Result<T, E>, text: &str) {
    let error = outcome.unwrap_err().to_string();
    assert!(error.starts_with(text), "{error}");
    assert!(error.contains("raise PGAS_SEGMENT"), "{error}");
}

/// Whether `text` ends with the expected error of a rank that came: the time limit, and the missing
/// rank.
fn is_told(rank: Rank, text: &str) -> bool {
    let waited = text.split_once(&format!("rank {rank} waited "));
    let waited = waited.and_then(|(_, rest)| {
        rest.strip_suffix(&format!(" for a barrier; missing: rank {FAILING}"))
    });
    let seconds = waited.and_then(|time| time.strip_suffix('s')?.parse::<f64>().ok());
    seconds.is_some_and(|seconds| seconds >= LIMIT.as_secs_f64())
}

/// Waits in a barrier, or does not come to it.
pub(crate) fn rank_that_is_late(world: World) -> ! {
    let rank = world.rank();
    world.barrier().unwrap();
    if rank == FAILING {
        // The end of the other ranks ends this one.
        thread::sleep(Duration::from_secs(30));
    }
    let error = world.barrier().unwrap_err();
    drop(world);
    give_up(rank, &error)
}

fn a_late_rank_is_named_by_processes(way: crate::jobs::Way) {
    let ended = start(way, N_RANKS, &["late"], &[("PGAS_TIMEOUT", "1")]).end();
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
    // The first rank that gives up may end the other's wait.
    let mut told = ended.stdout.lines();
    let is_told = told.any(|line| {
        [0, 2]
            .map(Rank::new)
            .iter()
            .any(|rank| is_told(*rank, line))
    });
    assert!(is_told, "{ended:?}");
}

fn a_late_rank_is_named_by_threads() {
    let mut config = Config::default();
    config.timeout = Some(LIMIT);
    let ranks = pgas::threads_with(N_RANKS, &config, |world| {
        if world.rank() == FAILING {
            // It comes when another rank has given up, which ends the others' waits.
            while world.progress().is_ok() {}
        }
        world.barrier().unwrap_err().to_string()
    });
    // Each wait ends by its own limit, or by the first rank that gave up.
    for error in ranks.unwrap() {
        let told = (0..N_RANKS).any(|rank| is_told(Rank::new(rank), &error));
        assert!(told, "{error}");
    }
}

/// Ranks as threads, which need as much of their stacks as only the main threads of processes have
/// by default.
pub(crate) fn use_stacks() {
    fn use_stack(depth: u32) -> u64 {
        let page = black_box([depth; 1024]);
        let deeper = if depth > 0 { use_stack(depth - 1) } else { 0 };
        deeper + u64::from(page[depth as usize % page.len()])
    }
    pgas::threads(N_RANKS, |world| {
        world.barrier().unwrap();
        // A thread of the program's own would have 2 MiB.
        assert_eq!(use_stack(400), 400 * 401 / 2);
    })
    .unwrap();
}

fn threads_with_stacks_of(bytes: Option<&str>) -> Output {
    let mut program = Command::new(env::current_exe().unwrap());
    program.arg(THREADS);
    match bytes {
        Some(bytes) => program.env("RUST_MIN_STACK", bytes),
        None => program.env_remove("RUST_MIN_STACK"),
    };
    program.output().unwrap()
}
