//! The end of a job over hosts: its verdict, and how the ranks that still run are ended.

use std::time::{Duration, Instant};

use pgas_smp::launcher::{Forwarder, Outcome};
use rustix::process::Signal;

use super::Watch;
use crate::hosts::meeting::who_is_missing;
use crate::hosts::members::Member;
use crate::hosts::shown::Shown;
use crate::hosts::wire::{Frame, Kind};

/// How long the hosts' ranks have to end by themselves when one has failed, then after SIGTERM, and
/// then the hosts to say that they have.
const GRACE: Duration = Duration::from_millis(300);
/// The time that the host of the first failure has to say more of it than others, whose ranks have
/// failed because of it.
const TO_EXPLAIN: Duration = Duration::from_millis(1500);
const AFTER_TERM: Duration = Duration::from_millis(500);
const AFTER_KILL: Duration = Duration::from_secs(5);
/// Two requests to end that are closer together than this are one: `timeout(1)` sends two.
const ONE_REQUEST: Duration = Duration::from_millis(200);

/// The progress of the job's end.
#[derive(Clone, Copy)]
pub(super) enum Phase {
    Running,
    /// The ranks end by themselves.
    Grace {
        until: Instant,
    },
    /// They have been sent SIGTERM.
    Terminating {
        until: Instant,
    },
    /// The hosts kill them.
    Killing {
        until: Instant,
    },
    /// The launcher no longer waits for any host.
    Over,
}

impl Watch<'_> {
    /// The first request is for the ranks to follow; a second one is not left to them.
    pub(super) fn end_requested(&mut self, signal: i32) {
        let now = Instant::now();
        match self.asked_to_end {
            None => {
                self.asked_to_end = Some((signal, now));
                self.broadcast(&Frame::of_code(Kind::Signal, signal, ""));
                // No rank is left that could follow.
                if self.have_all_ended() {
                    self.interrupted(signal);
                    self.phase = Phase::Over;
                }
                // A host that has not connected cannot follow.
                if self.members.iter().any(|member| !member.has_come) {
                    self.interrupted(signal);
                }
            }
            Some((_, first)) if now - first > ONE_REQUEST => {
                self.interrupted(signal);
                self.end_ranks();
                self.end_ranks_now();
            }
            Some(_) => {}
        }
    }

    pub(super) fn interrupted(&mut self, signal: i32) {
        let after = self.started.elapsed();
        let outcome = Outcome::Interrupted { signal, after };
        self.fail(outcome.code(), &outcome.to_string());
    }

    /// Ends the job. The first cause is printed, unless `sentence` is empty.
    pub(super) fn fail(&mut self, code: u8, sentence: &str) {
        if self.verdict.is_some() {
            return;
        }
        self.verdict = Some(code.max(1));
        self.outcome = match sentence {
            "" => "a rank has failed".to_owned(),
            sentence => sentence.to_owned(),
        };
        let goes_on = self.members.iter().any(Member::is_awaited);
        let ending = if goes_on { "; ending the job" } else { "" };
        if !sentence.is_empty() {
            self.view.tell(&format!("{sentence}{ending}"));
        }
        self.begin_to_end(GRACE);
    }

    fn begin_to_end(&mut self, grace: Duration) {
        for member in self.members.iter().filter(|member| !member.has_come) {
            member.kill();
        }
        let until = Instant::now() + grace;
        self.phase = Phase::Grace { until };
    }

    /// Ends the job because of a rank that has failed after another one: the host of that one has a
    /// better reason and the right exit code, but may be slower.
    pub(super) fn suspect(&mut self, code: i32, first: String) {
        if self.verdict.is_none() && self.suspected.is_none() {
            self.suspected = Some((u8::try_from(code).unwrap_or(1), first));
            self.begin_to_end(TO_EXPLAIN);
        }
    }

    /// Nothing has explained the first failure.
    pub(super) fn tell_suspected(&mut self) {
        if let Some((code, first)) = self.suspected.take() {
            self.fail(code, &first);
        }
    }

    /// As [`fail`](Self::fail), because of a host.
    pub(super) fn fail_of(&mut self, index: usize, code: u8, cause: &str) {
        let host = &self.members[index].host.name;
        let sentence = format!("host {host}: {cause}");
        self.fail(code, &sentence);
    }

    pub(super) fn heed_failure(&mut self, index: usize, frame: &Frame) {
        let (code, text) = frame.code();
        let narrow = u8::try_from(code).unwrap_or(1);
        match (self.asked_to_end, frame.first_failure()) {
            (Some((signal, _)), _) if code == 128 + signal => self.interrupted(signal),
            (_, Some(first)) => self.suspect(code, first),
            _ if text.is_empty() => self.fail(narrow, ""),
            _ => self.fail_of(index, narrow, &text),
        }
    }

    /// Asks the ranks to end.
    fn end_ranks(&mut self) {
        self.broadcast(&Frame::of_code(Kind::Signal, Signal::TERM.as_raw(), ""));
        let until = Instant::now() + AFTER_TERM;
        self.phase = Phase::Terminating { until };
    }

    /// Asks the hosts to kill their ranks, as a second request to end does.
    fn end_ranks_now(&mut self) {
        self.broadcast(&Frame::of_code(Kind::Signal, Signal::TERM.as_raw(), ""));
        let until = Instant::now() + AFTER_KILL;
        self.phase = Phase::Killing { until };
    }

    fn have_all_ended(&self) -> bool {
        self.members.iter().all(|member| member.code.is_some())
    }

    /// When agents that are left although all ranks have ended are given up. An agent whose output
    /// waits for its reader is not.
    fn lingers_until(&self) -> Option<Instant> {
        let limit = match self.asked_to_end {
            Some(_) => Some(AFTER_KILL),
            None => self.wanted.silence,
        };
        let limit = limit.filter(|_| self.have_all_ended())?;
        let idle = self.forwarders.iter().map(Forwarder::idle_since);
        let idle: Option<Vec<Instant>> = idle.collect();
        let last = match idle {
            Some(idle) => idle.into_iter().fold(self.settled, Instant::max),
            None => Instant::now(),
        };
        last.checked_add(limit)
    }

    /// Gives up agents that do not end.
    fn end_the_lingering(&mut self, now: Instant) {
        let mut members = self.members.iter();
        let left = members.position(|member| member.status.is_none());
        let is_due = self.lingers_until().is_some_and(|due| now >= due);
        let Some(index) = left.filter(|_| is_due) else {
            return;
        };
        match (self.asked_to_end, self.wanted.silence) {
            (Some((signal, _)), _) => self.interrupted(signal),
            (None, silence) => {
                let seconds = silence.unwrap_or_default().as_secs_f64();
                let cause = format!(
                    "its ranks have ended, but its agent has not, and has passed on no output for \
                     {seconds} s (PGAS_SILENCE)"
                );
                self.fail_of(index, 1, &cause);
            }
        }
        self.phase = Phase::Over;
    }

    /// Performs actions that are due.
    pub(super) fn advance(&mut self) {
        let now = Instant::now();
        if let Some(shown) = &mut self.shown {
            shown.advance(&self.view);
        }
        if matches!(self.phase, Phase::Running) {
            self.end_the_lingering(now);
        }
        match self.phase {
            Phase::Running => {
                let limit = self
                    .wanted
                    .timeout
                    .filter(|limit| self.started.elapsed() >= *limit);
                if let Some(limit) = limit {
                    let outcome = Outcome::TimedOut { limit };
                    self.fail(outcome.code(), &outcome.to_string());
                } else if self.started.elapsed() >= self.wanted.patience
                    && let Some(index) = self.members.iter().position(|member| !member.has_come)
                {
                    let seconds = self.wanted.patience.as_secs_f64();
                    let cause = format!("has not connected within {seconds} s (--start-timeout)");
                    self.fail_of(index, 1, &cause);
                } else if let Some(due) = self.meeting.due(self.wanted.patience)
                    && now >= due
                    && let Some(who) = who_is_missing(&self.members)
                {
                    let seconds = self.wanted.patience.as_secs_f64();
                    let sentence =
                        format!("{who} not joined the others within {seconds} s (--start-timeout)");
                    self.fail(1, &sentence);
                }
            }
            Phase::Grace { until } if now >= until => {
                self.tell_suspected();
                self.end_ranks();
            }
            Phase::Terminating { until } if now >= until => self.end_ranks_now(),
            Phase::Killing { until } if now >= until => {
                for member in &self.members {
                    member.kill();
                }
                self.phase = Phase::Over;
            }
            Phase::Grace { .. }
            | Phase::Terminating { .. }
            | Phase::Killing { .. }
            | Phase::Over => {}
        }
    }

    /// The time until the next action is due; `None` if none is.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let due = match self.phase {
            Phase::Running => {
                let is_missing = self.members.iter().any(|member| !member.has_come);
                let start = is_missing.then_some(self.wanted.patience);
                let limits = start.into_iter().chain(self.wanted.timeout);
                limits
                    .filter_map(|limit| self.started.checked_add(limit))
                    .chain(self.meeting.due(self.wanted.patience))
                    .chain(self.lingers_until())
                    .min()
            }
            Phase::Grace { until } | Phase::Terminating { until } | Phase::Killing { until } => {
                Some(until)
            }
            Phase::Over => Some(Instant::now()),
        };
        let silent = self.members.iter();
        let silent = silent.flat_map(|member| {
            let limits = [member.silent_at(self.wanted.silence), member.mute_at()];
            limits.into_iter().flatten()
        });
        let due = due.into_iter().chain(self.shown.as_ref().map(Shown::due));
        due.chain(silent)
            .min()
            .map(|due| due.saturating_duration_since(Instant::now()))
    }
}
