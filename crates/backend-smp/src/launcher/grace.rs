//! The grace period in which ranks may end by themselves. Only time in which each of them could run
//! counts: the end of a job must not depend on how many other programs want its processors.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::later;
use super::ranks::Ranks;
use super::stat::stat_behind_name;

/// The maximum length of a grace period, as a multiple of the given one. A rank that never gets a
/// processor may have a reason not to end either.
const LONGEST: u32 = 10;

/// The minimum number of checks within the given time.
const CHECKS: u32 = 4;

/// A grace that has begun.
#[derive(Debug)]
pub(super) struct Grace {
    began: Instant,
    given: Duration,
    ranks: Vec<Watched>,
    next_look: Instant,
}

/// The state of a rank that should end.
#[derive(Debug)]
struct Watched {
    pid: Pid,
    /// The time that it had waited for a processor when the grace period began.
    waited_before: Duration,
    last: Turns,
    /// The last time at which it was seen to get a turn on a processor.
    waits_since: Instant,
}

impl Grace {
    /// Begins a grace period of length `given` for `ranks`.
    pub(super) fn begin(given: Duration, ranks: &Ranks) -> Self {
        let began = Instant::now();
        let watched = |pid| {
            let last = Turns::of(pid);
            Watched {
                pid,
                waited_before: last.waited,
                last,
                waits_since: began,
            }
        };
        let pids = ranks.running().iter().map(|process| process.pid());
        Self {
            began,
            given,
            ranks: pids.map(watched).collect(),
            next_look: later(began, given / CHECKS),
        }
    }

    /// The time of the next check.
    pub(super) fn until(&self) -> Instant {
        self.next_look
    }

    /// Whether it is over at `now` for the ranks that still run.
    pub(super) fn is_over(&mut self, now: Instant, ranks: &Ranks) -> bool {
        if now < self.next_look {
            return false;
        }
        let running = ranks.running();
        let runs = |pid| running.iter().any(|process| process.pid() == pid);
        self.ranks.retain(|rank| runs(rank.pid));
        let waited = self.ranks.iter_mut();
        let waited = waited
            .map(|rank| rank.waited(Turns::of(rank.pid), now))
            .max();
        let until = later(self.began, length(self.given, waited.unwrap_or_default()));
        self.next_look = until.min(later(now, self.given / CHECKS));
        now >= until
    }
}

impl Watched {
    /// The time that it has waited for a processor since the grace period began. The system counts
    /// a wait when it is over; a wait that continues is the time since the last turn that was seen.
    fn waited(&mut self, turns: Turns, now: Instant) -> Duration {
        if !turns.is_ready || turns.n_turns != self.last.n_turns {
            self.waits_since = now;
        }
        self.last = turns;
        let over = turns.waited.saturating_sub(self.waited_before);
        over + now.saturating_duration_since(self.waits_since)
    }
}

/// The length of the grace period for a rank that has waited for a processor.
fn length(given: Duration, waited: Duration) -> Duration {
    let longest = given.saturating_mul(LONGEST);
    given.saturating_add(waited).min(longest)
}

/// The turns of a process on processors, as far as the system counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Turns {
    /// The time that it was ready to run without a processor, before each of its turns.
    waited: Duration,
    n_turns: u64,
    /// Whether it is running or ready to run.
    is_ready: bool,
}

impl Turns {
    fn of(pid: Pid) -> Self {
        let schedstat = fs::read_to_string(format!("/proc/{}/schedstat", pid.as_raw_nonzero()));
        let stat = stat_behind_name(pid.as_raw_nonzero());
        Self::parse(&schedstat.unwrap_or_default(), &stat.unwrap_or_default())
    }

    /// `schedstat` has nanoseconds on a processor, nanoseconds ready to run, and turns; `stat` the
    /// state behind the name.
    fn parse(schedstat: &str, stat: &str) -> Self {
        let mut numbers = schedstat.split_whitespace().skip(1);
        let mut next = || numbers.next().and_then(|word| word.parse().ok());
        Self {
            waited: Duration::from_nanos(next().unwrap_or(0)),
            n_turns: next().unwrap_or(0),
            is_ready: stat.starts_with('R'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_a_processor_are_read_from_what_the_system_shows() {
        let turns = Turns::parse("1234567 7000000 89\n", "R 1 17");
        let expected = Turns {
            waited: Duration::from_millis(7),
            n_turns: 89,
            is_ready: true,
        };
        assert_eq!(turns, expected);
        assert!(!Turns::parse("", "S 1 17").is_ready);
        assert_eq!(Turns::parse("", ""), Turns::default());
        let own = Pid::from_raw(std::process::id().cast_signed()).unwrap();
        // The wait was no longer than the machine has run.
        assert!(Turns::of(own).waited < Duration::from_secs(1 << 32));
    }

    #[test]
    fn a_wait_that_goes_on_counts_until_the_next_turn() {
        let ms = Duration::from_millis;
        let turns = |waited, n_turns, is_ready| Turns {
            waited: ms(waited),
            n_turns,
            is_ready,
        };
        let began = Instant::now();
        let mut rank = Watched {
            pid: Pid::from_raw(std::process::id().cast_signed()).unwrap(),
            waited_before: ms(50),
            last: turns(50, 7, true),
            waits_since: began,
        };
        assert_eq!(rank.waited(turns(50, 7, true), began + ms(40)), ms(40));
        assert_eq!(rank.waited(turns(50, 7, true), began + ms(80)), ms(80));
        // It had a turn. Its earlier wait does not count twice.
        assert_eq!(rank.waited(turns(140, 8, true), began + ms(95)), ms(90));
        assert_eq!(rank.waited(turns(140, 8, true), began + ms(99)), ms(94));
        // It is sleeping.
        assert_eq!(rank.waited(turns(140, 8, false), began + ms(200)), ms(90));
    }

    #[test]
    fn a_grace_is_longer_by_what_a_rank_could_not_run_and_ends_all_the_same() {
        let given = Duration::from_millis(300);
        assert_eq!(length(given, Duration::ZERO), given);
        assert_eq!(length(given, given), 2 * given);
        assert_eq!(length(given, Duration::from_secs(3600)), 10 * given);
        assert_eq!(length(Duration::MAX, given), Duration::MAX);
    }
}
