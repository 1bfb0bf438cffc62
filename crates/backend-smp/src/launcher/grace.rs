//! How long ranks have to end by themselves: a time in which each of them could run. What a user sees
//! of the end of a job shall not depend on how many other programs want its processors.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::ranks::Ranks;

/// How many times as long as it is given a grace may last. A rank that never gets a processor may
/// have a reason not to end either.
const LONGEST: u32 = 10;

/// A grace that has begun.
#[derive(Debug)]
pub(super) struct Grace {
    began: Instant,
    given: Duration,
    /// How long each rank had waited for a processor when it began.
    waited: Vec<(Pid, Duration)>,
    /// The earliest end that is possible, as far as was known at the last look.
    until: Instant,
}

impl Grace {
    /// Gives `given` to `ranks` from now on.
    pub(super) fn begin(given: Duration, ranks: &Ranks) -> Self {
        let pids = ranks.running().iter().map(|process| process.pid());
        let began = Instant::now();
        Self {
            began,
            given,
            waited: pids.map(|pid| (pid, waited_for_processors(pid))).collect(),
            until: began + given,
        }
    }

    /// When to look again.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Whether it was over at `now` for those that still run.
    pub(super) fn is_over(&mut self, now: Instant, ranks: &Ranks) -> bool {
        if now < self.until {
            return false;
        }
        let pids = ranks.running().iter().map(|process| process.pid());
        let waited = pids.map(|pid| {
            let before = self.waited.iter().find(|(other, _)| *other == pid);
            let before = before.map_or(Duration::ZERO, |(_, waited)| *waited);
            waited_for_processors(pid).saturating_sub(before)
        });
        self.until = self.began + length(self.given, waited.max().unwrap_or_default());
        now >= self.until
    }
}

/// How long a grace lasts for a rank that has waited for a processor meanwhile.
fn length(given: Duration, waited: Duration) -> Duration {
    (given + waited).min(given * LONGEST)
}

/// How long the process has been ready to run without a processor since its start, as far as the
/// system counts that.
fn waited_for_processors(pid: Pid) -> Duration {
    let path = format!("/proc/{}/schedstat", pid.as_raw_nonzero());
    let text = fs::read_to_string(path).unwrap_or_default();
    waited_of(&text).unwrap_or_default()
}

/// The second of the numbers: nanoseconds on a processor, nanoseconds ready to run, time slices.
fn waited_of(schedstat: &str) -> Option<Duration> {
    let nanoseconds = schedstat.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_a_processor_are_read_from_what_the_system_shows() {
        let waited = waited_of("1234567 7000000 89\n");
        assert_eq!(waited, Some(Duration::from_millis(7)));
        assert_eq!(waited_of(""), None);
        let own = Pid::from_raw(std::process::id().cast_signed()).unwrap();
        // Whatever it is, it was no longer than the machine has run.
        assert!(waited_for_processors(own) < Duration::from_secs(1 << 32));
    }

    #[test]
    fn a_grace_is_longer_by_what_a_rank_could_not_run_and_ends_all_the_same() {
        let given = Duration::from_millis(300);
        assert_eq!(length(given, Duration::ZERO), given);
        assert_eq!(length(given, given), 2 * given);
        assert_eq!(length(given, Duration::from_secs(3600)), 10 * given);
    }
}
