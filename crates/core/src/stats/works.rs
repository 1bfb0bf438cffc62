//! Long work of one rank that goes on, and who wants to hear of it.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::counting::now;
use super::live::{LiveWork, Now};
use crate::locks::lock;

/// How long work goes on before anybody hears of it, and how often then.
const PAUSE: Duration = Duration::from_millis(100);

type Hook = Box<dyn FnMut(&LiveWork) + Send>;

/// The works of a rank.
#[derive(Default)]
pub(crate) struct Works {
    n_begun: AtomicU64,
    current: Mutex<Option<Current>>,
    hook: Mutex<Option<Hook>>,
}

/// The work that goes on.
struct Current {
    work: LiveWork,
    /// When somebody may hear of it next.
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

    /// So much of it is done. Tells who wants to hear of it if it is time to: `all` gives the works
    /// of all ranks that are seen from here.
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

    /// It is over. Who has heard of it hears of that, too.
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
        // It does not hear of what it does itself.
        if let Ok(mut hook) = self.hook.try_lock()
            && let Some(hook) = &mut *hook
        {
            let all: Vec<&LiveWork> = all.iter().collect();
            hook(&own.with_same(&all));
        }
    }
}
