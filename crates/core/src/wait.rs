//! Waits: spin briefly, then yield, then sleep, and check the job's health.

use std::hint;
use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "tracing")]
use tracing::span::EnteredSpan;

use crate::backend::NeedsTarget;
use crate::error::{Error, Result, Timeout};
use crate::handler::in_handler;
use crate::messages::{BATCH, BUSY_ROUNDS};
use crate::rank::Rank;
#[cfg(feature = "tracing")]
use crate::seen::{self, Seen};
use crate::stall::Noted;
use crate::stats::{Counting, Origin, Timed};
use crate::trace::{Kind, Trace};
use crate::waited::Waited;
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
pub(crate) const YIELDS_PER_LOOK: u32 = 8;

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
            runs_program: false,
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
        let mut turns = Turns::default();
        let (mut round, mut n_busy) = (self.first_round(), 0);
        // Most waits end here.
        while round < TIGHT_ROUNDS && n_busy < BUSY_ROUNDS {
            if ready()? {
                return Ok(());
            }
            if turns.next(self, round.is_multiple_of(ROUNDS_PER_TURN))? {
                (round, n_busy) = (0, n_busy + 1);
            } else {
                round += 1;
            }
        }
        let long = LongWait::new(self, awaited, Location::caller(), turns);
        long.run(&mut ready)
    }

    /// The first round of a wait: without spinning, if another rank may need the processor.
    #[inline]
    fn first_round(&self) -> u32 {
        if self.backend().is_oversubscribed() || self.backend().parks_until_written() {
            SPINS
        } else {
            0
        }
    }

    /// Receives messages once more before a wait fails with the job: a rank may have sent what is
    /// waited for, and failed after that.
    #[cold]
    pub(crate) fn take_in_what_came(&self) {
        for _ in 0..BUSY_ROUNDS {
            // An error of the transport, which may fail with the job, keeps nothing else back.
            let steps = [self.receive(BATCH), self.take_in(), self.advance_own()];
            if !steps.iter().any(|worked| matches!(worked, Ok(true))) {
                break;
            }
        }
    }

    /// The clock of a wait, if operations are counted or traced, or a subscriber sees them.
    pub(crate) fn wait_clock(
        &self,
        what: &'static str,
        from: &'static Location<'static>,
    ) -> Option<WaitClock<'_>> {
        let (counting, trace) = (self.counting(), self.trace());
        if counting.is_none() && trace.is_none() && !is_seen() {
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
            #[cfg(feature = "tracing")]
            seen: seen::wait(self.rank(), &origin),
            counting,
            trace,
            origin,
            began,
            left: None,
            last: None,
            noted: began,
        })
    }

    /// Checks the clock and the job's health: the wait may have reached its limit, be due for a
    /// report, or be in vain.
    ///
    /// `has_worked` says whether this rank may have done anything else since the last look than
    /// wait.
    pub(crate) fn look<'a>(
        &'a self,
        awaited: &Awaited<'_>,
        has_worked: bool,
        (waited, noted): (&mut Option<Waited>, &mut Option<Noted<'a>>),
        from: &'static Location<'static>,
    ) -> Result<()> {
        let now = Instant::now();
        let waited = waited.get_or_insert_with(|| Waited::from(now));
        if waited.look(now, (!has_worked).then_some(Duration::ZERO)) {
            // It is noted anew, with the later beginning.
            *noted = None;
        }
        let began = waited.began();
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

/// Whether a subscriber of the crate `tracing` may see waits.
fn is_seen() -> bool {
    #[cfg(feature = "tracing")]
    return seen::is_wanted(tracing::Level::DEBUG);
    #[cfg(not(feature = "tracing"))]
    false
}

/// The interval at which a trace records that a wait continues.
const RENEWAL: Duration = Duration::from_millis(100);

/// What a thread does for less than this between two parts of a wait is not told apart in the trace.
const SHORT: Duration = Duration::from_micros(20);

/// Times a wait until it is dropped.
pub(crate) struct WaitClock<'w> {
    #[cfg(feature = "tracing")]
    seen: Seen<tracing::Span>,
    counting: Option<&'w Counting>,
    trace: Option<(&'w Trace, u16)>,
    origin: Origin,
    /// The beginning, later by the times in which the thread did something else.
    began: Instant,
    /// Since when the thread does something else.
    left: Option<Instant>,
    /// The rank that was missing at the last look.
    last: Option<Rank>,
    /// When that was last noted in the trace.
    noted: Instant,
}

impl WaitClock<'_> {
    /// Does not count the time from here.
    pub(crate) fn leave(&mut self) {
        self.left = Some(Instant::now());
    }

    /// Goes on after [`leave`](Self::leave), if that was called.
    pub(crate) fn resume(&mut self) {
        let Some(left) = self.left.take() else {
            return;
        };
        let now = Instant::now();
        let away = now.saturating_duration_since(left);
        self.began += away;
        if let Some((trace, name)) = self.trace.filter(|_| away > SHORT) {
            trace.note_at(left, Kind::Waited, name, self.last, [0, 0]);
            trace.note_at(now, Kind::Wait, name, None, [0, 0]);
        }
    }

    /// Records the ranks that a long wait is for.
    pub(crate) fn look(&mut self, awaited: &Awaited<'_>) {
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
        let ended = self.left.unwrap_or_else(Instant::now);
        if let Some(counting) = self.counting {
            let waited = ended.saturating_duration_since(self.began);
            counting.waited(&self.origin, waited, self.last);
            counting.record(Timed::Wait, waited);
        }
        if let Some((trace, name)) = self.trace {
            trace.note_at(ended, Kind::Waited, name, self.last, [0, 0]);
        }
    }
}

/// The work of a rank between two checks of its condition.
struct Turns {
    /// The number of messages to receive in the next round. A single message is most often the
    /// awaited one; polling for another one would read memory that a sender is about to write.
    limit: usize,
    owes_the_rest: bool,
}

impl Default for Turns {
    #[inline]
    fn default() -> Self {
        Self {
            limit: 1,
            owes_the_rest: false,
        }
    }
}

impl Turns {
    /// Receives messages, and says whether there was work. Most waits are for a message: the rest
    /// of progress is made after one, and when it `is_due`. A message that the transport takes in
    /// meanwhile goes before this rank's own work, at most once in a row.
    #[inline]
    fn next(&mut self, world: &World, is_due: bool) -> Result<bool> {
        let received = world.receive(self.limit)?;
        self.limit = if received { BATCH } else { 1 };
        let owes_the_rest = self.owes_the_rest;
        let is_turn = owes_the_rest || !received && is_due;
        self.owes_the_rest = received && !is_turn;
        if !is_turn {
            return Ok(received);
        }
        let has_come = world.take_in()?;
        if has_come && !owes_the_rest {
            self.owes_the_rest = true;
            return Ok(true);
        }
        Ok(world.advance_own()? || has_come || received)
    }
}

/// A wait that has lasted for a microsecond. It is apart from the first rounds, so that these keep
/// nothing but counts: short waits are a good part of what a message costs.
struct LongWait<'w> {
    /// The span of the wait, which is left before it ends.
    #[cfg(feature = "tracing")]
    entered: Option<Seen<EnteredSpan>>,
    clock: Option<WaitClock<'w>>,
    world: &'w World,
    awaited: &'w Awaited<'w>,
    from: &'static Location<'static>,
    turns: Turns,
    first: u32,
    n_yields: u32,
    round: u32,
    sleep: Duration,
    waited: Option<Waited>,
    noted: Option<Noted<'w>>,
    n_busy: u32,
    /// The failure that ends the wait, unless the awaited event came before.
    failure: Option<Error>,
}

impl<'w> LongWait<'w> {
    #[cold]
    fn new(
        world: &'w World,
        awaited: &'w Awaited<'w>,
        from: &'static Location<'static>,
        turns: Turns,
    ) -> Self {
        let parks_at_once = world.backend().parks_until_written();
        // Backends that need the target's CPU poll for work while parked, so they park early
        // instead of yielding.
        let yields = world.capabilities().needs_target == NeedsTarget::NOTHING && !parks_at_once;
        let first = world.first_round();
        Self {
            #[cfg(feature = "tracing")]
            entered: None,
            clock: None,
            world,
            awaited,
            from,
            turns,
            first,
            n_yields: if yields { YIELDS } else { 0 },
            round: first.max(TIGHT_ROUNDS),
            sleep: if parks_at_once {
                world.longest_sleep()
            } else {
                world.first_sleep()
            },
            waited: None,
            noted: None,
            n_busy: 0,
            failure: None,
        }
    }

    #[cold]
    fn run(mut self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        if self.awaited.runs_program {
            return self.run_program(ready);
        }
        while !ready()? {
            self.go_on()?;
        }
        Ok(())
    }

    /// As [`run`](Self::run), without the time in `ready`.
    fn run_program(mut self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        loop {
            self.leave_clock();
            if ready()? {
                return Ok(());
            }
            self.resume_clock();
            self.go_on()?;
        }
    }

    fn leave_clock(&mut self) {
        #[cfg(feature = "tracing")]
        drop(self.entered.take());
        if let Some(clock) = &mut self.clock {
            clock.leave();
        }
    }

    fn resume_clock(&mut self) {
        if let Some(clock) = &mut self.clock {
            clock.resume();
            #[cfg(feature = "tracing")]
            {
                self.entered = Some(clock.seen.enter());
            }
        }
    }

    /// A round after a check without success.
    fn go_on(&mut self) -> Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.next()?;
        if self.failure.is_some() {
            self.world.take_in_what_came();
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let is_due = self.round >= TIGHT_ROUNDS || self.round.is_multiple_of(ROUNDS_PER_TURN);
        if self.turns.next(self.world, is_due)? {
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
                if self.round == TIGHT_ROUNDS + 1 && self.clock.is_none() {
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
        #[cfg(feature = "tracing")]
        {
            self.entered = self.clock.as_ref().map(|clock| clock.seen.enter());
        }
    }

    /// Yields the processor, and checks the job's health.
    fn pause(&mut self) {
        if self.clock.is_none() {
            self.start_clock();
        }
        let last_yield = SPINS + self.n_yields;
        if self.round <= last_yield {
            if self.round.is_multiple_of(YIELDS_PER_LOOK) && self.has_yielded_for_long() {
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
                self.sleep = self.world.first_sleep();
            }
            self.nap();
            self.sleep = (self.sleep * 2).min(self.world.longest_sleep());
        }
    }

    fn has_yielded_for_long(&mut self) -> bool {
        let now = Instant::now();
        let waited = self.waited.get_or_insert_with(|| Waited::from(now));
        now.saturating_duration_since(waited.began()) > LONGEST_YIELDING
    }

    /// Sleeps. A process that is stopped while it waits is nearly always stopped here.
    fn nap(&mut self) {
        self.world.nap(self.sleep);
        if let Some(waited) = &mut self.waited
            && waited.look(Instant::now(), Some(self.sleep))
        {
            self.noted = None;
        }
    }

    fn look(&mut self) {
        let clocks = (&mut self.waited, &mut self.noted);
        if let Some(clock) = &mut self.clock {
            clock.look(self.awaited);
        }
        // The program's check may have taken any time.
        let looked = self.world.look(self.awaited, true, clocks, self.from);
        self.failure = looked.err();
    }
}
