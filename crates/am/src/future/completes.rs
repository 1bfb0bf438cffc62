//! Operations of core, and futures: both complete with a value, and share one set of methods.

use std::sync::Arc;

use pgas_core::{Event, Result};

use super::cell::Setter;
use super::mark::Mark;
use super::{PgasFuture, Promise, SharedFuture, State};
use crate::state::{Handle, am};

/// An operation that completes with a value, now or later: an [`Event`] of core, a [`PgasFuture`],
/// or a [`SharedFuture`].
///
/// A put, an atomic or a collective in flight is an event; the answer of a call is a future. With
/// this trait, which is in the prelude, all are chained, joined and counted in the same way.
///
/// For an operation that is not complete at once the rank must be [attached](crate::attach()), as
/// it is after `pgas::init` and `pgas::threads`. Otherwise the future has
/// [`Error::NotAttached`](pgas_core::Error::NotAttached).
///
/// # Examples
///
/// ```
/// use pgas_am::{Completes, Promise, RemoteCalls, when_all};
/// use pgas_core::collective::op::Sum;
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let cell = world.alloc::<u64>(1)?;
/// let put = cell.put_nb(&world, 7)?; // a transfer,
/// let call = world.rpc(world.rank(), |x: u64| x + 1, 41)?; // a call,
/// let sum = world.allreduce_nb(5_u64, Sum); // a collective
/// assert_eq!(when_all((put, call, sum)).wait()?, ((), 42, 5));
///
/// let (same, at) = (world.clone(), cell);
/// let read = cell.put_nb(&world, 8)?.and_then(move |()| at.get_nb(&same));
/// assert_eq!(read.wait()?, 8);
///
/// let promise = Promise::new(&world)?;
/// cell.put_nb(&world, 9)?.fulfils(&promise);
/// promise.finalize().wait()?;
///
/// let nine = cell.get_nb(&world)?.shared(); // for several users
/// let (ten, both) = (nine.then(|n| n + 1), when_all((&nine, &nine)));
/// assert_eq!((ten.wait()?, both.wait()?), (10, (9, 9)));
/// assert!(cell.get_nb(&world)?.future().wait()? == 9); // where a `PgasFuture` is wanted
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub trait Completes: Sized {
    /// The type of the value.
    type Value: Send + 'static;

    /// The future of the value.
    ///
    /// # Cost
    ///
    /// An allocation for an event that is not complete.
    fn future(self) -> PgasFuture<Self::Value>;

    /// As [`PgasFuture::then`].
    fn then<U: Send + 'static>(
        self,
        action: impl FnOnce(Self::Value) -> U + Send + 'static,
    ) -> PgasFuture<U> {
        self.future().then(action)
    }

    /// As [`PgasFuture::and_then`].
    fn and_then<N: Completes + 'static>(
        self,
        action: impl FnOnce(Self::Value) -> N + Send + 'static,
    ) -> PgasFuture<N::Value> {
        self.future().and_then(action)
    }

    /// As [`PgasFuture::fulfils`].
    ///
    /// # Panics
    ///
    /// If the promise was fulfilled already.
    #[track_caller]
    fn fulfils(self, promise: &Promise) {
        self.future().fulfils(promise);
    }

    /// As [`PgasFuture::shared`].
    fn shared(self) -> SharedFuture<Self::Value>
    where
        Self::Value: Clone,
    {
        self.future().shared()
    }
}

impl<T: Send + 'static> PgasFuture<T> {
    /// As [`then`](Self::then), with an `action` that begins another operation. Returns a future of
    /// the value of that operation. As there, a handle on the world that `action` captures keeps the
    /// rank in the job until it has run.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// Three allocations if the value is not there, or two behind another `and_then`, and two if the
    /// second operation is not complete at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::{Completes, RemoteCalls};
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let cell = world.alloc::<u64>(1)?;
    /// cell.put(&world, 7)?;
    /// let same = world.clone();
    /// let seven = world.rpc(cell.rank(), |at| at, cell)?; // asks for the address,
    /// let seven = seven.and_then(move |at| at.get_nb(&same)); // then reads the word
    /// assert_eq!(seven.wait()?, 7);
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[doc(alias = "flat_map")]
    pub fn and_then<N: Completes>(
        mut self,
        action: impl FnOnce(T) -> N + Send + 'static,
    ) -> PgasFuture<N::Value> {
        let is_pending = !self.is_ready();
        let mark = is_pending.then(|| self.mark().unwrap_or_default());
        self.follow(mark, action)
    }

    /// As [`and_then`](Self::and_then), for a call, which needs no mark: nothing is lost with it.
    pub(crate) fn and_call<N: Completes>(
        self,
        action: impl FnOnce(T) -> N + Send + 'static,
    ) -> PgasFuture<N::Value> {
        let mark = self.mark();
        self.follow(mark, action)
    }

    fn follow<N: Completes>(
        mut self,
        mark: Option<Arc<Mark>>,
        action: impl FnOnce(T) -> N + Send + 'static,
    ) -> PgasFuture<N::Value> {
        let begin = move |value| pgas_core::as_handler(|| action(value).future());
        if self.is_ready() {
            return self.take_ready().map_or_else(PgasFuture::failed, begin);
        }
        let handle = self.handle_of_pending();
        let cell = self.next_cell_with(handle, mark);
        let target = Setter::new(&cell);
        if let Some(am) = handle.get() {
            let action = move |result: Result<T>| match result {
                Ok(value) => begin(value).leave(target),
                Err(error) => target.set(Err(error)),
            };
            self.on_ready(&am, Box::new(action));
        }
        PgasFuture::cell(cell)
    }

    /// Passes the value to `target` when it is available.
    fn leave(mut self, target: Setter<T>) {
        if self.is_ready() {
            target.set(self.take_ready());
        } else if let Some(am) = self.handle().and_then(Handle::get) {
            if let Some(mark) = target.mark() {
                self.pass_mark(&mut Some(Arc::clone(mark)));
                if self.fails_at_limit() {
                    mark.set();
                }
            }
            self.on_ready(&am, Box::new(move |result| target.set(result)));
        }
    }
}

impl<T: Send + 'static> Completes for PgasFuture<T> {
    type Value = T;

    #[inline]
    fn future(self) -> Self {
        self
    }
}

/// By reference, since others wait for it, too.
impl<T: Clone + Send + 'static> Completes for &SharedFuture<T> {
    type Value = T;

    /// A future of a clone of the value. Its cost is that of [`Promise::future`].
    fn future(self) -> PgasFuture<T> {
        SharedFuture::future(self)
    }
}

impl<T: Send + 'static> Completes for Event<T> {
    type Value = T;

    fn future(mut self) -> PgasFuture<T> {
        match self.is_complete() {
            Ok(true) => return PgasFuture::of(pgas_core::as_handler(|| self.wait())),
            Ok(false) => {}
            Err(error) => return PgasFuture::failed(error),
        }
        let Some(world) = self.world() else {
            return PgasFuture::of(self.wait());
        };
        match am(world).map(|am| am.handle) {
            Ok(handle) => PgasFuture {
                state: State::Event(Box::new(self), handle),
            },
            Err(error) => PgasFuture::failed(error),
        }
    }
}

/// An operation that could not be begun completes with the error. So the action of a chain may
/// return the [`Result`] of beginning an operation.
impl<C: Completes> Completes for Result<C> {
    type Value = C::Value;

    fn future(self) -> PgasFuture<C::Value> {
        match self {
            Ok(begun) => begun.future(),
            Err(error) => PgasFuture::failed(error),
        }
    }
}
