//! A mutex for data that handlers share with the program. It reports a lock that its own thread
//! already holds, with both lines.

use std::fmt::{self, Write as _};
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::handler::in_handler;
use crate::locks::lock;
use crate::thread_number;

type Line = &'static Location<'static>;

/// A mutex for data that handlers and remote functions share with the rest of the program.
///
/// A wait runs handlers on the thread that waits. If this thread holds a lock across the wait, a
/// handler that needs the same lock would wait for ever. With this mutex it panics instead, and
/// names the mutex and both lines. The caller of a remote function gets the panic as
/// [`Error::RemotePanic`](crate::Error::RemotePanic). If another thread holds the lock, the report
/// of handlers that do not return (`PGAS_STALL`) names it.
///
/// Panics do not poison it.
///
/// # Examples
///
/// ```
/// use std::panic::catch_unwind;
///
/// use pgas_core::HandlerMutex;
///
/// static COUNTS: HandlerMutex<Vec<u64>> = HandlerMutex::new("counts", Vec::new());
///
/// COUNTS.lock().push(1);
/// // A second lock by the same thread would never end. It panics, and names both lines.
/// let twice = catch_unwind(|| COUNTS.lock().len() + COUNTS.lock().len());
/// assert!(twice.is_err());
/// assert_eq!(COUNTS.lock().len(), 1);
/// assert_eq!(HandlerMutex::new("a number", 7).into_inner(), 7);
/// ```
pub struct HandlerMutex<T> {
    name: &'static str,
    /// The number of the thread that holds it, or 0.
    holder: AtomicU64,
    /// The line of that thread's lock.
    locked_at: Mutex<Option<Line>>,
    value: Mutex<T>,
}

/// This thread holds the mutex while this lives.
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct HandlerMutexGuard<'a, T> {
    mutex: &'a HandlerMutex<T>,
    value: MutexGuard<'a, T>,
}

impl<T> HandlerMutex<T> {
    /// A mutex around `value`. Panics and reports call it by its `name`.
    ///
    /// # Cost
    ///
    /// ℓ.
    #[must_use]
    pub const fn new(name: &'static str, value: T) -> Self {
        Self {
            name,
            holder: AtomicU64::new(0),
            locked_at: Mutex::new(None),
            value: Mutex::new(value),
        }
    }

    /// Waits until this thread holds the mutex.
    ///
    /// Makes no progress. A handler may wait here for another thread, which then must unlock the
    /// mutex without this rank's progress.
    ///
    /// # Cost
    ///
    /// ℓ, two locks.
    ///
    /// # Panics
    ///
    /// If this thread holds it already.
    #[track_caller]
    pub fn lock(&self) -> HandlerMutexGuard<'_, T> {
        let (me, at) = (thread_number::get(), Location::caller());
        // Relaxed: only this thread stores its own number.
        if self.holder.load(Ordering::Relaxed) == me {
            self.is_held_here();
        }
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait(at),
        };
        self.holder.store(me, Ordering::Relaxed);
        *lock(&self.locked_at) = Some(at);
        HandlerMutexGuard { mutex: self, value }
    }

    /// Consumes the mutex and returns the value.
    ///
    /// # Cost
    ///
    /// ℓ.
    #[must_use]
    pub fn into_inner(self) -> T {
        let value = self.value.into_inner();
        value.unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    #[track_caller]
    fn is_held_here(&self) -> ! {
        let name = self.name;
        let line = self.line();
        if in_handler() {
            panic!(
                "a handler locks \"{name}\", which its own thread has locked at {line}: drop that guard before a call \
                 that waits, which runs handlers"
            );
        }
        panic!("this thread has locked \"{name}\" already, at {line}");
    }

    /// Where it is locked.
    fn line(&self) -> String {
        let locked_at = *lock(&self.locked_at);
        locked_at.map_or_else(|| "an unknown line".into(), ToString::to_string)
    }

    /// Waits for another thread. If a handler waits, the report of long handlers names it.
    #[cold]
    fn wait(&self, at: Line) -> MutexGuard<'_, T> {
        let _told = in_handler().then(|| Blocked::tell(self, at));
        lock(&self.value)
    }
}

impl<T> Deref for HandlerMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for HandlerMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for HandlerMutexGuard<'_, T> {
    fn drop(&mut self) {
        // The lock itself is given back after this.
        self.mutex.holder.store(0, Ordering::Relaxed);
    }
}

impl<T> fmt::Debug for HandlerMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerMutex({:?})", self.name)
    }
}

impl<T: fmt::Debug> fmt::Debug for HandlerMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// The handlers of this process that wait for such a mutex: the number of their thread, and a text.
static BLOCKED: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());

/// A handler waits while this lives.
struct Blocked;

impl Blocked {
    fn tell<T>(mutex: &HandlerMutex<T>, at: Line) -> Self {
        let (name, line) = (mutex.name, mutex.line());
        let text = format!("for \"{name}\" at {at}, which another thread has locked at {line}");
        lock(&BLOCKED).push((thread_number::get(), text));
        Self
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let me = thread_number::get();
        lock(&BLOCKED).retain(|(thread, _)| *thread != me);
    }
}

/// What handlers of this process wait for, if some wait for such a mutex.
pub(crate) fn blocked_handlers() -> Option<String> {
    let blocked = lock(&BLOCKED);
    let mut text = String::new();
    for (i, (_, wait)) in blocked.iter().enumerate() {
        let and = if i > 0 { ", and" } else { "" };
        // A text has room.
        let _: fmt::Result = write!(text, "{and} {wait}");
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::handler::as_handler;
    use crate::process::panic_text;

    #[test]
    fn what_this_thread_has_is_named_with_its_line_and_stays_usable() {
        let mutex = HandlerMutex::new("the sum", 1);
        let guard = mutex.lock();
        let line = line!() - 1;
        let locks = || as_handler(|| *mutex.lock());
        let panic = catch_unwind(AssertUnwindSafe(locks)).unwrap_err();
        let text = panic_text(&*panic);
        assert!(text.contains("a handler locks \"the sum\""), "{text}");
        assert!(text.contains(&format!("{}:{line}:", file!())), "{text}");
        drop(guard);
        *mutex.lock() += 1;
        let panics = || *mutex.lock() / (mutex.name.len() - 7);
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(mutex.into_inner(), 2);
    }

    #[test]
    fn a_handler_that_waits_for_another_thread_is_told_until_it_has_the_mutex() {
        let mutex = HandlerMutex::new("what the other has", 0);
        let guard = mutex.lock();
        let (locked, has_locked) = mpsc::channel();
        thread::scope(|threads| {
            let mutex = &mutex;
            threads.spawn(move || {
                as_handler(|| *mutex.lock() += 1);
                locked.send(()).unwrap();
            });
            let text = loop {
                match blocked_handlers() {
                    Some(text) if text.contains("what the other has") => break text,
                    _ => thread::yield_now(),
                }
            };
            assert!(
                text.contains("which another thread has locked at"),
                "{text}"
            );
            drop(guard);
            has_locked.recv().unwrap();
            let is_told = blocked_handlers().is_some_and(|text| text.contains("the other has"));
            assert!(!is_told);
        });
    }
}
