//! Running a program on the reference transport: one thread a rank.

use std::sync::Arc;

use super::{Loopback, Options, SEGMENT_BYTES, job};
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

/// The worlds of a new job, in the order of ranks, for a caller that gives each a thread of its
/// own.
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

/// Runs `body` as each rank of a new job, a thread each, and returns the results in the order of
/// ranks.
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
    run_job(job(n_ranks, segment_bytes, options), config, &body)
}

/// Runs `body` as each of `ranks`.
pub(super) fn run_job<R: Send>(
    ranks: Vec<Loopback>,
    config: &Config,
    body: &(dyn Fn(World) -> R + Sync),
) -> Vec<R> {
    let shared = Arc::clone(&ranks[0].job);
    let world = |backend| World::new(Arc::new(backend), config.clone());
    let worlds: Result<_> = ranks.into_iter().map(world).collect();
    let worlds = worlds.expect("settings that can be used");
    let failed = |rank, text: &str| shared.fail(rank, format!("panicked: {text}"));
    let culprit = |rank, _: &str| {
        shared
            .failure
            .get()
            .is_some_and(|failure| failure.rank == rank)
    };
    process::play_all(worlds, body, &failed, &culprit)
}
