//! Futures that advance whenever the rank makes progress, such as collectives in flight.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use crate::locks::lock;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks of a rank, or of a [`Layer`](crate::Layer) of it.
///
/// A task may run code of the user's, which may call into the library, spawn tasks and panic. So
/// the list is not locked while tasks run, and a task that panics takes no other with it.
#[derive(Default)]
pub struct Tasks {
    list: Mutex<VecDeque<Task>>,
    /// The number of tasks that have not ended.
    n_tasks: AtomicUsize,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tasks({})", self.n_tasks.load(Ordering::Relaxed))
    }
}

impl Tasks {
    /// Runs `task` to its end, a step at each [`advance`](Self::advance).
    ///
    /// # Cost
    ///
    /// ℓ.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.n_tasks.fetch_add(1, Ordering::Relaxed);
        let task: Task = Box::pin(task);
        lock(&self.list).push_back(task);
    }

    /// Whether a task has not ended.
    #[must_use]
    #[inline]
    pub fn has_some(&self) -> bool {
        self.n_tasks.load(Ordering::Relaxed) > 0
    }

    /// Polls each task once, and says whether one has ended. A thread that finds the tasks taken by
    /// another one leaves the work to it.
    ///
    /// # Cost
    ///
    /// ℓ, and that of the tasks.
    #[inline]
    pub fn advance(&self) -> bool {
        self.has_some() && self.poll_all()
    }

    /// Drops all tasks.
    ///
    /// # Cost
    ///
    /// ℓ, and that of the drops.
    #[cold]
    pub fn clear(&self) {
        let tasks = mem::take(&mut *lock(&self.list));
        self.n_tasks.fetch_sub(tasks.len(), Ordering::Relaxed);
    }

    #[cold]
    fn poll_all(&self) -> bool {
        let mut taken = Taken {
            of: self,
            left: mem::take(&mut *lock(&self.list)),
            pending: VecDeque::new(),
        };
        let mut has_ended = false;
        let mut cx = Context::from_waker(Waker::noop());
        while let Some(mut task) = taken.left.pop_front() {
            // Counts the task as ended also when it panics.
            let mut ends = Ends(Some(&self.n_tasks));
            if task.as_mut().poll(&mut cx).is_pending() {
                ends.0 = None;
                taken.pending.push_back(task);
            } else {
                drop(task);
                has_ended = true;
            }
        }
        has_ended
    }
}

/// Uncounts a task on drop, unless it continues.
struct Ends<'a>(Option<&'a AtomicUsize>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if let Some(n_tasks) = self.0 {
            n_tasks.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The tasks while they run. Unfinished ones return to the list, also after a panic.
struct Taken<'a> {
    of: &'a Tasks,
    left: VecDeque<Task>,
    pending: VecDeque<Task>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.pending.append(&mut self.left);
        let mut list = lock(&self.of.list);
        // Tasks spawned meanwhile come last.
        self.pending.append(&mut list);
        mem::swap(&mut *list, &mut self.pending);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::Arc;
    use std::task::Poll;

    use super::*;

    #[test]
    fn a_task_that_panics_takes_no_other_with_it() {
        let tasks = Tasks::default();
        let n_polls = Arc::new(AtomicUsize::new(0));
        let counting = || {
            let n_polls = Arc::clone(&n_polls);
            poll_fn(move |_| {
                n_polls.fetch_add(1, Ordering::Relaxed);
                Poll::<()>::Pending
            })
        };
        tasks.spawn(counting());
        tasks.spawn(async { panic!("on purpose") });
        tasks.spawn(counting());
        tasks.spawn(async {});
        assert!(panic::catch_unwind(AssertUnwindSafe(|| tasks.advance())).is_err());
        assert!(tasks.advance());
        assert!(!tasks.advance());
        assert_eq!(n_polls.load(Ordering::Relaxed), 5);
        assert_eq!(tasks.n_tasks.load(Ordering::Relaxed), 2);
        tasks.spawn(pending());
        assert!(!tasks.advance());
    }

    #[test]
    fn a_task_that_another_one_spawns_runs_from_the_next_round_on() {
        let tasks = Arc::new(Tasks::default());
        let has_run = Arc::new(AtomicUsize::new(0));
        let (same, counts) = (Arc::clone(&tasks), Arc::clone(&has_run));
        tasks.spawn(async move {
            same.spawn(async move {
                counts.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert!(tasks.advance() && tasks.has_some());
        assert_eq!(has_run.load(Ordering::Relaxed), 0);
        assert!(tasks.advance() && !tasks.has_some());
        assert_eq!(has_run.load(Ordering::Relaxed), 1);
    }
}
