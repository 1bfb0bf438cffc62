//! The conformance suite over shared memory: ranks as threads and as processes, with the direct
//! path and through the backend.

use std::env;
use std::process::{Command, ExitCode};

use pgas_conformance::runner::Suite;
use pgas_conformance::{Case, serve};
use pgas_core::Config;
use pgas_testkit::job;

/// The argument by which the binary runs as a rank.
const RANK: &str = "--rank";

fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some(RANK) {
        let settings = Config::from_env().expect("the launcher's settings");
        serve(&pgas_smp::init(&settings).expect("a rank of the job"));
        return ExitCode::SUCCESS;
    }
    let mut suite = Suite::new()
        .over("threads", &[1, 2, 3, 4, 7], |case, n| {
            over_threads(case, n, true)
        })
        .over("threads, no direct path", &[2, 3], |case, n| {
            over_threads(case, n, false)
        });
    if !job::ARE_POSSIBLE {
        return suite.main();
    }
    let ways: [(_, _, &[u32]); 2] = [
        ("processes", "1", &[1, 2, 3, 4, 7]),
        ("processes, no direct path", "0", &[2, 3]),
    ];
    for (name, direct, sizes) in ways {
        for &n_ranks in sizes {
            suite = suite.over_jobs(name, n_ranks, |_, _| true, move || ranks(direct));
        }
    }
    suite.main()
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
fn ranks(direct: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.arg(RANK).env("PGAS_DIRECT", direct);
    command
}
