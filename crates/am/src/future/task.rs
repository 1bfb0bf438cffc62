//! Tasks of the program, which a rank runs within its progress.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use pgas_core::process::discard_panic;
use pgas_core::{Error, Result, as_handler};

use super::PgasFuture;
use super::cell::Cell;
pub(crate) use super::cell::Setter;
use crate::panics::panicked;
use crate::state::Am;

type Task<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// Runs `task` in the rounds of progress, a step in each, and returns a future of its value.
pub(crate) fn spawn<T: Send + 'static>(
    am: &Am,
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> PgasFuture<T> {
    let (future, target) = pending(am);
    let mut target = Some(target);
    // The task may send in any of its steps.
    let running = am.transfers.begin();
    let rank = am.rank;
    let mut task: Option<Task<T>> = Some(Box::pin(task));
    am.tasks.spawn(poll_fn(move |cx| {
        let step = || {
            as_handler(|| {
                let Some(running) = &mut task else {
                    return Poll::Ready(Err(Error::BrokenPromise));
                };
                let polled = running.as_mut().poll(cx);
                if polled.is_ready() {
                    // Drop the task here: it may own values of the user's, whose drop may run any
                    // code.
                    task = None;
                }
                polled
            })
        };
        let result = match catch_unwind(AssertUnwindSafe(step)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result,
            Err(payload) => Err(panicked(rank, payload)),
        };
        // Ignore a second panic from the drop of the task's values.
        let dropped = catch_unwind(AssertUnwindSafe(|| as_handler(|| task = None)));
        dropped.unwrap_or_else(discard_panic);
        if let Some(target) = target.take() {
            target.set(result);
        }
        // The task counts as unfinished until the actions on its value have run.
        let _ = &running;
        Poll::Ready(())
    }));
    future
}

/// A future of this rank, and its setter.
pub(crate) fn pending<T: Send + 'static>(am: &Am) -> (PgasFuture<T>, Setter<T>) {
    let cell = Cell::new(am.handle, None);
    let setter = Setter::new(&cell);
    (PgasFuture::cell(cell), setter)
}
