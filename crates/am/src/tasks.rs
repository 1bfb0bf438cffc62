//! Futures that advance whenever the rank makes progress, such as what was chained to a joined future.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks of a rank.
#[derive(Default)]
pub(crate) struct Tasks {
    list: Mutex<Vec<Task>>,
    n_tasks: AtomicUsize,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tasks({})", self.n_tasks.load(Ordering::Relaxed))
    }
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, Vec<Task>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `task` to its end, a step at each call of progress.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut list = self.lock();
        list.push(Box::pin(task));
        // Only a hint that saves `advance` the lock.
        self.n_tasks.store(list.len(), Ordering::Relaxed);
    }

    /// How many have not ended.
    pub(crate) fn n_running(&self) -> u64 {
        self.n_tasks.load(Ordering::Relaxed) as u64
    }

    /// Polls each task once, and says whether one has ended.
    #[inline]
    pub(crate) fn advance(&self) -> bool {
        self.n_tasks.load(Ordering::Relaxed) > 0 && self.poll_all()
    }

    /// The tasks are not locked while they run: they may add others.
    #[cold]
    fn poll_all(&self) -> bool {
        let mut running = mem::take(&mut *self.lock());
        let before = running.len();
        let mut cx = Context::from_waker(Waker::noop());
        pgas_core::as_handler(|| {
            running.retain_mut(|task| task.as_mut().poll(&mut cx).is_pending());
        });
        let has_ended = running.len() < before;
        let mut list = self.lock();
        running.append(&mut list);
        *list = running;
        self.n_tasks.store(list.len(), Ordering::Relaxed);
        has_ended
    }
}
