//! Calls, futures and tasks of several ranks, from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod delivery;
#[cfg(feature = "tokio")]
mod driver;
mod ending_threads;
mod futures;
mod graphs;
mod left;
mod limits;
mod survival;

use std::thread;
use std::time::Duration;

use pgas_core::{Config, World};
use pgas_testkit::Deadline;

/// The maximum time of a test; far more than any needs.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs `body` on `n` ranks, which leave when it is over.
fn ranks<R: Send>(n: u32, body: impl Fn(World) -> pgas_am::Result<R> + Sync) -> Vec<R> {
    let _deadline = Deadline::new(thread::current().name().unwrap_or("a test"), LIMIT);
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(LIMIT / 3);
    let ended = pgas_smp::threads_with(n, &config, |world| {
        pgas_am::attach(&world).unwrap();
        body(world).unwrap()
    });
    ended.unwrap()
}
