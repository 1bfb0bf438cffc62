//! How jobs end when a rank or the launcher fails, and when ranks leave at different times.

use mpi::topology::SimpleCommunicator;
use pgas_core::collective::op;
use pgas_core::config::launch::Launcher;
use pgas_core::{Config, Rank};
use pgas_testkit::fault::{Fault, STALL, give_up};
use pgas_testkit::job::{self, eventually};

use crate::{END, assert_nothing_left, assert_well, ranks, run, world};

pub(crate) fn ends_by(fault: Fault, direct: &str) {
    let mut command = ranks(3, "fail", fault.name(), direct);
    command.env(STALL.0, STALL.1);
    let ended = run(command);
    assert!(ended.took < END, "{ended:?}");
    assert_nothing_left(&ended);
    assert_ne!(ended.code(), 0, "{ended:?}");
    let (stdout, stderr) = (&ended.stdout, &ended.stderr);
    match fault {
        Fault::Panic => assert!(stderr.contains("pgas: rank 1 panicked"), "{ended:?}"),
        Fault::AbortJob => {
            let text = "pgas: rank 1 ended the job: no way on";
            assert!(stderr.contains(text), "{ended:?}");
            assert_eq!(ended.code(), 5, "{ended:?}");
        }
        // The rank that ends first says why: one of those that wait, or the one that leaves.
        Fault::Leave => {
            let text = "rank 1 has left the job while others wait for it in a barrier";
            let is_told = stdout.contains(text) || stderr.contains(text);
            assert!(is_told, "{ended:?}");
        }
        Fault::Stop => {
            let text = "rank 1 has been stopped for ";
            assert!(stdout.contains(text), "{ended:?}");
        }
        Fault::Exit(code) => {
            let text = format!("pgas: rank 1 exited with code {code} without leaving the job");
            assert!(stderr.contains(&text), "{ended:?}");
            // The launcher's code is that of the rank whose end it reads first: this one, or one
            // that waited for it and ends with 1.
            let codes = [i32::from(code), 1];
            assert!(codes.contains(&ended.code()), "{ended:?}");
        }
        // The launcher reports these.
        Fault::Abort | Fault::Kill | Fault::Segfault => {}
    }
}

pub(crate) fn fail(fault: &str) {
    let fault = Fault::ALL.into_iter().find(|other| other.name() == fault);
    let fault = fault.expect("the name of a fault");
    let world = world();
    world.barrier().expect("all are here");
    if world.rank().number() == 1 {
        fault.strike(world);
    }
    if let Err(error) = world.barrier() {
        give_up(world.rank(), &error);
    }
}

pub(crate) fn launcher_killed(direct: &str) {
    let mut job = job::start(ranks(2, "wait", "", direct));
    job.lines(2);
    let processes = job.processes();
    assert!(processes.len() >= 3, "{processes:?}");
    job.signal(rustix::process::Signal::KILL);
    eventually("the ranks end with their launcher", || {
        let left = job.processes();
        left.iter().all(|pid| job::state_of(*pid) == Some('Z'))
    });
    let ended = job.end();
    assert_nothing_left(&ended);
}

/// Waits for ever, as a rank does while the others compute for long.
pub(crate) fn wait(_: &str) {
    let world = world();
    job::say("here");
    let error = world.wait_for("nothing", || Ok(false));
    drop(error);
}

pub(crate) fn returned_early(direct: &str) {
    let ended = run(ranks(3, "return_early", "", direct));
    assert!(ended.took < END, "{ended:?}");
    assert_ne!(ended.code(), 0, "{ended:?}");
    // It is chance which rank is heard before the launcher ends all.
    let texts = [
        "rank 2 gives up",
        "rank 2 has left the job while others wait",
    ];
    let is_told = texts.iter().any(|text| ended.stdout.contains(text));
    assert!(is_told, "{ended:?}");
    assert_nothing_left(&ended);
}

pub(crate) fn told_by_who_left(direct: &str) {
    let ended = run(ranks(3, "leave_the_silent", "", direct));
    assert!(ended.took < END, "{ended:?}");
    assert_ne!(ended.code(), 0, "{ended:?}");
    let text = "pgas: rank 1 has left the job while others wait for it in a barrier";
    assert!(ended.stderr.contains(text), "{ended:?}");
    assert_nothing_left(&ended);
}

/// Rank 1 leaves in good order. The barrier of the others fails for that; they stay and say
/// nothing.
pub(crate) fn leave_the_silent(_: &str) {
    let world = world();
    world.barrier().expect("all are here");
    if world.rank().number() == 1 {
        Fault::Leave.strike(world);
    }
    let failed = world.barrier();
    assert!(failed.is_err(), "nobody else ends the barrier");
    std::thread::sleep(END);
}

/// A `main` that returns an error on one rank: the world is dropped first.
pub(crate) fn return_early(_: &str) {
    let world = world();
    let rank = world.rank();
    if rank.number() == 2 {
        drop(world);
        job::say("rank 2 gives up");
        job::exit(1);
    }
    if let Err(error) = world.barrier() {
        give_up(rank, &error);
    }
}

/// Ranks that leave while others still wait in a collective of MPI, again and again: what the
/// others ask them meanwhile must not reach the next world, whose communicators may get the same
/// numbers.
pub(crate) fn left_often(direct: &str) {
    let mut command = ranks(7, "leave_often", "", direct);
    command.env("PGAS_SEGMENT", "64K");
    assert_well(&run(command));
}

pub(crate) fn leave_often(_: &str) {
    let outer = world();
    let comm = SimpleCommunicator::world();
    let settings = Config::from_env().expect("settings that mean something");
    let values = vec![1_u32; 10_000];
    for round in 0..30 {
        let world = pgas_mpi::init_on(&comm, &settings).expect("a world beside the first");
        let n = world.n_ranks();
        let sum = world.allreduce(round, op::Sum).expect("all are here");
        assert_eq!(sum, n * round, "a message of an earlier world");
        let last = Rank::new(n - 1);
        let gathered = world.team().gather(last.number(), &values);
        let gathered = gathered.expect("all are here");
        assert_eq!(gathered.is_some(), world.rank() == last);
        world.broadcast(Rank::ZERO, round).expect("all are here");
    }
    outer.barrier().expect("all are here");
}

/// Ranks that wait for one that is stopped before it has joined do so inside of MPI, where only the
/// limit of waits ends it.
pub(crate) fn start_limited() {
    let mut command = ranks(2, "come_or_stop", "", "1");
    command.env("PGAS_TIMEOUT", "2").env("PGAS_STALL", "1");
    let ended = run(command);
    assert!(ended.took < END, "{ended:?}");
    assert_ne!(ended.code(), 0, "{ended:?}");
    for (from, to) in [
        ("pgas: rank 0 has waited ", "(PGAS_STALL)"),
        ("pgas: rank 0 has waited ", "(PGAS_TIMEOUT)"),
    ] {
        let lines = &mut ended.stderr.lines();
        let is_told = lines.any(|line| line.contains(from) && line.contains(to));
        assert!(is_told, "{to}: {ended:?}");
    }
    assert!(ended.stderr.contains("inside of MPI"), "{ended:?}");
    assert_nothing_left(&ended);
}

pub(crate) fn come_or_stop(_: &str) {
    let config = Config::from_env().expect("settings that mean something");
    let rank = match config.launcher {
        Launcher::Pmi { place, .. } | Launcher::OpenMpi { place, .. } => place.rank,
        other => panic!("{other:?} is no launcher of MPI"),
    };
    if rank == 1 {
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::STOP).expect("its own");
    }
    drop(pgas_mpi::init(&config));
    panic!("the other rank has not joined");
}
