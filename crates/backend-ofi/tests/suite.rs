//! The conformance suite over libfabric: over TCP, over its shared memory, and with the direct
//! path.
//!
//! Started by cargo, the binary starts itself as ranks, once for many cases; a rank that finds
//! something wrong ends its job, and the next case starts another one. Cases that need a world of
//! their own have a job of their own.

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use pgas_conformance::{Case, SEGMENT_BYTES, SUITE, WAIT_LIMIT, case_named};
use pgas_core::{Config, Rank, World};
use pgas_testkit::conversation::{Job, serve};
use pgas_testkit::setting;

/// How long a case may take.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// A way to run the cases.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    name: &'static str,
    n_ranks: u32,
    /// One in so many cases runs, unless all are asked for.
    share: usize,
    settings: &'static [(&'static str, &'static str)],
}

const TCP: &[(&str, &str)] = &[("PGAS_DIRECT", "0"), ("PGAS_OFI_PROVIDER", "tcp;ofi_rxm")];
const SHM: &[(&str, &str)] = &[("PGAS_DIRECT", "0"), ("PGAS_OFI_PROVIDER", "shm")];

/// Of the cases that need a job of their own, whose start takes longer than they do, one in so many
/// times as many.
const ALONE: usize = 4;

/// With two ranks over TCP and over shared memory: the one's cases are the other's gaps.
#[rustfmt::skip]
const WAYS: &[Way] = &[
    Way { name: "tcp", n_ranks: 1, share: 8, settings: TCP },
    Way { name: "tcp", n_ranks: 2, share: 2, settings: TCP },
    Way { name: "tcp", n_ranks: 3, share: 8, settings: TCP },
    Way { name: "tcp", n_ranks: 4, share: 16, settings: TCP },
    Way { name: "tcp", n_ranks: 7, share: 32, settings: TCP },
    Way { name: "shm", n_ranks: 3, share: 32, settings: SHM },
    Way { name: "shm", n_ranks: 2, share: 2, settings: SHM },
    Way { name: "direct", n_ranks: 3, share: 16, settings: &[] },
];

/// The job that runs, if one does, how its ranks work, and whether they compare arguments.
type Running = Mutex<Option<(Way, bool, Job)>>;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(RANK) {
        run_as_rank();
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // The ranks of one job have the machine's processors for themselves.
    arguments.test_threads = Some(1);
    let running = Arc::new(Running::default());
    let mut trials = Vec::new();
    for (shift, way) in WAYS.iter().enumerate() {
        let share_of = |case: &Case| match (is_all(), case.alone) {
            (true, _) => 1,
            (false, false) => way.share,
            (false, true) => ALONE * way.share,
        };
        let cases = SUITE.iter().enumerate();
        let cases = cases.filter(|(i, case)| (i + shift).is_multiple_of(share_of(case)));
        let mut cases: Vec<&Case> = cases
            .map(|(_, case)| case)
            .filter(|case| case.min_ranks <= way.n_ranks)
            .collect();
        // Those that share a job one behind the other.
        cases.sort_by_key(|case| (case.alone, case.check));
        trials.extend(cases.into_iter().map(|case| trial(*way, case, &running)));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(
        running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(),
    );
    conclusion.exit_code()
}

/// Whether everything is to be done that takes long.
fn is_all() -> bool {
    setting("PGAS_TEST_ALL", 0) != 0
}

fn trial(way: Way, case: &'static Case, running: &Arc<Running>) -> Trial {
    let name = format!("{}::{}::{}", way.name, way.n_ranks, case.name);
    let running = Arc::clone(running);
    Trial::test(name, move || {
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |job: &(Way, bool, Job)| (job.0, job.1) == (way, case.check);
        if case.alone || !running.as_ref().is_some_and(fits) {
            // One after the other: a job that waits would take time from the next one.
            drop(running.take());
            *running = Some((way, case.check, Job::start(command(way, case))));
        }
        let (_, _, job) = running.as_mut().expect("started just now");
        let result = job.ask(case.name, CASE_LIMIT);
        if result.is_err() || case.alone {
            *running = None;
        }
        result.map_err(Failed::from)
    })
}

/// The argument by which the binary runs as a rank.
const RANK: &str = "--rank";

fn command(way: Way, case: &Case) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .arg(RANK)
        .env("PGAS_RANKS", way.n_ranks.to_string())
        .env("PGAS_SEGMENT", SEGMENT_BYTES.to_string())
        .env("PGAS_STATS", "peers")
        .env("PGAS_CHECK", if case.check { "1" } else { "0" })
        .env("PGAS_TIMEOUT", WAIT_LIMIT.as_secs().to_string())
        .envs(way.settings.iter().copied());
    command
}

fn run_as_rank() {
    let settings = Config::from_env().expect("the launcher's settings");
    let world = pgas_ofi::init(&settings).expect("a rank of the job");
    let agree = |line: String| told_by_rank_zero(&world, &line);
    serve(world.rank().number() == 0, agree, |name| {
        let case = case_named(name).expect("a case of the suite");
        if let Err(error) = (case.run)(&world) {
            world.abort(1, &format!("fails in {}: {error}", case.name));
        }
    });
}

/// Rank 0's line, on every rank.
fn told_by_rank_zero(world: &World, line: &str) -> String {
    let mut bytes = [0_u8; 120];
    bytes[..line.len()].copy_from_slice(line.as_bytes());
    let told = world
        .broadcast(Rank::ZERO, bytes)
        .expect("all ranks are here");
    String::from_utf8_lossy(&told)
        .trim_end_matches('\0')
        .to_owned()
}
