//! Reports handlers that do not return, for example one that waits for a lock that its own thread
//! holds across the wait that runs the handler. Such a rank cannot report anything itself, so a
//! thread of the process watches all of its ranks.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::config::Config;
use crate::handler_mutex;
use crate::locks::lock;
use crate::lookout::{self, Watched};
use crate::notice;
use crate::rank::Rank;
use crate::waited::Waited;
use crate::waits::Watch;

/// The handler that a rank runs now; if several threads run handlers, that of the last one.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Running {
    /// Handlers that have begun, about.
    n_begun: AtomicU64,
    /// The sender of the message that is handled, plus one, or [`OWN`]; zero if none is.
    from: AtomicU64,
    rank: Rank,
    stall: Option<Duration>,
    stall_ends: bool,
    watch: Arc<Watch>,
    backend: Weak<dyn Backend>,
    describe: OnceLock<Described>,
    seen: Mutex<Seen>,
}

/// In the place of a sender: the rank runs work of its own program.
const OWN: u64 = u64::MAX;

/// Describes the object that the running handler works on, if it is known.
pub(crate) type Description = Box<dyn Fn() -> Option<String> + Send + Sync>;

struct Described(Description);

impl fmt::Debug for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Described").finish_non_exhaustive()
    }
}

/// A handler runs while this lives.
pub(crate) struct Runs<'a>(&'a AtomicU64);

impl Drop for Runs<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Running {
    pub(crate) fn new(
        backend: &Arc<dyn Backend>,
        config: &Config,
        watch: &Arc<Watch>,
    ) -> Arc<Self> {
        Arc::new(Self {
            n_begun: AtomicU64::new(0),
            from: AtomicU64::new(0),
            rank: backend.rank(),
            stall: config.stall,
            stall_ends: config.stall_ends,
            watch: Arc::clone(watch),
            backend: Arc::downgrade(backend),
            describe: OnceLock::new(),
            seen: Mutex::new(Seen {
                n_begun: 0,
                waited: Waited::from(Instant::now()),
                next_report: None,
            }),
        })
    }

    /// Sets the function that describes the running handler in reports.
    pub(crate) fn describe_by(&self, describe: Description) {
        // A world has one layer.
        self.describe.get_or_init(|| Described(describe));
    }

    /// Records the start of a handler.
    #[inline]
    pub(crate) fn begin(self: &Arc<Self>, from: Rank) -> Runs<'_> {
        self.begin_for(u64::from(from.number()) + 1)
    }

    /// As [`begin`](Self::begin), for work of the rank's own program.
    #[inline]
    pub(crate) fn begin_own(self: &Arc<Self>) -> Runs<'_> {
        self.begin_for(OWN)
    }

    #[inline]
    fn begin_for(self: &Arc<Self>, from: u64) -> Runs<'_> {
        // Relaxed, and not exact: the watch only checks whether they change over seconds.
        let n_begun = self.n_begun.load(Ordering::Relaxed);
        self.n_begun.store(n_begun + 1, Ordering::Relaxed);
        self.from.store(from, Ordering::Relaxed);
        if n_begun == 0 {
            self.be_watched();
        }
        Runs(&self.from)
    }

    #[cold]
    fn be_watched(self: &Arc<Self>) {
        // A rank that parks until it is written to is a simulated node, which has one thread.
        let has_threads = |backend: Arc<dyn Backend>| !backend.parks_until_written();
        if self.stall.is_some() && self.backend.upgrade().is_some_and(has_threads) {
            lookout::look_after(self);
        }
    }

    fn report(&self, ran: Duration, from: u64) {
        let (rank, seconds) = (self.rank, ran.as_secs_f64());
        let what = if from == OWN {
            "a task, an action of a future, or a call of another thread".to_owned()
        } else {
            format!("the handler of a message of rank {}", from - 1)
        };
        let mut text = format!("rank {rank} has run {what} for {seconds:.1}s");
        if let Some(named) = self
            .describe
            .get()
            .filter(|_| from != OWN)
            .and_then(|describe| (describe.0)())
        {
            let _: fmt::Result = write!(text, ", which names {named}");
        }
        if let Some(waits) = self.watch.waits() {
            let _: fmt::Result = write!(text, ", inside of a call that {waits}");
        }
        if let Some(blocked) = handler_mutex::blocked_handlers() {
            let _: fmt::Result = write!(text, ", and handlers of this process wait{blocked}");
        }
        notice::tell(&format_args!(
            "{text}. It serves nobody meanwhile (PGAS_STALL). A handler that locks what its own thread has locked never \
             ends: drop guards before a call that waits."
        ));
        if self.stall_ends
            && let Some(backend) = self.backend.upgrade()
        {
            let ran = ran.as_secs_f64();
            let cause = format!("has run a handler for {ran:.1}s (PGAS_STALL_END)");
            drop(backend.blame(self.rank, &cause));
        }
    }
}

/// The longest and shortest interval between checks of a running handler.
const SELDOM: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_millis(20);

/// The last observation of a rank.
#[derive(Debug)]
struct Seen {
    /// The handler that ran then.
    n_begun: u64,
    /// For how long it has run.
    waited: Waited,
    next_report: Option<Duration>,
}

impl Running {
    /// As [`look`](Watched::look), at the time `now`.
    fn look_at(&self, now: Instant) -> Duration {
        let Some(stall) = self.stall else {
            return SELDOM;
        };
        let pause = (stall / 4).clamp(OFTEN, SELDOM);
        let n_begun = self.n_begun.load(Ordering::Relaxed);
        let from = self.from.load(Ordering::Relaxed);
        let mut seen = lock(&self.seen);
        if from == 0 || n_begun != seen.n_begun {
            *seen = Seen {
                n_begun,
                waited: Waited::from(now),
                next_report: Some(stall),
            };
            return pause;
        }
        seen.waited.look(now, Some(pause));
        let ran = now.saturating_duration_since(seen.waited.began());
        if seen.next_report.is_none_or(|at| ran >= at) {
            seen.next_report = Some(2 * ran.max(stall));
            self.report(ran, from);
        }
        pause
    }
}

impl Watched for Running {
    fn look(&self) -> Duration {
        self.look_at(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback;

    #[test]
    fn a_time_in_which_the_job_was_stopped_is_no_time_of_a_handler() {
        let config = Config {
            stall: Some(Duration::from_secs(4)),
            stall_ends: true,
            ..Config::default()
        };
        let world = loopback::worlds(1, &config).unwrap().remove(0);
        // A watch of its own: the lookout does not know it.
        let running = Running::new(&world.shared_backend(), &config, &Arc::default());
        running.n_begun.store(1, Ordering::Relaxed);
        let _runs = running.begin(Rank::ZERO);
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let is_well_at = |seconds: u32| {
            assert_eq!(running.look_at(start + seconds * second), second);
            world.backend().health().is_ok()
        };
        assert!([0, 1, 20, 21, 22].map(is_well_at) == [true; 5]);
        assert!(!is_well_at(23));
    }
}
