//! What a rank knows of its driver: whether there is one, and who is to be woken by it.
//!
//! Three kinds of tasks sleep. Who awaits the answer of a call is woken by the answer, and who
//! awaits what a promise or a chain leaves in a cell by who leaves it; the driver need not know
//! them before it ends. Who awaits a transfer or a collective is woken after the next round of
//! progress, to look again.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use pgas_core::World;
use pgas_lockfree::pending::Pending;

/// Who awaits a value and has to be woken when the driver ends.
pub(crate) trait Sleeper: Send + Sync {
    /// Wakes the task, if one waits.
    fn wake(&self);
}

#[derive(Default)]
pub(crate) struct Driven {
    is_driven: AtomicBool,
    /// Who looks again after the next round of progress.
    lookers: Mutex<Vec<Waker>>,
    n_lookers: AtomicUsize,
    /// Cells that somebody awaits, and some that nobody does any more.
    cells: Mutex<Cells>,
}

#[derive(Default)]
struct Cells {
    list: Vec<Weak<dyn Sleeper>>,
    /// The length at which those that are gone are taken out.
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
    /// Whether a driver wakes who waits.
    pub(crate) fn is_driven(&self) -> bool {
        // Relaxed: who relies on it asks `is_driven_still` afterwards.
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

    /// There is no driver any more; wakes everybody, who then make progress themselves.
    pub(crate) fn end(&self, pending: &Pending) {
        self.is_driven.store(false, Ordering::Relaxed);
        // Pairs with the fence in `is_driven_still`.
        fence(Ordering::SeqCst);
        self.wake_lookers();
        pending.wake_all();
        let cells = mem::take(&mut lock(&self.cells).list);
        for cell in cells.iter().filter_map(Weak::upgrade) {
            cell.wake();
        }
    }

    /// Takes the waker of a task that looks again after the next round of progress, if there is a
    /// driver.
    pub(crate) fn wake_after_progress(&self, world: &World, waker: &Waker) -> bool {
        if !self.is_driven() {
            return false;
        }
        let mut lookers = lock(&self.lookers);
        if !lookers
            .iter()
            .rev()
            .take(4)
            .any(|other| other.will_wake(waker))
        {
            lookers.push(waker.clone());
        }
        let is_first = lookers.len() == 1;
        self.n_lookers.store(lookers.len(), Ordering::Relaxed);
        drop(lookers);
        if is_first {
            // It may sleep for long, since nobody waited.
            world.unpark();
        }
        self.is_driven_still()
    }

    /// Wakes who looks again, and says whether anybody did.
    pub(crate) fn wake_lookers(&self) -> bool {
        // Only a hint that saves the lock; the driver comes by again soon.
        if self.n_lookers.load(Ordering::Relaxed) == 0 && self.is_driven() {
            return false;
        }
        let mut list = lock(&self.lookers);
        let lookers = mem::take(&mut *list);
        self.n_lookers.store(0, Ordering::Relaxed);
        drop(list);
        let has_some = !lookers.is_empty();
        lookers.into_iter().for_each(Waker::wake);
        has_some
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
