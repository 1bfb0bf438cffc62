//! Locks whose holders may panic: what they guard is whole between any two steps.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic elsewhere while the lock was held left its data consistent, since every critical
/// section of the crate either completes its change or makes none.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
