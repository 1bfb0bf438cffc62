//! A wrapper of a transport that times its operations.
#![expect(unsafe_code, reason = "passes the contract's calls on")]

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{Atomic, Backend, Former, Get, GetGrid, Group, OpId, Put, PutGrid, Stage, SwapCall};
use crate::Result;
use crate::locks::lock;
use crate::stats::{Counting, Timed};

/// Times what `backend` does, for the histograms of `counting`.
pub(crate) struct TimedBackend {
    backend: Arc<dyn Backend>,
    counting: Arc<Counting>,
    /// The operations in flight. Operations that complete together have the same id.
    in_flight: Mutex<HashMap<OpId, Vec<(Timed, Instant)>>>,
}

impl TimedBackend {
    pub(crate) fn new(backend: Arc<dyn Backend>, counting: Arc<Counting>) -> Self {
        Self {
            backend,
            counting,
            in_flight: Mutex::default(),
        }
    }

    /// Times a call that returns when the operation is done.
    fn time<R>(&self, kind: Timed, call: impl FnOnce(&dyn Backend) -> Result<R>) -> Result<R> {
        let began = Instant::now();
        let result = call(&*self.backend)?;
        self.counting.record(kind, began.elapsed());
        Ok(result)
    }

    /// Times an operation from here until [`test`](Backend::test) reports that it is complete.
    fn time_nb(
        &self,
        kind: Timed,
        begin: impl FnOnce(&dyn Backend) -> Result<OpId>,
    ) -> Result<OpId> {
        let began = Instant::now();
        // Another thread may test an operation of the same number as soon as it is there.
        let mut in_flight = lock(&self.in_flight);
        let op = begin(&*self.backend)?;
        if op == OpId::DONE {
            self.counting.record(kind, began.elapsed());
        } else {
            in_flight.entry(op).or_default().push((kind, began));
        }
        Ok(op)
    }
}

impl fmt::Debug for TimedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimedBackend").field(&self.backend).finish()
    }
}

// SAFETY: each promise is that of the transport behind it, of the same ranks and segments: all
// calls go there, and what it reports is reported no sooner.
unsafe impl Backend for TimedBackend {
    crate::pass_on! {
        backend:
        name, abort, leave, rank, n_ranks, capabilities, segment_bytes, mapped_ranks, mapped, board,
        mapped_stride, flush, flush_all, barrier_begin, barrier_test, barrier_missing, try_send,
        prepare, try_commit, give_back, n_credits, poll, poll_all, progress, progress_once, park,
        notify, ranks_per_processor, health, has_left, has_joined, blame, discard
    }

    fn put(&self, put: Put) -> Result<()> {
        self.time(Timed::Put, |backend| backend.put(put))
    }

    fn get(&self, get: Get) -> Result<()> {
        self.time(Timed::Get, |backend| backend.get(get))
    }

    fn put_nb(&self, put: Put) -> Result<OpId> {
        self.time_nb(Timed::PutNb, |backend| backend.put_nb(put))
    }

    fn get_nb(&self, get: Get) -> Result<OpId> {
        self.time_nb(Timed::GetNb, |backend| backend.get_nb(get))
    }

    fn put_fragments(&self, fragments: &[Put]) -> Result<()> {
        self.time(Timed::Put, |backend| backend.put_fragments(fragments))
    }

    fn get_fragments(&self, fragments: &[Get]) -> Result<()> {
        self.time(Timed::Get, |backend| backend.get_fragments(fragments))
    }

    fn put_strided(&self, grid: PutGrid<'_>) -> Result<()> {
        self.time(Timed::Put, |backend| backend.put_strided(grid))
    }

    fn get_strided(&self, grid: GetGrid<'_>) -> Result<()> {
        self.time(Timed::Get, |backend| backend.get_strided(grid))
    }

    fn put_signal(&self, put: Put, signal: Atomic) -> Result<()> {
        self.time(Timed::Put, |backend| backend.put_signal(put, signal))
    }

    /// Not timed: it returns before the target has executed it.
    fn atomic(&self, atomic: Atomic) -> Result<()> {
        self.backend.atomic(atomic)
    }

    fn fetch_atomic(&self, atomic: Atomic) -> Result<u64> {
        self.time(Timed::Atomic, |backend| backend.fetch_atomic(atomic))
    }

    fn compare_swap(&self, swap: Atomic<SwapCall>) -> Result<u64> {
        self.time(Timed::Atomic, |backend| backend.compare_swap(swap))
    }

    fn fetch_atomic_nb(&self, atomic: Atomic, former: Former) -> Result<OpId> {
        self.time_nb(Timed::AtomicNb, |backend| {
            backend.fetch_atomic_nb(atomic, former)
        })
    }

    fn compare_swap_nb(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId> {
        self.time_nb(Timed::AtomicNb, |backend| {
            backend.compare_swap_nb(swap, former)
        })
    }

    fn test(&self, op: OpId, stage: Stage) -> Result<bool> {
        if stage == Stage::Source {
            return self.backend.test(op, stage);
        }
        // Locked before the test: an id that is no longer valid may be reused for a new operation
        // at once.
        let mut in_flight = lock(&self.in_flight);
        let tested = self.backend.test(op, stage);
        if matches!(tested, Ok(false)) {
            return tested;
        }
        let over = in_flight.remove(&op).unwrap_or_default();
        for (kind, began) in over.into_iter().filter(|_| tested.is_ok()) {
            self.counting.record(kind, began.elapsed());
        }
        tested
    }

    fn collectives(&self) -> Option<Arc<dyn Group>> {
        self.backend.collectives()
    }

    fn parks_until_written(&self) -> bool {
        self.backend.parks_until_written()
    }
}
