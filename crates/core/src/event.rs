//! Operations in flight: a future that can also be waited for, and that owns its buffers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::backend::{OpId, Stage};
use crate::error::{Error, Result};
use crate::few_words::{FewWords, N_WORDS};
use crate::handler::in_handler;
use crate::rank::Rank;
use crate::waits::Awaited;
use crate::world::World;

/// What an event of a transfer or an atomic is waited for.
const AN_OPERATION: &str = "the completion of an operation";

/// A non-blocking operation and its result.
///
/// It is a [`Future`] and can also be driven by hand: [`wait`](Self::wait), [`test`](Self::test).
/// It owns the operation's buffers. Dropping or forgetting it is safe: the operation goes on, and
/// the buffers live until it is complete (a forgotten one's for ever).
///
/// As a future it asks to be polled again until it is ready, since no thread of the library would
/// wake it, unless a driver does (feature `tokio`); a program without an executor uses
/// [`World::block_on`].
#[must_use = "an operation in flight is complete only after its event was waited for, or after a flush"]
pub struct Event<T: Send + 'static> {
    state: State<T>,
}

enum State<T: Send + 'static> {
    Ready(T),
    Brief(Brief<T>),
    Pending(Box<Pending<T>>),
    Task(Box<dyn Task<T>>),
    Taken,
}

/// A result that the world's engine is working on.
pub(crate) trait Task<T>: Send {
    /// Whether the result is there.
    fn is_done(&self) -> bool;
    /// The result; called once, after `is_done`.
    fn take(&mut self) -> Result<T>;
    /// Who works on it.
    fn world(&self) -> &World;
    /// What it is, for the report of a long wait.
    fn what(&self) -> &'static str;
    /// Which of many such.
    fn number(&self) -> u64;
    /// Whom it waits for.
    fn missing(&self) -> Vec<Rank>;
}

struct Pending<T: Send + 'static> {
    world: World,
    op: OpId,
    source_done: bool,
    /// Makes the result; owns the buffers. `None` once the operation is over.
    finish: Option<Finish<T>>,
}

/// An operation on a few bytes, which needs no memory of its own but the buffer.
struct Brief<T: Send + 'static> {
    world: World,
    op: OpId,
    /// `None` once the operation is over.
    words: Option<FewWords>,
    finish: FinishBrief<T>,
}

/// Turns the words of a brief operation into its result.
pub(crate) type FinishBrief<T> = fn([u64; N_WORDS]) -> T;

/// Turns the filled buffers into an operation's result.
pub(crate) type Finish<T> = Box<dyn FnOnce() -> T + Send>;

impl<T: Send + 'static> Event<T> {
    /// An event that is complete already.
    pub fn ready(value: T) -> Self {
        Self {
            state: State::Ready(value),
        }
    }

    pub(crate) fn pending(world: &World, op: OpId, finish: Finish<T>) -> Self {
        if op == OpId::DONE {
            return Self::ready(finish());
        }
        let pending = Pending {
            world: world.clone(),
            op,
            source_done: false,
            finish: Some(finish),
        };
        Self {
            state: State::Pending(Box::new(pending)),
        }
    }

    /// As [`pending`](Self::pending), of an operation that reads or writes only `words`.
    #[inline]
    pub(crate) fn brief(world: &World, op: OpId, words: FewWords, finish: FinishBrief<T>) -> Self {
        if op == OpId::DONE {
            return Self::ready(finish(words.take()));
        }
        let brief = Brief {
            world: world.clone(),
            op,
            words: Some(words),
            finish,
        };
        Self {
            state: State::Brief(brief),
        }
    }

    pub(crate) fn task(task: Box<dyn Task<T>>) -> Self {
        Self {
            state: State::Task(task),
        }
    }

    /// Makes progress, unless the operation is complete, and says whether it is. Does not wait.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the operation is over.
    pub fn test(&mut self) -> Result<bool> {
        if self.is_complete()? {
            return Ok(true);
        }
        if let Some(world) = self.world() {
            world.progress()?;
        }
        self.is_complete()
    }

    /// Says whether the operation is complete, and makes no progress.
    ///
    /// # Errors
    ///
    /// As [`test`](Self::test).
    pub fn is_complete(&mut self) -> Result<bool> {
        match &mut self.state {
            State::Ready(_) | State::Taken => Ok(true),
            State::Brief(brief) => match brief.try_finish()? {
                Some(value) => {
                    self.state = State::Ready(value);
                    Ok(true)
                }
                None => Ok(false),
            },
            State::Pending(pending) => match pending.try_finish()? {
                Some(value) => {
                    self.state = State::Ready(value);
                    Ok(true)
                }
                None => Ok(false),
            },
            State::Task(task) => Ok(task.is_done()),
        }
    }

    /// Whether this is a collective, which waits for other ranks' programs, and no transfer, which
    /// the transport completes.
    #[must_use]
    pub fn is_collective(&self) -> bool {
        matches!(self.state, State::Task(_))
    }

    /// The world that completes it; none if it is complete.
    #[must_use]
    pub fn world(&self) -> Option<&World> {
        match &self.state {
            State::Brief(brief) => Some(&brief.world),
            State::Pending(pending) => Some(&pending.world),
            State::Task(task) => Some(task.world()),
            State::Ready(_) | State::Taken => None,
        }
    }

    /// As [`test`](Self::test); if it is not complete, `cx` is woken when it is worth another look.
    fn test_or_watch(&mut self, cx: &Context<'_>) -> Result<bool> {
        if self.test()? {
            return Ok(true);
        }
        let Some(world) = self.world() else {
            return Ok(true);
        };
        if world.wake_after_progress(cx.waker()) {
            // What came before the waker was known woke nobody.
            return self.test();
        }
        cx.waker().wake_by_ref();
        Ok(false)
    }

    /// Says whether the buffers that the operation reads from are free again; for a get, a
    /// collective or an atomic that is when it is complete.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the operation is over.
    pub fn test_source(&mut self) -> Result<bool> {
        if let State::Brief(brief) = &self.state
            && brief.words.is_some()
        {
            brief.world.progress()?;
            return brief.world.backend().test(brief.op, Stage::Source);
        }
        if let State::Pending(pending) = &mut self.state
            && pending.finish.is_some()
        {
            pending.world.progress()?;
            pending.source_done =
                pending.source_done || pending.world.backend().test(pending.op, Stage::Source)?;
            return Ok(pending.source_done);
        }
        self.test()
    }

    /// Waits until the operation is complete and returns its result.
    ///
    /// # Errors
    ///
    /// Errors of the transport, or the failure of the job while waiting.
    ///
    /// # Panics
    ///
    /// If the result was taken before, by awaiting the event.
    #[track_caller]
    pub fn wait(mut self) -> Result<T> {
        // Also where nothing may wait.
        let is_complete = self.is_complete()?;
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Ready(value) => Ok(value),
            State::Taken => panic!("the event's result was taken already"),
            State::Brief(mut brief) => value_of(&brief.world.clone(), || brief.try_finish()),
            State::Pending(mut pending) => {
                value_of(&pending.world.clone(), || pending.try_finish())
            }
            State::Task(mut task) if is_complete => {
                if !in_handler() {
                    // Who need not wait serves the others all the same. A transport that fails then
                    // fails the call.
                    let served = task.world().advance();
                    served.map_err(|error| given_up(&*task, error))?;
                }
                task.take()
            }
            State::Task(mut task) => {
                let awaited = Awaited {
                    what: task.what(),
                    number: Some(task.number()),
                    missing: &|| task.missing(),
                };
                let waited = task.world().wait_until(&awaited, || Ok(task.is_done()));
                waited.map_err(|error| given_up(&*task, error))?;
                task.take()
            }
        }
    }
}

/// Waits for the value that `try_finish` has when an operation is complete.
#[track_caller]
fn value_of<T>(world: &World, mut try_finish: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let mut result = None;
    world.wait_until(&Awaited::new(AN_OPERATION), || {
        result = try_finish()?;
        Ok(result.is_some())
    })?;
    Ok(result.expect("the wait ended because the result is there"))
}

impl<T: Send + 'static> Brief<T> {
    /// As [`Pending::try_finish`].
    #[inline]
    fn try_finish(&mut self) -> Result<Option<T>> {
        if self.words.is_none() {
            return Ok(None);
        }
        match self.world.backend().test(self.op, Stage::Operation) {
            Ok(false) => Ok(None),
            Ok(true) => Ok(self.words.take().map(|words| (self.finish)(words.take()))),
            Err(error) => {
                self.words = None;
                Err(error)
            }
        }
    }
}

impl<T: Send + 'static> Drop for Brief<T> {
    /// As that of [`Pending`].
    #[inline]
    fn drop(&mut self) {
        if let Some(words) = self.words.take() {
            self.world.orphans().adopt(self.op, Box::new(words));
        }
    }
}

impl<T: Send + 'static> Pending<T> {
    /// The result, if the operation is complete.
    fn try_finish(&mut self) -> Result<Option<T>> {
        if self.finish.is_none() {
            return Ok(None);
        }
        match self.world.backend().test(self.op, Stage::Operation) {
            Ok(false) => Ok(None),
            Ok(true) => Ok(self.finish.take().map(|finish| finish())),
            Err(error) => {
                self.finish = None;
                Err(error)
            }
        }
    }
}

impl<T: Send + 'static> Drop for Pending<T> {
    /// Hands the buffers of an unfinished operation to the world, which keeps them until it is
    /// over.
    fn drop(&mut self) {
        if let Some(finish) = self.finish.take() {
            self.world.orphans().adopt(self.op, Box::new(finish));
        }
    }
}

impl<T: Send + Unpin + 'static> Future for Event<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let event = self.get_mut();
        match event.test_or_watch(cx) {
            Ok(true) => match std::mem::replace(&mut event.state, State::Taken) {
                State::Ready(value) => Poll::Ready(Ok(value)),
                State::Task(mut task) => Poll::Ready(task.take()),
                State::Brief(_) | State::Pending(_) | State::Taken => {
                    panic!("polled after completion")
                }
            },
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(match &event.state {
                State::Task(task) => given_up(&**task, error),
                State::Ready(_) | State::Brief(_) | State::Pending(_) | State::Taken => error,
            })),
        }
    }
}

/// The error of a wait for a collective's result, from its own `error`: this rank does without the
/// result that the others get, unless it was refused the wait.
#[cold]
fn given_up<T>(task: &dyn Task<T>, error: Error) -> Error {
    match error {
        Error::InHandler { .. } => error,
        _ => task.world().wire().give_up(task.what(), error),
    }
}

impl<T: Send + 'static> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Ready(_) => "Event(ready)",
            State::Brief(_) | State::Pending(_) | State::Task(_) => "Event(in flight)",
            State::Taken => "Event(taken)",
        })
    }
}
