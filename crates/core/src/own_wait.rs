//! The wait of a program's own loop, which does more in each round than a check.

use std::fmt;
use std::mem;
use std::panic::Location;
use std::thread;

use crate::backend::NeedsTarget;
use crate::error::{Error, Result};
use crate::handler::in_handler;
use crate::messages::BUSY_ROUNDS;
use crate::rank::Rank;
use crate::stall::Noted;
use crate::wait::{WaitClock, YIELDS_PER_LOOK};
use crate::waited::Waited;
use crate::waits::Awaited;
use crate::world::World;

/// Every 32nd round of an own wait yields, if other ranks need this one's service and each rank has
/// a processor: a yield takes as long as the service, and longer if other programs want the
/// processor.
const PAUSES_PER_YIELD: u32 = 32;

impl World {
    /// For a program's own loop that waits for other ranks, and does more in each round than a
    /// check: call [`OwnWait::pause`] in each round without a result. `what` names the wait. Only
    /// the time in pauses counts as waiting (`PGAS_STATS`, `PGAS_TRACE`). If the loop only checks, use [`wait_for`](Self::wait_for), which sleeps.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let mut left = vec![1, 2, 3];
    /// let mut waiting = world.own_wait("the last of three");
    /// while left.pop().is_some() {
    ///     waiting.pause(&Vec::new)?;
    /// }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn own_wait(&self, what: &'static str) -> OwnWait<'_> {
        OwnWait {
            clock: None,
            world: self,
            what,
            from: Location::caller(),
            n_pauses: 0,
            waited: None,
            has_short_rounds: false,
            has_worked: false,
            noted: None,
            failure: None,
            pauses_per_yield: if self.is_needed() {
                PAUSES_PER_YIELD
            } else {
                1
            },
        }
    }

    /// Whether other ranks need this one's service, and each rank has a processor.
    fn is_needed(&self) -> bool {
        let serves = self.capabilities().needs_target != NeedsTarget::NOTHING;
        serves && !self.backend().is_oversubscribed()
    }
}

/// The wait of a program's own loop, from [`World::own_wait`], which is reported as the library's
/// waits are.
///
/// # Examples
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let (mut left, mut waiting) = (vec![1, 2, 3], world.own_wait("the last of three"));
/// while left.pop().is_some() {
///     waiting.begin_anew(); // something has arrived
///     waiting.pause(&Vec::new)?;
/// }
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub struct OwnWait<'w> {
    clock: Option<WaitClock<'w>>,
    world: &'w World,
    what: &'static str,
    from: &'static Location<'static>,
    n_pauses: u32,
    /// The clock since its first check.
    waited: Option<Waited>,
    has_short_rounds: bool,
    /// Whether there was progress since the last check.
    has_worked: bool,
    noted: Option<Noted<'w>>,
    failure: Option<Error>,
    pauses_per_yield: u32,
}

impl OwnWait<'_> {
    /// For a loop that needs far less than a second between two pauses. If it does take so long, the
    /// process was stopped, and the limit and the report do not count that time.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let mut left = vec![1, 2, 3];
    /// let mut waiting = world.own_wait("the last of three").with_short_rounds();
    /// while left.pop().is_some() {
    ///     waiting.pause(&Vec::new)?;
    /// }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[must_use]
    pub fn with_short_rounds(self) -> Self {
        Self {
            has_short_rounds: true,
            ..self
        }
    }

    /// Begins the wait anew: something has arrived, and there is more to wait for. The limit and
    /// the report count from here.
    ///
    /// # Cost
    ///
    /// ℓ.
    pub fn begin_anew(&mut self) {
        self.clock = None;
        self.waited = None;
        self.noted = None;
        // A failed job is found again.
        self.failure = None;
    }

    /// Makes progress. If there was none, lets other threads run: always, or only now and then if
    /// other ranks may need this one's service. `missing` returns the ranks that are waited for, as
    /// far as known, for the report of a long wait.
    ///
    /// # Cost
    ///
    /// That of [`World::progress`], and now and then a look at the clock.
    ///
    /// # Errors
    ///
    /// The failure of the job, or [`Error::Timeout`] after
    /// [`Config::timeout`](crate::Config::timeout). Both come one pause late, so that the loop
    /// checks once more: the awaited result may have arrived before. [`Error::InHandler`] inside a
    /// handler.
    pub fn pause(&mut self, missing: &dyn Fn() -> Vec<Rank>) -> Result<()> {
        if in_handler() {
            return Err(Error::InHandler { what: self.what });
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if let Some(clock) = &mut self.clock {
            clock.resume();
        }
        let paused = self.pause_once(missing);
        // What the loop does until the next pause is no waiting.
        if let Some(clock) = &mut self.clock {
            clock.leave();
        }
        paused
    }

    fn pause_once(&mut self, missing: &dyn Fn() -> Vec<Rank>) -> Result<()> {
        self.n_pauses = self.n_pauses.wrapping_add(1);
        let worked = self.world.advance()?;
        self.has_worked |= worked;
        if !worked && self.clock.is_none() {
            self.clock = self.world.wait_clock(self.what, self.from);
        }
        let n_between = if worked { BUSY_ROUNDS } else { YIELDS_PER_LOOK };
        if self.n_pauses.is_multiple_of(n_between) {
            let awaited = Awaited {
                what: self.what,
                call: None,
                missing,
                runs_program: false,
            };
            let clocks = (&mut self.waited, &mut self.noted);
            if let Some(clock) = &mut self.clock {
                clock.look(&awaited);
            }
            // Other loops may have worked on their own.
            let has_worked = mem::take(&mut self.has_worked) || !self.has_short_rounds;
            let looked = self.world.look(&awaited, has_worked, clocks, self.from);
            self.failure = looked.err();
        } else if !worked {
            self.failure = self.world.backend().health().err();
        }
        if self.failure.is_some() {
            self.world.take_in_what_came();
        } else if !worked && self.world.backend().parks_until_written() {
            self.world.nap(self.world.longest_sleep());
            // This counts, however long it was.
            self.has_worked = true;
        } else if !worked && self.n_pauses.is_multiple_of(self.pauses_per_yield) {
            thread::yield_now();
        }
        Ok(())
    }
}

impl fmt::Debug for OwnWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnWait")
            .field("what", &self.what)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Config;
    use crate::backend::loopback;

    #[test]
    fn a_limit_that_was_reached_when_something_arrived_does_not_end_the_wait_for_more() {
        let config = Config {
            timeout: Some(Duration::ZERO),
            ..Config::default()
        };
        let world = loopback::worlds(1, &config).unwrap().remove(0);
        let mut waiting = world.own_wait("what comes late");
        while waiting.failure.is_none() {
            waiting.pause(&Vec::new).unwrap();
        }
        waiting.begin_anew();
        waiting.pause(&Vec::new).unwrap();
        while waiting.failure.is_none() {
            waiting.pause(&Vec::new).unwrap();
        }
        assert!(matches!(waiting.pause(&Vec::new), Err(Error::Timeout(_))));
    }
}
