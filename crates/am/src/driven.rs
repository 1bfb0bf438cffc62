//! The state of a rank's driver: whether there is one, and the tasks that it has to wake.
//!
//! Three kinds of tasks sleep. A task that awaits the answer of a call is woken by the answer. A
//! task that awaits a cell is woken by the promise or chain that sets the cell. The driver needs to
//! know these two kinds only when it ends. A task that awaits a transfer or a collective is woken
//! after the next round of progress, to poll again.

use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::thread;

use pgas_core::World;
use pgas_core::process::discard_panic;
use pgas_lockfree::pending::Pending;

/// A task that awaits a value, and has to be woken when the driver ends.
pub(crate) trait Sleeper: Send + Sync {
    /// The waker of the task, if one waits.
    fn take_waker(&self) -> Option<Waker>;
}

#[derive(Default)]
pub(crate) struct Driven {
    is_driven: AtomicBool,
    /// Tasks that poll again after the next round of progress.
    pollers: Mutex<Vec<Waker>>,
    n_lookers: AtomicUsize,
    /// Cells that tasks await, and some that no task awaits any more.
    cells: Mutex<Cells>,
}

#[derive(Default)]
struct Cells {
    list: Vec<Weak<dyn Sleeper>>,
    /// The length at which dropped sleepers are removed.
    next_sweep: usize,
}

impl fmt::Debug for Driven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driven({})", self.is_driven())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driven {
    /// Whether a driver wakes waiting tasks.
    pub(crate) fn is_driven(&self) -> bool {
        // Relaxed: a caller that relies on it asks `is_driven_still` afterwards.
        self.is_driven.load(Ordering::Relaxed)
    }

    /// Whether a waker that was left before this call is woken by the driver, at its end at the
    /// latest.
    pub(crate) fn is_driven_still(&self) -> bool {
        // Pairs with the fence in `end`: either this sees the end, or that sees the waker.
        fence(Ordering::SeqCst);
        self.is_driven.load(Ordering::Relaxed)
    }

    /// Whether there was no driver before.
    pub(crate) fn begin(&self) -> bool {
        !self.is_driven.swap(true, Ordering::Relaxed)
    }

    /// Ends the driver and wakes all tasks, which then make progress themselves.
    pub(crate) fn end(&self, pending: &Pending) {
        self.is_driven.store(false, Ordering::Relaxed);
        // Pairs with the fence in `is_driven_still`.
        fence(Ordering::SeqCst);
        let mut wakers = self.take_pollers();
        wakers.append(&mut pending.wakers());
        let cells = mem::take(&mut lock(&self.cells).list);
        let cells = cells.iter().filter_map(Weak::upgrade);
        wakers.extend(cells.filter_map(|cell| cell.take_waker()));
        wake_each(wakers);
    }

    /// Stores the waker of a task that polls again after the next round of progress, if there is a
    /// driver.
    pub(crate) fn wake_after_progress(&self, world: &World, waker: &Waker) -> bool {
        if !self.is_driven() {
            return false;
        }
        let mut pollers = lock(&self.pollers);
        if !pollers
            .iter()
            .rev()
            .take(4)
            .any(|other| other.will_wake(waker))
        {
            pollers.push(waker.clone());
        }
        let is_first = pollers.len() == 1;
        self.n_lookers.store(pollers.len(), Ordering::Relaxed);
        drop(pollers);
        if is_first {
            // The driver may be in a long sleep, since no task waited.
            world.unpark();
        }
        self.is_driven_still()
    }

    /// Wakes the tasks that poll again. Returns whether there were any.
    pub(crate) fn wake_pollers(&self) -> bool {
        // Only a hint that saves the lock; the driver comes by again soon.
        if self.n_lookers.load(Ordering::Relaxed) == 0 && self.is_driven() {
            return false;
        }
        let pollers = self.take_pollers();
        let has_some = !pollers.is_empty();
        wake_each(pollers);
        has_some
    }

    fn take_pollers(&self) -> Vec<Waker> {
        let mut list = lock(&self.pollers);
        self.n_lookers.store(0, Ordering::Relaxed);
        mem::take(&mut *list)
    }

    /// Keeps `sleeper` in mind for the end of the driver.
    pub(crate) fn remember(&self, sleeper: &Arc<dyn Sleeper>) {
        let mut cells = lock(&self.cells);
        if cells.list.len() >= cells.next_sweep {
            cells.list.retain(|cell| cell.strong_count() > 0);
            cells.next_sweep = (2 * cells.list.len()).max(64);
        }
        cells.list.push(Arc::downgrade(sleeper));
    }
}

/// Wakes all of them. A panic of one, which is the program's or its executor's, keeps no other from
/// being woken, and resumes at the end.
fn wake_each(wakers: Vec<Waker>) {
    let mut panic = None;
    for waker in wakers {
        match panic::catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            Err(payload) if panic.is_none() => panic = Some(payload),
            // The panic hook has reported it.
            Err(another) => discard_panic(another),
            Ok(()) => {}
        }
    }
    match panic {
        // A second panic would end the process.
        Some(payload) if thread::panicking() => discard_panic(payload),
        Some(payload) => panic::resume_unwind(payload),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use pgas_core::backend::loopback;
    use pgas_lockfree::pending::{Outcome, Watcher};

    use super::*;

    /// A waker that panics.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_that_panics_keeps_no_other_from_being_woken() {
        let world = loopback::world();
        let (driven, pending) = (Driven::default(), Pending::default());
        let counts = Arc::new(Counts::default());
        let wakers: [Waker; 3] = [
            Arc::new(Panics).into(),
            Arc::new(Panics).into(),
            Arc::clone(&counts).into(),
        ];
        let poll = || {
            for waker in &wakers {
                assert!(driven.wake_after_progress(&world, waker));
            }
        };
        assert!(driven.begin());
        poll();
        let wake = || driven.wake_pollers();
        assert!(panic::catch_unwind(AssertUnwindSafe(wake)).is_err());
        assert_eq!(counts.0.load(Ordering::Relaxed), 1);
        poll();
        let cookies = wakers.clone().map(|waker| {
            let cookie = pending.take_slot(0);
            assert!(pending.watch(cookie, Watcher::Wake(waker)).is_none());
            cookie
        });
        let end = || driven.end(&pending);
        assert!(panic::catch_unwind(AssertUnwindSafe(end)).is_err());
        assert_eq!(counts.0.load(Ordering::Relaxed), 3);
        // The next ones that are woken by their answers.
        assert!(pending.complete(cookies[2], Outcome::Returned, &[]));
        assert_eq!(counts.0.load(Ordering::Relaxed), 4);
    }
}
