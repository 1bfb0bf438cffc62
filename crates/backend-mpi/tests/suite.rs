//! The conformance suite over MPI: with the direct path, through the window, over TCP only, and
//! under valgrind.
//!
//! Started by cargo, the binary starts itself under the launcher of the MPI that it was built with,
//! once for many cases. A rank that finds something wrong ends its job, and the next case starts
//! another one.

mod support;
#[path = "support/wanted.rs"]
mod wanted;
#[path = "support/worlds.rs"]
mod worlds;

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use pgas_conformance::{Case, SEGMENT_BYTES, SUITE, case_named, serve_with};
use pgas_core::Config;
use pgas_testkit::conversation::Job;
use support::{is_open_mpi, mpirun, mpirun_under};
use worlds::Worlds;

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

/// Cases of every kind of operation through the window, for the way [`MEMORY`]: valgrind makes them
/// twenty times slower.
const OF_EVERY_KIND: &[&str] = &[
    "slices_of_structs_round_trip",
    "short_puts_arrive_whatever_comes_between_them_and_the_barrier",
    "events_may_be_waited_for_in_any_order",
    "gets_whose_events_are_dropped_or_forgotten_do_no_harm",
    "fragments_on_all_ranks_move_what_loops_would",
    "strided_transfers_of_long_blocks",
    "who_sees_the_signal_sees_the_data",
    "concurrent_fetching_adds_give_every_number_once",
    "swaps_pass_every_value_on_exactly_once",
    "messages_of_every_size_arrive_whole",
    "an_all_to_all_of_varying_lengths_transposes",
    "a_rank_may_leave_with_dropped_operations_in_flight",
];

/// Makes MPICH work as if the ranks with odd numbers were on another host. Open MPI has no such
/// setting.
const HOSTS: &[(&str, &str)] = &[("MPIR_CVAR_ODD_EVEN_CLIQUES", "1")];

/// The running job, if there is one, and its way to run cases.
type Running = Mutex<Option<(Way, Job)>>;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(RANK) {
        run_as_rank();
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // One job at a time, whose ranks have all of the machine's processors.
    arguments.test_threads = Some(1);
    let running = Arc::new(Running::default());
    let mut trials = Vec::new();
    let mut shared_out = 0;
    for way in ways() {
        let share = if way.runs_all() || wanted::is_all() {
            1
        } else {
            shared_out += 1;
            SHARES
        };
        let cases = SUITE.iter().enumerate();
        let cases = cases
            .filter(|(i, case)| (i + shared_out) % share == 0 && case.min_ranks <= way.n_ranks);
        trials.extend(cases.map(|(_, case)| trial(way, case, &running)));
    }
    let way = Way {
        name: MEMORY,
        n_ranks: 2,
        settings: NETWORK,
    };
    let cases = OF_EVERY_KIND
        .iter()
        .map(|name| case_named(name).expect("a case"));
    trials.extend(cases.map(|case| trial(way, case, &running)));
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(
        running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(),
    );
    conclusion.exit_code()
}

/// Most ways run one case in this many, and the next such way runs the next ones. So any three of
/// them in a row run each case. Besides, some ways with two ranks run all cases, and so do ranks as
/// processes in the tests of the shared-memory backend.
const SHARES: usize = 3;

fn ways() -> Vec<Way> {
    const SIZES: &[u32] = &[1, 2, 3, 4, 7];
    let mut ways = vec![
        ("direct", DIRECT, SIZES),
        ("window", NETWORK, SIZES),
        ("tcp", TCP, &[2, 3]),
    ];
    if !is_open_mpi() {
        ways.push(("hosts", HOSTS, &[2, 3]));
    }
    let ways = ways.into_iter().flat_map(|(name, settings, sizes)| {
        sizes.iter().map(move |&n_ranks| Way {
            name,
            n_ranks,
            settings,
        })
    });
    ways.collect()
}

impl Way {
    /// Whether it always runs all cases.
    fn runs_all(self) -> bool {
        self.n_ranks == 2 && matches!(self.name, "direct" | "window")
    }
}

fn trial(way: Way, case: &'static Case, running: &Arc<Running>) -> Trial {
    let name = format!("{}::{}::{}", way.name, way.n_ranks, case.name);
    let running = Arc::clone(running);
    Trial::test(name, move || {
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_none_or(|(other, _)| *other != way) {
            // One job at a time: one that waits would take time from the next one.
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

/// The name of the way under valgrind, which ends a rank at the first access to memory that it must
/// not use.
const MEMORY: &str = "memory";

/// Open MPI's own list of reports that mean nothing. MPICH has none, and needs none.
const OF_OPEN_MPI: &str = "--suppressions=/usr/share/openmpi/openmpi-valgrind.supp";
/// Further reports that mean nothing.
const SUPPRESSIONS: &str = concat!(
    "--suppressions=",
    env!("CARGO_MANIFEST_DIR"),
    "/tests/valgrind.supp"
);

fn command(way: Way) -> Command {
    let mut command = if way.name == MEMORY {
        let mut checker = vec![
            "valgrind",
            "--quiet",
            "--exit-on-first-error=yes",
            "--error-exitcode=9",
            SUPPRESSIONS,
        ];
        if is_open_mpi() {
            checker.push(OF_OPEN_MPI);
        }
        mpirun_under(&checker, way.n_ranks)
    } else {
        mpirun(way.n_ranks)
    };
    command
        .arg(RANK)
        .env("PGAS_SEGMENT", SEGMENT_BYTES.to_string())
        .envs(way.settings.iter().copied());
    command
}

/// The first world starts MPI, and ends it.
fn run_as_rank() {
    let settings = Config::from_env().expect("the launcher's settings");
    let first = pgas_mpi::init(&settings).expect("a rank of the job");
    let mut worlds = Worlds::new(&first, settings);
    serve_with(&first, |case| worlds.run(case).expect("a world"));
}
