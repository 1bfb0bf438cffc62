//! The conformance suite over shared memory: ranks as threads and as processes, with the direct
//! path and through the backend.

use std::env;
use std::process::{Command, ExitCode};

use pgas_conformance::runner::Suite;
use pgas_conformance::{Case, SEGMENT_BYTES, case_named};
use pgas_core::Config;
use pgas_testkit::job;

/// The argument by which the binary runs as one rank of the case that follows it.
const RANK_OF: &str = "--rank-of";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    if args.next().as_deref() == Some(RANK_OF) {
        return run_as_rank(&args.next().expect("the name of a case"));
    }
    let suite = Suite::new()
        .over("threads", &[1, 2, 3, 4, 7], |case, n| {
            over_threads(case, n, true)
        })
        .over("threads, no direct path", &[2, 3], |case, n| {
            over_threads(case, n, false)
        });
    if !job::ARE_POSSIBLE {
        return suite.main();
    }
    suite
        .over("processes", &[1, 2, 3, 4, 7], |case, n| {
            over_processes(case, n, "1")
        })
        .over("processes, no direct path", &[2, 3], |case, n| {
            over_processes(case, n, "0")
        })
        .main()
}

fn over_threads(case: &Case, n_ranks: u32, direct: bool) -> Result<(), String> {
    let mut config = case.config(Config::default());
    config.direct = direct;
    let outcomes = pgas_smp::threads_with(n_ranks, &config, |world| {
        (case.run)(&world).expect("the case's operations succeed");
    });
    outcomes.map(drop).map_err(|error| error.to_string())
}

/// Starts this binary, which starts the ranks of a job.
fn over_processes(case: &Case, n_ranks: u32, direct: &str) -> Result<(), String> {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command
        .args([RANK_OF, case.name])
        .env("PGAS_RANKS", n_ranks.to_string())
        .env("PGAS_SEGMENT", SEGMENT_BYTES.to_string())
        .env("PGAS_DIRECT", direct);
    let ended = job::start(command).end();
    if ended.status.success() {
        return Ok(());
    }
    Err(format!(
        "{}\n{}{}",
        ended.status, ended.stdout, ended.stderr
    ))
}

fn run_as_rank(name: &str) -> ExitCode {
    let case = case_named(name).expect("a case of the suite");
    let config = case.config(Config::from_env().expect("the launcher's settings"));
    let world = pgas_smp::init(&config).expect("a rank of the job");
    (case.run)(&world).expect("the case's operations succeed");
    ExitCode::SUCCESS
}
