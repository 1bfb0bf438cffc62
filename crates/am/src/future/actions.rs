//! Runs actions without deep recursion: an action that makes another one runnable does not run it
//! deep in its own stack.
//!
//! The end of one operation may run a chain of actions, each of which sets the value of the next
//! one. Programs choose the length of chains, so an action nested deeper than a few levels waits in
//! a queue until the outer actions are over.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use pgas_core::process::discard_panic;
use pgas_core::{Error, Result};

/// Actions that run inside of each other at most.
const DEEPEST: u32 = 8;

thread_local! {
    /// The nesting depth of actions on this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LATER: RefCell<Later> = const { RefCell::new(Later {
        queue: VecDeque::new(),
        panic: None,
    }) };
}

/// Actions queued for the outermost action of a thread.
struct Later {
    queue: VecDeque<Box<dyn FnOnce()>>,
    /// The first panic of an action inside.
    panic: Option<Box<dyn Any + Send>>,
}

/// Runs `action`, and all actions that it makes runnable, before the outermost call on this thread
/// returns. A panic does not keep the other actions from running, and resumes at the end of the
/// outermost call.
pub(super) fn run(action: impl FnOnce() + 'static) {
    let depth = DEPTH.get();
    if depth == 0 {
        run_outermost(action);
    } else if depth < DEEPEST {
        run_at(depth + 1, action);
    } else {
        run_later(Box::new(action));
    }
}

/// Runs `action` on the result that `take` gives. If the program's codec panics in that, the action
/// runs with an error, since others wait for what it does, and the panic resumes as that of an
/// action.
pub(super) fn run_on<T: 'static>(
    action: impl FnOnce(Result<T>) + 'static,
    take: impl FnOnce() -> Result<T>,
) {
    match panic::catch_unwind(AssertUnwindSafe(take)) {
        Ok(result) => run(move || action(result)),
        Err(payload) => run(move || {
            run(move || action(Err(Error::BrokenPromise)));
            panic::resume_unwind(payload)
        }),
    }
}

/// Runs `body`, which runs actions, as the outermost call if it is in none; so a panic of an action
/// does not reach into it.
pub(super) fn scope(body: impl FnOnce()) {
    if DEPTH.get() == 0 {
        run_outermost(body);
    } else {
        body();
    }
}

fn run_at(depth: u32, action: impl FnOnce()) {
    let former = DEPTH.replace(depth);
    let ended = panic::catch_unwind(AssertUnwindSafe(action));
    DEPTH.set(former);
    if let Err(payload) = ended {
        keep_panic(payload);
    }
}

fn run_outermost(action: impl FnOnce()) {
    // An action must not wait: it might wait for a queued action that runs only after it.
    pgas_core::as_handler(|| {
        run_at(1, action);
        while let Some(action) = next() {
            run_at(1, action);
        }
    });
    let panic = LATER.try_with(|later| later.borrow_mut().panic.take());
    if let Ok(Some(payload)) = panic
        // The panic hook has reported it; a second panic would abort.
        && !thread::panicking()
    {
        panic::resume_unwind(payload);
    }
}

fn next() -> Option<Box<dyn FnOnce()>> {
    let next = LATER.try_with(|later| later.borrow_mut().queue.pop_front());
    next.ok().flatten()
}

#[cold]
fn run_later(action: Box<dyn FnOnce()>) {
    let mut action = Some(action);
    let is_kept = LATER.try_with(|later| later.borrow_mut().queue.extend(action.take()));
    if is_kept.is_err()
        && let Some(action) = action
    {
        // The thread is ending, and has no queue any more.
        action();
    }
}

#[cold]
fn keep_panic(payload: Box<dyn Any + Send>) {
    let mut payload = Some(payload);
    // The panic hook has reported panics after the first one.
    let _ = LATER.try_with(|later| {
        let panic = &mut later.borrow_mut().panic;
        if panic.is_none() {
            *panic = payload.take();
        }
    });
    if let Some(another) = payload {
        discard_panic(another);
    }
}
