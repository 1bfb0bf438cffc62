//! Locks whose holders may panic: their data is consistent between any two steps.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex and ignores poisoning. A panic of a former holder left the data consistent, since
/// every critical section of the crate either completes its change or makes none.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
