//! When operations are complete: the flushes and the barrier of a world.

use std::sync::Arc;

use crate::cost::CostKind;
use crate::error::{Error, Result};
use crate::handler::in_handler;
use crate::rank::Rank;
use crate::team_id::TeamId;
use crate::waits::{Awaited, TeamCall};
use crate::wire::InStep;
use crate::world::World;

impl World {
    /// Waits until every rank has called it and the earlier puts and atomics of all ranks are
    /// complete: a [`flush_all`](Self::flush_all), then a meeting of all ranks. (MPI's and UPC++'s
    /// barriers do not flush.) It does not meet a [`barrier_nb`](Self::barrier_nb) of other ranks:
    /// if one rank calls it, all do.
    ///
    /// # Cost
    ///
    /// B. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; with `PGAS_CHECK=1` [`Error::Mismatch`] if a rank
    /// calls another collective; [`Error::InHandler`] inside a handler, where the rank does not
    /// enter the barrier. Once the barrier is over, an error of a handler of this rank that no call
    /// has [returned](Self::check_handlers).
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.flush_and_meet()?;
        self.check_handlers()
    }

    #[track_caller]
    pub(crate) fn flush_and_meet(&self) -> Result<()> {
        if in_handler() {
            return Err(Error::InHandler { what: "a barrier" });
        }
        self.count(CostKind::Barrier, None, 1, 0);
        self.flush_for_all()?;
        if self.wire().check {
            return self.team().meet();
        }
        let begun = self.backend().barrier_begin();
        let Some(ticket) = self.or_all_fail("a barrier", begun)? else {
            return self.team().meet();
        };
        self.trace_collective("a barrier", 0);
        let missing = || self.backend().barrier_missing(ticket);
        let awaited = Awaited {
            what: "a barrier",
            call: Some(TeamCall {
                team: TeamId::WORLD,
                n_ranks: self.n_ranks(),
                number: ticket.0,
            }),
            missing: &missing,
            runs_program: false,
        };
        // Handlers and chained actions run meanwhile, and may panic.
        let _step = self.in_step(awaited.what);
        let waited = match self.backend().barrier_test(ticket) {
            // The last rank to arrive does not wait, and serves the others all the same.
            Ok(true) => self.advance().map(drop),
            Ok(false) => self.wait_until(&awaited, || self.backend().barrier_test(ticket)),
            Err(error) => Err(error),
        };
        self.or_all_fail("a barrier", waited)
    }

    /// The flush of a barrier. An error fails the job, since the others wait for this rank.
    pub(crate) fn flush_for_all(&self) -> Result<()> {
        self.or_all_fail("the flush of a barrier", self.flush_all())
    }

    /// As [`flush_for_all`](Self::flush_for_all), and waits for signals that follow puts which have
    /// begun: a signal is begun when its put is complete, so that a flush may come before it.
    #[track_caller]
    pub(crate) fn flush_signals_for_all(&self) -> Result<()> {
        let what = "the signals of puts in flight";
        // Handlers and chained actions run meanwhile, and may panic.
        let step = self.in_step(what);
        let mut signals = self.take_signals();
        let signalled = self.wait_for(what, || Ok(Arc::get_mut(&mut signals).is_some()));
        self.or_all_fail(what, signalled)?;
        drop(step);
        self.flush_for_all()
    }

    /// The outcome of a part of a collective; an error fails the job, since the others wait for
    /// this rank.
    fn or_all_fail<T>(&self, what: &'static str, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| self.give_up(what, error))
    }

    /// Says that this rank takes part in what several ranks do together, until the value is
    /// dropped. If it panics meanwhile, also in a handler, the job fails: a program that catches
    /// the panic would leave the others waiting. Collectives do this by themselves.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let together = world.in_step("an exchange");
    /// // What others wait for.
    /// drop(together);
    /// ```
    #[inline]
    pub fn in_step(&self, what: &'static str) -> InStep<'_> {
        self.wire().in_step(what)
    }

    /// Makes `error`, which happened in `what`, the failure of the job, so that ranks that wait for
    /// this one get an error. For libraries on top of one-sided operations, once other ranks depend
    /// on this one, for example after it has taken a lock. Before that an error can be returned as
    /// it is.
    ///
    /// Returns `error`. Ranks that wait, and this rank when it waits next, get
    /// [`RankFailed`](crate::Error::RankFailed) with the text of `error`.
    ///
    /// # Cost
    ///
    /// That of ending a job.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::{GlobalPtr, Result, World};
    ///
    /// /// Gives a lock back that this rank has taken: an error would leave others waiting.
    /// fn give_back(world: &World, lock: GlobalPtr<u64>) -> Result<()> {
    ///     let given = lock.atomic_store(world, 0);
    ///     given.map_err(|error| world.give_up("giving a lock back", error))
    /// }
    /// # let world = pgas_core::backend::loopback::world();
    /// # give_back(&world, world.alloc(1)?)?;
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[cold]
    #[must_use]
    pub fn give_up(&self, what: &str, error: Error) -> Error {
        self.wire().give_up(what, error)
    }

    /// Waits until this rank's earlier puts and atomics on `rank` are complete there.
    ///
    /// # Cost
    ///
    /// A fence on a direct peer, a round trip elsewhere. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If the job has no such rank.
    #[inline]
    #[track_caller]
    pub fn flush(&self, rank: Rank) -> Result<()> {
        self.assert_rank(rank);
        self.backend().flush(rank)
    }

    /// Waits until all of this rank's earlier puts and atomics are complete at their targets.
    ///
    /// # Cost
    ///
    /// A fence over shared memory, a round trip elsewhere. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        self.backend().flush_all()
    }
}
