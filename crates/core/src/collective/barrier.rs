//! Barriers, and comparisons of outcomes and arguments.

use std::fmt;

use super::meet::meet;
use super::{Kind, Signature, op};
use crate::cost::CostKind;
use crate::event::Event;
use crate::{Elsewhere, Error, Result, Team};

/// An error's text is sent to the other members up to this many bytes.
const TOLD_BYTES: usize = 512;

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
    /// The failure of the job while waiting.
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
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        if self.is_world() {
            return self.world().barrier();
        }
        self.world().count(CostKind::Barrier, None, 1, 0);
        self.world().flush_for_all()?;
        self.meet()
    }

    /// Flushes, then begins a barrier; the event is complete when every member has begun it.
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
    #[track_caller]
    pub fn barrier_nb(&self) -> Event<()> {
        self.world().count(CostKind::Barrier, None, 1, 0);
        let flushed = self.world().flush_for_all();
        let call = self.begin(Signature::new(Kind::Barrier));
        self.launch(call, |call| async move {
            flushed?;
            match call.enter().await? {
                Some(turn) => turn.meet().await,
                None => meet(call.main()).await,
            }
        })
    }

    /// Compares the outcomes of a step of a collective call: returns the member's own `outcome` if
    /// the step succeeded on every member, else an error on all of them. For a step that can fail
    /// on one member alone, such as an allocation or opening a file. `what` names the step.
    ///
    /// # Cost
    ///
    /// An allreduce of a word; if the step has failed, also a broadcast of 512 bytes. Collective
    /// over the team.
    ///
    /// # Errors
    ///
    /// On a member where the step failed the error of `outcome`; on the others
    /// [`Error::Elsewhere`](crate::Error::Elsewhere), which names the first member that failed; the
    /// failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let n = if world.rank().number() == 1 { usize::MAX } else { 1 };
    ///     let allocated = world.alloc::<u64>(n);
    ///     let error = world.team().all_succeeded("an allocation", allocated).unwrap_err();
    ///     assert!(error.to_string().contains("rank 1: the local heap cannot serve"));
    ///     world.barrier().unwrap(); // all go on
    /// });
    /// ```
    #[track_caller]
    pub fn all_succeeded<T, E>(&self, what: &'static str, outcome: Result<T, E>) -> Result<T, E>
    where
        E: From<Error> + fmt::Display,
    {
        let own = if outcome.is_err() {
            self.rank()
        } else {
            u32::MAX
        };
        let first = match self.allreduce(own, op::Min) {
            Ok(u32::MAX) => return outcome,
            Ok(first) => first,
            Err(error) => return outcome.and(Err(error.into())),
        };
        let mut text = [0; TOLD_BYTES];
        if let Err(error) = &outcome
            && first == self.rank()
        {
            let told = error.to_string();
            let told = &told.as_bytes()[..told.len().min(TOLD_BYTES)];
            text[..told.len()].copy_from_slice(told);
        }
        let broadcast = self.broadcast_slice(first, &mut text);
        outcome.and_then(|_| {
            broadcast?;
            // A text that was cut within a character ends with a replacement character.
            let text = String::from_utf8_lossy(&text);
            let elsewhere = Elsewhere {
                rank: self.world_rank(first),
                what,
                cause: text.trim_end_matches('\0').to_owned(),
            };
            Err(Error::from(Box::new(elsewhere)).into())
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

    /// Runs this rank's `part` of a step, then compares the outcomes by
    /// [`all_succeeded`](Self::all_succeeded). If `part` panics the job fails, even if the program
    /// catches the panic, since the others would wait for this rank for ever.
    ///
    /// # Cost
    ///
    /// That of `part`, and of [`all_succeeded`](Self::all_succeeded). Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`all_succeeded`](Self::all_succeeded).
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let file = world.team().all_try("opening a file", || {
    ///     let opened = std::fs::File::open("/dev/null");
    ///     opened.map_err(|e| pgas_core::Error::backend("open", 0, e.to_string()))
    /// })?;
    /// # drop(file);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn all_try<T, E>(
        &self,
        what: &'static str,
        part: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<Error> + fmt::Display,
    {
        let outcome = self.world().wire().in_step(what, part);
        self.all_succeeded(what, outcome)
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
