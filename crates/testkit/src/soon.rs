//! Bounds on durations, on a machine that is busy with other work or pauses for a moment.

use std::fmt::Debug;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment on a clock that all processes share. The clock stops while any task of this machine
/// waits for a processor. So the time between two moments is what a job spends asleep or running,
/// however busy the machine is, and a bound on it is a claim about the library alone.
///
/// If the kernel does not count such waits (`/proc/pressure/cpu`), the clock is the ordinary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// This moment.
    ///
    /// # Panics
    ///
    /// If the clock shows a time before its beginning.
    #[must_use]
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::try_from(now).expect("the clock begins at zero");
        Self(now.saturating_sub(waited_for_processors()))
    }

    /// The time since then.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// The time from `earlier` to here.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// As a number, for another process of this machine.
    #[must_use]
    pub fn nanoseconds(self) -> u128 {
        self.0.as_nanos()
    }

    /// Converts a result of [`nanoseconds`](Self::nanoseconds) back; `None` for a number that no
    /// clock shows.
    #[must_use]
    pub fn of_nanoseconds(number: u128) -> Option<Self> {
        u64::try_from(number)
            .ok()
            .map(Duration::from_nanos)
            .map(Self)
    }
}

/// A time limit on the clock of [`Moment`]. On an ordinary clock it ends after five times as long.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    limit: Duration,
    began: (Moment, Instant),
}

impl Patience {
    /// The longest time between two checks.
    const TICK: Duration = Duration::from_millis(500);

    /// A limit that begins now.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            began: (Moment::now(), Instant::now()),
        }
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let (moment, instant) = self.began;
        let plain = instant.elapsed();
        plain >= self.limit && (moment.elapsed() >= self.limit || plain >= 5 * self.limit)
    }

    /// Waits for an event.
    ///
    /// # Errors
    ///
    /// The limit has passed, or there is no sender left.
    pub fn receive<T>(&self, events: &Receiver<T>) -> Result<T, RecvTimeoutError> {
        loop {
            match events.recv_timeout(self.limit.min(Self::TICK)) {
                Err(RecvTimeoutError::Timeout) if !self.is_over() => {}
                received => return received,
            }
        }
    }
}

/// The total time since the machine's start in which a task was ready to run and had no processor.
fn waited_for_processors() -> Duration {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    Duration::from_micros(total_of(&text).unwrap_or(0))
}

/// The total in the line about some tasks.
fn total_of(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.parse().ok()
}

/// The number of attempts of a case that ends too late.
const TRIES: u32 = 3;

/// The panic message of a case that ended too late.
struct TooLate(String);

/// Asserts that something took at most `limit` on the clock of [`Moment`]. A case under [`tried`]
/// may be late once in a while.
///
/// # Panics
///
/// If not.
pub fn assert_soon(took: Duration, limit: Duration, what: &dyn Debug) {
    if took >= limit {
        let text = format!("{took:?} are too long, of {limit:?}: {what:?}");
        panic::panic_any(TooLate(text));
    }
}

/// Asserts a condition that holds if every process of a job gets its turns in time; otherwise like
/// [`assert_soon`].
///
/// # Panics
///
/// If it is not so.
pub fn assert_timely(is_so: bool, what: &dyn Debug) {
    if !is_so {
        panic::panic_any(TooLate(format!("somebody came too late: {what:?}")));
    }
}

/// Runs a case, and repeats it if [`assert_soon`] fails in it. The library keeps its bounds
/// whenever the machine allows it, so once in three attempts is enough. A broken library exceeds
/// them each time.
///
/// # Panics
///
/// If the case panics: at once for any other reason, otherwise after the last attempt.
pub fn tried(case: impl Fn()) {
    for _ in 1..TRIES {
        let Err(payload) = panic::catch_unwind(AssertUnwindSafe(&case)) else {
            return;
        };
        if !payload.is::<TooLate>() {
            panic::resume_unwind(payload);
        }
    }
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(&case)) {
        match payload.downcast::<TooLate>() {
            Ok(late) => panic!("{TRIES} times; {}", late.0),
            Err(payload) => panic::resume_unwind(payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;

    use super::*;
    use crate::panic_text;

    const LIMIT: Duration = Duration::from_secs(2);

    #[test]
    fn waits_for_processors_are_read_from_what_the_kernel_shows() {
        let shown = "some avg10=96.49 avg60=96.99 avg300=80.38 total=565497431\n\
                     full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total_of(shown), Some(565_497_431));
        assert_eq!(total_of(""), None);
    }

    #[test]
    fn a_moment_goes_to_another_process_as_a_number() {
        let moment = Moment::now();
        assert_eq!(Moment::of_nanoseconds(moment.nanoseconds()), Some(moment));
        assert_eq!(Moment::of_nanoseconds(u128::MAX), None);
        assert_eq!(moment.since(moment), Duration::ZERO);
        // Not longer than the ordinary time.
        let began = Instant::now();
        let moment = Moment::now();
        let took = moment.elapsed();
        assert!(took <= began.elapsed(), "{took:?}");
    }

    #[test]
    fn a_limit_ends_a_wait_for_what_does_not_come() {
        let (send, events) = mpsc::channel();
        let short = Patience::new(Duration::from_millis(20));
        assert!(!short.is_over() || short.began.1.elapsed() >= short.limit);
        assert_eq!(short.receive(&events), Err(RecvTimeoutError::Timeout));
        assert!(short.is_over());
        let took = short.began.1.elapsed();
        assert!(took >= short.limit, "{took:?}");
        let long = Patience::new(Duration::from_secs(3600));
        send.send(7).expect("it is received below");
        assert_eq!(long.receive(&events), Ok(7));
        drop(send);
        assert_eq!(long.receive(&events), Err(RecvTimeoutError::Disconnected));
        assert!(!long.is_over());
    }

    /// Runs a case that takes each of `seconds` in turn. Returns the number of runs, and the
    /// failure.
    fn runs(seconds: &[u64], fails: bool) -> (usize, Option<String>) {
        let n = Cell::new(0);
        let case = || {
            let i = n.replace(n.get() + 1);
            assert_soon(Duration::from_secs(seconds[i]), LIMIT, &"a job");
            assert!(!fails, "something else");
        };
        let ended = panic::catch_unwind(AssertUnwindSafe(|| tried(case)));
        (
            n.get(),
            ended.err().map(|text| panic_text(&*text).to_owned()),
        )
    }

    #[test]
    fn a_case_that_is_late_is_tried_again_and_one_that_fails_is_not() {
        assert_eq!(runs(&[1], false), (1, None));
        assert_eq!(runs(&[3, 4, 1], false), (3, None));
        let late = Some("3 times; 2s are too long, of 2s: \"a job\"".to_owned());
        assert_eq!(runs(&[3, 4, 2, 1], false), (3, late));
        let failed = Some("something else".to_owned());
        assert_eq!(runs(&[1, 1], true), (1, failed.clone()));
        assert_eq!(runs(&[3, 1, 1], true), (2, failed.clone()));
        assert_eq!(runs(&[3, 3, 1], true), (3, failed));
    }
}
