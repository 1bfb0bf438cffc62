//! Completes operations: flushes of one rank or of all, local or remote, and the operations that
//! they complete.

use std::sync::atomic::Ordering;
use std::thread;

use pgas_core::backend::{Backend, OpId, Stage};
use pgas_core::{Error, Rank, Result};

use crate::network::{Network, State};
use crate::ops::Plain;
use crate::session::c_rank;
use crate::sys::{self, Mpi, Probe};

/// Rounds of a wait outside of MPI before it is noted as a long one. Each yields, which takes tens
/// of milliseconds where many programs wait for a processor.
const ROUNDS_UNNOTED: u64 = 32;

impl Network {
    /// Completes staged puts to other ranks. Called before an operation begins on `rank`, or only
    /// `rank` is flushed. With Open MPI, short puts to another rank leave their staged sources by
    /// the local flush that they have saved until now. So a put never costs more than one flush.
    /// With MPICH, staged puts may be in flight to many ranks: it sends them at once, and would
    /// wait for their arrival here.
    #[inline]
    pub(crate) fn flush_other_staged(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        if !self.is_open_mpi {
            return Ok(());
        }
        match self.flushes.get(mpi).staged_beside(rank) {
            Some(other) => self.flush_here(mpi, other),
            None => Ok(()),
        }
    }

    /// Makes MPI take all staged sources.
    #[cold]
    pub(crate) fn unstage(&self, mpi: &mut Mpi) -> Result<()> {
        if self.is_open_mpi {
            return self.flush_all_here(mpi);
        }
        self.flush_all_open(mpi)
    }

    /// Completes this rank's operations on all ranks.
    ///
    /// MPICH gets a flush of each: its flush of all is UCX's `ucp_worker_flush`, which knows only
    /// puts that were sent (1.13: it counts `flush_ops_count`, and shared memory reports itself as
    /// flushed). It returns while others wait for a connection or for room, and their staged
    /// sources would be overwritten before they are sent.
    fn flush_all_open(&self, mpi: &mut Mpi) -> Result<()> {
        if self.is_open_mpi {
            sys::flush_all(mpi, &self.window)?;
            self.flushes.get(mpi).complete_all();
            return Ok(());
        }
        let open: Vec<u32> = self.flushes.get(mpi).open().collect();
        open.into_iter()
            .try_for_each(|rank| self.flush_open(mpi, rank))
    }

    pub(crate) fn flush_rank(&self, rank: Rank) -> Result<()> {
        if self.neighbours.reached(rank).is_some() {
            return self.member().flush_all();
        }
        self.await_answers(Some(rank.number()))?;
        if self.is_oversubscribed && self.flushes.get(&mut sys::enter()?).is_open(rank.number()) {
            self.wait_until_answered(&[rank])?;
        }
        self.flush_open(&mut sys::enter()?, rank.number())
    }

    pub(crate) fn flush_ranks(&self) -> Result<()> {
        self.member().flush_all()?;
        self.await_answers(None)?;
        let mut mpi = sys::enter()?;
        if self.is_oversubscribed {
            let open = self.flushes.get(&mut mpi).open();
            let open: Vec<Rank> = open.map(Rank::new).collect();
            drop(mpi);
            self.wait_until_answered(&open)?;
            mpi = sys::enter()?;
        }
        let flushes = self.flushes.get(&mut mpi);
        if flushes.n_open() > 1 {
            return self.flush_all_open(&mut mpi);
        }
        let rank = flushes.open().next();
        rank.map_or(Ok(()), |rank| self.flush_open(&mut mpi, rank))
    }

    /// Completes this rank's operations on `rank`, if there are any.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put")]
    pub(crate) fn flush_open(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        let Some(place) = self.flushes.get(mpi).open_place(rank) else {
            return Ok(());
        };
        if self.is_open_mpi && self.flushes.get(mpi).has_unsent_beside_place(place) {
            self.send_beside(mpi, rank)?;
        }
        sys::flush(mpi, &self.window, c_rank(rank))?;
        self.flushes.get(mpi).complete_at(place);
        Ok(())
    }

    /// Makes Open MPI send the operations begun on ranks other than `rank`; see
    /// [`flush_here`](Self::flush_here).
    #[inline(never)]
    fn send_beside(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        self.flush_other_staged(mpi, rank)?;
        if self.flushes.get(mpi).has_unsent_beside(rank) {
            self.flush_all_here(mpi)?;
        }
        Ok(())
    }

    /// Completes this rank's operations on `rank` locally.
    ///
    /// Open MPI's `pt2pt` waits for ever for operations on another rank that it has not sent yet,
    /// so these are flushed, too. MPICH, over UCX, knows only the last operation on each rank:
    /// after a get and then a put that is free at once, a local flush waits for nothing, though the
    /// get is in flight. So one operation takes a local flush, and several take a flush of both
    /// sides.
    #[inline]
    pub(crate) fn flush_here(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        if self.flushes.get(mpi).has_unsent() {
            return self.flush_several_here(mpi, rank);
        }
        sys::flush_local(mpi, &self.window, c_rank(rank))
    }

    /// As [`flush_here`](Self::flush_here), where there are operations that may not be sent yet.
    #[inline(never)]
    fn flush_several_here(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        let flushes = self.flushes.get(mpi);
        if self.is_open_mpi && flushes.has_unsent_beside(rank) {
            return self.flush_all_here(mpi);
        }
        if !self.is_open_mpi && flushes.is_unsent(rank) {
            sys::flush(mpi, &self.window, c_rank(rank))?;
            self.flushes.get(mpi).complete(rank);
            return Ok(());
        }
        sys::flush_local(mpi, &self.window, c_rank(rank))?;
        self.flushes.get(mpi).complete_here(rank);
        Ok(())
    }

    pub(crate) fn flush_all_here(&self, mpi: &mut Mpi) -> Result<()> {
        sys::flush_local_all(mpi, &self.window)?;
        self.flushes.get(mpi).complete_all_here();
        Ok(())
    }

    /// Waits outside of MPI until each of `ranks` has answered a later read. A wait inside of MPI
    /// for earlier operations on them is then short.
    pub(crate) fn wait_until_answered(&self, ranks: &[Rank]) -> Result<()> {
        let mut outcome = Ok(());
        let mut probes = Vec::with_capacity(ranks.len());
        for rank in ranks {
            let begun = sys::enter().and_then(|mpi| Probe::begin(&mpi, &self.window, *rank));
            match begun {
                Ok(probe) => probes.push((probe, rank.number())),
                Err(error) => outcome = Err(error),
            }
        }
        for (mut probe, rank) in probes {
            let mut held = None;
            for round in 0_u64.. {
                let tested = sys::enter().and_then(|mpi| probe.test(&mpi));
                match tested {
                    Ok(false) => {
                        if round == ROUNDS_UNNOTED {
                            let lookout = self.session.lookout();
                            held = Some(lookout.hold("a flush", Some(rank)));
                        }
                        thread::yield_now();
                    }
                    Ok(true) => break,
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
            }
            drop(held);
        }
        outcome
    }
}

impl Network {
    pub(crate) fn has_reached(&self, op: OpId, stage: Stage) -> Result<bool> {
        // Acquire pairs with the store behind the flush. Operations in one flood have the same id.
        if self.completed.load(Ordering::Acquire) == op.0 {
            return Ok(true);
        }
        let reached = match Plain::of(op) {
            Some(plain) => self.has_plain_reached(plain, stage),
            None => {
                let mut state = self.state();
                let Ok(mut mpi) = sys::enter() else {
                    return Ok(false);
                };
                self.test_op(&mut state, &mut mpi, op, stage)
            }
        };
        reached.or_else(|error| self.is_not_known(&error))
    }

    /// MPI has failed to tell whether an operation is over. So its buffers have to stay MPI's, as
    /// if it were not, and the job fails. The same holds for an operation that a thread tests which
    /// MPI does not let in; that one gets the error when it makes progress.
    #[cold]
    fn is_not_known(&self, error: &Error) -> Result<bool> {
        let cause = format!("cannot complete an operation: {error}");
        self.fail_without_waiting(self.rank(), &cause);
        Ok(false)
    }

    fn has_plain_reached(&self, plain: Plain, stage: Stage) -> Result<bool> {
        match sys::enter() {
            Ok(mut mpi) => self.complete_plain(&mut mpi, plain, stage).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    fn complete_plain(&self, mpi: &mut Mpi, plain: Plain, stage: Stage) -> Result<()> {
        let rank = plain.rank;
        let flushes = self.flushes.get(mpi);
        let is_complete = plain.is_complete(if plain.is_get {
            flushes.n_local_flushes(rank)
        } else {
            flushes.n_flushes(rank)
        });
        if !is_complete && (plain.is_get || stage == Stage::Source) {
            self.flush_here(mpi, rank)?;
        } else if !is_complete {
            self.flush_open(mpi, rank)?;
        }
        if plain.is_get || stage == Stage::Operation {
            self.completed.store(plain.id().0, Ordering::Release);
        }
        Ok(())
    }

    /// The outcome of the last step of a blocking transfer. If MPI cannot tell that it has finished
    /// with the caller's buffer, which cannot stay MPI's after the call, the process ends, and the
    /// job with it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put alone")]
    pub(crate) fn has_given_back(&self, completed: Result<()>) -> Result<()> {
        match completed {
            Ok(()) => Ok(()),
            Err(error) => self.end_with_buffers(&error),
        }
    }

    #[cold]
    #[inline(never)]
    fn end_with_buffers(&self, error: &Error) -> ! {
        let cause = format!("cannot complete a transfer: {error}");
        self.fail_without_waiting(self.rank(), &cause);
        self.abort(1, &cause)
    }

    fn test_op(&self, state: &mut State, mpi: &mut Mpi, op: OpId, stage: Stage) -> Result<bool> {
        let Some(index) = state.ops.index_of(op) else {
            return Ok(true);
        };
        let tested = match state.ops.is_answered(mpi, index) {
            Ok(true) if stage == Stage::Source => return Ok(true),
            Ok(true) => self.is_flushed(state, mpi, index),
            other => other,
        };
        if matches!(tested, Ok(true)) {
            state.ops.release(index);
        }
        tested
    }

    /// Completes the operation in slot `index` at its target, if it is a put whose request is
    /// complete. An [oversubscribed](Self::is_oversubscribed) rank flushes only when the target has
    /// answered something later, because then the flush does not wait.
    fn is_flushed(&self, state: &mut State, mpi: &mut Mpi, index: usize) -> Result<bool> {
        let Some((rank, n_flushes, is_waiting)) = state.ops.put(index) else {
            return Ok(true);
        };
        let is_flushed = self.flushes.get(mpi).n_flushes(rank) != n_flushes;
        let has_to_wait = is_waiting || self.is_oversubscribed && !is_flushed;
        if has_to_wait && !self.is_overtaken(state, mpi, (index, rank))? {
            return Ok(false);
        }
        if !is_flushed {
            self.flush_open(mpi, rank)?;
        }
        Ok(true)
    }

    /// Whether a get that was begun after the put in slot `index` is complete; begins it.
    fn is_overtaken(
        &self,
        state: &mut State,
        mpi: &Mpi,
        (index, rank): (usize, u32),
    ) -> Result<bool> {
        match state.ops.behind(index) {
            None => return Ok(true),
            Some(Some(behind)) => return behind.test(mpi),
            Some(None) => {}
        }
        let begun = Probe::begin(mpi, &self.window, Rank::new(rank))?;
        if let Some(behind) = state.ops.behind(index) {
            *behind = Some(begun);
        }
        Ok(false)
    }

    /// Waits outside of MPI until `op` has reached `stage`, so that other ranks get the processor,
    /// and then forgets the operation. Like MPI's own waits, it does not check the job's health,
    /// since its buffers are MPI's until the end of the operation: the lookout does.
    pub(crate) fn wait_without_blocking(&self, op: OpId, stage: Stage) -> Result<()> {
        if op == OpId::DONE {
            return Ok(());
        }
        if let Some(plain) = Plain::of(op) {
            // No slot was free. A flush completes it, inside of MPI.
            let completed =
                sys::enter().and_then(|mut mpi| self.complete_plain(&mut mpi, plain, stage));
            return self.has_given_back(completed);
        }
        let mut held = None;
        for round in 0_u64.. {
            {
                let mut state = self.state();
                let mut mpi = sys::enter()?;
                let tested = self.test_op(&mut state, &mut mpi, op, stage);
                if !matches!(tested, Ok(false)) {
                    state.ops.forget(op);
                    return self.has_given_back(tested.map(drop));
                }
            }
            if round == ROUNDS_UNNOTED {
                held = Some(self.session.lookout().hold("a transfer or an atomic", None));
            }
            thread::yield_now();
        }
        drop(held);
        Ok(())
    }
}
