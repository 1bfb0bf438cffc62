//! Ranks as threads of one process: for tests, doc tests and first steps.

use std::sync::Arc;

use pgas_core::{Config, Rank, Result, World, process};

use crate::member::Member;
use crate::segment::{self, Job};

/// The default size of the segment of a rank that is a thread: reserved, not allocated; Miri
/// allocates it.
const SEGMENT_BYTES: u64 = if cfg!(miri) { 1 << 20 } else { 1 << 30 };

/// Runs `body` as `n_ranks` ranks, each a thread of this process, and returns their results in
/// order.
///
/// When `body` returns, its rank leaves the job. A handle that it has returned, or has put
/// elsewhere, still reaches memory, but no rank waits for this one any more.
/// That holds for a body that fails, too: an [`Err`] is a value like others, which the caller sees
/// when all ranks have ended. A rank that waits for what this one would have brought waits on. Set
/// [`Config::timeout`](pgas_core::Config::timeout) where that may happen, or panic.
///
/// A rank that panics fails the job: the others' waits return [`Error::RankFailed`], and the panic
/// is resumed here when all have ended. `init` on such a thread returns another handle on its
/// rank's world. Jobs of threads are independent of each other, and of the job that the process is
/// in.
///
/// [`Error::RankFailed`]: pgas_core::Error::RankFailed
///
/// # Errors
///
/// If the memory for the segments is refused.
///
/// # Panics
///
/// If a rank panics, or the system refuses a thread, or `n_ranks` is 0.
///
/// # Examples
///
/// ```
/// let sums = pgas_smp::threads(3, |world| {
///     let inbox = world.alloc_symmetric::<u64>(1)?;
///     let next = pgas_core::Rank::new((world.rank().number() + 1) % world.n_ranks());
///     inbox.on(next).put(&world, 10 + u64::from(world.rank().number()))?;
///     world.barrier()?;
///     inbox.here().get(&world)
/// })?;
/// assert_eq!(sums.into_iter().collect::<pgas_core::Result<Vec<_>>>()?, [12, 10, 11]);
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[track_caller]
pub fn threads<R: Send>(n_ranks: u32, body: impl Fn(World) -> R + Sync) -> Result<Vec<R>> {
    threads_with(n_ranks, &Config::default(), body)
}

/// As [`threads`], with settings.
///
/// # Errors
///
/// If the settings do not fit or the memory for the segments is refused.
///
/// # Panics
///
/// If a rank panics, or the system refuses a thread, or `n_ranks` is 0.
#[track_caller]
pub fn threads_with<R: Send>(
    n_ranks: u32,
    config: &Config,
    body: impl Fn(World) -> R + Sync,
) -> Result<Vec<R>> {
    run(n_ranks, config, &body)
}

/// One function for all bodies with the same kind of result.
#[track_caller]
fn run<R: Send>(
    n_ranks: u32,
    config: &Config,
    body: &(dyn Fn(World) -> R + Sync),
) -> Result<Vec<R>> {
    assert!(n_ranks > 0, "a job has at least one rank");
    let mut config = config.clone();
    config.segment_bytes.get_or_insert(SEGMENT_BYTES);
    let job = Arc::new(Job::anonymous(segment::layout(n_ranks, &config)?)?);
    let world = |rank| {
        let member = Member::thread(Arc::clone(&job), rank);
        World::new(Arc::new(member), config.clone())
    };
    let worlds = (0..n_ranks).map(world).collect::<Result<_>>()?;
    let failed = |rank: Rank, text: &str| {
        let text = format!("panicked: {text}");
        job.control().fail(rank.number(), &text);
    };
    let culprit = |rank: Rank, _: &str| {
        let failure = job.control().failure();
        failure.is_some_and(|(culprit, _)| culprit == rank.number())
    };
    Ok(process::play_all(worlds, body, &failed, &culprit))
}
