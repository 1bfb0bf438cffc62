//! Errors and panics of served messages that no call of the program has told yet.

use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;
use crate::locks::lock;
use crate::rank::Rank;

/// Errors of handlers wait here for a call of the program that returns them: a wait in which a
/// handler fails goes on, since others wait for its end, or what it waits for would be lost. Panics
/// that the progress thread has met wait here, too.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    has_some: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    first: VecDeque<Failure>,
    /// The number of those behind the [`MOST`] first, which are not kept.
    n_more: u64,
}

/// A program that never asks keeps no more.
const MOST: usize = 1000;

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
        if waiting.first.len() < MOST {
            waiting.first.push_back(failure);
        } else {
            waiting.n_more += 1;
        }
        // Relaxed: the mutex orders them. A thread that misses one leaves it to the next call.
        self.has_some.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Relaxed)
    }

    /// Takes the oldest error. If it is a panic, resumes it.
    #[inline]
    pub(crate) fn take(&self) -> Option<Error> {
        if !self.has_some() {
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
        let waiting = lock(&self.waiting);
        let others = match waiting.first.len() as u64 + waiting.n_more {
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
        let first = waiting.first.pop_front().or_else(|| {
            let n = mem::take(&mut waiting.n_more);
            let text = format!("{n} more errors of handlers, which were not kept");
            (n > 0).then(|| Failure::Error(Error::backend("progress", 0, text)))
        });
        let has_some = !waiting.first.is_empty() || waiting.n_more > 0;
        self.has_some.store(has_some, Ordering::Relaxed);
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

    #[test]
    fn those_of_a_program_that_never_asks_take_little_memory() {
        let untold = Untold::default();
        for _ in 0..3 * MOST {
            untold.add(Error::HasLeft);
        }
        assert_eq!(lock(&untold.waiting).first.len(), MOST);
        let text = untold.text(Rank::ZERO).unwrap();
        let n = 3 * MOST - 1;
        assert!(text.ends_with(&format!(", and {n} more")), "{text}");
        (1..MOST).for_each(|_| assert!(untold.take().is_some()));
        let last = untold.take().unwrap().to_string();
        assert!(
            last.contains(&format!("{} more errors", 2 * MOST)),
            "{last}"
        );
        assert!(!untold.has_some() && untold.take().is_none());
        assert!(untold.text(Rank::ZERO).is_none());
    }
}
