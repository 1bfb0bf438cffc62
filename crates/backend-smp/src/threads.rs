//! Ranks as threads of one process: for tests, doc tests and first steps.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

use pgas_core::{Config, Result, World, process};

use crate::member::Member;
use crate::segment::{self, Job};

/// The segment of a thread's rank unless the configuration names another one: reserved, not allocated.
const SEGMENT_BYTES: u64 = 1 << 30;

/// Runs `body` as `n_ranks` ranks, each a thread of this process, and returns their results in order.
///
/// A rank that panics fails the job: the others' waits return [`Error::RankFailed`], and the panic is
/// resumed here when all have ended. `init` on such a thread gives another handle on its rank's world.
/// Jobs of threads know nothing of each other, nor of the job that the process is in.
///
/// [`Error::RankFailed`]: pgas_core::Error::RankFailed
///
/// # Errors
///
/// When the memory for the segments is refused.
///
/// # Panics
///
/// If a rank panics, or `n_ranks` is 0.
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
pub fn threads<R: Send>(n_ranks: u32, body: impl Fn(World) -> R + Sync) -> Result<Vec<R>> {
    threads_with(n_ranks, &Config::default(), body)
}

/// As [`threads`], with settings.
///
/// # Errors
///
/// When the settings do not fit or the memory for the segments is refused.
///
/// # Panics
///
/// If a rank panics, or `n_ranks` is 0.
pub fn threads_with<R: Send>(
    n_ranks: u32,
    config: &Config,
    body: impl Fn(World) -> R + Sync,
) -> Result<Vec<R>> {
    assert!(n_ranks > 0, "a job has at least one rank");
    let mut config = config.clone();
    config.segment_bytes.get_or_insert(SEGMENT_BYTES);
    let job = Arc::new(Job::anonymous(segment::layout(n_ranks, &config)?)?);
    let worlds: Vec<World> = (0..n_ranks)
        .map(|rank| {
            World::new(
                Arc::new(Member::thread(Arc::clone(&job), rank)),
                config.clone(),
            )
        })
        .collect::<Result<_>>()?;
    let results = thread::scope(|scope| {
        let start = |world: World| {
            let (job, body) = (&job, &body);
            let name = format!("rank {}", world.rank());
            let run = move || {
                let rank = world.rank().number();
                let as_rank = world.downgrade();
                let played = || process::play(&as_rank, || body(world));
                let result = panic::catch_unwind(AssertUnwindSafe(played));
                if let Err(payload) = &result {
                    job.control()
                        .fail(rank, &format!("panicked: {}", message(&**payload)));
                }
                result
            };
            thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, run)
                .expect("a thread for a rank")
        };
        let running: Vec<_> = worlds.into_iter().map(start).collect();
        let ends = running
            .into_iter()
            .map(|rank| rank.join().expect("panics are caught inside"));
        ends.collect::<Vec<_>>()
    });
    let failed = job.control().failure().map_or(0, |(rank, _)| rank as usize);
    let mut values = Vec::with_capacity(results.len());
    let mut panics = Vec::new();
    for (rank, result) in results.into_iter().enumerate() {
        match result {
            Ok(value) => values.push(value),
            Err(payload) => panics.push((rank, payload)),
        }
    }
    // The first panic is the cause; others may have panicked because of it.
    panics.sort_by_key(|(rank, _)| *rank != failed);
    match panics.into_iter().next() {
        Some((_, payload)) => panic::resume_unwind(payload),
        None => Ok(values),
    }
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
