//! The long work of one rank, and its reports to the program.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::counting::now;
use super::live::{LiveWork, Now};
use crate::locks::lock;
use crate::thread_number;

/// The time until the first report of long work, and the interval of later reports.
const PAUSE: Duration = Duration::from_millis(100);

type Hook = Box<dyn FnMut(&LiveWork) + Send>;

/// The works of a rank.
#[derive(Default)]
pub(crate) struct Works {
    n_begun: AtomicU64,
    current: Mutex<Option<Current>>,
    hook: Mutex<Option<Hook>>,
    /// Locked while the hook runs.
    turn: Mutex<()>,
    /// The number of the thread on which it runs, or 0.
    teller: AtomicU64,
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
        let former = lock(&self.hook).replace(hook);
        // Not locked any more: it may own something that calls the library.
        drop(former);
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
        let is_due = match &mut *lock(&self.current) {
            Some(current) => {
                current.work.done = done;
                Instant::now() >= current.due
            }
            None => false,
        };
        // Another thread that has the turn may wait for this one; the next report comes soon.
        let Some(turn) = is_due.then(|| Turn::try_take(self)).flatten() else {
            return;
        };
        // Another thread may have had the turn, and told this, or the end.
        let told = match &mut *lock(&self.current) {
            Some(current) if Instant::now() >= current.due => {
                current.due = Instant::now() + PAUSE;
                current.was_told = true;
                Some(current.work.clone())
            }
            _ => None,
        };
        if let Some(work) = told {
            turn.tell(&work, &all());
        }
    }

    /// Ends the work. If the hook was called for it, it is called once more, but not while a panic
    /// unwinds: that may be the hook's, and a second one would end the process.
    pub(crate) fn end(&self, place: &Now, done: u64, all: impl Fn() -> Vec<LiveWork>) {
        place.advance_work(done);
        place.end_work();
        let ended = lock(&self.current).take();
        let is_told = |ended: &Current| ended.was_told && !thread::panicking();
        if let Some(Current { mut work, .. }) = ended.filter(is_told)
            && let Some(turn) = Turn::take(self)
        {
            work.done = done;
            work.is_over = true;
            turn.tell(&work, &all());
        }
    }
}

/// The turn of a thread to call the hook. Nothing that the hook may ask for is locked meanwhile.
struct Turn<'w> {
    works: &'w Works,
    /// Out of its place, in which the hook may put another one.
    hook: Option<Hook>,
    _locked: MutexGuard<'w, ()>,
}

impl<'w> Turn<'w> {
    /// Waits for the turn. The hook gets no reports of work that it does itself.
    fn take(works: &'w Works) -> Option<Self> {
        // Relaxed: a thread finds its own number if it is in the hook, and never otherwise.
        let is_mine = works.teller.load(Ordering::Relaxed) == thread_number::get();
        (!is_mine).then(|| Self::with(works, lock(&works.turn)))
    }

    /// The turn, unless a thread has it.
    fn try_take(works: &'w Works) -> Option<Self> {
        match works.turn.try_lock() {
            Ok(locked) => Some(Self::with(works, locked)),
            Err(TryLockError::Poisoned(poisoned)) => Some(Self::with(works, poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn with(works: &'w Works, locked: MutexGuard<'w, ()>) -> Self {
        works.teller.store(thread_number::get(), Ordering::Relaxed);
        Self {
            works,
            hook: lock(&works.hook).take(),
            _locked: locked,
        }
    }

    fn tell(mut self, own: &LiveWork, all: &[LiveWork]) {
        if let Some(hook) = &mut self.hook {
            let all: Vec<&LiveWork> = all.iter().collect();
            hook(&own.with_same(&all));
        }
    }
}

impl Drop for Turn<'_> {
    /// Also after a panic of the hook, which gets the next report all the same.
    fn drop(&mut self) {
        let mut place = lock(&self.works.hook);
        if place.is_none() {
            mem::swap(&mut *place, &mut self.hook);
        }
        drop(place);
        // A replaced hook may own something that calls the library.
        drop(self.hook.take());
        self.works.teller.store(0, Ordering::Relaxed);
    }
}
