//! Runs the suite: the cases, over several backends, in jobs of several sizes.

use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use pgas_core::{Config, Error, World};

use crate::jobs::{self, Jobs};
use crate::{Case, SUITE};
use pgas_testkit::{Deadline, panic_text};

/// The time limit of a case, after which the whole test is aborted.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// The cases of a test binary. Each is one test, named `backend::case::n_ranks`, which libtest's
/// usual arguments select.
#[derive(Default)]
pub struct Suite {
    trials: Vec<Trial>,
    jobs: Arc<Mutex<Jobs>>,
    n_at_once: Option<usize>,
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Suite({} tests)", self.trials.len())
    }
}

impl Suite {
    /// A suite without cases.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds every case of [`SUITE`] over a backend, in a job of each of these sizes. `run` runs a
    /// case with a number of ranks and returns its failure.
    #[must_use]
    pub fn over(
        mut self,
        backend: &str,
        rank_counts: &[u32],
        run: impl Fn(&Case, u32) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let run = Arc::new(run);
        for case in SUITE {
            for &n_ranks in rank_counts.iter().filter(|n| **n >= case.min_ranks) {
                let name = format!("{backend}::{}::{n_ranks}", case.name);
                let run = Arc::clone(&run);
                let body = move || {
                    let _deadline =
                        Deadline::new(format!("{} on {n_ranks} ranks", case.name), CASE_LIMIT);
                    run(case, n_ranks).map_err(Failed::from)
                };
                self.trials.push(Trial::test(name, body));
            }
        }
        self
    }

    /// Adds the cases of [`SUITE`] that `is_chosen` by number, over a backend whose ranks are the
    /// processes of a job. `command` starts the test binary such that its processes
    /// [`serve`](crate::serve).
    #[must_use]
    pub fn over_jobs(
        mut self,
        backend: &str,
        n_ranks: u32,
        is_chosen: impl Fn(usize, &Case) -> bool,
        command: impl Fn() -> Command + Send + Sync + 'static,
    ) -> Self {
        let trials = jobs::trials(&self.jobs, (backend, n_ranks), is_chosen, command);
        self.trials.extend(trials);
        self
    }

    /// Runs one case after the other, whatever the command line says: each has the machine's
    /// processors for itself.
    #[must_use]
    pub fn one_by_one(mut self) -> Self {
        self.n_at_once = Some(1);
        self
    }

    /// Runs the cases that the command line selects, and prints the results.
    #[must_use]
    pub fn main(self) -> ExitCode {
        let mut arguments = Arguments::from_args();
        arguments.test_threads = self.n_at_once.or(arguments.test_threads);
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        let failures = jobs::lock(&self.jobs).close();
        if failures.is_empty() {
            return conclusion.exit_code();
        }
        // Nothing can be done if standard error is closed.
        let text = failures.join("\n");
        drop(writeln!(
            std::io::stderr(),
            "jobs that ended badly:\n{text}"
        ));
        ExitCode::FAILURE
    }
}

/// Runs a case with ranks as threads of this process. `launch` makes their worlds from the case's
/// settings.
///
/// # Errors
///
/// The first failure that a rank found, or the error of `launch`.
pub fn over_threads(
    case: &Case,
    launch: impl FnOnce(&Config) -> pgas_core::Result<Vec<World>>,
) -> Result<(), String> {
    let worlds = launch(&case.config(Config::default())).map_err(|error| error.to_string())?;
    run_case(case, worlds)
}

/// Runs a case as all ranks of a job, in threads.
///
/// # Errors
///
/// The first failure that a rank found. Failures of other ranks that only follow from it are left
/// out.
///
/// # Panics
///
/// If the system has no thread for a rank.
pub fn run_case(case: &Case, worlds: Vec<World>) -> Result<(), String> {
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for world in worlds {
            let failures = &failures;
            let rank = world.rank();
            let body = move || {
                let outcome = panic::catch_unwind(AssertUnwindSafe(|| run_rank(case, world)));
                if let Err(payload) = outcome {
                    let text = format!("rank {rank}: {}", panic_text(&*payload));
                    let mut list = failures.lock().unwrap_or_else(PoisonError::into_inner);
                    list.push(text);
                }
            };
            thread::Builder::new()
                .name(format!("rank {rank}"))
                .spawn_scoped(scope, body)
                .expect("a thread for each rank");
        }
    });
    let mut failures = failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    // Failures that only report another rank's failure come last.
    failures.sort_by_key(|text| text.contains(CONSEQUENCE));
    match failures.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(first),
    }
}

/// Marks failures that follow from another rank's failure.
const CONSEQUENCE: &str = "the job has failed: ";

/// Runs one rank. If it panics, the world is dropped by the panic, which informs the others.
fn run_rank(case: &Case, world: World) {
    match (case.run)(&world) {
        Ok(()) => drop(world),
        Err(error @ Error::RankFailed(_)) => panic!("{CONSEQUENCE}{error}"),
        Err(error) => panic!("{error}"),
    }
}
