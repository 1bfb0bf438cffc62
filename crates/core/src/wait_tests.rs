//! Waits that end with the job.
#![expect(unsafe_code, reason = "passes the contract's calls on")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::{Backend, loopback};
use crate::{Config, Error, Result, World};

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
