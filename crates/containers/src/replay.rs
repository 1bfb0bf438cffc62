//! Operations that run again and again.
//!
//! Their code is written for steps that block. Here the first step that cannot be answered yet
//! begins a non-blocking operation and suspends the whole operation by an error. When the answer is
//! there, the operation is run again from its beginning. The record answers the steps that were
//! taken before, so each step is taken once. This works since the operation's decisions depend on
//! the answers alone.
//!
//! Code of the program, as hashers, codecs and the drops of values, may panic. It must not do so in
//! a run behind a step that locks a slot, or changes it: nobody would go on there. So it runs
//! before the first run, or once, in a step of its own ([`Record::made`], [`Record::keep`]), or at
//! the end of the last run, when nothing is locked.

use std::any::Any;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgas_core::{Error, Event, GlobalPtr, Pod, Result};

/// The answer to a step.
pub(crate) enum Answer {
    /// The former bits of a word.
    Word(u64),
    /// As `Word`, of a compare-and-swap.
    Swapped(u64),
    Bytes(Vec<u8>),
    Written,
    /// That a value of the program is kept.
    Kept,
    /// The result of an action of this rank.
    Acted(u64),
    /// What many steps have led to.
    Merged(usize),
}

/// The place of a block of memory, and its length.
pub(crate) type Stored = (GlobalPtr<u8>, usize);

/// A step that was begun: the answer when it is there.
type Begun = Box<dyn FnMut() -> Option<Result<Answer>> + Send>;

/// The steps of one operation that are complete, and the one that is in flight.
#[derive(Default)]
pub(crate) struct Record(Mutex<State>);

#[derive(Default)]
struct State {
    answers: Vec<Result<Answer>>,
    begun: Option<Begun>,
    /// Whether the operation waits for another rank.
    waits: bool,
    /// Whether steps that change memory are held back, and whether the run has come to one.
    is_held: bool,
    is_stopped: bool,
    /// The number of steps that this run has taken.
    n_taken: usize,
    /// The memory that the operation has taken, and has not given back.
    stored: Vec<Stored>,
    /// The value that the last attempt has made.
    kept: Option<Box<dyn Any + Send>>,
}

impl State {
    fn is_suspended(&self) -> bool {
        self.waits || self.is_stopped || self.begun.is_some()
    }

    /// The answer to step `number`, which this run has taken.
    fn answered(&mut self, number: usize) -> Result<usize> {
        self.n_taken = number + 1;
        match &self.answers[number] {
            Ok(_) => Ok(number),
            Err(error) => Err(error.clone()),
        }
    }
}

impl Record {
    /// The error that ends a suspended run. Nobody sees it.
    pub(crate) const SUSPENDED: Error = Error::BrokenPromise;

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is whole, so a panic elsewhere leaves it valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next run. Returns `false` if the step in flight is not complete.
    pub(crate) fn rewind(&self) -> bool {
        let mut state = self.state();
        if let Some(begun) = state.begun.as_mut() {
            let Some(answer) = begun() else { return false };
            state.answers.push(answer);
            state.begun = None;
        }
        (state.waits, state.is_stopped, state.n_taken) = (false, false, 0);
        true
    }

    /// Holds steps that change memory back, or lets them go.
    pub(crate) fn hold(&self, is_held: bool) {
        self.state().is_held = is_held;
    }

    /// Whether the operation has come to its first change of memory, and is held back.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Whether the run was suspended, so that its result is meaningless: the operation goes on
    /// later.
    pub(crate) fn is_suspended(&self) -> bool {
        self.state().is_suspended()
    }

    /// Whether the next run is for later: the operation waits for another rank, or is held back.
    pub(crate) fn waits(&self) -> bool {
        let state = self.state();
        state.waits || state.is_stopped
    }

    /// Takes a step, which `changes` memory or not, and returns its number.
    pub(crate) fn take<T: Send + 'static>(
        &self,
        changes: bool,
        begin: impl FnOnce() -> Result<Event<T>>,
        answer: fn(T) -> Answer,
    ) -> Result<usize> {
        let mut state = self.state();
        let number = state.n_taken;
        if number == state.answers.len() {
            state.is_stopped = changes && state.is_held;
            if state.is_suspended() {
                return Err(Self::SUSPENDED);
            }
            drop(state);
            let begun = begun(begin(), answer);
            state = self.state();
            match begun {
                Ok(answer) => state.answers.push(answer),
                Err(begun) => {
                    state.begun = Some(begun);
                    return Err(Self::SUSPENDED);
                }
            }
        }
        state.answered(number)
    }

    /// Acts once, without a wait for other ranks. Returns `None`, and does not act, if the run is
    /// suspended.
    pub(crate) fn once(&self, act: impl FnOnce() -> Result<u64>) -> Option<Result<u64>> {
        let mut state = self.state();
        if state.is_suspended() {
            return None;
        }
        let number = state.n_taken;
        if number == state.answers.len() {
            drop(state);
            let acted = act().map(Answer::Acted);
            state = self.state();
            state.answers.push(acted);
        }
        let answered = state.answered(number);
        Some(answered.map(|number| match state.answers[number] {
            Ok(Answer::Acted(result)) => result,
            _ => unreachable!("a run takes the steps of the one before"),
        }))
    }

    /// What `make` makes, in the first run; later ones get the same. So a function of the program is
    /// not called while a slot is locked. `make` takes no steps.
    pub(crate) fn made<T: Pod>(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut state = self.state();
        let number = state.n_taken;
        if number == state.answers.len() {
            drop(state);
            let made = make().map(|made| Answer::Bytes(made.as_bytes().to_vec()));
            state = self.state();
            state.answers.push(made);
        }
        let number = state.answered(number)?;
        drop(state);
        let of_bytes = |bytes: &[u8]| T::read_from_bytes(bytes).expect("as many bytes");
        Ok(self.read_again(number, of_bytes))
    }

    /// As [`made`](Self::made), of a value with code of its own, which the record keeps until it is
    /// [taken](Self::take_kept). Where an attempt has failed, what it has made is dropped before the
    /// next one makes another value.
    pub(crate) fn keep<T: Send + 'static>(&self, make: impl FnOnce() -> Result<T>) -> Result<()> {
        let mut state = self.state();
        let number = state.n_taken;
        if number == state.answers.len() {
            let former = state.kept.take();
            drop(state);
            drop(former);
            let made = make();
            state = self.state();
            let answer = made.map(|made| {
                state.kept = Some(Box::new(made));
                Answer::Kept
            });
            state.answers.push(answer);
        }
        state.answered(number).map(drop)
    }

    /// What the last attempt has made. Called once, at the end of the last run.
    pub(crate) fn take_kept<T: 'static>(&self) -> T {
        let kept = self.state().kept.take().expect("the last attempt's");
        *kept.downcast().expect("the same operation has made it")
    }

    /// Puts one answer, `result`, in the place of those from step `first` to the present one. Later
    /// runs are not to take these steps.
    pub(crate) fn merge(&self, first: usize, result: usize) {
        let mut state = self.state();
        state.answers.truncate(first);
        state.answers.push(Ok(Answer::Merged(result)));
        state.n_taken = first + 1;
    }

    /// The result of the steps that a run before has merged, if they are the next.
    pub(crate) fn merged(&self) -> Option<usize> {
        let mut state = self.state();
        let Some(Ok(Answer::Merged(result))) = state.answers.get(state.n_taken) else {
            return None;
        };
        let result = *result;
        state.n_taken += 1;
        Some(result)
    }

    /// The number of steps that this run has taken.
    pub(crate) fn n_taken(&self) -> usize {
        self.state().n_taken
    }

    /// Goes on behind the first `n` steps, whose results are known.
    pub(crate) fn skip(&self, n: usize) {
        self.state().n_taken = n;
    }

    /// Notes memory that the operation has taken.
    pub(crate) fn note_stored(&self, stored: Stored) {
        self.state().stored.push(stored);
    }

    /// Forgets memory that the operation gives back.
    pub(crate) fn forget_stored(&self, stored: Stored) {
        self.state().stored.retain(|there| *there != stored);
    }

    /// The memory of an operation that is given up, if it was held back to the end.
    pub(crate) fn take_unused(&self) -> Vec<Stored> {
        let mut state = self.state();
        if state.is_held {
            std::mem::take(&mut state.stored)
        } else {
            Vec::new()
        }
    }

    /// Calls `f` with the answer to a step.
    pub(crate) fn with<T>(&self, number: usize, f: impl FnOnce(&Answer) -> T) -> T {
        match &self.state().answers[number] {
            Ok(answer) => f(answer),
            Err(_) => unreachable!("the step was taken, and has succeeded"),
        }
    }

    /// As [`take`](Self::take) of a step that reads; calls `f` with the bytes.
    pub(crate) fn read<T>(
        &self,
        begin: impl FnOnce() -> Result<Event<Vec<u8>>>,
        f: impl FnOnce(&[u8]) -> T,
    ) -> Result<(usize, T)> {
        let number = self.take(false, begin, Answer::Bytes)?;
        Ok((number, self.read_again(number, f)))
    }

    /// Calls `f` with the bytes that a step has read.
    pub(crate) fn read_again<T>(&self, number: usize, f: impl FnOnce(&[u8]) -> T) -> T {
        self.with(number, |answer| match answer {
            Answer::Bytes(bytes) => f(bytes),
            _ => unreachable!("a run takes the steps of the one before"),
        })
    }

    /// One round of a wait after another, until one is `ready`.
    pub(crate) fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        loop {
            let first = self.state().n_taken;
            if ready()? {
                return Ok(());
            }
            let mut state = self.state();
            let changes = |answer: &Result<Answer>| {
                matches!(answer, Ok(Answer::Swapped(_) | Answer::Acted(_)))
            };
            // What a round has learnt by an attempt to change a slot, the next one may build on.
            if !state.answers[first..].iter().any(changes) {
                state.answers.truncate(first);
                state.n_taken = first;
                state.waits = true;
                return Err(Self::SUSPENDED);
            }
        }
    }
}

/// The answer of an operation, or what gives it later.
fn begun<T: Send + 'static>(
    event: Result<Event<T>>,
    answer: fn(T) -> Answer,
) -> Result<Result<Answer>, Begun> {
    let mut event = match event {
        Ok(event) => event,
        Err(error) => return Ok(Err(error)),
    };
    match event.is_complete() {
        Ok(true) => return Ok(event.wait().map(answer)),
        Err(error) => return Ok(Err(error)),
        Ok(false) => {}
    }
    let mut event = Some(event);
    Err(Box::new(move || match event.as_mut()?.is_complete() {
        Ok(false) => None,
        Ok(true) => Some(event.take()?.wait().map(answer)),
        Err(error) => Some(Err(error)),
    }))
}
