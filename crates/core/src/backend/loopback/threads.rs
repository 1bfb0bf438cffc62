//! Running a program on the reference transport: one thread a rank.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

use super::{Job, Loopback, Options, SEGMENT_BYTES, job};
use crate::{Config, Result, World, process};

/// The world of a job of one rank, for documentation and tests.
///
/// # Examples
///
/// ```
/// let world = pgas_core::backend::loopback::world();
/// assert_eq!((world.rank().number(), world.n_ranks()), (0, 1));
/// ```
///
/// # Panics
///
/// Never, as the settings are the defaults.
#[must_use]
pub fn world() -> World {
    let mut ranks = job(1, SEGMENT_BYTES, &Options::default());
    let only = ranks.pop().expect("a job of one rank");
    World::new(Arc::new(only), Config::default()).expect("the default settings can be used")
}

/// The worlds of a new job, in the order of ranks, for a caller that gives each a thread of its own.
///
/// # Errors
///
/// [`Error::Setting`](crate::Error::Setting) if a segment of that size cannot be used.
///
/// # Panics
///
/// If there are no ranks.
pub fn worlds(n_ranks: u32, config: &Config) -> Result<Vec<World>> {
    worlds_over(&Options::default(), n_ranks, config)
}

/// As [`worlds`], over a transport of this kind.
///
/// # Errors
///
/// As [`worlds`].
///
/// # Panics
///
/// As [`worlds`].
pub fn worlds_over(options: &Options, n_ranks: u32, config: &Config) -> Result<Vec<World>> {
    let segment_bytes = config.segment_bytes.unwrap_or(SEGMENT_BYTES);
    job(n_ranks, segment_bytes, options)
        .into_iter()
        .map(|backend| World::new(Arc::new(backend), config.clone()))
        .collect()
}

/// Runs `body` as each rank of a new job, a thread each, and returns the results in the order of ranks.
///
/// # Panics
///
/// With the panic of the first rank that panicked; the other ranks' waits fail with
/// [`Error::RankFailed`](crate::Error::RankFailed).
///
/// # Examples
///
/// ```
/// let sums = pgas_core::backend::loopback::run(4, |world| {
///     let cell = world.alloc::<u64>(1).unwrap();
///     cell.fetch_add(&world, 3).unwrap();
///     cell.get(&world).unwrap() + u64::from(world.n_ranks())
/// });
/// assert_eq!(sums, [7, 7, 7, 7]);
/// ```
pub fn run<R: Send>(n_ranks: u32, body: impl Fn(World) -> R + Sync) -> Vec<R> {
    run_with(n_ranks, &Config::default(), body)
}

/// As [`run`], with settings: `segment_bytes`, `check`, `statistics`, `timeout`.
///
/// # Panics
///
/// As [`run`], and if a segment of that size cannot be used.
pub fn run_with<R: Send>(
    n_ranks: u32,
    config: &Config,
    body: impl Fn(World) -> R + Sync,
) -> Vec<R> {
    run_over(&Options::default(), n_ranks, config, body)
}

/// As [`run_with`], over a transport of this kind.
///
/// # Panics
///
/// As [`run_with`].
pub fn run_over<R: Send>(
    options: &Options,
    n_ranks: u32,
    config: &Config,
    body: impl Fn(World) -> R + Sync,
) -> Vec<R> {
    let segment_bytes = config.segment_bytes.unwrap_or(SEGMENT_BYTES);
    run_job(job(n_ranks, segment_bytes, options), config, body)
}

/// Runs `body` as each of `ranks`.
pub(super) fn run_job<R: Send>(
    ranks: Vec<Loopback>,
    config: &Config,
    body: impl Fn(World) -> R + Sync,
) -> Vec<R> {
    let shared = Arc::clone(&ranks[0].job);
    let outcomes: Vec<thread::Result<R>> = thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .into_iter()
            .map(|backend| {
                let (shared, body) = (&shared, &body);
                thread::Builder::new()
                    .name(format!("rank {}", backend.rank))
                    .spawn_scoped(scope, move || run_rank(shared, backend, config, body))
                    .expect("a thread for each rank")
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().and_then(|r| r);
        threads.into_iter().map(join).collect()
    });
    results(&shared, outcomes)
}

/// Runs one rank; a panic fails the job at once, since the others may wait for this rank.
fn run_rank<R>(
    job: &Job,
    backend: Loopback,
    config: &Config,
    body: &(impl Fn(World) -> R + Sync),
) -> thread::Result<R> {
    let rank = backend.rank;
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let world =
            World::new(Arc::new(backend), config.clone()).expect("settings that can be used");
        process::play(&world.downgrade(), || body(world))
    }));
    if let Err(panic) = &outcome {
        job.fail(rank, format!("panicked: {}", text(&**panic)));
    }
    outcome
}

/// What a panic said.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("with a value that is no text")
}

/// The results of all ranks, or the panic that failed the job.
fn results<R>(job: &Job, outcomes: Vec<thread::Result<R>>) -> Vec<R> {
    let culprit = job.failure.get().map(|failure| failure.rank.index());
    let mut first = None;
    let mut results = Vec::with_capacity(outcomes.len());
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(result) => results.push(result),
            Err(panic) if first.is_none() || culprit == Some(rank) => first = Some(panic),
            Err(_) => {}
        }
    }
    match first {
        None => results,
        Some(panic) => panic::resume_unwind(panic),
    }
}
