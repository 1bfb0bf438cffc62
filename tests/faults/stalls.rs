//! A job with a long wait reports which rank waits for what, and goes on, or ends if the settings
//! say so.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use pgas::array::Distribution;
use pgas::collective::op::Sum;
use pgas::{
    Array, BloomFilter, Config, DArray, DMatrix, DistObject, Distributor, FastQueue, HashMap,
    HashSet, MultiMap, Rank, RemoteCalls, World, quiet, when_all,
};
use pgas_testkit::job::Ended;
use pgas_testkit::soon::{Moment, assert_timely};

use crate::jobs::{WATCHED, start};
use crate::trial;

const N_RANKS: u32 = 3;
/// The rank that makes no call for a while.
const ABSENT: Rank = Rank::new(2);
const STALL: (&str, &str) = ("PGAS_STALL", "0.5");
const END: (&str, &str) = ("PGAS_STALL_END", "1");
/// The time after which a wait is recorded.
const PATIENCE: Duration = Duration::from_secs(60);
/// The absence of the absent rank, not counting times in which the others wait for a processor. It
/// lasts until well after the report.
const ABSENCE: Duration = Duration::from_millis(2500);
/// The maximum absence.
const LONGEST_ABSENCE: Duration = Duration::from_secs(30);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("stall::reported_and_borne::processes", || {
            for way in WATCHED {
                let ended = start(way, N_RANKS, &["stall"], &[STALL]).end();
                assert_eq!(ended.code(), 0, "{ended:?}");
                assert_reported(&ended);
            }
        }),
        trial("stall::ends_the_job::processes", || {
            for way in WATCHED {
                let ended = start(way, N_RANKS, &["stall"], &[STALL, END]).end();
                assert_ne!(ended.code(), 0, "{ended:?}");
                assert_reported(&ended);
                assert!(ended.stderr.contains("(PGAS_STALL_END)"), "{ended:?}");
            }
        }),
        trial("stall::a_guard_held_across_a_wait::processes", || {
            for way in WATCHED {
                let ended = start(way, 2, &["guard"], &[STALL, END]).end();
                assert_ne!(ended.code(), 0, "{ended:?}");
                for text in [
                    "pgas: rank 0 has run the handler of a message of rank 1 for ",
                    "which names distributed object 0 of team ",
                    "Mutex<u64>",
                    "drop guards before a call that waits",
                ] {
                    assert!(ended.stderr.contains(text), "{text}: {ended:?}");
                }
            }
        }),
        trial("stall::orders::processes", different_orders_are_reported),
        trial("stall::orders_early::processes", orders_are_told_early),
        trial("stall::ends_the_job::threads", || {
            let mut config = unchecked();
            config.stall = Some(Duration::from_millis(500));
            config.stall_ends = true;
            let run = |world: World| rank_that_stalls(&world).unwrap_err().to_string();
            let errors = pgas::threads_with(N_RANKS, &config, run).unwrap();
            for error in errors {
                assert!(error.contains("has waited"), "{error}");
                assert!(error.contains("(PGAS_STALL_END)"), "{error}");
                assert!(error.contains(file!()), "{error}");
            }
        }),
        trial("stall::kinds_of_waits_are_told_apart::threads", || {
            let (n_begun, n_seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let run = |world: World| waits_of_every_kind(&world, &n_begun, &n_seen).unwrap();
            pgas::threads_with(2, &unchecked(), run).unwrap();
        }),
        trial("stall::lines_are_the_programs::threads", || {
            let n_seen = AtomicUsize::new(0);
            let run = |world: World| waits_of_what_is_done_together(&world, &n_seen).unwrap();
            pgas::threads_with(2, &unchecked(), run).unwrap();
        }),
    ]
}

/// Settings of a job whose collectives do not compare calls, so that reports name the collectives'
/// own waits.
fn unchecked() -> Config {
    let mut config = Config::default();
    config.check = Some(false);
    config
}

/// A wait of rank 0 until rank 1 takes part, and the expected report.
struct Kind {
    wait: Part,
    take_part: Part,
    said: &'static [&'static str],
}
type Part = fn(&World, Things) -> pgas::Result<()>;

/// The objects that the waits use, which all ranks make together.
struct Things {
    map: HashMap<u64, u64>,
    /// With a few slots.
    distributor: Distributor<u64>,
}

const LATE: Rank = Rank::new(1);
const KINDS: &[Kind] = &[
    Kind {
        wait: |world, _| world.barrier(),
        take_part: |world, _| world.barrier(),
        said: &["s for a barrier, number ", ", of rank 1, at "],
    },
    Kind {
        wait: |world, _| world.team().split(Some(0), 0).map(drop),
        take_part: |world, _| world.team().split(Some(0), 0).map(drop),
        said: &["s for a split of the team, number ", ", of rank 1, at "],
    },
    Kind {
        wait: |world, _| world.team().allreduce_nb(1_u64, Sum).wait().map(drop),
        take_part: |world, _| world.team().allreduce(1_u64, Sum).map(drop),
        said: &["s for an allreduce, number ", ", of rank 1, at "],
    },
    Kind {
        wait: |world, _| world.rpc(LATE, |x: u64| x, 1)?.wait().map(drop),
        take_part: |_, _| Ok(()),
        said: &["s for the answer of a remote call, of rank 1, at "],
    },
    Kind {
        wait: |world, _| {
            let calls = [world.rank(), LATE].map(|rank| world.rpc(rank, |x: u64| x, 1));
            let calls: Vec<_> = calls.into_iter().collect::<Result<_, _>>()?;
            when_all(calls).wait().map(drop)
        },
        take_part: |_, _| Ok(()),
        said: &["s for several futures, of rank 1, at "],
    },
    Kind {
        wait: |world, _| {
            let call = world.rpc(LATE, |x: u64| x, 1)?;
            call.then(|x| x + 1).wait().map(drop)
        },
        take_part: |_, _| Ok(()),
        said: &["s for what follows a remote call, of rank 1, at "],
    },
    Kind {
        wait: |world, _| {
            // More than there is room for.
            for _ in 0..5_000 {
                world.rpc_ff(LATE, |_: u64| (), 0)?;
            }
            Ok(())
        },
        take_part: |_, _| Ok(()),
        said: &["s for room for a request, of rank 1, at "],
    },
    Kind {
        wait: |world, _| quiet(world),
        take_part: |world, _| quiet(world),
        said: &["of rank 1, as a part of the end of all asynchronous work, at "],
    },
    Kind {
        wait: |_, things| things.map.into_find_phase().map(drop),
        take_part: |_, things| things.map.into_find_phase().map(drop),
        said: &[
            "s for a barrier, number ",
            ", of rank 1, as a part of a change of the phase of a hash map, at ",
        ],
    },
    Kind {
        wait: |_, mut things| {
            // More than there is room for.
            (0..100).try_for_each(|i| things.distributor.send(LATE, i))?;
            Ok(things.distributor.finish().map(drop)?)
        },
        take_part: |_, things| Ok(things.distributor.finish().map(drop)?),
        said: &["s for room in the inbox of a distributor, of rank 1, at "],
    },
    Kind {
        wait: |_, things| Ok(things.distributor.finish().map(drop)?),
        take_part: |_, things| Ok(things.distributor.finish().map(drop)?),
        said: &[
            "s for what others send by a distributor, as a part of the finishing of a \
             distributor, at ",
        ],
    },
];

/// Rank 1 takes part in each wait of rank 0 after another thread of rank 0 has seen the report of
/// it.
fn waits_of_every_kind(
    world: &World,
    n_begun: &AtomicUsize,
    n_seen: &AtomicUsize,
) -> pgas::Result<()> {
    for (i, kind) in KINDS.iter().enumerate() {
        let things = Things {
            map: HashMap::with_capacity(world, 10)?,
            distributor: Distributor::with_capacity(world, 8)?,
        };
        if world.rank() == LATE {
            n_begun.store(i + 1, Ordering::Release);
            await_seen(n_seen, i);
            (kind.take_part)(world, things)?;
        } else {
            // Before, it may serve calls.
            let has_begun = || Ok(n_begun.load(Ordering::Acquire) > i);
            world.wait_for("rank 1 to serve nothing", has_begun)?;
            see(kind.said, (n_seen, i), world, || (kind.wait)(world, things))?;
        }
    }
    world.barrier()?;
    Ok(())
}

/// Waits until another thread of rank 0 has seen the report of wait number `i`.
fn await_seen(n_seen: &AtomicUsize, i: usize) {
    while n_seen.load(Ordering::Acquire) == i {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits, while another thread looks for the report of the wait, and announces when it has seen it.
fn see(
    said: &[&str],
    (n_seen, i): (&AtomicUsize, usize),
    world: &World,
    wait: impl FnOnce() -> pgas::Result<()>,
) -> pgas::Result<()> {
    let is_said =
        |waits: &str| said.iter().all(|text| waits.contains(text)) && waits.contains(file!());
    let waits = thread::scope(|threads| -> pgas::Result<String> {
        let watcher = threads.spawn(|| {
            let began = Instant::now();
            let mut waits = world.long_waits();
            while !is_said(&waits) && began.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(1));
                waits = world.long_waits();
            }
            n_seen.store(i + 1, Ordering::Release);
            waits
        });
        wait()?;
        Ok(watcher.join().unwrap())
    })?;
    assert!(
        is_said(&waits),
        "{said:?} and {} are not in {waits:?}",
        file!()
    );
    Ok(())
}

/// The collective calls, each with the object that was made for it.
const TOGETHER: &[fn(&World, Made) -> pgas::Result<()>] = &[
    |world, _| world.alloc_symmetric::<u64>(3).map(drop),
    |world, _| world.reclaim(),
    |world, _| HashMap::<u64, String>::with_capacity(world, 9).map(drop),
    |world, _| HashSet::<u64>::with_capacity(world, 9).map(drop),
    |world, _| MultiMap::<u64, u64>::with_capacity(world, 9).map(drop),
    |world, _| BloomFilter::<u64>::with_rate(world, 9, 0.1).map(drop),
    |world, _| FastQueue::<u64>::with_capacity(world, LATE, 9).map(drop),
    |world, _| Array::new(world, LATE, 9, &0_u64).map(drop),
    |world, _| DArray::new(world, 9, EVENLY, &0_u64).map(drop),
    |world, _| DMatrix::new(world, [3, 3], [2, 2], 0_u64).map(drop),
    |world, _| Distributor::<u64>::with_capacity(world, 9).map(drop),
    |_, mut made| made.map.resize(20),
    |_, mut made| made.map.clear(),
    |_, made| made.map.len().map(drop),
    |_, made| Ok(made.map.reuse_slots().map(drop)?),
    |_, mut made| made.queue.resize(20),
    |_, mut made| made.queue.migrate(LATE),
    |_, made| made.elements.fill(1),
    |_, made| made.elements.sum().map(drop),
    |_, made| Ok(made.elements.into_local().map(drop)?),
];

const EVENLY: Distribution = Distribution::BlockCyclic(2);

/// The objects of [`TOGETHER`].
struct Made {
    map: HashMap<u64, u64>,
    queue: FastQueue<u64>,
    elements: DArray<u64>,
}

/// Rank 1 comes late to each call, and the report of rank 0's wait names a line of this file.
fn waits_of_what_is_done_together(world: &World, n_seen: &AtomicUsize) -> pgas::Result<()> {
    for (i, work) in TOGETHER.iter().enumerate() {
        let made = Made {
            map: HashMap::with_capacity(world, 10)?,
            queue: FastQueue::with_capacity(world, LATE, 10)?,
            elements: DArray::new(world, 10, EVENLY, &0)?,
        };
        if world.rank() == LATE {
            await_seen(n_seen, i);
            work(world, made)?;
        } else {
            see(&["of rank 1"], (n_seen, i), world, || work(world, made))?;
        }
    }
    world.barrier()?;
    Ok(())
}

/// Rank 0 waits in a barrier and rank 1 for an answer, while rank 2 makes no call.
pub(crate) fn rank_that_stalls(world: &World) -> pgas_am::Result<()> {
    let calls = world.alloc_symmetric::<u64>(1)?;
    world.barrier()?;
    if world.rank() == ABSENT {
        let (absent, began) = (Moment::now(), Instant::now());
        while absent.elapsed() < ABSENCE && began.elapsed() < LONGEST_ABSENCE {
            thread::sleep(ABSENCE / 100);
        }
    } else if world.rank() == Rank::new(1) {
        calls.on(Rank::ZERO).put(world, 1)?;
        world.rpc(ABSENT, |x: u64| x + 1, 1)?.wait()?;
    } else {
        // On a busy machine rank 1 may reach its call only after the time limit of a wait.
        while calls.here().get(world)? == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    world.barrier()?;
    Ok(())
}

fn different_orders_are_reported() {
    for way in WATCHED {
        let ended = start(way, 2, &["orders"], &[STALL, END]).end();
        assert_ne!(ended.code(), 0, "{ended:?}");
        assert_circle(&ended);
        assert!(ended.stderr.contains("(PGAS_STALL_END)"), "{ended:?}");
    }
}

/// Long before a report is due, where calls are compared.
fn orders_are_told_early() {
    let settings = [("PGAS_CHECK", "1"), ("PGAS_TIMEOUT", "9")];
    let ended = start(WATCHED[0], 2, &["orders"], &settings).end();
    assert_ne!(ended.code(), 0, "{ended:?}");
    assert_circle(&ended);
    let n_reports = ended.stderr.matches("Who waits for what").count();
    assert_eq!(n_reports, 1, "{ended:?}");
}

/// Ranks 0 and 1 are in two teams, whose collectives they call in different orders.
pub(crate) fn rank_with_an_order_of_its_own(world: &World) -> pgas::Result<()> {
    let (one, other) = (world.team().reorder(0)?, world.team().reorder(0)?);
    if world.rank() == Rank::ZERO {
        one.barrier()?;
        other.allreduce(1_u64, Sum)?;
    } else {
        other.allreduce(1_u64, Sum)?;
        one.barrier()?;
    }
    Ok(())
}

/// The report of [`rank_with_an_order_of_its_own`] names both calls with their lines, and says what
/// is wrong.
fn assert_circle(ended: &Ended) {
    let said = |text: &str| ended.stderr.contains(text);
    for text in [
        "for a barrier, number 0 of team 0.1 of 2 ranks, of rank 1, at tests/faults/stalls.rs:",
        "for an allreduce, number 0 of team 0.2 of 2 ranks, of rank 0, at tests/faults/stalls.rs:",
        "in collectives of different teams: members of several teams have to call",
    ] {
        assert!(said(text), "{text}: {ended:?}");
    }
    let circles =
        [(0, 1), (1, 0)].map(|(a, b)| format!("rank {a} waits for rank {b}, which waits for"));
    assert!(circles.iter().any(|circle| said(circle)), "{ended:?}");
}

/// Rank 0 waits while it holds the lock guard that a call of rank 1 needs.
pub(crate) fn rank_that_holds_a_guard(world: &World) -> pgas_am::Result<()> {
    type Shared = DistObject<Mutex<u64>>;
    let shared = Shared::new(&world.team(), Mutex::new(0))?;
    // Before the barrier: a wait in it could run the call before the lock is held.
    let guard = (world.rank() == Rank::ZERO).then(|| shared.lock());
    world.barrier()?;
    if guard.is_none() {
        let add = |shared: Shared| *shared.lock().unwrap() += 1;
        world.rpc(Rank::ZERO, add, shared.clone())?.wait()?;
    }
    world.barrier()?;
    drop(guard);
    Ok(())
}

#[track_caller]
fn assert_reported(ended: &Ended) {
    for text in [
        "has waited",
        "Who waits for what (PGAS_STALL):",
        "pgas:   rank 0 waits ",
        "s for a barrier, number ",
        ", of rank 1, rank 2, at tests/faults/stalls.rs:",
        "pgas:   rank 1 waits ",
        "s for the answer of a remote call, of rank 2, at tests/faults/stalls.rs:",
        "pgas:   rank 2 does not answer: it computes",
    ] {
        assert_timely(ended.stderr.contains(text), &(text, ended));
    }
    let (head, rest) = ended.stderr.split_once(" has waited ").unwrap();
    let asking = head.rsplit("rank ").next().unwrap();
    let own = rest
        .split_once(&format!("pgas:   rank {asking} waits "))
        .unwrap();
    let seconds = |text: &str| text.split_once('s').unwrap().0.parse::<f64>().unwrap();
    // Not the time until those that do not answer were given up, which takes a second.
    let later = seconds(rest) - seconds(own.1);
    assert_timely(later < 0.9, &(later, ended));
    let times = ended.stderr.split(" has waited ").skip(1);
    let times = times.filter_map(|rest| rest.split_once("s. ")?.0.parse::<f64>().ok());
    let n_reports = times.filter(|seconds| *seconds < 3.0).count();
    assert!(n_reports <= 2, "one rank asks for all: {ended:?}");
}
