//! Runs cases in jobs of processes, which start once for many cases.
//!
//! Started by cargo, a test binary starts itself as ranks. They [`serve`]: rank 0 reads the names
//! of cases, and all of them run these in one world. A case that needs a world of its own has a job
//! of its own. A rank that finds something wrong ends its job, and the next case starts another
//! one.

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use pgas_core::{Rank, World};
use pgas_testkit::conversation::{self, Job};

use crate::{Case, SEGMENT_BYTES, SUITE, WAIT_LIMIT, case_named};

/// The time limit of a case, after which its job is killed.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// The longest name of a case, in bytes.
const NAME_BYTES: usize = 120;

/// The job that runs cases: one at a time, because a job that waits takes time from another.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    running: Option<(Way, Job)>,
    /// How jobs ended that did not end well after the last of their cases.
    failures: Vec<String>,
}

/// The cases that share a job: over one backend, with so many ranks, which compare the arguments of
/// collectives or do not.
#[derive(Clone, Debug, PartialEq)]
struct Way {
    backend: String,
    n_ranks: u32,
    check: bool,
}

impl Jobs {
    /// Runs the case in the job of its way, or in one of its own.
    fn run(&mut self, way: Way, case: &Case, command: Command) -> Result<(), String> {
        let fits = |running: &(Way, Job)| running.0 == way;
        if case.alone || !self.running.as_ref().is_some_and(fits) {
            self.end();
            self.running = Some((way, Job::start(command)));
        }
        let (_, job) = self.running.as_mut().expect("started just now");
        let result = job.ask(case.name, CASE_LIMIT);
        if result.is_err() {
            self.running = None;
        } else if case.alone {
            let (_, job) = self.running.take().expect("it has just answered");
            return job.leave();
        }
        result
    }

    /// Lets the running job end.
    fn end(&mut self) {
        let Some((way, job)) = self.running.take() else {
            return;
        };
        if let Err(text) = job.leave() {
            let Way {
                backend, n_ranks, ..
            } = way;
            self.failures
                .push(format!("{backend}, {n_ranks} ranks: {text}"));
        }
    }

    /// Lets the last job end. Returns how jobs ended that did not end well.
    pub(crate) fn close(&mut self) -> Vec<String> {
        self.end();
        std::mem::take(&mut self.failures)
    }
}

pub(crate) fn lock(jobs: &Mutex<Jobs>) -> MutexGuard<'_, Jobs> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tests of the cases that `is_chosen` by their numbers: those that share a job one behind the
/// other. `command` starts the ranks of a job.
pub(crate) fn trials(
    jobs: &Arc<Mutex<Jobs>>,
    (backend, n_ranks): (&str, u32),
    is_chosen: impl Fn(usize, &Case) -> bool,
    command: impl Fn() -> Command + Send + Sync + 'static,
) -> Vec<Trial> {
    let mut cases: Vec<&'static Case> = SUITE
        .iter()
        .enumerate()
        .filter(|(i, case)| n_ranks >= case.min_ranks && is_chosen(*i, case))
        .map(|(_, case)| case)
        .collect();
    cases.sort_by_key(|case| (case.alone, case.check));
    let command = Arc::new(command);
    let trial = |case: &'static Case| {
        let way = Way {
            backend: backend.to_owned(),
            n_ranks,
            check: case.check,
        };
        let (jobs, command) = (Arc::clone(jobs), Arc::clone(&command));
        Trial::test(format!("{backend}::{}::{n_ranks}", case.name), move || {
            let command = with_settings(command(), n_ranks, case);
            lock(&jobs).run(way, case, command).map_err(Failed::from)
        })
    };
    cases.into_iter().map(trial).collect()
}

/// The settings of [`Case::config`], as an environment.
fn with_settings(mut command: Command, n_ranks: u32, case: &Case) -> Command {
    command
        .env("PGAS_RANKS", n_ranks.to_string())
        .env("PGAS_SEGMENT", SEGMENT_BYTES.to_string())
        .env("PGAS_STATS", "peers")
        .env("PGAS_CHECK", if case.check { "1" } else { "0" })
        .env("PGAS_TIMEOUT", WAIT_LIMIT.as_secs().to_string());
    command
}

/// A rank's side: runs the cases that the test asks for, in this world.
///
/// # Panics
///
/// If the test asks for a case that does not exist, or does not read answers.
pub fn serve(world: &World) {
    serve_with(world, |case| {
        if let Err(error) = (case.run)(world) {
            world.abort(1, &format!("fails in {}: {error}", case.name));
        }
    });
}

/// As [`serve`]; `run` finds the case its world.
///
/// # Panics
///
/// Those of [`serve`].
pub fn serve_with(world: &World, mut run: impl FnMut(&'static Case)) {
    let agree = |line: String| told_by_rank_zero(world, &line);
    conversation::serve(world.rank() == Rank::ZERO, agree, |name| {
        run(case_named(name).expect("a case of the suite"));
    });
}

/// Rank 0's line, on every rank.
fn told_by_rank_zero(world: &World, line: &str) -> String {
    let mut bytes = [0_u8; NAME_BYTES];
    bytes[..line.len()].copy_from_slice(line.as_bytes());
    let told = world.broadcast(Rank::ZERO, bytes);
    let told = told.expect("all ranks are here");
    String::from_utf8_lossy(&told)
        .trim_end_matches('\0')
        .to_owned()
}
