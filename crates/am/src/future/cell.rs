//! Where a value is left for a future, by a promise or by what was chained to another future.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use pgas_core::Rank;

use crate::driven::Sleeper;
use crate::handle::Handle;
use crate::{Error, Result};

/// What is done with the value.
pub(super) type Action<T> = Box<dyn FnOnce(Result<T>) + Send>;

enum State<T> {
    Empty,
    Awaited(Waker),
    Chained(Action<T>),
    Full(Result<T>),
    Taken,
}

/// Room for one value.
pub(super) struct Cell<T> {
    handle: Handle,
    /// Who answers the call that the value follows, if it follows one.
    to: Option<Rank>,
    state: Mutex<State<T>>,
    is_done: AtomicBool,
}

impl<T> Cell<T> {
    pub(super) fn new(handle: Handle, to: Option<Rank>) -> Arc<Self> {
        Arc::new(Self {
            handle,
            to,
            state: Mutex::new(State::Empty),
            is_done: AtomicBool::new(false),
        })
    }

    /// What it belongs to.
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// Who answers the call that the value follows.
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

    /// Leaves the value, unless one was left before.
    pub(super) fn set(&self, result: Result<T>) {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Taken) {
            State::Empty => *state = State::Full(result),
            State::Awaited(waker) => {
                *state = State::Full(result);
                // Release: pairs with the acquire in `is_done`.
                self.is_done.store(true, Ordering::Release);
                drop(state);
                waker.wake();
                return;
            }
            State::Chained(action) => {
                drop(state);
                action(result);
                return;
            }
            former @ (State::Full(_) | State::Taken) => *state = former,
        }
        // Release: pairs with the acquire in `is_done`.
        self.is_done.store(true, Ordering::Release);
    }

    /// Takes the value, which is there.
    pub(super) fn take(&self) -> Result<T> {
        match mem::replace(&mut *self.lock(), State::Taken) {
            State::Full(result) => result,
            _ => panic!("the future's value was taken already"),
        }
    }

    /// Has `waker` woken when the value comes; `false` if it is there.
    pub(super) fn watch(self: &Arc<Self>, waker: &Waker) -> bool
    where
        T: Send + 'static,
    {
        let former = {
            let mut state = self.lock();
            if let State::Full(_) = &*state {
                return false;
            }
            mem::replace(&mut *state, State::Awaited(waker.clone()))
        };
        if !matches!(former, State::Awaited(_)) {
            let sleeper: Arc<dyn Sleeper> = Arc::<Self>::clone(self);
            if let Some(am) = self.handle.get() {
                am.driven.remember(&sleeper);
            }
        }
        true
    }

    /// Has `action` run when the value comes: now if it is there.
    pub(super) fn on_ready(&self, action: Action<T>) {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Taken) {
            State::Full(result) => {
                drop(state);
                action(result);
            }
            _ => *state = State::Chained(action),
        }
    }
}

impl<T: Send> Sleeper for Cell<T> {
    fn wake(&self) {
        let waker = match &*self.lock() {
            State::Awaited(waker) => waker.clone(),
            _ => return,
        };
        waker.wake();
    }
}

/// The duty to leave a value; dropped, it leaves an error.
pub(super) struct Setter<T>(Option<Arc<Cell<T>>>);

impl<T> Setter<T> {
    pub(super) fn new(cell: &Arc<Cell<T>>) -> Self {
        Self(Some(Arc::clone(cell)))
    }

    pub(super) fn set(mut self, result: Result<T>) {
        if let Some(cell) = self.0.take() {
            cell.set(result);
        }
    }
}

impl<T> Drop for Setter<T> {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            cell.set(Err(Error::BrokenPromise));
        }
    }
}
