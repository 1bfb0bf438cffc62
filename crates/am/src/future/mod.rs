//! Futures: [`PgasFuture`], [`Completes`], [`when_all`], [`when_any`], [`Promise`].

mod actions;
mod any;
mod cell;
mod completes;
mod join;
mod joined;
mod mark;
mod promise;
mod returns;
mod sent;
mod shared;
pub(crate) mod task;

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem::{self, ManuallyDrop};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use pgas_core::{Event, InStep, Rank};
use pgas_lockfree::pending::{Cookie, Outcome, Watcher};

use crate::answer::read_answer;
use crate::codec::Wire;
use crate::state::{Am, Handle};
use cell::Cell;
use joined::{Detached, Joined};
use mark::Mark;
use pgas_core::{Error, Result};

pub use any::{First, when_any};
pub use completes::Completes;
pub use join::{All, when_all};
pub use promise::Promise;
pub use shared::SharedFuture;

/// The failure of the job if the wait for an operation ends before its result is there.
const LOST: &str = "an operation in flight, whose result is lost";

/// A future value, such as the result of a remote call.
///
/// It is a [`Future`] for any executor, and also needs none: [`wait`](Self::wait),
/// [`is_ready`](Self::is_ready), [`then`](Self::then). An [`Event`] of core becomes one by
/// [`Completes::future`], and has its methods. It borrows nothing, and may be sent to another
/// thread. Dropping it loses only the value: the call is made all the same. A forgotten one
/// keeps a slot of a table until the rank leaves the job, and does not delay that; but that of an
/// event is forgotten as the [event](Event) is.
///
/// A future that is ready takes no memory besides itself.
///
/// # Examples
///
/// ```
/// use pgas_am::{RemoteCalls, when_all};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let square = |x: u64| x * x;
/// let four = world.rpc(world.rank(), square, 2)?;
/// let nine = world.rpc(world.rank(), square, 3)?.then(|xx| xx.to_string());
/// assert_eq!(when_all((four, nine)).wait()?, (4, "9".to_owned()));
/// # Ok::<(), pgas_am::Error>(())
/// ```
///
/// Without a wait, with copies, and counted by a promise:
///
/// ```
/// use pgas_am::{PgasFuture, Promise, RemoteCalls};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let mut five = world.rpc(world.rank(), |x: u64| x + 1, 4)?;
/// while !five.test()? { // makes progress
///     // other work
/// }
/// assert!(five.is_ready());
/// let five = five.shared(); // a future that can be cloned
/// let (one, other) = (five.clone(), five);
/// assert_eq!((one.wait()?, other.wait()?), (5, 5));
///
/// let promise = Promise::new(&world)?;
/// world.rpc(world.rank(), |()| (), ())?.fulfils(&promise);
/// PgasFuture::ready(3_u64).then(drop).fulfils(&promise);
/// promise.finalize().wait()?; // both are over
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[must_use = "the value is lost if the future is dropped"]
pub struct PgasFuture<T: Send + 'static> {
    state: State<T>,
}

enum State<T: Send + 'static> {
    Ready(Result<T>),
    Answer(Answer<T>),
    Cell(Arc<Cell<T>>),
    Event(Box<Event<T>>, Handle),
    Joined(Box<dyn Joined<T>>),
    Taken,
}

impl<T: Send + 'static> State<T> {
    /// Takes the result, which must be available.
    #[inline(never)]
    fn take(self) -> Result<T> {
        match self {
            Self::Ready(result) => result,
            Self::Answer(answer) => answer.take(),
            Self::Cell(cell) => cell.take(),
            Self::Event(event, _) => Ok(event.wait()?),
            Self::Joined(mut joined) => joined.take(),
            Self::Taken => panic!("the future's value was taken already"),
        }
    }
}

/// The answer of a remote call.
struct Answer<T> {
    handle: Handle,
    cookie: Cookie,
    to: Rank,
    read: fn(Rank, Outcome, &[u8]) -> Result<T>,
}

impl<T> Answer<T> {
    /// The error of a call whose rank has left without an answer, or whose caller has; then the
    /// slot is not needed any more.
    #[cold]
    fn give_up_if_left(&mut self, am: &Am) -> Option<Error> {
        let world = am.world.upgrade()?;
        let error = am.no_answer(&world, self.to)?;
        // The answer may have arrived between the two checks. None can arrive after this one.
        if am.pending.is_done(self.cookie) {
            return None;
        }
        // Where this rank has left, another thread may be about to write an answer.
        if !matches!(error, Error::HasLeft) {
            am.pending
                .give_up(mem::replace(&mut self.cookie, Cookie::NONE));
        }
        Some(error)
    }

    #[inline]
    fn take(self) -> Result<T> {
        match self.handle.get() {
            Some(am) => self.take_from(&am),
            None => Err(Error::HasLeft),
        }
    }

    #[inline]
    fn take_from(mut self, am: &Am) -> Result<T> {
        let (to, read) = (self.to, self.read);
        // Before the program's codec runs, which may panic: the slot is another call's by then.
        let cookie = mem::replace(&mut self.cookie, Cookie::NONE);
        am.pending
            .take(cookie, |outcome, bytes| read(to, outcome, bytes))
    }

    /// Forgets the slot, which belongs to another owner now.
    #[inline]
    fn forget(mut self) {
        self.cookie = Cookie::NONE;
    }

    #[track_caller]
    fn wait(self) -> Result<T> {
        let am = self.handle.get().ok_or(Error::HasLeft)?;
        if !am.pending.is_done(self.cookie) {
            let world = am.world.upgrade().ok_or(Error::HasLeft)?;
            let missing = || vec![self.to];
            world.wait_for_ranks("the answer of a remote call", &missing, || {
                if am.pending.is_done(self.cookie) {
                    return Ok(true);
                }
                // Progress searches for calls to ranks that have left.
                if am.pending.has_left()
                    && let Some(error) = am.no_answer(&world, self.to)
                {
                    // The answer may have arrived between the two checks. None can arrive after
                    // this one.
                    let late = am.pending.is_done(self.cookie);
                    return if late { Ok(true) } else { Err(error) };
                }
                Ok(false)
            })?;
        }
        self.take_from(&am)
    }
}

/// Runs `action` on the result of `event` when a round of progress finds it complete.
fn spawn<T: Send + 'static>(am: &Am, mut event: Box<Event<T>>, action: cell::Action<T>) {
    let chained = event.let_go().then(|| am.chained.begin());
    let transfer = (!event.waits_for_ranks()).then(|| am.transfers.begin());
    let mut both = Some((event, action));
    am.tasks.spawn(poll_fn(move |_| {
        let complete = match &mut both {
            Some((event, _)) => event.is_complete(),
            None => Ok(true),
        };
        if let Ok(false) = complete {
            return Poll::Pending;
        }
        if let Some((event, action)) = both.take() {
            actions::run_on(action, || {
                complete.and_then(|_| pgas_core::as_handler(|| event.wait()))
            });
        }
        // The transfer counts as unfinished until the action has sent its messages.
        let _ = (&transfer, &chained);
        Poll::Ready(())
    }));
}

/// Tells others of a panic in the wait for a future, if its value would be lost. That is asked at
/// the panic: what a chain begins may say so during the wait.
struct InStepIfLost<'a, T: Send + 'static> {
    future: &'a RefCell<PgasFuture<T>>,
    step: Option<InStep<'a>>,
}

impl<T: Send + 'static> Drop for InStepIfLost<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() && !self.future.borrow().fails_at_limit() {
            // It has nothing of its own.
            let _untold = self.step.take().map(ManuallyDrop::new);
        }
    }
}

impl<T> Drop for Answer<T> {
    #[inline]
    fn drop(&mut self) {
        if self.cookie != Cookie::NONE
            && let Some(am) = self.handle.get()
        {
            am.pending.abandon(self.cookie);
        }
    }
}

impl<T: Send + 'static> PgasFuture<T> {
    /// A future that is ready, with `value`.
    #[inline]
    pub fn ready(value: T) -> Self {
        Self::of(Ok(value))
    }

    #[inline]
    fn of(result: Result<T>) -> Self {
        Self {
            state: State::Ready(result),
        }
    }

    /// A future that has failed already.
    #[cold]
    pub(crate) fn failed(error: Error) -> Self {
        Self::of(Err(error))
    }

    /// The result of the call that was sent with `cookie`.
    #[inline]
    pub(crate) fn answer(am: &Am, cookie: Cookie, to: Rank) -> Self
    where
        T: Wire,
    {
        Self {
            state: State::Answer(Answer {
                handle: am.handle,
                cookie,
                to,
                read: read_answer::<T>,
            }),
        }
    }

    fn cell(cell: Arc<Cell<T>>) -> Self {
        Self {
            state: State::Cell(cell),
        }
    }

    /// Whether the value is there, or the error. Does not wait. Once its rank has left the job, a
    /// future without a value has the error [`Error::HasLeft`].
    ///
    /// Progress: none; a loop around this call makes [`progress`](pgas_core::World::progress)
    /// itself, or calls [`test`](Self::test).
    #[inline]
    pub fn is_ready(&mut self) -> bool {
        matches!(self.state, State::Ready(_) | State::Taken) || self.has_become_ready()
    }

    /// Makes progress, unless the value is there, and says whether it is. Does not wait.
    ///
    /// Progress: user level, if the value is not there.
    ///
    /// # Errors
    ///
    /// As [`World::progress`](pgas_core::World::progress). If the operation itself has failed, the
    /// future is ready, and [`wait`](Self::wait) returns its error.
    pub fn test(&mut self) -> Result<bool> {
        if self.is_ready() {
            return Ok(true);
        }
        let am = self.handle().and_then(Handle::get);
        if let Some(world) = am.and_then(|am| am.world.upgrade()) {
            world.progress()?;
        }
        Ok(self.is_ready())
    }

    fn has_become_ready(&mut self) -> bool {
        match &mut self.state {
            State::Ready(_) | State::Taken => true,
            State::Answer(answer) => {
                // This rank has left the job, so no answer comes any more.
                let Some(am) = answer.handle.get() else {
                    return true;
                };
                if am.pending.is_done(answer.cookie) {
                    return true;
                }
                if am.pending.has_left()
                    && let Some(error) = answer.give_up_if_left(&am)
                {
                    self.state = State::Ready(Err(error));
                    return true;
                }
                false
            }
            State::Cell(cell) => {
                if cell.is_done() {
                    return true;
                }
                // The rank may set it last of all before it is gone.
                if cell.handle().get().is_some() || cell.is_done() {
                    return cell.is_done();
                }
                self.state = State::Ready(Err(Error::HasLeft));
                true
            }
            State::Joined(joined) => joined.is_ready(),
            State::Event(event, _) => match event.is_complete() {
                Ok(is_done) => is_done,
                Err(error) => {
                    self.state = State::Ready(Err(error));
                    true
                }
            },
        }
    }

    /// Waits for the value.
    ///
    /// Progress: user level, if the value is not there.
    ///
    /// # Errors
    ///
    /// The error of the operation: [`Error::RemotePanic`], [`Error::BrokenPromise`], a failed
    /// transfer, [`Error::RankFailed`] if the rank that was called has left without an answer; the
    /// failure of the job while waiting; inside a handler [`Error::InHandler`], unless the value is
    /// there. After [`Error::Timeout`] the operation goes on, and its value is lost: a call is made
    /// all the same. If it is an operation on a container, or an atomic that changes its word, or
    /// follows one or a chain that has begun one, the job fails then, and so it does if a handler
    /// panics in the wait.
    ///
    /// # Panics
    ///
    /// If the value was taken before, by awaiting the future.
    #[inline]
    #[track_caller]
    pub fn wait(mut self) -> Result<T> {
        match mem::replace(&mut self.state, State::Taken) {
            State::Ready(result) => result,
            State::Answer(answer) => answer.wait(),
            State::Event(event, _) => Ok(event.wait()?),
            State::Taken => panic!("the future's value was taken already"),
            other => {
                self.state = other;
                self.wait_by_asking()
            }
        }
    }

    #[track_caller]
    fn wait_by_asking(mut self) -> Result<T> {
        if self.is_ready() {
            return self.take_ready();
        }
        let am = self.handle().and_then(Handle::get);
        let am = am.ok_or(Error::HasLeft)?;
        let world = am.world.upgrade().ok_or(Error::HasLeft)?;
        let what = match &self.state {
            State::Joined(_) => "several futures",
            State::Cell(cell) if cell.to().is_some() => "what follows a remote call",
            _ => "a future",
        };
        let future = RefCell::new(self);
        let missing = || {
            let mut ranks = Vec::new();
            future.borrow().awaited(&mut ranks);
            ranks.sort_unstable();
            ranks.dedup();
            ranks
        };
        // Handlers and chained actions run meanwhile, and may panic.
        let step = InStepIfLost {
            future: &future,
            step: Some(world.in_step(LOST)),
        };
        let waited = world.wait_for_ranks(what, &missing, || Ok(future.borrow_mut().is_ready()));
        drop(step);
        let mut future = future.into_inner();
        match waited {
            Ok(()) => future.take_ready(),
            Err(error @ Error::Timeout(_)) if future.fails_at_limit() => {
                Err(world.give_up(LOST, error))
            }
            Err(error) => Err(error),
        }
    }

    /// Adds the ranks whose answers are missing, for the report of a long wait.
    fn awaited(&self, ranks: &mut Vec<Rank>) {
        match &self.state {
            State::Answer(answer) => {
                let is_done = |am: Arc<Am>| am.pending.is_done(answer.cookie);
                if !answer.handle.get().is_some_and(is_done) {
                    ranks.push(answer.to);
                }
            }
            State::Cell(cell) if !cell.is_done() => match cell.to() {
                Some(to) => ranks.push(to),
                // A task or a promise does not say whom it waits for: it may be any that has not
                // answered.
                None => {
                    let am = cell.handle().get();
                    let awaited = am.map(|am| am.pending.awaited()).unwrap_or_default();
                    ranks.extend(awaited.into_iter().map(Rank::new));
                }
            },
            State::Joined(joined) => joined.awaited(ranks),
            State::Cell(_) | State::Ready(_) | State::Event(..) | State::Taken => {}
        }
    }

    /// The rank that answers the call that this is or follows.
    fn to(&self) -> Option<Rank> {
        match &self.state {
            State::Answer(answer) => Some(answer.to),
            State::Cell(cell) => cell.to(),
            State::Joined(_) | State::Ready(_) | State::Event(..) | State::Taken => None,
        }
    }

    /// Takes the value, which must be available.
    #[inline]
    fn take_ready(&mut self) -> Result<T> {
        match mem::replace(&mut self.state, State::Taken) {
            State::Ready(result) => result,
            other => other.take(),
        }
    }

    /// The rank that a future belongs to which is not ready.
    fn handle_of_pending(&self) -> Handle {
        match self.handle() {
            Some(handle) => handle,
            None => unreachable!("a future that is not ready belongs to a rank"),
        }
    }

    /// The rank's state that the future belongs to, if it is not ready.
    fn handle(&self) -> Option<Handle> {
        match &self.state {
            State::Ready(_) | State::Taken => None,
            State::Answer(answer) => Some(answer.handle),
            State::Cell(cell) => Some(cell.handle()),
            State::Event(_, handle) => Some(*handle),
            State::Joined(joined) => joined.handle(),
        }
    }

    /// Asks a driver to wake `waker` when the future should be polled again; `false` if it is
    /// ready.
    fn watch(&mut self, waker: &Waker) -> bool {
        match &mut self.state {
            State::Ready(_) | State::Taken => false,
            State::Answer(answer) => {
                let Some(am) = answer.handle.get() else {
                    return false;
                };
                let wake = Watcher::Wake(waker.clone());
                am.pending.watch(answer.cookie, wake).is_none()
            }
            State::Cell(cell) => cell.watch(waker),
            State::Joined(joined) => joined.watch(waker),
            State::Event(_, handle) => {
                let Some(am) = handle.get() else {
                    return false;
                };
                let Some(world) = am.world.upgrade() else {
                    return false;
                };
                am.driven.wake_after_progress(&world, waker) && !self.is_ready()
            }
        }
    }

    /// Runs `action` on the value when it is there: now, or inside the call of user-level progress
    /// in which it arrives. Returns a future of the action's result. The action must not wait, as a
    /// handler must not. After an error it does not run, and the returned future has the error.
    /// Until it has run, what it captures stays: a handle on the world keeps the rank in the job,
    /// also if the future is dropped. One of [`World::downgrade`](pgas_core::World::downgrade) does
    /// not.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// Two allocations, if the value is not there.
    ///
    /// # Panics
    ///
    /// If `action` panics, so does the call in which it runs: this one, or one that makes progress,
    /// after all other actions have run. In the latter case the returned future has the error
    /// [`BrokenPromise`](Error::BrokenPromise).
    #[doc(alias = "map")]
    pub fn then<U: Send + 'static>(
        self,
        action: impl FnOnce(T) -> U + Send + 'static,
    ) -> PgasFuture<U> {
        self.map_result(|result| result.map(|value| pgas_core::as_handler(|| action(value))))
    }

    pub(crate) fn map_result<U: Send + 'static>(
        mut self,
        action: impl FnOnce(Result<T>) -> Result<U> + Send + 'static,
    ) -> PgasFuture<U> {
        if self.is_ready() {
            return PgasFuture::of(action(self.take_ready()));
        }
        let handle = self.handle_of_pending();
        let cell = self.next_cell(handle);
        let target = cell::Setter::new(&cell);
        // If this rank has left, no answer comes any more. The target is dropped, which sets an
        // error.
        if let Some(am) = handle.get() {
            self.on_ready(&am, Box::new(move |result| target.set(action(result))));
        }
        PgasFuture::cell(cell)
    }

    /// Calls `action` inside the call of progress that brings the value.
    fn on_ready(mut self, am: &Am, action: cell::Action<T>) {
        match mem::replace(&mut self.state, State::Taken) {
            State::Answer(answer) => {
                let (to, read, cookie) = (answer.to, answer.read, answer.cookie);
                let call = Watcher::Call(Box::new(move |outcome, bytes| {
                    actions::run_on(action, || read(to, outcome, bytes));
                }));
                let too_late = am.pending.watch(cookie, call);
                // Before the program's code runs, which may call, or panic.
                answer.forget();
                if let Some(Watcher::Call(call)) = too_late {
                    am.pending.take(cookie, call);
                }
            }
            State::Cell(cell) => cell.on_ready(action, None),
            State::Joined(joined) => {
                let _held = am.world.upgrade();
                joined::on_ready(joined, action);
            }
            State::Event(event, _) => {
                // The event may have the last handle on the world, which it lets go.
                let _held = am.world.upgrade();
                spawn(am, event, action);
            }
            State::Ready(result) => actions::run(move || action(result)),
            State::Taken => panic!("the future's value was taken already"),
        }
    }

    /// As [`on_ready`](Self::on_ready), for an action that only passes the value on. A promise
    /// forgets it once it is not wanted.
    fn pass_on(mut self, am: &Am, action: cell::Action<T>, is_wanted: cell::Wanted) {
        if let State::Cell(cell) = &self.state {
            cell.on_ready(action, Some(is_wanted));
            self.state = State::Taken;
        } else {
            self.on_ready(am, action);
        }
    }

    /// A cell for what follows this.
    fn next_cell<U: Send + 'static>(&self, handle: Handle) -> Arc<Cell<U>> {
        self.next_cell_with(handle, self.mark())
    }

    fn next_cell_with<U: Send + 'static>(
        &self,
        handle: Handle,
        mark: Option<Arc<Mark>>,
    ) -> Arc<Cell<U>> {
        let cell = Cell::marked(handle, self.to(), mark);
        if self.fails_at_limit() {
            cell.fail_at_limit();
        }
        cell
    }

    /// The mark of the chain that this is, or a new one of the chains that are joined.
    fn mark(&self) -> Option<Arc<Mark>> {
        if let State::Cell(cell) = &self.state {
            return cell.mark().cloned();
        }
        let mut mark = None;
        self.pass_mark(&mut mark);
        mark
    }

    /// Passes the marks of the chains that this is or joins to `next`, which is made for the first
    /// of them.
    fn pass_mark(&self, next: &mut Option<Arc<Mark>>) {
        match &self.state {
            State::Cell(cell) => {
                if let Some(mark) = cell.mark() {
                    mark.pass_to(next.get_or_insert_default());
                }
            }
            State::Joined(joined) => joined.pass_marks(next),
            State::Answer(_) | State::Ready(_) | State::Event(..) | State::Taken => {}
        }
    }

    /// For libraries: the same future, of an operation that goes on if a time limit ends the wait
    /// for it. Nobody would have what it takes out, so the job fails then, also if the wait is for
    /// what is chained to the future or joined with it.
    #[doc(hidden)]
    pub fn or_fail_at_limit(self) -> Self {
        if let State::Cell(cell) = &self.state {
            cell.fail_at_limit();
        }
        self
    }

    /// Whether the job fails if a time limit ends the wait for this.
    fn fails_at_limit(&self) -> bool {
        match &self.state {
            State::Cell(cell) => cell.fails_at_limit(),
            State::Joined(joined) => joined.fails_at_limit(),
            State::Event(event, _) => event.fails_at_limit(),
            State::Ready(_) | State::Answer(_) | State::Taken => false,
        }
    }

    /// Detaches the future, to be completed by actions, and leaves a cell's future in its place.
    fn detach(&mut self) -> Detached {
        let handle = self.handle();
        let Some(am) = handle.and_then(Handle::get) else {
            // The rank has left, so nothing would complete the future: who asks next must not find
            // it unready again.
            *self = Self::failed(Error::HasLeft);
            return Box::new(|next| next());
        };
        let cell = self.next_cell(am.handle);
        let target = cell::Setter::new(&cell);
        let future = mem::replace(self, Self::cell(cell));
        Box::new(move |next| {
            let action = Box::new(move |result| {
                target.set(result);
                next();
            });
            future.on_ready(&am, action);
        })
    }

    /// For a task that completes it in the background: from now on it does not keep this rank in the
    /// job. Returns whether it waits for what other ranks do, which only their programs know.
    fn let_go(&mut self) -> bool {
        match &mut self.state {
            State::Event(event, _) => {
                event.let_go();
                event.waits_for_ranks()
            }
            State::Joined(joined) => joined.let_go(),
            State::Ready(_) | State::Answer(_) | State::Cell(_) | State::Taken => false,
        }
    }

    /// The nesting depth of joins.
    fn depth(&self) -> u32 {
        match &self.state {
            State::Joined(joined) => joined.depth(),
            _ => 0,
        }
    }
}

// No field is pinned.
impl<T: Send + 'static> Unpin for PgasFuture<T> {}

impl<T: Send + 'static> Future for PgasFuture<T> {
    type Output = Result<T>;

    /// Progress: user level, unless a driver makes it.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.get_mut();
        if future.is_ready() {
            return Poll::Ready(future.take_ready());
        }
        let Some(am) = future.handle().and_then(Handle::get) else {
            return Poll::Ready(Err(Error::HasLeft));
        };
        if am.driven.is_driven() {
            // A driver that has ended may have woken all tasks before this waker was set.
            if future.watch(cx.waker()) && am.driven.is_driven_still() {
                return Poll::Pending;
            }
        } else if let Some(world) = am.world.upgrade()
            && let Err(error) = world.serve()
        {
            return Poll::Ready(Err(error));
        }
        if future.is_ready() {
            return Poll::Ready(future.take_ready());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<T: Send + 'static> fmt::Debug for PgasFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::Ready(_) => "PgasFuture(ready)",
            State::Taken => "PgasFuture(taken)",
            _ => "PgasFuture(on its way)",
        })
    }
}
