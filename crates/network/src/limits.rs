//! Limits of waits in a backend's own loops: when a report or an end is due.

use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use pgas_core::{Config, Error, Rank, Timeout, notice};

/// The settings about waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    timeout: Option<Duration>,
    stall: Option<Duration>,
    stall_ends: bool,
}

/// The action that is due for a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A report.
    Report,
    /// A report, and the end of the job.
    EndOfStall,
    /// The wait has reached the limit.
    Timeout,
}

impl Limits {
    /// The user's limits.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            timeout: config.timeout,
            stall: config.stall,
            stall_ends: config.stall_ends,
        }
    }

    /// The interval between checks of a wait, short enough that no action is much too late.
    pub fn pause(&self) -> Option<Duration> {
        let first = self.timeout.into_iter().chain(self.stall).min();
        first.map(|first| first / 4)
    }

    /// The action that is due after `waited`. The next report follows when the time has doubled.
    pub fn due(&self, waited: Duration, next_report: &mut Option<Duration>) -> Due {
        if self.timeout.is_some_and(|limit| waited >= limit) {
            return Due::Timeout;
        }
        let Some(stall) = self.stall else {
            return Due::Nothing;
        };
        if waited < *next_report.get_or_insert(stall) {
            return Due::Nothing;
        }
        *next_report = Some(2 * waited);
        if self.stall_ends {
            Due::EndOfStall
        } else {
            Due::Report
        }
    }
}

/// A description of a wait.
#[derive(Clone, Copy)]
pub struct Awaited<'a> {
    /// Read after "waited 5s for".
    pub what: &'static str,
    /// The ranks that it waits for, as far as this rank knows.
    pub missing: &'a dyn Fn() -> Vec<Rank>,
}

impl fmt::Debug for Awaited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Awaited({:?})", self.what)
    }
}

impl Awaited<'_> {
    /// "has waited 5.0s for the answer of an atomic, of rank 1", to be read after "rank 0".
    pub fn text(&self, waited: Duration) -> String {
        /// Ranks that are named singly.
        const MAX_NAMED: usize = 8;
        let missing = (self.missing)();
        let mut text = format!("has waited {:.1}s for {}", waited.as_secs_f64(), self.what);
        for (i, rank) in missing.iter().take(MAX_NAMED).enumerate() {
            let before = if i == 0 { ", of" } else { "," };
            let _: fmt::Result = write!(text, "{before} rank {rank}");
        }
        if let Some(n_more @ 1..) = missing.len().checked_sub(MAX_NAMED) {
            let _: fmt::Result = write!(text, " and {n_more} more");
        }
        text
    }

    /// The error of a wait that has reached the limit.
    pub fn timeout(&self, rank: Rank, waited: Duration) -> Error {
        Error::from(Box::new(Timeout {
            rank,
            waited,
            what: self.what,
            missing: (self.missing)(),
        }))
    }
}

/// A wait in a backend's loop, which checks its limits itself.
#[derive(Debug)]
pub struct LongWait<'a> {
    limits: Limits,
    rank: Rank,
    awaited: Awaited<'a>,
    began: Option<Instant>,
    next_report: Option<Duration>,
}

/// The rounds of a wait: they say when to check the job's health, and when to yield the processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds(u32);

/// The actions that are due in a round of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Whether to look at the job's health, and at the wait's limits.
    pub looks: bool,
    /// Whether to yield.
    pub yields: bool,
}

impl Rounds {
    /// The next round; `is_crowded` where a rank that waits takes the processor from others.
    #[inline]
    pub fn turn(&mut self, is_crowded: bool) -> Round {
        /// Rounds between two checks, before and after the first yield. Where many programs wait
        /// for a processor, a single yield takes tens of milliseconds.
        const ROUNDS_PER_CHECK: u32 = 64;
        const YIELDS_PER_CHECK: u32 = 8;
        const SPINS: u32 = 200;
        self.0 = self.0.wrapping_add(1);
        let yields = self.0 > SPINS || is_crowded;
        let n_between = if yields {
            YIELDS_PER_CHECK
        } else {
            ROUNDS_PER_CHECK
        };
        let looks = self.0.is_multiple_of(n_between);
        Round { looks, yields }
    }
}

/// The reason to give up a wait.
#[derive(Debug)]
pub enum Over {
    /// The wait has reached its limit.
    Timeout(Error),
    /// The job is to fail, with this cause of this rank.
    Stall(String),
}

impl<'a> LongWait<'a> {
    /// A wait that may get long.
    #[must_use]
    pub fn new(limits: Limits, rank: Rank, awaited: Awaited<'a>) -> Self {
        Self {
            limits,
            rank,
            awaited,
            began: None,
            next_report: None,
        }
    }

    /// Performs actions that are due. Called now and then while nothing arrives.
    ///
    /// # Errors
    ///
    /// If the wait is to be given up.
    pub fn check(&mut self) -> Result<(), Over> {
        let waited = self.began.get_or_insert_with(Instant::now).elapsed();
        let due = self.limits.due(waited, &mut self.next_report);
        if due == Due::Nothing {
            return Ok(());
        }
        if due == Due::Timeout {
            return Err(Over::Timeout(self.awaited.timeout(self.rank, waited)));
        }
        let text = self.awaited.text(waited);
        notice::tell(&format_args!("rank {} {text} (PGAS_STALL)", self.rank));
        if due == Due::EndOfStall {
            return Err(Over::Stall(format!("{text} (PGAS_STALL_END)")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits(timeout: Option<u32>, stall: Option<u32>, stall_ends: bool) -> Limits {
        let mut config = Config::default();
        config.timeout = timeout.map(|n| n * SECOND);
        config.stall = stall.map(|n| n * SECOND);
        config.stall_ends = stall_ends;
        Limits::new(&config)
    }

    #[test]
    fn a_wait_is_reported_whenever_its_time_has_doubled_and_ends_at_its_limit() {
        let limits = limits(Some(20), Some(3), false);
        let mut next = None;
        let due = (0..=20).map(|n| limits.due(n * SECOND, &mut next));
        let due: Vec<Due> = due.collect();
        let at = |wanted: Due| {
            let found = due.iter().enumerate().filter(|(_, due)| **due == wanted);
            found.map(|(n, _)| n).collect::<Vec<_>>()
        };
        assert_eq!(at(Due::Report), [3, 6, 12]);
        assert_eq!(at(Due::Timeout), [20]);
        assert_eq!(limits.pause(), Some(SECOND * 3 / 4));
    }

    #[test]
    fn without_limits_nothing_is_ever_due() {
        let limits = limits(None, None, true);
        assert_eq!(limits.due(1000 * SECOND, &mut None), Due::Nothing);
        assert_eq!(limits.pause(), None);
    }

    #[test]
    fn a_report_ends_the_job_where_it_is_told_to() {
        let limits = limits(None, Some(1), true);
        assert_eq!(limits.due(SECOND, &mut None), Due::EndOfStall);
    }

    #[test]
    fn a_wait_says_for_what_of_whom() {
        let missing = || (0..10).map(Rank::new).collect();
        let awaited = Awaited {
            what: "answers",
            missing: &missing,
        };
        let text = awaited.text(SECOND);
        assert!(text.starts_with("has waited 1.0s for answers, of rank 0, rank 1,"));
        assert!(text.ends_with("rank 7 and 2 more"), "{text}");
    }
}
