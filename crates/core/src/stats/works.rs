//! The long work of one rank, and its reports to the program.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use super::counting::now;
use super::live::{LiveWork, Now};
use crate::locks::lock;

/// The time until the first report of long work, and the interval of later reports.
const PAUSE: Duration = Duration::from_millis(100);

type Hook = Box<dyn FnMut(&LiveWork) + Send>;

/// The works of a rank.
#[derive(Default)]
pub(crate) struct Works {
    n_begun: AtomicU64,
    current: Mutex<Option<Current>>,
    hook: Mutex<Option<Hook>>,
}

/// The present work.
struct Current {
    work: LiveWork,
    /// The time of the next report.
    due: Instant,
    was_told: bool,
}

impl fmt::Debug for Works {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Works")
    }
}

impl Works {
    pub(crate) fn set_hook(&self, hook: Hook) {
        *lock(&self.hook) = Some(hook);
    }

    /// Begins a work, unless it is a part of one.
    pub(crate) fn begin(&self, place: &Now, mut work: LiveWork) -> bool {
        let mut current = lock(&self.current);
        if current.is_some() {
            return false;
        }
        work.since = now().max(1);
        // It numbers works and orders nothing.
        work.number = self.n_begun.fetch_add(1, Ordering::Relaxed);
        place.begin_work(&work);
        *current = Some(Current {
            work,
            due: Instant::now() + PAUSE,
            was_told: false,
        });
        true
    }

    /// Records the amount that is done, and calls the hook when a report is due. `all` returns the
    /// work of all ranks that this one can read.
    pub(crate) fn advance(&self, place: &Now, done: u64, all: impl Fn() -> Vec<LiveWork>) {
        place.advance_work(done);
        let mut current = lock(&self.current);
        let Some(current) = &mut *current else {
            return;
        };
        current.work.done = done;
        if Instant::now() >= current.due {
            current.due = Instant::now() + PAUSE;
            current.was_told = true;
            self.tell(&current.work, &all());
        }
    }

    /// Ends the work. If the hook was called for it, it is called once more.
    pub(crate) fn end(&self, place: &Now, done: u64, all: impl Fn() -> Vec<LiveWork>) {
        place.advance_work(done);
        place.end_work();
        if let Some(mut current) = lock(&self.current).take()
            && current.was_told
        {
            current.work.done = done;
            current.work.is_over = true;
            self.tell(&current.work, &all());
        }
    }

    fn tell(&self, own: &LiveWork, all: &[LiveWork]) {
        // The hook gets no reports of work that it does itself. One that has panicked gets the next.
        let hook = match self.hook.try_lock() {
            Ok(hook) => Some(hook),
            Err(TryLockError::Poisoned(hook)) => Some(hook.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut hook) = hook
            && let Some(hook) = &mut *hook
        {
            let all: Vec<&LiveWork> = all.iter().collect();
            hook(&own.with_same(&all));
        }
    }
}
