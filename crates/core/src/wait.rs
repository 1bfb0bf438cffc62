//! Waits: spin briefly, then yield, then sleep, and check the job's health.

use std::fmt;
use std::hint;
use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

use crate::backend::NeedsTarget;
use crate::error::{Error, Result, Timeout};
use crate::handler::in_handler;
use crate::messages::BATCH;
use crate::rank::Rank;
use crate::stall::Noted;
use crate::stats::{Counting, Origin, Timed};
use crate::trace::{Kind, Trace};
use crate::waits::{Awaited, ProgramCall, program_call};
use crate::world::World;

/// Rounds before the first pause instruction, if each rank has a processor of its own: about a
/// microsecond, in which most answers of a neighbour arrive. The instruction takes up to 140
/// cycles, as long as a message.
const TIGHT_ROUNDS: u32 = 100;
/// Every eighth of these rounds makes full progress; the others only poll for messages.
const ROUNDS_PER_TURN: u32 = 8;
/// Rounds of spinning before the first yield.
const SPINS: u32 = 300;
/// Rounds of yielding before the first sleep: about a tenth of a millisecond.
const YIELDS: u32 = 400;
/// The maximum time of these rounds, and the rounds between reads of the clock. Where many programs
/// wait for a processor, a single yield takes tens of milliseconds.
const LONGEST_YIELDING: Duration = Duration::from_millis(1);
const YIELDS_PER_LOOK: u32 = 8;
/// The first and the longest sleep. A sleeper is woken by messages and barriers; the limit only
/// bounds how late it sees a plain put.
const FIRST_SLEEP: Duration = Duration::from_micros(50);
const LONGEST_SLEEP: Duration = Duration::from_millis(2);
/// Every 32nd round of an own wait yields, if other ranks need this one's service and each rank has
/// a processor: a yield takes as long as the service, and longer if other programs want the
/// processor.
const PAUSES_PER_YIELD: u32 = 32;
/// The maximum number of consecutive rounds with progress without a check of the job's health:
/// messages may come for ever from ranks that do not wait.
const BUSY_ROUNDS: u32 = 64;

impl World {
    /// Makes progress until `ready` returns true. `what` names the wait in errors and reports
    /// ("rank 3 waited 5s for {what}").
    ///
    /// It spins briefly, then yields, then sleeps, and checks the job's health meanwhile, so a rank
    /// that waits for a dead one gets an error.
    ///
    /// # Cost
    ///
    /// That of `ready`, once a round.
    ///
    /// # Errors
    ///
    /// Errors of `ready`; the failure of the job; [`Error::Timeout`] after
    /// [`Config::timeout`](crate::Config::timeout); [`Error::InHandler`] inside a handler.
    #[track_caller]
    pub fn wait_for(&self, what: &'static str, ready: impl FnMut() -> Result<bool>) -> Result<()> {
        self.wait_until(&Awaited::new(what), ready)
    }

    /// As [`wait_for`](Self::wait_for). `missing` returns the ranks that are waited for; errors and
    /// reports name them.
    ///
    /// # Cost
    ///
    /// That of `ready`, once a round.
    ///
    /// # Errors
    ///
    /// As [`wait_for`](Self::wait_for).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::Rank;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let word = world.alloc::<u64>(1)?;
    /// # word.atomic_store(&world, 1)?;
    /// let missing = || vec![Rank::ZERO]; // the rank that sets it
    /// world.wait_for_ranks("the word", &missing, || Ok(word.atomic_load(&world)? == 1))?;
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn wait_for_ranks(
        &self,
        what: &'static str,
        missing: &dyn Fn() -> Vec<Rank>,
        ready: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let awaited = Awaited {
            what,
            call: None,
            missing,
        };
        self.wait_until(&awaited, ready)
    }

    /// Makes progress until `ready`, and fails when the job fails or the configured limit is over.
    #[track_caller]
    pub(crate) fn wait_until(
        &self,
        awaited: &Awaited<'_>,
        mut ready: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        if in_handler() {
            let what = awaited.what;
            return Err(Error::InHandler { what });
        }
        let mut rounds = Rounds::of(self, awaited);
        loop {
            if ready()? {
                return Ok(());
            }
            if let Some(failure) = rounds.failure.take() {
                return Err(failure);
            }
            rounds.next()?;
            if rounds.failure.is_some() {
                self.take_in_what_came()?;
            }
        }
    }

    /// Receives messages once more before a wait fails with the job: a rank may have sent what is
    /// waited for, and failed after that.
    #[cold]
    fn take_in_what_came(&self) -> Result<()> {
        for _ in 0..BUSY_ROUNDS {
            if !self.advance()? {
                break;
            }
        }
        Ok(())
    }

    /// For a program's own loop that waits for other ranks, and does more in each round than a
    /// check: call [`OwnWait::pause`] in each round without a result. `what` names the wait. If the
    /// loop only checks, use [`wait_for`](Self::wait_for), which sleeps.
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
            began: None,
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

    /// The clock of a wait, if operations are counted or traced.
    fn wait_clock(
        &self,
        what: &'static str,
        from: &'static Location<'static>,
    ) -> Option<WaitClock<'_>> {
        let (counting, trace) = (self.counting(), self.trace());
        if counting.is_none() && trace.is_none() {
            return None;
        }
        let ProgramCall { whole, at, .. } = program_call(from);
        let origin = Origin { what, whole, at };
        let trace = trace.map(|trace| (trace, trace.name_of_wait(&origin)));
        if let Some((trace, name)) = trace {
            trace.note(Kind::Wait, name, None, [0, 0]);
        }
        let began = Instant::now();
        Some(WaitClock {
            counting,
            trace,
            origin,
            began,
            last: None,
            noted: began,
        })
    }

    /// Checks the clock and the job's health: the wait may have reached its limit, be due for a
    /// report, or be in vain.
    fn look<'a>(
        &'a self,
        awaited: &Awaited<'_>,
        began: &mut Option<Instant>,
        noted: &mut Option<Noted<'a>>,
        from: &'static Location<'static>,
    ) -> Result<()> {
        let began = *began.get_or_insert_with(Instant::now);
        self.check_limit(awaited, began)?;
        self.backend().health()?;
        self.watch_over(noted, awaited, began, from)
    }

    fn check_limit(&self, awaited: &Awaited<'_>, began: Instant) -> Result<()> {
        let waited = began.elapsed();
        if self.config().timeout.is_none_or(|limit| waited < limit) {
            return Ok(());
        }
        let missing = (awaited.missing)();
        Err(Error::from(Box::new(Timeout {
            rank: self.rank(),
            waited,
            what: awaited.what,
            missing,
        })))
    }
}

/// The interval at which a trace records that a wait continues.
const RENEWAL: Duration = Duration::from_millis(100);

/// Times a wait until it is dropped.
struct WaitClock<'w> {
    counting: Option<&'w Counting>,
    trace: Option<(&'w Trace, u16)>,
    origin: Origin,
    began: Instant,
    /// The rank that was missing at the last look.
    last: Option<Rank>,
    /// When that was last noted in the trace.
    noted: Instant,
}

impl WaitClock<'_> {
    /// Records the ranks that a long wait is for.
    fn look(&mut self, awaited: &Awaited<'_>) {
        let missing = (awaited.missing)();
        let former = self.last;
        self.last = missing.first().copied().or(former);
        let is_due = self.last != former || self.noted.elapsed() > RENEWAL;
        if let Some((trace, name)) = self.trace.filter(|_| is_due) {
            self.noted = Instant::now();
            trace.note(Kind::Missing, name, self.last, [0, 0]);
        }
        if let Some(counting) = self.counting {
            counting.waits(&self.origin, self.began.elapsed());
        }
        if let Some((trace, _)) = self.trace {
            trace.flush_now_and_then();
        }
    }
}

impl Drop for WaitClock<'_> {
    fn drop(&mut self) {
        if let Some(counting) = self.counting {
            let waited = self.began.elapsed();
            counting.waited(&self.origin, waited, self.last);
            counting.record(Timed::Wait, waited);
        }
        if let Some((trace, name)) = self.trace {
            let last = self.last.map_or(0, |rank| u64::from(rank.number()) + 1);
            trace.note(Kind::Waited, name, self.last, [last, 0]);
        }
    }
}

/// The work of a rank between two checks of its condition.
struct Rounds<'w> {
    clock: Option<WaitClock<'w>>,
    world: &'w World,
    awaited: &'w Awaited<'w>,
    from: &'static Location<'static>,
    first: u32,
    n_yields: u32,
    round: u32,
    sleep: Duration,
    began: Option<Instant>,
    noted: Option<Noted<'w>>,
    n_busy: u32,
    /// The number of messages to receive in the next round. A single message is most often the
    /// awaited one; polling for another one would read memory that a sender is about to write.
    limit: usize,
    owes_the_rest: bool,
    /// The failure that ends the wait, unless the awaited event came before.
    failure: Option<Error>,
}

impl<'w> Rounds<'w> {
    #[inline]
    #[track_caller]
    fn of(world: &'w World, awaited: &'w Awaited<'w>) -> Self {
        let is_oversubscribed = world.backend().is_oversubscribed();
        let parks_at_once = world.backend().parks_until_written();
        let first = if is_oversubscribed || parks_at_once {
            SPINS
        } else {
            0
        };
        // Backends that need the target's CPU poll for work while parked, so they park early
        // instead of yielding.
        let yields = world.capabilities().needs_target == NeedsTarget::NOTHING && !parks_at_once;
        Self {
            clock: None,
            world,
            awaited,
            from: Location::caller(),
            first,
            n_yields: if yields { YIELDS } else { 0 },
            round: first,
            sleep: if parks_at_once {
                LONGEST_SLEEP
            } else {
                FIRST_SLEEP
            },
            began: None,
            noted: None,
            n_busy: 0,
            limit: 1,
            owes_the_rest: false,
            failure: None,
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        // Most waits are for a message. The rest of progress is made after a message, and now and
        // then.
        let received = self.world.receive(self.limit)?;
        self.limit = if received { BATCH } else { 1 };
        let is_due = self.round >= TIGHT_ROUNDS || self.round.is_multiple_of(ROUNDS_PER_TURN);
        let is_turn = self.owes_the_rest || !received && is_due;
        self.owes_the_rest = received && !is_turn;
        if is_turn && self.world.advance_rest()? || received {
            self.round = self.first;
            self.n_busy = self.n_busy.wrapping_add(1);
            if self.n_busy.is_multiple_of(BUSY_ROUNDS) {
                self.look();
            }
            return Ok(());
        }
        self.round = self.round.saturating_add(1);
        if self.round <= SPINS {
            if self.round > TIGHT_ROUNDS {
                if self.round == TIGHT_ROUNDS + 1 {
                    self.start_clock();
                }
                hint::spin_loop();
            }
        } else {
            self.pause();
        }
        Ok(())
    }

    /// Waits are timed from here on: about a microsecond is not.
    #[cold]
    fn start_clock(&mut self) {
        self.clock = self.world.wait_clock(self.awaited.what, self.from);
    }

    /// Yields the processor, and checks the job's health.
    fn pause(&mut self) {
        if self.clock.is_none() {
            self.start_clock();
        }
        let last_yield = SPINS + self.n_yields;
        if self.round <= last_yield {
            let is_look = self.round.is_multiple_of(YIELDS_PER_LOOK);
            if is_look && self.began.get_or_insert_with(Instant::now).elapsed() > LONGEST_YIELDING {
                self.round = last_yield;
            }
            thread::yield_now();
            self.failure = self.world.backend().health().err();
            return;
        }
        self.look();
        if self.failure.is_none() {
            if self.round == last_yield + 1 && !self.world.backend().parks_until_written() {
                // The first sleep after an arrival is short again, as at the beginning of the wait.
                self.sleep = FIRST_SLEEP;
            }
            self.world.nap(self.sleep);
            self.sleep = (self.sleep * 2).min(LONGEST_SLEEP);
        }
    }

    fn look(&mut self) {
        let (began, noted) = (&mut self.began, &mut self.noted);
        if let Some(clock) = &mut self.clock {
            clock.look(self.awaited);
        }
        let looked = self.world.look(self.awaited, began, noted, self.from);
        self.failure = looked.err();
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
    /// The time of the first check of the clock.
    began: Option<Instant>,
    noted: Option<Noted<'w>>,
    failure: Option<Error>,
    pauses_per_yield: u32,
}

impl OwnWait<'_> {
    /// Begins the wait anew: something has arrived, and there is more to wait for. The limit and
    /// the report count from here.
    ///
    /// # Cost
    ///
    /// ℓ.
    pub fn begin_anew(&mut self) {
        self.clock = None;
        self.began = None;
        self.noted = None;
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
        self.n_pauses = self.n_pauses.wrapping_add(1);
        let worked = self.world.advance()?;
        if !worked && self.clock.is_none() {
            self.clock = self.world.wait_clock(self.what, self.from);
        }
        let n_between = if worked { BUSY_ROUNDS } else { YIELDS_PER_LOOK };
        if self.n_pauses.is_multiple_of(n_between) {
            let awaited = Awaited {
                what: self.what,
                call: None,
                missing,
            };
            let (began, noted) = (&mut self.began, &mut self.noted);
            if let Some(clock) = &mut self.clock {
                clock.look(&awaited);
            }
            let looked = self.world.look(&awaited, began, noted, self.from);
            self.failure = looked.err();
        } else if !worked {
            self.failure = self.world.backend().health().err();
        }
        if self.failure.is_some() {
            self.world.take_in_what_came()?;
        } else if !worked && self.world.backend().parks_until_written() {
            self.world.nap(LONGEST_SLEEP);
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
