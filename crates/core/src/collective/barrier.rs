//! Barriers, and comparisons of arguments.

use super::meet::meet;
use super::{Kind, Signature};
use crate::cost::CostKind;
use crate::event::Event;
use crate::handler::in_handler;
use crate::{Result, Team};

impl Team {
    /// Waits until every member has called it and the earlier puts and atomics of all members are
    /// complete: a [`flush_all`](crate::World::flush_all), then a meeting. (MPI's and UPC++'s
    /// barriers do not flush.)
    ///
    /// # Cost
    ///
    /// B: a flush and log n rounds, or the transport's own barrier. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`World::barrier`](crate::World::barrier).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(4, |world| {
    ///     let slots = world.alloc_symmetric::<u64>(4)?;
    ///     let half = world.team().split(Some(world.rank().number() / 2), 0)?.unwrap();
    ///     let first = half.world_rank(0);
    ///     slots.on(first).add(half.rank() as usize).put(&world, 7)?;
    ///     half.barrier()?;
    ///     assert_eq!(slots.on(first).get_vec(&world, 2)?, [7, 7]);
    ///     world.barrier()
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Barrier")]
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.barrier_within()?;
        self.world().check_handlers()
    }

    /// As [`barrier`](Self::barrier), but leaves the errors of handlers to later calls: for a call
    /// that is over on the other ranks when the barrier is, and must not fail on this one alone.
    ///
    /// # Cost
    ///
    /// B. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier), without those of handlers.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::{GlobalPtr, Result, Team};
    ///
    /// /// A word of each rank, with its initial value. Collective.
    /// fn word_of_each(team: &Team, initial: u64) -> Result<GlobalPtr<u64>> {
    ///     let word = team.world().alloc::<u64>(1)?;
    ///     word.put(team.world(), initial)?;
    ///     team.barrier_within()?;
    ///     Ok(word)
    /// }
    /// # let world = pgas_core::backend::loopback::world();
    /// # word_of_each(&world.team(), 1)?;
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn barrier_within(&self) -> Result<()> {
        if self.is_world() {
            return self.world().flush_and_meet();
        }
        self.flush_for_barrier()?;
        self.meet()
    }

    /// Counts a barrier, and flushes for it. In a handler the barrier itself is refused.
    fn flush_for_barrier(&self) -> Result<()> {
        if in_handler() {
            return Ok(());
        }
        self.world().count(CostKind::Barrier, None, 1, 0);
        self.world().flush_for_all()
    }

    /// Flushes, then begins a barrier; the event is complete when every member has begun it.
    ///
    /// On the world's team it does not meet a [`barrier`](Self::barrier) of other members, which is
    /// the transport's own: all begin it.
    ///
    /// # Cost
    ///
    /// B: a flush before this returns, and log n rounds. Collective over the team.
    ///
    /// # Errors
    ///
    /// The event has the errors of the flush and of the barrier.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let met = world.team().barrier_nb();
    ///     let busy: u64 = (0..1000).sum();
    ///     met.wait()?;
    ///     assert_eq!(busy, 499_500);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ibarrier")]
    #[track_caller]
    pub fn barrier_nb(&self) -> Event<()> {
        let flushed = self.flush_for_barrier();
        let kind = if self.is_world() {
            Kind::BarrierNb
        } else {
            Kind::Barrier
        };
        let call = self.begin(Signature::new(kind));
        self.launch(call, |call| async move {
            flushed?;
            match call.enter().await? {
                Some(turn) => turn.meet().await,
                None => meet(call.main()).await,
            }
        })
    }

    /// The meeting of a barrier, without the flush.
    #[track_caller]
    pub(crate) fn meet(&self) -> Result<()> {
        let call = self.begin(Signature::new(Kind::Barrier));
        self.drive(&call, async {
            match call.enter().await? {
                Some(turn) => turn.meet().await,
                None => meet(call.main()).await,
            }
        })
    }

    /// With `PGAS_CHECK=1`, compares `value` across the team; else does nothing.
    ///
    /// For a container that compares the arguments of its collective methods. `what` names the
    /// value in the error, as in "the capacity of a hash map".
    ///
    /// # Cost
    ///
    /// With `PGAS_CHECK=1` log n rounds of 300 bytes, else nothing. Collective over the team.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`](crate::Error::Mismatch), on every member, which names two members that
    /// differ; the failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Config, backend::loopback};
    /// let mut config = Config::default();
    /// config.check = Some(true);
    /// loopback::run_with(2, &config, |world| {
    ///     let mine = u64::from(world.rank().number());
    ///     let error = world.team().agree("the answer", mine).unwrap_err().to_string();
    ///     // Each with the line of its call.
    ///     assert!(error.contains("the answer: rank 0 has 0 at "), "{error}");
    ///     assert!(error.contains(", rank 1 has 1 at "), "{error}");
    /// });
    /// ```
    #[track_caller]
    pub fn agree(&self, what: &'static str, value: u64) -> Result<()> {
        self.compare(what, &[], value)
    }

    /// As [`agree`](Self::agree), for an `index` into `choices`; the error has the names of the
    /// choices.
    ///
    /// # Cost
    ///
    /// As [`agree`](Self::agree). Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`agree`](Self::agree).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Config, backend::loopback};
    /// let mut config = Config::default();
    /// config.check = Some(true);
    /// loopback::run_with(2, &config, |world| {
    ///     let mine = world.rank().index();
    ///     let agreed = world.team().agree_on("the order", &["rows", "columns"], mine);
    ///     let error = agreed.unwrap_err().to_string();
    ///     assert!(error.contains("rank 0 has \"rows\" at"), "{error}");
    ///     assert!(error.contains("rank 1 has \"columns\" at"), "{error}");
    /// });
    /// ```
    #[track_caller]
    pub fn agree_on(
        &self,
        what: &'static str,
        choices: &'static [&'static str],
        index: usize,
    ) -> Result<()> {
        self.compare(what, choices, index as u64)
    }

    /// Begins an [`agree`](Self::agree).
    ///
    /// # Cost
    ///
    /// As [`agree`](Self::agree). Collective over the team.
    ///
    /// # Errors
    ///
    /// The event has the errors of [`agree`](Self::agree).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Config, backend::loopback};
    /// let mut config = Config::default();
    /// config.check = Some(true);
    /// loopback::run_with(2, &config, |world| {
    ///     let agreed = world.team().agree_nb("the answer", world.rank().number().into());
    ///     let busy: u64 = (0..1000).sum();
    ///     let error = agreed.wait().unwrap_err().to_string();
    ///     assert!(error.contains("the answer: rank 0 has 0 at "), "{error}");
    ///     assert_eq!(busy, 499_500);
    /// });
    /// ```
    #[track_caller]
    pub fn agree_nb(&self, what: &'static str, value: u64) -> Event<()> {
        if !self.world().wire().check {
            return Event::ready(());
        }
        let call = self.begin(agreement(what, &[], value));
        self.launch(call, |call| async move { call.enter().await.map(drop) })
    }

    #[track_caller]
    fn compare(
        &self,
        what: &'static str,
        choices: &'static [&'static str],
        value: u64,
    ) -> Result<()> {
        if !self.world().wire().check {
            return Ok(());
        }
        let call = self.begin(agreement(what, choices, value));
        self.drive(&call, async { call.enter().await.map(drop) })
    }
}

fn agreement(what: &'static str, choices: &'static [&'static str], value: u64) -> Signature {
    Signature {
        subject: Some((what, value)),
        choices,
        ..Signature::new(Kind::Agreement)
    }
}
