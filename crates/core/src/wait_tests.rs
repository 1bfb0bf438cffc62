//! Waits that end with the job.
#![expect(unsafe_code, reason = "passes the contract's calls on")]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use crate::backend::{Backend, loopback};
use crate::{Config, Error, Result, Statistics, World};

/// A transport that fails when the failure of the job is found.
#[derive(Debug)]
struct Failing {
    inner: loopback::Loopback,
    is_found: AtomicBool,
}

// SAFETY: every call is the inner transport's with the same arguments, or fails.
unsafe impl Backend for Failing {
    crate::pass_on! {
        inner:
        name, test, poll, abort, leave, rank, n_ranks, capabilities, segment_bytes, mapped_ranks,
        mapped, board, mapped_stride, flush, flush_all, barrier_begin, barrier_test,
        barrier_missing, try_send, prepare, try_commit, give_back, n_credits, park, notify,
        ranks_per_processor, has_left, has_joined, blame, discard
    }
    crate::pass_on_one_sided!(inner);

    fn progress(&self) -> Result<bool> {
        if self.is_found.load(Ordering::Relaxed) {
            return Err(Error::HasLeft);
        }
        self.inner.progress()
    }

    fn health(&self) -> Result<()> {
        self.is_found.store(true, Ordering::Relaxed);
        Err(Error::HasLeft)
    }
}

fn failing() -> (World, Arc<Failing>) {
    let options = loopback::Options::default();
    let inner = loopback::job(1, 1 << 20, &options).remove(0);
    let failing = Arc::new(Failing {
        inner,
        is_found: AtomicBool::new(false),
    });
    let backend: Arc<dyn Backend> = Arc::<Failing>::clone(&failing);
    (World::new(backend, Config::default()).unwrap(), failing)
}

/// Also where the transport fails with the job.
#[test]
fn a_result_that_was_there_when_the_job_failed_is_found_once_more() {
    let (world, failing) = failing();
    let is_there = || Ok(failing.is_found.load(Ordering::Relaxed));
    world.wait_for("a late result", is_there).unwrap();

    let (world, failing) = self::failing();
    let mut waiting = world.own_wait("a late result");
    while !failing.is_found.load(Ordering::Relaxed) {
        waiting.pause(&Vec::new).unwrap();
    }
    assert!(waiting.pause(&Vec::new).is_err(), "the next pause tells");
}

/// A world that counts, and has no other ranks.
fn counting() -> World {
    let config = Config {
        statistics: Statistics::Total,
        ..Config::default()
    };
    loopback::worlds(1, &config).unwrap().remove(0)
}

/// Works for a while, and returns for how long.
fn work() -> Duration {
    let began = Instant::now();
    thread::sleep(Duration::from_millis(100));
    began.elapsed()
}

/// Asserts that this rank has waited since `began`, and not while it has `worked`.
#[track_caller]
fn has_waited_without_work(world: &World, began: Instant, worked: Duration) {
    let waited = Duration::from_nanos(world.counting().unwrap().all_waited());
    let whole = began.elapsed();
    assert!(!waited.is_zero() && waited + worked <= whole, "{waited:?}");
}

#[test]
fn what_a_future_does_when_it_is_asked_is_no_waiting() {
    let world = counting();
    let (mut n_polls, mut worked) = (0, Duration::ZERO);
    let works = poll_fn(|_| {
        n_polls += 1;
        // The clock of the wait runs from some time on.
        if n_polls == 500 || n_polls == 510 {
            worked += work();
        }
        if n_polls == 510 {
            return Poll::Ready(());
        }
        Poll::Pending
    });
    let began = Instant::now();
    world.block_on(works).unwrap();
    has_waited_without_work(&world, began, worked);
}

#[test]
fn what_a_loop_does_between_pauses_is_no_waiting() {
    let world = counting();
    let (began, mut worked) = (Instant::now(), Duration::ZERO);
    let mut waiting = world.own_wait("what never comes");
    for _ in 0..3 {
        (0..3).for_each(|_| waiting.pause(&Vec::new).unwrap());
        worked += work();
    }
    drop(waiting);
    has_waited_without_work(&world, began, worked);
}
