//! The threads of a rank that run handlers: all that make progress, or those that the program has
//! chosen.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::locks::lock;
use crate::thread_number;

thread_local! {
    /// The [`Servers::id`] of the rank for which this thread was chosen last, or 0.
    static CHOSEN_FOR: Cell<u64> = const { Cell::new(0) };
    /// Dropped when the thread ends.
    static LIFE: Arc<()> = Arc::new(());
}

/// The threads of one rank that run handlers.
#[derive(Debug)]
pub(crate) struct Servers {
    /// A number of its own, from 1.
    id: u64,
    /// The entries of `chosen`; with none, every thread that makes progress runs handlers.
    n_chosen: AtomicUsize,
    chosen: Mutex<Vec<Chosen>>,
    /// Rounds of progress that chosen threads have made, about.
    n_rounds: AtomicU64,
    /// Other threads that sleep until a chosen one has served something.
    n_sleepers: AtomicUsize,
    sleepers: Mutex<()>,
    served: Condvar,
}

/// A thread that the program has chosen.
#[derive(Debug)]
struct Chosen {
    thread: u64,
    name: String,
    at: &'static Location<'static>,
    life: Weak<()>,
}

impl Default for Servers {
    fn default() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            n_chosen: AtomicUsize::new(0),
            chosen: Mutex::default(),
            n_rounds: AtomicU64::new(0),
            n_sleepers: AtomicUsize::new(0),
            sleepers: Mutex::default(),
            served: Condvar::new(),
        }
    }
}

impl Servers {
    /// Whether this thread runs handlers.
    #[inline]
    pub(crate) fn has_this_thread(&self) -> bool {
        // Relaxed: a thread that sees a choice late runs one more handler, as it did before.
        self.n_chosen.load(Ordering::Relaxed) == 0 || self.is_chosen()
    }

    #[cold]
    fn is_chosen(&self) -> bool {
        let is_chosen = CHOSEN_FOR.get() == self.id || self.finds_this_thread();
        if is_chosen {
            // Not exact if there are several: the report only checks whether the number has changed
            // over seconds.
            let n_rounds = self.n_rounds.load(Ordering::Relaxed);
            self.n_rounds.store(n_rounds + 1, Ordering::Relaxed);
        }
        is_chosen
    }

    /// Searches the list, and removes threads that have ended: if all have, every thread serves.
    fn finds_this_thread(&self) -> bool {
        let mut chosen = lock(&self.chosen);
        chosen.retain(|thread| thread.life.strong_count() > 0);
        self.n_chosen.store(chosen.len(), Ordering::Relaxed);
        let me = thread_number::get();
        chosen.is_empty() || chosen.iter().any(|thread| thread.thread == me)
    }

    /// Adds this thread.
    pub(crate) fn choose(&self, at: &'static Location<'static>) {
        let this = thread::current();
        let name = this.name().unwrap_or("without a name").to_owned();
        // A thread that is ending counts as ended.
        let life = LIFE.try_with(Arc::downgrade).unwrap_or_default();
        let mut chosen = lock(&self.chosen);
        chosen.push(Chosen {
            thread: thread_number::get(),
            name,
            at,
            life,
        });
        self.n_chosen.store(chosen.len(), Ordering::Relaxed);
        CHOSEN_FOR.set(self.id);
    }

    /// Takes back one choice of this thread.
    pub(crate) fn dismiss(&self) {
        let me = thread_number::get();
        let mut chosen = lock(&self.chosen);
        // None, if all were dismissed.
        if let Some(last) = chosen.iter().rposition(|thread| thread.thread == me) {
            chosen.remove(last);
        }
        self.n_chosen.store(chosen.len(), Ordering::Relaxed);
        if CHOSEN_FOR.get() == self.id && !chosen.iter().any(|thread| thread.thread == me) {
            CHOSEN_FOR.set(0);
        }
        drop(chosen);
        self.wake();
    }

    /// Takes back all choices: the rank is leaving, and every thread that is left serves.
    pub(crate) fn dismiss_all(&self) {
        let mut chosen = lock(&self.chosen);
        chosen.clear();
        self.n_chosen.store(0, Ordering::Relaxed);
    }

    /// Rounds of progress that chosen threads have made, if some were chosen.
    pub(crate) fn n_rounds(&self) -> Option<u64> {
        let is_limited = self.n_chosen.load(Ordering::Relaxed) > 0;
        is_limited.then(|| self.n_rounds.load(Ordering::Relaxed))
    }

    /// For the report of a long wait: which threads were chosen, and whether one of them has made
    /// progress since `n_rounds` was told.
    pub(crate) fn report(&self, n_rounds: u64) -> Option<String> {
        let chosen = lock(&self.chosen);
        let mut text = String::from("handlers of this rank run on");
        for (i, thread) in chosen.iter().enumerate() {
            let and = if i > 0 { "," } else { "" };
            let Chosen { name, at, .. } = thread;
            // A text has room.
            let (file, line) = (at.file(), at.line());
            let _: fmt::Result = write!(text, "{and} thread \"{name}\" ({file}:{line})");
        }
        text.push_str(" alone");
        if self.n_rounds.load(Ordering::Relaxed) == n_rounds {
            text.push_str(", which has made no progress meanwhile");
        }
        (!chosen.is_empty()).then_some(text)
    }

    /// Sleeps until a chosen thread has served something, at most for `at_most`.
    pub(crate) fn sleep(&self, at_most: Duration) {
        // Relaxed: if a waker misses it, this thread sleeps to the end of its limit, which is
        // short.
        self.n_sleepers.fetch_add(1, Ordering::Relaxed);
        let woken = self.served.wait_timeout(lock(&self.sleepers), at_most);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
        self.n_sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// As [`wake`](Self::wake), if a chosen thread `has_served` something.
    #[inline]
    pub(crate) fn wake_after(&self, has_served: bool) {
        if has_served && self.n_chosen.load(Ordering::Relaxed) > 0 {
            self.wake();
        }
    }

    /// Wakes the threads that [`sleep`](Self::sleep), after something was served. One that was
    /// about to may sleep to the end of its limit, which is short.
    pub(crate) fn wake(&self) {
        if self.n_sleepers.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.sleepers));
            self.served.notify_all();
        }
    }
}
