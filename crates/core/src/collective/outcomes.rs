//! Steps of collective calls that can fail on one member alone: all members get the error.

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{ReduceOp, op};
use crate::handler::refuse_in_handler;
use crate::{Elsewhere, Error, Pod, Result, Team};

/// An error's text is sent to the other members up to this many bytes.
const TOLD_BYTES: usize = 512;
/// In the place of the first member that has failed: none has.
const NOBODY: u32 = u32::MAX;

/// The combined value of some members, and the first of them that has failed.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
struct Judged<T> {
    value: T,
    failed: u32,
}

impl<T: Pod> Judged<T> {
    /// Combines two values, unless a member has failed: no member gets the value then.
    fn with(self, after: Self, op: &impl ReduceOp<T>) -> Self {
        match (self.failed, after.failed) {
            (NOBODY, NOBODY) => Self {
                value: op.combine(self.value, after.value),
                failed: NOBODY,
            },
            (before, after) => Self {
                failed: before.min(after),
                ..self
            },
        }
    }
}

impl Team {
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
    /// failure of the job while waiting. If the error's own text panics, the job fails.
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
            NOBODY
        };
        match self.allreduce(own, op::Min) {
            Ok(NOBODY) => outcome,
            Ok(first) => self.failed_on(first, what, outcome),
            Err(error) => outcome.and(Err(error.into())),
        }
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
    /// As [`all_succeeded`](Self::all_succeeded). Inside a handler `part` is not called.
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
        refuse_in_handler(what)?;
        let step = self.world().in_step(what);
        let outcome = part();
        drop(step);
        self.all_succeeded(what, outcome)
    }

    /// As [`all_try`](Self::all_try), for a `part` that returns a value: every member gets the
    /// values of all members combined by `op`.
    ///
    /// # Cost
    ///
    /// That of `part`, and an allreduce of its value and a word; if a part has failed, also a
    /// broadcast of 512 bytes. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`all_succeeded`](Self::all_succeeded). Inside a handler `part` is not called.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::collective::op;
    /// # let world = pgas_core::backend::loopback::world();
    ///
    /// let count = || -> pgas_core::Result<u64> {
    ///     let text = std::fs::read_to_string("/dev/null");
    ///     let text = text.map_err(|e| pgas_core::Error::backend("read", 0, e.to_string()))?;
    ///     Ok(text.lines().count() as u64)
    /// };
    /// let lines_of_all = world.team().all_try_reduce("counting lines", count, op::Sum)?;
    /// assert_eq!(lines_of_all, 0);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operators are closures or empty, written where they are used"
    )]
    #[track_caller]
    pub fn all_try_reduce<T: Pod, E>(
        &self,
        what: &'static str,
        part: impl FnOnce() -> Result<T, E>,
        op: impl ReduceOp<T>,
    ) -> Result<T, E>
    where
        E: From<Error> + fmt::Display,
    {
        refuse_in_handler(what)?;
        let step = self.world().in_step(what);
        let outcome = part();
        let own = match &outcome {
            Ok(value) => Judged {
                value: op.alone(*value),
                failed: NOBODY,
            },
            Err(_) => Judged {
                value: T::new_zeroed(),
                failed: self.rank(),
            },
        };
        drop(step);
        let both = |before: Judged<T>, after| before.with(after, &op);
        match self.allreduce(own, both) {
            Ok(Judged {
                value,
                failed: NOBODY,
            }) => outcome.map(|_| value),
            Ok(Judged { failed: first, .. }) => self.failed_on(first, what, outcome),
            Err(error) => outcome.and(Err(error.into())),
        }
    }

    /// The error of a step that `first` has failed in, and others perhaps.
    #[cold]
    #[track_caller]
    fn failed_on<T, E>(&self, first: u32, what: &'static str, outcome: Result<T, E>) -> Result<T, E>
    where
        E: From<Error> + fmt::Display,
    {
        // The others wait in the broadcast while the program makes the text.
        let step = self.world().in_step(what);
        let mut text = [0; TOLD_BYTES];
        if let Err(error) = &outcome
            && first == self.rank()
        {
            let told = error.to_string();
            let told = &told.as_bytes()[..told.len().min(TOLD_BYTES)];
            text[..told.len()].copy_from_slice(told);
        }
        drop(step);
        let broadcast = self.broadcast_slice(first, &mut text);
        // No closure: it would stand for the program's line in reports.
        outcome?;
        broadcast?;
        // A text that was cut within a character ends with a replacement character.
        let text = String::from_utf8_lossy(&text);
        let elsewhere = Elsewhere {
            rank: self.world_rank(first),
            what,
            cause: text.trim_end_matches('\0').to_owned(),
        };
        Err(Error::from(Box::new(elsewhere)).into())
    }
}
