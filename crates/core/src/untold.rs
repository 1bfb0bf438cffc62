//! Errors of served messages that no call has returned yet.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;
use crate::locks::lock;
use crate::rank::Rank;

/// One call of progress serves many messages, and returns one error, or passes on a handler's panic.
/// The other errors wait for the next calls.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    has_some: AtomicBool,
    errors: Mutex<VecDeque<Error>>,
}

impl Untold {
    #[cold]
    pub(crate) fn add(&self, error: Error) {
        let mut errors = lock(&self.errors);
        errors.push_back(error);
        // Relaxed: the mutex orders the errors. A thread that misses one leaves it to the next call.
        self.has_some.store(true, Ordering::Relaxed);
    }

    /// Takes the oldest error.
    #[inline]
    pub(crate) fn take(&self) -> Option<Error> {
        if !self.has_some.load(Ordering::Relaxed) {
            return None;
        }
        self.take_first()
    }

    /// What a rank that leaves the job has not been told.
    pub(crate) fn text(&self, rank: Rank) -> Option<String> {
        let first = self.take()?;
        let others = match lock(&self.errors).len() {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        Some(format!(
            "rank {rank} has left the job before it was told: {first}{others}"
        ))
    }

    #[cold]
    fn take_first(&self) -> Option<Error> {
        let mut errors = lock(&self.errors);
        let first = errors.pop_front();
        self.has_some.store(!errors.is_empty(), Ordering::Relaxed);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_taken_in_their_order_and_the_rest_is_told_at_the_end() {
        let untold = Untold::default();
        assert!(untold.take().is_none() && untold.text(Rank::new(3)).is_none());
        for text in ["one", "two", "three"] {
            untold.add(Error::backend("progress", 0, text));
        }
        assert!(
            untold
                .take()
                .is_some_and(|error| error.to_string().contains("one"))
        );
        let text = untold.text(Rank::new(3)).unwrap();
        assert!(
            text.starts_with("rank 3 has left the job before it was told: "),
            "{text}"
        );
        assert!(
            text.contains("two") && text.ends_with(", and 1 more"),
            "{text}"
        );
    }
}
