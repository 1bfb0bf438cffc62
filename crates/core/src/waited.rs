//! The time that a wait has taken, without times in which the process was stopped.
//!
//! A terminal or a batch system may stop all ranks of a job and let them go on later. A limit that
//! counted that time would end the job then.

use std::time::{Duration, Instant};

/// A rank that only waits looks at the clock far more often. If it has not for so long, its process
/// was stopped.
const ABSENCE: Duration = Duration::from_secs(1);

/// The clock of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    /// The beginning of the wait, later by the times in which the process was stopped.
    began: Instant,
    looked: Instant,
}

impl Waited {
    /// A wait that begins at `now`.
    pub(crate) fn from(now: Instant) -> Self {
        Self {
            began: now,
            looked: now,
        }
    }

    /// The beginning of a wait that was not stopped.
    pub(crate) fn began(self) -> Instant {
        self.began
    }

    /// Looks at the clock, which shows `now`. Says whether the process was stopped since the last
    /// look: `has_slept` for at most this time, and has done nothing else; `None` if it has worked
    /// since, for any time.
    pub(crate) fn look(&mut self, now: Instant, has_slept: Option<Duration>) -> bool {
        let absent = now.saturating_duration_since(self.looked);
        self.looked = now;
        let limit = has_slept.and_then(|slept| slept.checked_add(ABSENCE));
        let was_stopped = limit.is_some_and(|limit| absent > limit);
        if was_stopped {
            self.began += absent;
        }
        was_stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_looks_counts_only_if_the_rank_has_worked_or_slept() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut waited = Waited::from(start);
        assert!(!waited.look(start + second, Some(Duration::ZERO)));
        assert!(!waited.look(start + 5 * second, None));
        assert!(!waited.look(start + 8 * second, Some(2 * second)));
        assert!(!waited.look(start + 9 * second, Some(Duration::MAX)));
        assert_eq!(waited.began(), start);
        assert!(waited.look(start + 99 * second, Some(2 * second)));
        assert_eq!(waited.began(), start + 90 * second);
        assert!(!waited.look(start + 99 * second, Some(Duration::ZERO)));
        assert_eq!(waited.began(), start + 90 * second);
    }
}
