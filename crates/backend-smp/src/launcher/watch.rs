//! The supervisor's loop: ended ranks, received signals, and actions that are due.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

use super::forward::{self, Forwarder};
use super::grace::Grace;
use super::job::{JobHooks, SuperviseError, SuperviseOptions};
use super::later;
use super::leftovers;
use super::orphans::Orphans;
use super::out_of_memory::MemoryWatch;
use super::outcome::{Cause, Failure, Outcome};
use super::ranks::{RankProcess, Ranks};
use super::signals::{self, SignalWatch};

/// Two requests to end that are closer together than this are one: `timeout(1)` sends two. The ranks
/// get it once from here.
const ONE_REQUEST: Duration = Duration::from_millis(200);

/// The time that the other ranks have to end, too, after one has exited with code 0 without leaving
/// the job: a program may end by `exit` on all ranks.
const EXIT_TOGETHER: Duration = Duration::from_secs(2);

/// The time between looks whether others wait for a rank that has exited.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// A job on its way to its outcome.
pub(super) struct Watch<'a> {
    options: &'a SuperviseOptions,
    signals: &'a SignalWatch,
    orphans: &'a Orphans,
    hooks: &'a mut dyn JobHooks,
    started: Instant,
    phase: Phase,
    outcome: Outcome,
    /// Whether this process tells the user the outcome, and no other program does.
    tells: bool,
    /// Whether the outcome has been told. Then it is final.
    told: bool,
    /// Whether each rank that has failed so far had left the job before, and so has reported its
    /// error itself.
    all_had_left: bool,
    /// Whether the ranks had found a culprit by themselves when the first failure was seen.
    was_reported: bool,
    ended_well: Vec<EndedWell>,
    /// The time of the last look for those of them that are missed.
    looked: Instant,
    memory: MemoryWatch,
    /// The first signal that asked the job to end, and when.
    asked_to_end: Option<(i32, Instant)>,
}

/// A rank that has exited with code 0.
struct EndedWell {
    rank: u32,
    pid: u32,
    after: Duration,
    /// When it was found to be missed: it was a member of the job, or others have joined the job
    /// and wait for it.
    missed: Option<Duration>,
}

/// The progress of the job's end.
enum Phase {
    Running {
        until: Option<Instant>,
    },
    /// The ranks end by themselves.
    Grace(Grace),
    /// SIGTERM was sent; SIGKILL follows at this time.
    Terminating {
        until: Instant,
    },
    Killed,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        options: &'a SuperviseOptions,
        started: Instant,
        signals: &'a SignalWatch,
        orphans: &'a Orphans,
        hooks: &'a mut dyn JobHooks,
        tells: bool,
    ) -> Self {
        let until = options
            .timeout
            .and_then(|timeout| started.checked_add(timeout));
        Self {
            options,
            signals,
            orphans,
            hooks,
            started,
            phase: Phase::Running { until },
            outcome: Outcome::Finished,
            tells,
            told: false,
            all_had_left: true,
            was_reported: false,
            ended_well: Vec::new(),
            looked: started,
            memory: MemoryWatch::start(),
            asked_to_end: None,
        }
    }

    pub(super) fn until_all_have_ended(
        &mut self,
        ranks: &mut Ranks,
        ends: Vec<UnixStream>,
    ) -> io::Result<()> {
        self.hooks.started(ends)?;
        while !ranks.running().is_empty() {
            // Actions that were due before this check of the ranks are done after it: so a rank
            // that has ended in time is seen to have.
            let now = Instant::now();
            let mut fds = vec![PollFd::new(self.signals, PollFlags::IN)];
            fds.extend(
                ranks
                    .running()
                    .iter()
                    .map(|p| PollFd::new(&p.ended, PollFlags::IN)),
            );
            super::poll(&mut fds, self.time_left())?;
            let ended: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
            // Signals first: one that ends a rank explains its end.
            self.receive_signals(ranks)?;
            let mut ended = ended.into_iter();
            let gone = ranks
                .running_mut()
                .extract_if(.., |_| ended.next() == Some(true))
                .collect();
            self.take_leave(gone, ranks)?;
            if self.blames_the_culprit(ranks) {
                self.tell(ranks);
            }
            self.advance(ranks, now);
        }
        // Programs may drop the errors of a job that has failed. But ranks that exit together,
        // without leaving, may miss each other.
        if self.outcome == Outcome::Finished
            && self.ended_well.iter().all(|ended| ended.missed.is_none())
            && let Some(culprit) = self.culprit_that_ended_well()
        {
            self.outcome = Outcome::Failed(culprit);
            self.tell(ranks);
        }
        Ok(())
    }

    /// Waits for the rest of the output, and returns the job's outcome.
    pub(super) fn until_all_is_written(
        self,
        forwarders: Vec<Forwarder>,
    ) -> Result<Outcome, SuperviseError> {
        let has_failed = self.outcome != Outcome::Finished;
        let written = forward::finish(forwarders, self.signals, has_failed)?;
        let outcome = match written {
            Ok(Some(signal)) => self.interrupted(signal),
            Ok(None) | Err(_) => self.outcome,
        };
        let print = &mut |text: &str| forward::print(text, self.signals, has_failed);
        self.hooks.ended(&outcome, print);
        written.map(|_| outcome).map_err(SuperviseError::Output)
    }

    fn receive_signals(&mut self, ranks: &Ranks) -> io::Result<()> {
        while let Some(received) = self.signals.next()? {
            let signal = received.signal;
            if signal == libc::SIGCHLD {
                let pids: Vec<Pid> = ranks.running().iter().map(RankProcess::pid).collect();
                self.orphans.reap(&pids);
                continue;
            }
            match Signal::from_named_raw(signal) {
                // The ranks have it already.
                _ if self.is_asked_for_again(signal) => {}
                Some(signal) if received.from_terminal => ranks.signal_other_groups(signal),
                Some(signal) => ranks.signal_all(signal),
                None => {}
            }
            if signal == libc::SIGTSTP {
                self.hooks.suspended(true);
                let stopped = signals::stop_self();
                self.hooks.suspended(false);
                stopped?;
            } else if signals::asks_to_end(signal) {
                self.end_requested(signal, ranks);
            }
        }
        Ok(())
    }

    /// Whether `signal` is a part of the first request, which the ranks know.
    fn is_asked_for_again(&self, signal: i32) -> bool {
        self.asked_to_end
            .is_some_and(|(asked, first)| asked == signal && first.elapsed() <= ONE_REQUEST)
    }

    /// The first request is for the ranks to follow; a second one is not left to them.
    fn end_requested(&mut self, signal: i32, ranks: &Ranks) {
        let now = Instant::now();
        match self.asked_to_end {
            None => self.asked_to_end = Some((signal, now)),
            Some((_, first)) if now - first > ONE_REQUEST => {
                if self.outcome == Outcome::Finished {
                    self.outcome = self.interrupted(signal);
                    self.hooks.on_end(None);
                }
                self.kill(ranks);
            }
            Some(_) => {}
        }
    }

    /// Waits for the processes that have ended, and judges their ends.
    fn take_leave(&mut self, gone: Vec<RankProcess>, ranks: &Ranks) -> io::Result<()> {
        for mut process in gone {
            let (rank, pid) = (process.rank, process.child.id());
            let after = self.started.elapsed();
            leftovers::remove(pid);
            match Cause::of(process.child.wait()?) {
                Some(mut cause) => {
                    if let Cause::Killed {
                        signal: libc::SIGKILL,
                        out_of_memory,
                        ..
                    } = &mut cause
                    {
                        *out_of_memory = self.memory.shortage(self.hooks.asked_for());
                    }
                    self.all_had_left &=
                        matches!(cause, Cause::Exited { .. }) && self.hooks.left_before(rank);
                    let failure = Failure {
                        rank,
                        pid,
                        cause,
                        after,
                    };
                    self.failed(failure, ranks);
                }
                None => {
                    let is_missed = !self.hooks.left_properly(rank);
                    self.ended_well.push(EndedWell {
                        rank,
                        pid,
                        after,
                        missed: is_missed.then_some(after),
                    });
                    if let Some(culprit) = self.culprit_that_ended_well() {
                        self.blame_instead(culprit);
                    }
                }
            }
        }
        Ok(())
    }

    fn failed(&mut self, failure: Failure, ranks: &Ranks) {
        match (&self.outcome, &failure.cause) {
            (Outcome::Finished, Cause::Killed { signal, .. })
                if self.asked_to_end.is_some_and(|(asked, _)| asked == *signal) =>
            {
                self.begin_to_end(self.interrupted(*signal), ranks);
            }
            (Outcome::Finished, _) => {
                let blamed = self.culprit_that_ended_well().unwrap_or(failure);
                self.begin_to_end(Outcome::Failed(blamed), ranks);
            }
            (Outcome::Failed(_), _)
                if self
                    .hooks
                    .culprit()
                    .is_some_and(|(rank, _)| rank == failure.rank) =>
            {
                self.blame_instead(failure);
            }
            _ => {}
        }
    }

    /// Blames the rank that the job's memory names, if another one was seen to fail first and
    /// nobody has been told yet.
    fn blame_instead(&mut self, culprit: Failure) {
        if let Outcome::Failed(first) = &self.outcome
            && matches!(self.phase, Phase::Grace(_))
            && !self.told
            && first.rank != culprit.rank
        {
            self.outcome = Outcome::Failed(culprit);
        }
    }

    /// The rank that the job's memory blames, if its process has ended with code 0.
    fn culprit_that_ended_well(&mut self) -> Option<Failure> {
        let (rank, text) = self.hooks.culprit()?;
        let ended = self.ended_well.iter().find(|ended| ended.rank == rank)?;
        let cause = if ended.missed.is_some() {
            Cause::LeftEarly
        } else {
            Cause::Reported { text: text.into() }
        };
        Some(Failure {
            rank,
            pid: ended.pid,
            cause,
            after: ended.after,
        })
    }

    /// The rank that the job's memory blames, if its process still runs.
    fn culprit_that_goes_on(&mut self, ranks: &Ranks) -> Option<Failure> {
        let (rank, text) = self.hooks.culprit()?;
        let process = ranks.running().iter().find(|p| p.rank == rank)?;
        Some(Failure {
            rank,
            pid: process.child.id(),
            cause: Cause::Reported { text: text.into() },
            after: self.started.elapsed(),
        })
    }

    /// Blames the first rank that exited with code 0 and is missed, if others go on for long.
    fn blame_who_left_early(&mut self, ranks: &Ranks) {
        let mut ended = self.ended_well.iter();
        let Some(ended) = ended.find(|ended| ended.missed.is_some()) else {
            return;
        };
        let failure = Failure {
            rank: ended.rank,
            pid: ended.pid,
            cause: Cause::LeftEarly,
            after: ended.after,
        };
        self.begin_to_end(Outcome::Failed(failure), ranks);
    }

    /// The time at which [`blame_who_left_early`](Self::blame_who_left_early) is due.
    fn exit_limit(&self) -> Option<Instant> {
        let missed = self.ended_well.iter().find_map(|ended| ended.missed)?;
        self.started.checked_add(missed + EXIT_TOGETHER)
    }

    /// The time of the next look for ranks that have exited and are missed, if some have exited.
    fn next_look(&self) -> Option<Instant> {
        let has_some = self.ended_well.iter().any(|ended| ended.missed.is_none());
        has_some.then(|| self.looked + BETWEEN_LOOKS)
    }

    /// Asks again whether others wait for ranks that have exited: these may have joined since.
    fn look_for_the_missed(&mut self, now: Instant) {
        if self.next_look().is_none_or(|due| now < due) {
            return;
        }
        self.looked = now;
        let elapsed = now.saturating_duration_since(self.started);
        for ended in &mut self.ended_well {
            if ended.missed.is_none() && !self.hooks.left_properly(ended.rank) {
                ended.missed = Some(elapsed);
            }
        }
    }

    fn begin_to_end(&mut self, outcome: Outcome, ranks: &Ranks) {
        self.outcome = outcome;
        self.was_reported = self.hooks.culprit().is_some();
        self.hooks.on_end(match &self.outcome {
            Outcome::Failed(failure) => Some(failure),
            _ => None,
        });
        self.phase = Phase::Grace(Grace::begin(self.options.grace, ranks));
    }

    fn interrupted(&self, signal: i32) -> Outcome {
        Outcome::Interrupted {
            signal,
            after: self.started.elapsed(),
        }
    }

    /// Whether there is an outcome and no reason to wait for a better explanation: the rank that
    /// the job's memory names as the first to fail is the one that is blamed, or will not be.
    fn blames_the_culprit(&mut self, ranks: &Ranks) -> bool {
        match &self.outcome {
            Outcome::Finished => false,
            Outcome::Failed(_) if self.all_had_left && !self.was_reported => false,
            Outcome::Failed(failure) => match self.hooks.culprit() {
                None => true,
                Some((culprit, _)) => {
                    culprit == failure.rank || ranks.running().iter().all(|p| p.rank != culprit)
                }
            },
            Outcome::Interrupted { .. } | Outcome::TimedOut { .. } => true,
        }
    }

    /// Tells the user why the job ends, once.
    fn tell(&mut self, ranks: &Ranks) {
        if !std::mem::replace(&mut self.told, true) && self.tells {
            let ending = if ranks.running().is_empty() {
                ""
            } else {
                "; ending the job"
            };
            self.hooks.tell(&format!("{}{ending}", self.outcome));
        }
    }

    /// Performs the actions that were due at `now`, before the last check of the ranks.
    fn advance(&mut self, ranks: &Ranks, now: Instant) {
        if ranks.running().is_empty() {
            return;
        }
        self.look_for_the_missed(now);
        let is_missed = self.exit_limit().is_some_and(|limit| now >= limit);
        let is_over = match &mut self.phase {
            Phase::Grace(grace) => grace.is_over(now, ranks),
            Phase::Running { .. } | Phase::Terminating { .. } | Phase::Killed => false,
        };
        match &self.phase {
            Phase::Running { until: Some(until) } if now >= *until => {
                let limit = self.options.timeout.unwrap_or_default();
                self.begin_to_end(Outcome::TimedOut { limit }, ranks);
                self.tell(ranks);
            }
            Phase::Running { .. } if is_missed => {
                self.blame_who_left_early(ranks);
                self.tell(ranks);
            }
            Phase::Grace(_) if is_over => {
                if let Some(culprit) = self.culprit_that_goes_on(ranks) {
                    self.blame_instead(culprit);
                }
                self.tell(ranks);
                ranks.signal_all(Signal::TERM);
                self.phase = Phase::Terminating {
                    until: later(Instant::now(), self.options.kill_after),
                };
            }
            Phase::Terminating { until } if now >= *until => self.kill(ranks),
            Phase::Running { .. } | Phase::Grace(_) | Phase::Terminating { .. } | Phase::Killed => {
            }
        }
    }

    fn kill(&mut self, ranks: &Ranks) {
        ranks.signal_all(Signal::KILL);
        self.phase = Phase::Killed;
    }

    /// The time until the next action; `None` if there is none.
    fn time_left(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Running { until } => {
                let due = [*until, self.exit_limit(), self.next_look()];
                due.into_iter().flatten().min().map(time_until)
            }
            Phase::Grace(grace) => Some(time_until(grace.until())),
            Phase::Terminating { until } => Some(time_until(*until)),
            Phase::Killed => None,
        }
    }
}

fn time_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
