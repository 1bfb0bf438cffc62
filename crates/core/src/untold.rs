//! Errors and panics of served messages that no call of the program has told yet.

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;
use crate::locks::lock;
use crate::rank::Rank;

thread_local! {
    /// The guards of this thread.
    static PUT_OFF: Cell<usize> = const { Cell::new(0) };
}

/// While this guard lives, calls of its thread that make progress do not return the errors of
/// handlers. From [`put_off_errors`].
#[derive(Debug)]
#[must_use = "errors of handlers are returned again when this is dropped"]
pub struct PutOff {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

/// Until the guard is dropped, the errors of handlers that run in waits of this thread end none of
/// them: later calls return them ([`World::errors_put_off`](crate::World::errors_put_off)). For a
/// wait whose end must not be missed, since others wait for it, or what has come would be lost.
///
/// Errors of the transport, of the job and of limits, and panics of handlers, end waits all the same.
///
/// # Examples
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let word = world.alloc::<u64>(1)?;
/// # word.atomic_store(&world, 1)?;
/// let off = pgas_core::put_off_errors();
/// world.wait_for("the word", || Ok(word.atomic_load(&world)? == 1))?;
/// drop(off);
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub fn put_off_errors() -> PutOff {
    PUT_OFF.set(PUT_OFF.get() + 1);
    PutOff {
        _thread: PhantomData,
    }
}

impl Drop for PutOff {
    fn drop(&mut self) {
        PUT_OFF.set(PUT_OFF.get() - 1);
    }
}

/// One call of progress serves many messages, and returns one error, or passes on a handler's panic.
/// The other errors wait for the next calls, and so does what the progress thread has met.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    has_some: AtomicBool,
    waiting: Mutex<VecDeque<Failure>>,
}

#[derive(Debug)]
enum Failure {
    Error(Error),
    Panic(Box<dyn Any + Send>),
}

impl Untold {
    #[cold]
    pub(crate) fn add(&self, error: Error) {
        self.put(Failure::Error(error));
    }

    /// Keeps the panic of a handler for a thread of the program.
    #[cold]
    pub(crate) fn add_panic(&self, payload: Box<dyn Any + Send>) {
        self.put(Failure::Panic(payload));
    }

    fn put(&self, failure: Failure) {
        let mut waiting = lock(&self.waiting);
        waiting.push_back(failure);
        // Relaxed: the mutex orders them. A thread that misses one leaves it to the next call.
        self.has_some.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Relaxed)
    }

    /// Takes the oldest error, unless this thread puts them off. If it is a panic, resumes it.
    #[inline]
    pub(crate) fn take(&self) -> Option<Error> {
        if !self.has_some() || PUT_OFF.get() > 0 {
            return None;
        }
        match self.take_first()? {
            Failure::Error(error) => Some(error),
            Failure::Panic(payload) => resume_unwind(payload),
        }
    }

    /// What a rank that leaves the job has not been told.
    pub(crate) fn text(&self, rank: Rank) -> Option<String> {
        let first = match self.take_first()? {
            Failure::Error(error) => error.to_string(),
            // Its thread has told the cause.
            Failure::Panic(_) => "a handler panicked".into(),
        };
        let others = match lock(&self.waiting).len() {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        Some(format!(
            "rank {rank} has left the job before it was told: {first}{others}"
        ))
    }

    #[cold]
    fn take_first(&self) -> Option<Failure> {
        let mut waiting = lock(&self.waiting);
        let first = waiting.pop_front();
        self.has_some.store(!waiting.is_empty(), Ordering::Relaxed);
        first
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn failures_are_taken_in_their_order_and_the_rest_is_told_at_the_end() {
        let untold = Untold::default();
        assert!(untold.take().is_none() && untold.text(Rank::new(3)).is_none());
        untold.add(Error::backend("progress", 0, "one"));
        untold.add_panic(Box::new("two"));
        for text in ["three", "four"] {
            untold.add(Error::backend("progress", 0, text));
        }
        let (off, too) = (put_off_errors(), put_off_errors());
        assert!(untold.take().is_none());
        drop(off);
        assert!(untold.take().is_none());
        drop(too);
        let first = untold.take().unwrap().to_string();
        assert!(first.contains("one"), "{first}");
        let panic = catch_unwind(AssertUnwindSafe(|| untold.take())).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"two"));
        let text = untold.text(Rank::new(3)).unwrap();
        assert!(
            text.starts_with("rank 3 has left the job before it was told: "),
            "{text}"
        );
        assert!(
            text.contains("three") && text.ends_with(", and 1 more"),
            "{text}"
        );
    }
}
