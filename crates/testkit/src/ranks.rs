//! Runs a job with ranks as threads.

use pgas_core::{World, process};

/// Runs `body` as each rank of a job, in threads, and returns the results in the order of `worlds`.
///
/// # Panics
///
/// If a rank panics, with the panic of the first rank that did not panic because of another one.
pub(crate) fn run_ranks<R: Send>(worlds: Vec<World>, body: &(dyn Fn(World) -> R + Sync)) -> Vec<R> {
    let is_cause = |_, text: &str| !text.contains("RankFailed");
    process::play_all(worlds, body, &|_, _| {}, &is_cause)
}
