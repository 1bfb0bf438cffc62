//! The conformance suite over MPI: with the direct path, through the window, and over TCP only.
//!
//! Started by cargo, the binary starts itself under the launcher of the MPI that it was built with, once for many
//! cases; a rank that finds something wrong ends its job, and the next case starts another one.

#[path = "support/conversation.rs"]
mod conversation;
mod support;

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conversation::{Job, serve};
use libtest_mimic::{Arguments, Failed, Trial};
use pgas_core::{Config, World};
use pgas_testkit::{Case, SEGMENT_BYTES, SUITE, case_named};
use support::{is_open_mpi, mpirun};

/// How long a case may take.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// A way to run the cases.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    name: &'static str,
    n_ranks: u32,
    settings: &'static [(&'static str, &'static str)],
}

const DIRECT: &[(&str, &str)] = &[];
const NETWORK: &[(&str, &str)] = &[("PGAS_DIRECT", "0")];
/// Without shared memory below MPI. The two libraries ignore each other's settings.
const TCP: &[(&str, &str)] = &[
    ("PGAS_DIRECT", "0"),
    ("OMPI_MCA_btl", "self,tcp"),
    ("OMPI_MCA_btl_tcp_if_include", "lo"),
    ("UCX_TLS", "tcp,self"),
    ("MPIR_CVAR_NOLOCAL", "1"),
];

/// As if the ranks with odd numbers were on another host, which MPICH can be told; Open MPI knows no such thing.
const HOSTS: &[(&str, &str)] = &[("MPIR_CVAR_ODD_EVEN_CLIQUES", "1")];

/// The job that runs, if one does, and how its ranks work.
type Running = Mutex<Option<(Way, Job)>>;

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
    let sizes = [1, 2, 3, 4, 7];
    let mut ways = vec![
        ("direct", DIRECT, &sizes[..]),
        ("window", NETWORK, &sizes),
        ("tcp", TCP, &[2, 3]),
    ];
    if !is_open_mpi() {
        ways.push(("hosts", HOSTS, &[2, 3]));
    }
    for (name, settings, sizes) in ways {
        for &n_ranks in sizes {
            if name != "direct" && !is_quick_enough(n_ranks) {
                continue;
            }
            let way = Way {
                name,
                n_ranks,
                settings,
            };
            let cases = SUITE.iter().filter(|case| case.min_ranks <= n_ranks);
            trials.extend(cases.map(|case| trial(way, case, &running)));
        }
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

/// Whether so many ranks of this machine can be tested over MPI in minutes. MPICH's windows spin without yielding
/// the processor to the rank that they wait for: with more ranks than processors each operation takes a turn of
/// the scheduler. `PGAS_TEST_CROWDED=1` tests them too.
fn is_quick_enough(n_ranks: u32) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "a setting of this test, not of the library"
    )]
    let is_wanted = std::env::var_os("PGAS_TEST_CROWDED").is_some();
    let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
    is_open_mpi() || n_ranks as usize <= n_processors || is_wanted
}

fn trial(way: Way, case: &'static Case, running: &Arc<Running>) -> Trial {
    let name = format!("{}::{}::{}", way.name, way.n_ranks, case.name);
    let running = Arc::clone(running);
    Trial::test(name, move || {
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_none_or(|(other, _)| *other != way) {
            // One after the other: a job that waits would take time from the next one.
            drop(running.take());
            *running = Some((way, Job::start(command(way))));
        }
        let (_, job) = running.as_mut().expect("started just now");
        let result = job.ask(case.name, CASE_LIMIT);
        if result.is_err() {
            *running = None;
        }
        result.map_err(Failed::from)
    })
}

/// The argument by which the binary runs as a rank.
const RANK: &str = "--rank";

fn command(way: Way) -> Command {
    let mut command = mpirun(way.n_ranks);
    command
        .arg(RANK)
        .env("PGAS_SEGMENT", SEGMENT_BYTES.to_string())
        .envs(way.settings.iter().copied());
    command
}

/// The first world starts MPI, and ends it; each case has one of its own beside it.
fn run_as_rank() {
    let settings = Config::from_env().expect("the launcher's settings");
    let first = pgas_mpi::init(&settings).expect("a rank of the job");
    let agree = |line: String| told_by_rank_zero(&first, &line);
    serve(first.rank().number() == 0, agree, |name| {
        let case = case_named(name).expect("a case of the suite");
        let world = pgas_mpi::init(&case.config(settings.clone())).expect("a world of its own");
        (case.run)(&world).expect("the case's operations succeed");
    });
}

/// Rank 0's line, on every rank.
fn told_by_rank_zero(world: &World, line: &str) -> String {
    let mut bytes = [0_u8; 120];
    bytes[..line.len()].copy_from_slice(line.as_bytes());
    let told = world
        .broadcast(pgas_core::Rank::ZERO, bytes)
        .expect("all ranks are here");
    String::from_utf8_lossy(&told)
        .trim_end_matches('\0')
        .to_owned()
}
