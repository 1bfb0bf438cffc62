//! A cell that a promise or a chained action sets for a future.
//!
//! A cell has one future. Values, wakers and actions are the user's, whose code may run when they
//! are dropped or cloned: that never happens while the cell is locked.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use pgas_core::Rank;

use super::actions;
use super::mark::Mark;
use crate::driven::Sleeper;
use crate::state::Handle;
use pgas_core::{Error, Result};

/// The action on the value.
pub(super) type Action<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// Whether somebody waits for what an action passes on. It looks as many links of a chain ahead,
/// and takes what lies further on as wanted.
pub(super) type Wanted = Box<dyn Fn(u32) -> bool + Send>;

enum State<T> {
    Empty,
    Awaited(Waker),
    /// The action runs in any case, or only if it is wanted then.
    Chained(Action<T>, Option<Wanted>),
    Full(Result<T>),
    Taken,
}

/// Room for one value.
pub(super) struct Cell<T> {
    handle: Handle,
    /// The rank that answers the call that the value depends on, if any.
    to: Option<Rank>,
    state: Mutex<State<T>>,
    is_done: AtomicBool,
    /// Whether the job fails if a time limit ends the wait for the value.
    fails_at_limit: AtomicBool,
    /// The same, of a chain, whose later operations may say so.
    mark: Option<Arc<Mark>>,
    /// Whether the value is the error of a message that counts as lost if nobody takes it.
    is_lost: AtomicBool,
}

impl<T: Send + 'static> Cell<T> {
    pub(super) fn new(handle: Handle, to: Option<Rank>) -> Arc<Self> {
        Self::marked(handle, to, None)
    }

    /// A cell of a chain, or of what is joined of chains.
    pub(super) fn marked(handle: Handle, to: Option<Rank>, mark: Option<Arc<Mark>>) -> Arc<Self> {
        Arc::new(Self {
            handle,
            to,
            state: Mutex::new(State::Empty),
            is_done: AtomicBool::new(false),
            fails_at_limit: AtomicBool::new(false),
            mark,
            is_lost: AtomicBool::new(false),
        })
    }

    /// Whether the job fails if a time limit ends the wait for the value.
    pub(super) fn fails_at_limit(&self) -> bool {
        // Relaxed: the owner of the future has set it.
        self.fails_at_limit.load(Ordering::Relaxed)
            || self.mark.as_ref().is_some_and(|mark| mark.is_set())
    }

    /// The mark of the chain that the cell belongs to.
    pub(super) fn mark(&self) -> Option<&Arc<Mark>> {
        self.mark.as_ref()
    }

    pub(super) fn fail_at_limit(&self) {
        self.fails_at_limit.store(true, Ordering::Relaxed);
    }

    /// The rank's state that the cell belongs to.
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// The rank that answers the call that the value depends on, if any.
    pub(super) fn to(&self) -> Option<Rank> {
        self.to
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_done(&self) -> bool {
        // Acquire: pairs with the release in `set`.
        self.is_done.load(Ordering::Acquire)
    }

    /// Whether a future waits for the value, or will. Looks `depth` links of a chain ahead.
    pub(super) fn is_wanted(self: &Arc<Self>, depth: u32) -> bool {
        if Arc::strong_count(self) > 1 {
            return true;
        }
        match &*self.lock() {
            State::Chained(_, Some(is_wanted)) => is_wanted(depth),
            State::Chained(_, None) => true,
            State::Empty | State::Awaited(_) | State::Full(_) | State::Taken => false,
        }
    }

    /// Sets the value, unless it was set before.
    pub(super) fn set(&self, result: Result<T>) {
        let mut state = self.lock();
        let waker = match mem::replace(&mut *state, State::Taken) {
            State::Empty => None,
            State::Awaited(waker) => Some(waker),
            State::Chained(action, _) => {
                drop(state);
                actions::run(move || action(result));
                return;
            }
            former @ (State::Full(_) | State::Taken) => {
                *state = former;
                drop(state);
                drop(result);
                return;
            }
        };
        *state = State::Full(result);
        // Release: pairs with the acquire in `is_done`.
        self.is_done.store(true, Ordering::Release);
        drop(state);
        if let Some(waker) = waker {
            // It may poll its task at once, which must not wait, as actions must not. Nor does its
            // panic keep other futures of a promise from their values.
            actions::run(move || waker.wake());
        }
    }

    /// Takes the value, which must be set.
    pub(super) fn take(&self) -> Result<T> {
        let state = mem::replace(&mut *self.lock(), State::Taken);
        match state {
            State::Full(result) => result,
            _ => panic!("the future's value was taken already"),
        }
    }

    /// Wakes `waker` when the value is set; `false` if it is set already.
    pub(super) fn watch(self: &Arc<Self>, waker: &Waker) -> bool {
        let waker = waker.clone();
        let former = {
            let mut state = self.lock();
            if let State::Full(_) = &*state {
                drop(state);
                return false;
            }
            mem::replace(&mut *state, State::Awaited(waker))
        };
        if !matches!(former, State::Awaited(_)) {
            let sleeper: Arc<dyn Sleeper> = Arc::<Self>::clone(self);
            if let Some(am) = self.handle.get() {
                am.driven.remember(&sleeper);
            }
        }
        true
    }

    /// Runs `action` when the value is set: at once if it is set already. Called once. Without
    /// `is_wanted` the cell stays wanted.
    pub(super) fn on_ready(&self, action: Action<T>, is_wanted: Option<Wanted>) {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Taken) {
            State::Full(result) => {
                drop(state);
                actions::run(move || action(result));
            }
            former => {
                *state = State::Chained(action, is_wanted);
                drop(state);
                // The drop of a waker may run any code.
                drop(former);
            }
        }
    }
}

impl<T> Drop for Cell<T> {
    fn drop(&mut self) {
        if !*self.is_lost.get_mut() {
            return;
        }
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let State::Full(Err(error)) = state
            && let Some(am) = self.handle.get()
        {
            let reason = format!("a message that followed an operation: {error}");
            am.lost.add(1, &reason);
        }
    }
}

impl<T: Send> Sleeper for Cell<T> {
    fn take_waker(&self) -> Option<Waker> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match mem::replace(&mut *state, State::Empty) {
            State::Awaited(waker) => Some(waker),
            // A value, or an action that waits for one, stays.
            former => {
                *state = former;
                None
            }
        }
    }
}

/// The obligation to set the cell. Its drop sets an error.
pub(crate) struct Setter<T: Send + 'static>(Option<Arc<Cell<T>>>);

impl<T: Send + 'static> Setter<T> {
    pub(super) fn new(cell: &Arc<Cell<T>>) -> Self {
        Self(Some(Arc::clone(cell)))
    }

    /// The mark of the chain that waits for the value.
    pub(super) fn mark(&self) -> Option<&Arc<Mark>> {
        self.0.as_ref()?.mark()
    }

    /// The error that it will be set to counts as a lost message if nobody takes it.
    pub(super) fn count_as_lost(&self) {
        if let Some(cell) = &self.0 {
            // Relaxed: who drops the cell last has synchronized with this.
            cell.is_lost.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn set(mut self, result: Result<T>) {
        if let Some(cell) = self.0.take() {
            cell.set(result);
        }
    }
}

impl<T: Send + 'static> Drop for Setter<T> {
    fn drop(&mut self) {
        // What is chained may send: in a forked child that is the parent's to do.
        if let Some(cell) = self.0.take()
            && !cell.handle.is_forked()
        {
            cell.set(Err(Error::BrokenPromise));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn cell() -> Arc<Cell<u32>> {
        Cell::new(Handle::unused(), None)
    }

    #[test]
    fn a_wake_without_need_takes_neither_a_value_nor_an_action() {
        let full = cell();
        full.watch(Waker::noop());
        full.set(Ok(1));
        assert!(full.take_waker().is_none());
        assert!(matches!(full.take(), Ok(1)));

        let (sender, receiver) = mpsc::channel();
        let chained = cell();
        chained.watch(Waker::noop());
        chained.on_ready(
            Box::new(move |value| sender.send(value.unwrap()).unwrap()),
            None,
        );
        assert!(chained.take_waker().is_none());
        chained.set(Ok(2));
        assert_eq!(receiver.try_recv(), Ok(2));
    }

    #[test]
    fn the_first_value_stays_and_is_there_when_it_was_left() {
        let cell = cell();
        assert!(!cell.is_done());
        cell.set(Ok(1));
        cell.set(Ok(2));
        assert!(cell.is_done());
        assert!(matches!(cell.take(), Ok(1)));
    }

    #[test]
    fn who_comes_to_watch_when_the_value_is_there_leaves_it_there() {
        let cell = cell();
        cell.set(Ok(1));
        assert!(!cell.watch(Waker::noop()));
        assert!(matches!(cell.take(), Ok(1)));
    }

    /// As within an action: it may poll its task at once, and the value may be set within a wait.
    #[test]
    fn a_waker_of_a_value_runs_as_a_handler() {
        struct Notes(mpsc::Sender<bool>);
        impl std::task::Wake for Notes {
            fn wake(self: Arc<Self>) {
                self.0.send(pgas_core::in_handler()).unwrap();
            }
        }

        let (sender, seen) = mpsc::channel();
        let cell = cell();
        assert!(cell.watch(&Arc::new(Notes(sender)).into()));
        cell.set(Ok(1));
        assert_eq!(seen.try_recv(), Ok(true));
    }

    #[test]
    fn a_waker_that_panics_keeps_no_other_future_from_its_value() {
        struct Panics;
        impl std::task::Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("on purpose");
            }
        }

        let cells = [cell(), cell(), cell()];
        assert!(cells[0].watch(&Arc::new(Panics).into()));
        let set_all = || actions::scope(|| cells.iter().for_each(|cell| cell.set(Ok(1))));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(set_all));
        assert!(panicked.is_err());
        assert!(cells.iter().all(|cell| matches!(cell.take(), Ok(1))));
    }

    #[test]
    fn an_action_runs_once_whether_it_or_the_value_came_first() {
        let (sender, seen) = mpsc::channel();
        let action = || -> Action<u32> {
            let sender = sender.clone();
            Box::new(move |result| sender.send(result.ok()).expect("the test listens"))
        };
        let early = cell();
        early.on_ready(action(), None);
        assert_eq!(seen.try_iter().count(), 0);
        early.set(Ok(1));
        early.set(Ok(2));
        let late = cell();
        late.set(Ok(3));
        late.on_ready(action(), None);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [Some(1), Some(3)]);
    }

    #[test]
    fn a_duty_that_is_dropped_leaves_an_error() {
        let cell = cell();
        drop(Setter::new(&cell));
        assert!(cell.is_done());
        assert!(matches!(cell.take(), Err(Error::BrokenPromise)));
        let cell = self::cell();
        Setter::new(&cell).set(Ok(1));
        assert!(matches!(cell.take(), Ok(1)));
    }

    #[test]
    fn a_value_is_wanted_as_long_as_somebody_may_take_it() {
        let cell = cell();
        let other = Arc::clone(&cell);
        assert!(cell.is_wanted(0));
        drop(other);
        assert!(!cell.is_wanted(0));
        cell.on_ready(Box::new(drop), Some(Box::new(|depth| depth == 1)));
        assert!(cell.is_wanted(1));
        assert!(!cell.is_wanted(2));
        let cell = self::cell();
        cell.on_ready(Box::new(drop), None);
        assert!(cell.is_wanted(0));
    }
}
