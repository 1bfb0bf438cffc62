//! Operations in flight: a future that can also be waited for, and that owns its buffers.

use std::any::TypeId;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::backend::{OpId, Stage};
use crate::error::{Error, Result};
use crate::few_words::{FewWords, N_WORDS};
use crate::flight::{Begun, Flight};
use crate::handler::in_handler;
use crate::rank::Rank;
use crate::waits::{Awaited, TeamCall};
use crate::world::World;

/// The name of a wait for a transfer or an atomic, in reports.
const AN_OPERATION: &str = "the completion of an operation";
/// An atomic whose wait has ended, in the failure of the job.
const ATOMIC_LATER: &str = "an atomic, which may be carried out later";

/// A non-blocking operation and its result.
///
/// It is a [`Future`] and can also be driven by hand: [`wait`](Self::wait), [`test`](Self::test).
/// It owns the operation's buffers. Dropping it is safe: the operation goes on, and the buffers live
/// until it is complete. If many are dropped in flight, each further one [tests](Self::test) some of
/// them, except in a handler. Forgetting it ([`std::mem::forget`]) harms no memory. But if it is not
/// complete, its buffers and its handle on the world live for ever, so the rank never leaves the
/// job.
///
/// As a future it asks to be polled again until it is ready, since no thread of the library wakes
/// it. With a driver (feature `tokio`) it is woken instead. A program without an executor uses
/// [`World::block_on`].
///
/// # Examples
///
/// ```
/// use pgas_core::Event;
///
/// # let world = pgas_core::backend::loopback::world();
/// let cell = world.alloc::<u64>(1)?;
/// let mut put = cell.put_nb(&world, 7)?;
/// while !put.test()? { // makes progress
///     // other work
/// }
/// assert!(put.is_complete()? && !put.waits_for_ranks());
/// put.wait()?; // gives the result
/// let read = world.block_on(async { cell.get_nb(&world)?.await })?;
/// assert_eq!(read?, 7);
/// let ready = Event::ready(3);
/// assert!(ready.world().is_none()); // nothing has to be done for it
/// assert_eq!(ready.wait()?, 3);
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[must_use = "an operation in flight is complete only after its event was waited for, or after a flush"]
pub struct Event<T: Send + 'static> {
    state: State<T>,
}

enum State<T: Send + 'static> {
    Ready(T),
    Brief(Brief<T>),
    Pending(Box<Pending<T>>),
    Flight(Box<Flight<T>>),
    Task(Box<dyn Task<T>>),
    /// The operation has failed; each call gets the error.
    Failed(Error),
    Taken,
}

/// An operation that this rank's progress completes, and not the transport: a collective, which the
/// world's engine advances, or a wait for a signal.
pub(crate) trait Task<T>: Send {
    /// Whether the result is there.
    fn is_done(&self) -> bool;
    /// The result; called once, after `is_done`.
    fn take(&mut self) -> Result<T>;
    /// The world that advances it.
    fn world(&self) -> &World;
    /// From now on its handle does not keep this rank in the job. Returns whether it ends without
    /// the program.
    fn let_go(&mut self) -> bool;
    /// Its name, for the report of a long wait.
    fn what(&self) -> &'static str;
    /// Its team, and its number among the team's collectives, if it is one.
    fn call(&self) -> Option<TeamCall>;
    /// The ranks that it waits for.
    fn missing(&self) -> Vec<Rank>;
}

struct Pending<T: Send + 'static> {
    world: World,
    op: OpId,
    /// The stage at which the program may have the buffers again.
    buffers_at: Stage,
    /// Makes the result; owns the buffers. `None` once the operation is over.
    finish: Option<Finish<T>>,
}

/// Makes an operation's result of its buffers.
pub(crate) type Finish<T> = Box<dyn FnOnce() -> T + Send>;

/// An operation on a few bytes, which needs no memory of its own but the buffer.
struct Brief<T: Send + 'static> {
    world: World,
    op: OpId,
    /// `None` once the operation is over.
    words: Option<FewWords>,
    finish: FinishBrief<T>,
    /// Whether it is an atomic that changes its word.
    is_change: bool,
}

/// Turns the words of a brief operation into its result.
pub(crate) type FinishBrief<T> = fn([u64; N_WORDS]) -> T;

impl<T: Send + 'static> Event<T> {
    /// An event that is complete already.
    pub fn ready(value: T) -> Self {
        Self {
            state: State::Ready(value),
        }
    }

    /// An event of one operation. The program may have the buffers again at stage `buffers_at`.
    pub(crate) fn pending(
        world: &World,
        (op, buffers_at): (OpId, Stage),
        finish: Finish<T>,
    ) -> Self {
        if op == OpId::DONE {
            return Self::ready(finish());
        }
        let pending = Pending {
            world: world.clone(),
            op,
            buffers_at,
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
            is_change: false,
        };
        Self {
            state: State::Brief(brief),
        }
    }

    /// The same event, of an atomic that changes its word.
    #[inline]
    pub(crate) fn of_change(mut self) -> Self {
        match &mut self.state {
            State::Brief(brief) => brief.is_change = true,
            State::Flight(flight) => flight.is_change = true,
            _ => {}
        }
        self
    }

    /// An event of several operations.
    pub(crate) fn flight(mut flight: Flight<T>) -> Self {
        match flight.try_finish() {
            Ok(Some(value)) => Self::ready(value),
            // An error is returned by the next call.
            Ok(None) | Err(_) => Self {
                state: State::Flight(Box::new(flight)),
            },
        }
    }

    pub(crate) fn task(task: Box<dyn Task<T>>) -> Self {
        Self {
            state: State::Task(task),
        }
    }

    /// Makes progress, unless the operation is complete, and says whether it is. Does not wait for
    /// the operation, except over MPI: of a put or get of up to 8 KiB on another host only a flush of
    /// MPI can tell, which ends when the target next makes progress.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the operation is over, and each later call gives the error of
    /// the operation again. An error of a handler, as [`World::progress`] returns it; the operation
    /// goes on.
    pub fn test(&mut self) -> Result<bool> {
        let is_complete = self.look()?;
        if let Some(world) = self.world().filter(|_| !is_complete) {
            world.first_untold()?;
        }
        Ok(is_complete)
    }

    /// Whether the operation is complete. Makes no progress. Over MPI it may wait as
    /// [`test`](Self::test) does.
    ///
    /// # Errors
    ///
    /// As [`test`](Self::test).
    pub fn is_complete(&mut self) -> Result<bool> {
        let finished = match &mut self.state {
            State::Ready(_) | State::Taken => return Ok(true),
            State::Task(task) => return Ok(task.is_done()),
            State::Brief(brief) => brief.try_finish(),
            State::Pending(pending) => pending.try_finish(),
            State::Flight(flight) => flight.try_finish(),
            State::Failed(error) => Err(error.clone()),
        };
        match finished {
            Ok(None) => Ok(false),
            Ok(Some(value)) => {
                self.state = State::Ready(value);
                Ok(true)
            }
            Err(error) => {
                self.state = State::Failed(error.clone());
                Err(error)
            }
        }
    }

    /// Whether this waits for what other ranks do: a collective, until they call it, or a wait for
    /// a [signal](crate::GlobalPtr::wait_until_nb). (Transfers and atomics are completed by the
    /// transport.)
    #[must_use]
    pub fn waits_for_ranks(&self) -> bool {
        matches!(self.state, State::Task(_))
    }

    /// For a layer that completes it in the background: from now on its handle on the world does
    /// not keep this rank in the job. Returns whether the layer has to see to that until the
    /// operation is complete. A signal may never come, and nothing has to be done for what is
    /// complete.
    #[doc(hidden)]
    pub fn let_go(&mut self) -> bool {
        let world = match &mut self.state {
            State::Brief(brief) => &mut brief.world,
            State::Pending(pending) => &mut pending.world,
            State::Flight(flight) => flight.world_mut(),
            State::Task(task) => return task.let_go(),
            State::Ready(_) | State::Failed(_) | State::Taken => return false,
        };
        *world = world.clone_uncounted();
        true
    }

    /// For a layer that waits for it in its own way: whether the job fails if a time limit ends the
    /// wait, as that of [`wait`](Self::wait).
    #[doc(hidden)]
    #[must_use]
    pub fn fails_at_limit(&self) -> bool {
        match &self.state {
            State::Brief(brief) => brief.is_change,
            State::Flight(flight) => flight.is_change,
            _ => false,
        }
    }

    /// The world whose progress completes it; `None` if it is complete.
    #[must_use]
    pub fn world(&self) -> Option<&World> {
        match &self.state {
            State::Brief(brief) => Some(&brief.world),
            State::Pending(pending) => Some(&pending.world),
            State::Flight(flight) => Some(flight.world()),
            State::Task(task) => Some(task.world()),
            State::Ready(_) | State::Failed(_) | State::Taken => None,
        }
    }

    /// As [`test`](Self::test), but leaves the errors of handlers to later calls.
    fn look(&mut self) -> Result<bool> {
        if self.is_complete()? {
            return Ok(true);
        }
        if let Some(world) = self.world() {
            world.serve()?;
        }
        self.is_complete()
    }

    /// As [`look`](Self::look). If the operation is not complete, `cx` is woken when it may be.
    fn test_or_watch(&mut self, cx: &Context<'_>) -> Result<bool> {
        if self.look()? {
            return Ok(true);
        }
        let Some(world) = self.world() else {
            return Ok(true);
        };
        if world.wake_after_progress(cx.waker()) {
            // An arrival before the waker was known has woken nobody.
            return self.look();
        }
        cx.waker().wake_by_ref();
        Ok(false)
    }

    /// An event of source completion: it is complete when the program may use its buffers again. It
    /// gives the result, and the event of the whole operation, which is complete when the operation
    /// is complete at the target (UPC++'s `source_cx` and `operation_cx`).
    ///
    /// A put's source is free once it was read; the result is the vector that
    /// [`put_vec_nb`](crate::GlobalPtr::put_vec_nb) gives back. A put of a single value has copied
    /// it, so its first event is complete at once. For a get, an atomic or a collective both events
    /// are complete at the same time.
    ///
    /// Both are events like any other: waited for, awaited, chained, counted by a promise.
    ///
    /// # Cost
    ///
    /// None if the operation is complete. Else some allocations, and a test of the operation in
    /// each round of progress.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let place = world.alloc::<u64>(4)?;
    /// let put = place.put_vec_nb(&world, vec![1, 2, 3, 4])?;
    /// let (mut values, whole) = put.at_source().wait()?;
    /// values.fill(0); // does not change the values in flight
    /// whole.wait()?;
    /// assert_eq!(place.get_vec(&world, 4)?, [1, 2, 3, 4]);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    pub fn at_source(mut self) -> Event<(T, Event<()>)> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Ready(value) => Event::ready((value, Event::ready(()))),
            State::Brief(brief) => brief.at_source(),
            State::Pending(pending) => pending.at_source(),
            State::Flight(flight) => Event::flight(flight.at_source(Event::flight)),
            State::Task(task) => Event::task(Box::new(AtEnd(task))),
            State::Failed(error) => Event {
                state: State::Failed(error),
            },
            State::Taken => Event::taken(),
        }
    }

    /// An event whose result was taken.
    fn taken() -> Self {
        Self {
            state: State::Taken,
        }
    }

    /// Waits until the operation is complete and returns its result.
    ///
    /// # Errors
    ///
    /// Errors of the transport, or the failure of the job while waiting; [`Error::InHandler`]
    /// inside a handler, unless the operation is complete. After [`Error::Timeout`], or a panic of a
    /// handler in the wait, an atomic that changes its word may be performed later, and its result
    /// is lost, so the job fails, too.
    ///
    /// # Panics
    ///
    /// If the result was taken before, by awaiting the event.
    #[track_caller]
    pub fn wait(mut self) -> Result<T> {
        // A complete operation is taken without a wait, also inside a handler.
        let is_complete = self.is_complete()?;
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Ready(value) => Ok(value),
            State::Failed(error) => Err(error),
            State::Taken => panic!("the event's result was taken already"),
            State::Brief(mut brief) => {
                let of = (&brief.world.clone(), brief.is_change);
                value_of(of, || brief.try_finish())
            }
            State::Pending(mut pending) => {
                value_of((&pending.world.clone(), false), || pending.try_finish())
            }
            State::Flight(mut flight) => {
                let of = (&flight.world().clone(), flight.is_change);
                value_of(of, || flight.try_finish())
            }
            State::Task(task) => result_of(task, is_complete),
        }
    }
}

/// Waits until the task is done, unless it is, and returns its result. Other ranks wait for a
/// collective of this one, so a panic ends the job.
#[track_caller]
fn result_of<T>(mut task: Box<dyn Task<T>>, is_complete: bool) -> Result<T> {
    let world = task.world();
    let call = task.call();
    let awaited = Awaited {
        what: task.what(),
        call,
        missing: &|| task.missing(),
        runs_program: false,
    };
    // Handlers and chained actions run meanwhile, and may panic.
    let step = call.map(|_| world.in_step(awaited.what));
    // No closure: it would stand for the program's line in reports.
    let waited = if !is_complete {
        world.wait_until(&awaited, || Ok(task.is_done()))
    } else if in_handler() {
        Ok(())
    } else {
        // A rank that need not wait serves the others all the same. If the transport fails in that,
        // the call fails.
        world.advance().map(drop)
    };
    drop(step);
    waited.map_err(|error| given_up(&*task, error))?;
    task.take()
}

/// Waits until `try_finish` returns the value of a complete operation. If a time limit or a panic
/// ends the wait for an atomic that changes its word, the job fails: the atomic may be carried out
/// later, and nobody would give back what that has taken, such as a lock.
#[track_caller]
fn value_of<T>(
    (world, is_change): (&World, bool),
    mut try_finish: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let mut result = None;
    // One wait for all types of values: it is not compiled for each.
    let ready: &mut dyn FnMut() -> Result<bool> = &mut || {
        result = try_finish()?;
        Ok(result.is_some())
    };
    // Handlers and chained actions run meanwhile, and may panic.
    let _step = is_change.then(|| world.in_step(ATOMIC_LATER));
    // No closure: it would stand for the program's line in reports.
    match world.wait_until(&Awaited::new(AN_OPERATION), ready) {
        Err(error @ Error::Timeout(_)) if is_change => Err(world.give_up(ATOMIC_LATER, error)),
        waited => waited.map(|()| result.expect("the wait ended because the result is there")),
    }
}

impl<T: Send + 'static> Brief<T> {
    /// As [`Event::at_source`].
    fn at_source(mut self) -> Event<(T, Event<()>)> {
        let Some(words) = self.words.take() else {
            return Event::taken();
        };
        let (world, op, finish) = (self.world.clone(), self.op, self.finish);
        if TypeId::of::<T>() == TypeId::of::<()>() && !self.is_change {
            // A put, whose source is our own copy.
            let whole = Event::brief(&world, op, words, |_| ());
            return Event::ready((finish([0; N_WORDS]), whole));
        }
        let finish = move |words: FewWords| finish(words.take());
        let event = at_source(&world, (op, Stage::Operation), words, finish);
        if self.is_change {
            event.of_change()
        } else {
            event
        }
    }

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
            self.world.adopt(self.op, Box::new(words));
        }
    }
}

/// As [`Event::at_source`], for one operation.
fn at_source<B: Send + 'static, T: Send + 'static>(
    world: &World,
    (op, buffers_at): (OpId, Stage),
    buffers: B,
    finish: impl FnOnce(B) -> T + Send + 'static,
) -> Event<(T, Event<()>)> {
    let begun = Begun {
        ops: vec![op],
        buffers_at,
        signal: None,
        failure: None,
    };
    match Flight::begin(world, begun, buffers, finish) {
        Ok(flight) => Event::flight(flight.at_source(Event::flight)),
        Err(_) => unreachable!("it was begun before"),
    }
}

/// A collective has no buffers of the program's, so source and operation complete together.
struct AtEnd<T>(Box<dyn Task<T>>);

impl<T: Send + 'static> Task<(T, Event<()>)> for AtEnd<T> {
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn take(&mut self) -> Result<(T, Event<()>)> {
        Ok((self.0.take()?, Event::ready(())))
    }

    fn world(&self) -> &World {
        self.0.world()
    }

    fn let_go(&mut self) -> bool {
        self.0.let_go()
    }

    fn what(&self) -> &'static str {
        self.0.what()
    }

    fn call(&self) -> Option<TeamCall> {
        self.0.call()
    }

    fn missing(&self) -> Vec<Rank> {
        self.0.missing()
    }
}

impl<T: Send + 'static> Pending<T> {
    /// As [`Event::at_source`].
    fn at_source(mut self) -> Event<(T, Event<()>)> {
        let Some(finish) = self.finish.take() else {
            return Event::taken();
        };
        at_source(
            &self.world.clone(),
            (self.op, self.buffers_at),
            finish,
            |finish| finish(),
        )
    }

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
            self.world.adopt(self.op, Box::new(finish));
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
                State::Brief(_)
                | State::Pending(_)
                | State::Flight(_)
                | State::Failed(_)
                | State::Taken => panic!("polled after completion"),
            },
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(match &event.state {
                State::Task(task) => given_up(&**task, error),
                _ => error,
            })),
        }
    }
}

/// The error of a wait that ended with `error`. If it was for a collective the job fails, since
/// this rank gives up a result that the others get. A wait that was only refused is no failure.
#[cold]
fn given_up<T>(task: &dyn Task<T>, error: Error) -> Error {
    match error {
        Error::InHandler { .. } => error,
        _ if task.call().is_none() => error,
        _ => task.world().wire().give_up(task.what(), error),
    }
}

impl<T: Send + 'static> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Ready(_) => "Event(ready)",
            State::Brief(_) | State::Pending(_) | State::Flight(_) | State::Task(_) => {
                "Event(in flight)"
            }
            State::Failed(_) => "Event(failed)",
            State::Taken => "Event(taken)",
        })
    }
}
