//! Every kind of wait for a rank of another host: with the way to it cut, with the rank stopped,
//! with a limit and without.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use pgas_containers::HashMap;
use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_core::collective::op;
use pgas_core::{Rank, Result, Symmetric, World};
use pgas_test_hosts::{Hosts, Link, Mapping, Running};
use pgas_testkit::Deadline;
use pgas_testkit::fault::give_up;
use pgas_testkit::job::{say, state_of};
use rustix::process::{Pid, Signal, kill_process};

use crate::jobs::{END_OF_JOB, LIMIT, Shape, assert_nothing_left, ranks};
use crate::parts::join;
use crate::wanted;

/// The rank that is lost, on a host of its own.
const LOST: Rank = Rank::new(1);
/// What rank 0 prints when all ranks wait for each other again and again.
const BUSY: &str = "all ranks are busy";
/// Rounds of each kind before the lost rank stops, and rounds after it.
const ROUNDS: u64 = 20;
/// The least time for which it is stopped: longer than a host may be silent, which is three
/// seconds.
const STOP: Duration = Duration::from_millis(3500);
const SHORT_SILENCE: (&str, &str) = ("PGAS_SILENCE", "1");

/// The kinds that always have a job of their own for each way to end: one for each place to wait,
/// which are core's loop, the backend's loop, the inside of MPI, and no call of the program. The
/// other kinds have such jobs if all is to be tested.
const ONE_OF_EACH: [&str; 4] = ["barrier", "atomic", "long_put", "leaving"];

/// A kind of wait, and what each rank does in each round of it.
pub(crate) struct Kind {
    name: &'static str,
    round: fn(&World, &Things, u64) -> Result<()>,
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether its ends are to be tested.
    pub(crate) fn is_wanted(&self) -> bool {
        wanted::is_all() || ONE_OF_EACH.contains(&self.name)
    }
}

/// The data of a round.
struct Things {
    words: Symmetric<u64>,
    map: HashMap<u64, u64>,
}

const N_WORDS: usize = 4096;

pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "barrier",
        round: |world, _, _| world.barrier(),
    },
    Kind {
        name: "put_and_flush",
        round: |world, things, round| {
            let at = things.words.on(next(world)).add(1);
            at.put(world, round)?;
            world.flush(next(world))
        },
    },
    Kind {
        name: "long_put",
        round: |world, things, round| {
            let at = things.words.on(next(world)).add(1);
            at.put_slice(world, &[round; N_WORDS - 1])?;
            world.flush_all()
        },
    },
    Kind {
        name: "get",
        round: |world, things, _| things.words.on(next(world)).add(1).get(world).map(drop),
    },
    Kind {
        name: "atomic",
        round: |world, things, _| {
            let at = things.words.on(next(world)).add(1);
            at.fetch_add(world, 1).map(drop)
        },
    },
    Kind {
        name: "event",
        round: |world, things, _| {
            let at = things.words.on(next(world)).add(1);
            at.get_nb(world)?.wait().map(drop)
        },
    },
    Kind {
        name: "allreduce",
        round: |world, _, round| world.allreduce(round, op::Sum).map(drop),
    },
    Kind {
        name: "signal",
        round: |world, things, round| {
            things.words.on(next(world)).fetch_add(world, 1)?;
            let here = things.words.here();
            here.wait_until(world, |value| value > round).map(drop)
        },
    },
    Kind {
        name: "map",
        round: |world, things, round| {
            for key in 0..4 {
                things
                    .map
                    .fetch_add(&(round % 8 * 4 + key), 1)
                    .map_err(of_map)?;
            }
            world.progress().map(drop)
        },
    },
    Kind {
        name: "leaving",
        round: |world, _, _| world.barrier(),
    },
];

fn of_map(error: impl std::fmt::Display) -> pgas_core::Error {
    pgas_core::Error::backend("a map", 0, error.to_string())
}

fn next(world: &World) -> Rank {
    Rank::new((world.rank().number() + 1) % world.n_ranks())
}

/// A rank's part.
pub(crate) fn take_part(kind: &str, how: &str) -> Result<()> {
    let world = join()?;
    let things = Things {
        words: world.alloc_symmetric(N_WORDS)?,
        map: HashMap::with_capacity(&world, 64).map_err(of_map)?,
    };
    let wanted = |other: &&Kind| kind == other.name || kind == "all";
    for kind in KINDS.iter().filter(wanted) {
        things.words.here().atomic_store(&world, 0)?;
        world.barrier()?;
        let done = rounds(&world, &things, kind, how);
        if let Err(error) = done {
            give_up(world.rank(), &error);
        }
        if kind.name == "leaving" && world.rank() != LOST {
            return Ok(());
        }
        if kind.name == "leaving" && how == "stop" {
            stop();
            return Ok(());
        }
        if kind.name == "leaving" {
            // The others also wait until this one leaves.
            let waited = world.wait_for("nothing", || Ok(false));
            give_up(world.rank(), &waited.expect_err("nothing ends this wait"));
        }
        world.barrier()?;
    }
    Ok(())
}

fn rounds(world: &World, things: &Things, kind: &Kind, how: &str) -> Result<()> {
    let is_endless = how == "for_ever" && kind.name != "leaving";
    let mut round = 0;
    while round < 2 * ROUNDS || is_endless {
        if round == ROUNDS {
            if world.rank() == Rank::ZERO {
                say(&format!("{BUSY}: {}", kind.name));
            }
            if world.rank() == LOST && how == "stop" && kind.name != "leaving" {
                stop();
            }
        }
        (kind.round)(world, things, round)?;
        round += 1;
    }
    Ok(())
}

fn stop() {
    let stopped = kill_process(rustix::process::getpid(), Signal::STOP);
    stopped.expect("a process may send signals to itself");
}

/// The handler in which rank 0 waits inside of MPI.
const WRITE_TO_ME: HandlerId = HandlerId(HandlerId::N_RESERVED);

/// Rank 0 runs a handler that waits, inside of MPI, for a rank that is stopped.
pub(crate) fn be_stuck_in_a_handler() -> Result<()> {
    let world = join()?;
    let words = world.alloc_symmetric::<u64>(N_WORDS)?;
    world.set_handler(WRITE_TO_ME, move |world, _| {
        let at = words.on(LOST).add(1);
        loop {
            let written = at.put_slice(world, &[7; N_WORDS - 1]);
            if let Err(error) = written.and_then(|()| world.flush_all()) {
                give_up(world.rank(), &error);
            }
        }
    });
    world.barrier()?;
    if world.rank() == LOST {
        let sent = world.try_send(Rank::ZERO, MessageClass::Request, WRITE_TO_ME, &[])?;
        assert_eq!(sent, Sent::Accepted);
        // Time for the message to leave.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            world.progress()?;
        }
        stop();
    }
    world.barrier()
}

/// A handler does not return, since MPI waits in it. The report of that ends the job: the thread
/// that reports it does not wait for the one inside of MPI.
pub(crate) fn end_in_a_handler() {
    let _deadline = Deadline::new("the end of a handler that waits", LIMIT);
    let hosts = SHAPE.hosts(Link::Clean);
    let settings = [("PGAS_STALL", "1"), ("PGAS_STALL_END", "1")];
    let running = hosts.start(command(SHAPE, &hosts, &["handler"], &settings));
    let ended = running.end(END_OF_JOB);
    assert!(ended.in_time, "it goes on: {ended:#?}");
    assert!(!ended.status.success(), "{ended:#?}");
    let told = format!("{}\n{}", ended.stdout, ended.stderr);
    let is_from_rank_0 = |line: &str| line.contains("rank 0 has ") && line.contains("(PGAS_STALL");
    assert!(told.lines().any(is_from_rank_0), "{ended:#?}");
    hosts.kill_all();
    assert_nothing_left(&hosts);
}

const SHAPE: Shape = Shape::new(2, 1, Mapping::Slot);
const THREE_HOSTS: Shape = Shape::new(3, 1, Mapping::Slot);

fn command(shape: Shape, hosts: &Hosts, words: &[&str], settings: &[(&str, &str)]) -> Command {
    let mut mpirun = shape.mpirun(hosts).env("PGAS_SEGMENT", "4M");
    for (name, value) in settings {
        mpirun = mpirun.env(name, value);
    }
    ranks(&mpirun, words)
}

/// The processes on the hosts that are ranks.
fn ranks_of(hosts: &Hosts) -> Vec<u32> {
    let program = std::env::current_exe().expect("this program");
    let pids = (0..hosts.n_hosts()).flat_map(|host| hosts.processes(host));
    pids.filter(|pid| {
        let runs = std::fs::read_link(format!("/proc/{pid}/exe"));
        runs.is_ok_and(|runs| runs == program) && state_of(*pid).is_some_and(|state| state != 'Z')
    })
    .collect()
}

/// Waits until `is_so`. Returns whether that came true in time.
fn eventually(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The way between the hosts is cut. All ranks on both sides end and name the host that they have
/// lost.
pub(crate) fn end_after_a_cut(kind: &Kind) {
    let _deadline = Deadline::new("the end after a cut", LIMIT);
    let hosts = SHAPE.hosts(Link::Clean);
    let words = ["wait", kind.name, "for_ever"];
    let settings = [("PGAS_SILENCE", "3")];
    let mut running = hosts.start(command(SHAPE, &hosts, &words, &settings));
    let begun = running.has_printed(BUSY, LIMIT);
    assert!(begun, "{:#?}", running.end(END_OF_JOB));
    thread::sleep(Duration::from_millis(100));
    hosts.cut(LOST.number());
    let began = Instant::now();
    let have_ended = eventually(END_OF_JOB, || ranks_of(&hosts).is_empty());
    let took = began.elapsed();
    // The launcher learns of the other host's end.
    hosts.mend(LOST.number());
    let ended = running.end(END_OF_JOB);
    assert!(have_ended, "ranks go on: {ended:#?}");
    assert!(!ended.status.success(), "{ended:#?}");
    let text = "rank 1 is on host node1 (rank 1), of which there was no sign of life for 3s (PGAS_SILENCE)";
    let is_told = ended.stdout.contains(text) || ended.stderr.contains(text);
    assert!(is_told, "not {text:?} after {took:?}: {ended:#?}");
    hosts.kill_all();
    assert_nothing_left(&hosts);
}

/// The way between two hosts is cut, while both still reach a third one. All ranks end.
pub(crate) fn end_after_a_cut_between_two() {
    let _deadline = Deadline::new("the end after a cut between two hosts", LIMIT);
    let hosts = THREE_HOSTS.hosts(Link::Clean);
    let words = ["wait", "atomic", "for_ever"];
    let settings = [("PGAS_SILENCE", "3")];
    let mut running = hosts.start(command(THREE_HOSTS, &hosts, &words, &settings));
    let begun = running.has_printed(BUSY, LIMIT);
    assert!(begun, "{:#?}", running.end(END_OF_JOB));
    thread::sleep(Duration::from_millis(100));
    hosts.cut_between([1, 2]);
    let ended = running.end(END_OF_JOB);
    assert!(ended.in_time, "it goes on: {ended:#?}");
    assert!(!ended.status.success(), "{ended:#?}");
    let told = format!("{}\n{}", ended.stdout, ended.stderr);
    let is_told = [1, 2].iter().any(|lost| {
        told.contains(&format!(
            "rank {lost} is on host node{lost} (rank {lost}), of which there was no sign of life for 3s"
        ))
    });
    assert!(is_told, "{ended:#?}");
    hosts.kill_all();
    assert_nothing_left(&hosts);
}

/// A wait for a stopped rank ends at the limit that is set.
pub(crate) fn end_at_the_limit(kind: &Kind) {
    let _deadline = Deadline::new("the end at a limit", LIMIT);
    let hosts = SHAPE.hosts(Link::Clean);
    let words = ["wait", kind.name, "stop"];
    let settings = [("PGAS_TIMEOUT", "2"), SHORT_SILENCE];
    let running = hosts.start(command(SHAPE, &hosts, &words, &settings));
    let ended = running.end(END_OF_JOB);
    assert!(ended.in_time, "it goes on: {ended:#?}");
    assert!(!ended.status.success(), "{ended:#?}");
    let told = format!("{}\n{}", ended.stdout, ended.stderr);
    let is_told = told.lines().any(|line| {
        let is_from_outside =
            line.contains("rank 0 has waited ") && line.contains("(PGAS_TIMEOUT)");
        line.contains("rank 0 waited ") || is_from_outside
    });
    assert!(is_told, "{ended:#?}");
    hosts.kill_all();
    assert_nothing_left(&hosts);
}

/// A wait of any kind for a stopped rank is reported, and continues when the rank does. Meanwhile
/// the rank's host gives signs of life, for longer than a host may be silent.
pub(crate) fn go_on_after_a_stop() {
    let _deadline = Deadline::new("waits for a stopped rank", LIMIT);
    let hosts = SHAPE.hosts(Link::Clean);
    let settings = [("PGAS_STALL", "1"), SHORT_SILENCE];
    let mut running = hosts.start(command(SHAPE, &hosts, &["wait", "all", "stop"], &settings));
    let mut n_reports = 0;
    for kind in KINDS {
        let (begun, n) = see_a_report(&hosts, &mut running, kind, n_reports);
        n_reports = n;
        if !begun {
            panic!("{}: {:#?}", kind.name, running.end(END_OF_JOB));
        }
    }
    let ended = running.end(END_OF_JOB);
    assert!(ended.in_time && ended.status.success(), "{ended:#?}");
    assert_nothing_left(&hosts);
}

/// Waits until the rank is stopped and rank 0 has reported its wait, and then continues the rank.
fn see_a_report(
    hosts: &Hosts,
    running: &mut Running<'_>,
    kind: &Kind,
    known: usize,
) -> (bool, usize) {
    let mut stopped = None;
    let is_stopped = eventually(END_OF_JOB, || {
        stopped = ranks_of(hosts)
            .into_iter()
            .find(|pid| state_of(*pid) == Some('T'));
        stopped.is_some()
    });
    let began = Instant::now();
    let mut n_reports = known;
    let is_reported = is_stopped
        && eventually(END_OF_JOB, || {
            n_reports = running.complaints().matches("rank 0 has waited ").count();
            n_reports > known
        });
    thread::sleep(STOP.saturating_sub(began.elapsed()));
    let pid = stopped.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let goes_on = pid.is_some_and(|pid| kill_process(pid, Signal::CONT).is_ok());
    let has_begun = running.has_printed(&format!("{BUSY}: {}", kind.name), END_OF_JOB);
    let n_reports = running.complaints().matches("rank 0 has waited ").count();
    (is_reported && goes_on && has_begun, n_reports)
}
