//! Promises: futures that the program fulfils itself, by one value or by many operations.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use pgas_core::World;

use super::cell::{Cell, Wanted};
use super::{PgasFuture, actions};
use crate::state::{Handle, am};
use pgas_core::{Error, Result};

/// A counter of missing fulfilments, and a future that is ready when none is missing.
///
/// As in UPC++ the counter begins at one, and [`finalize`](Self::finalize) or
/// [`fulfil_with`](Self::fulfil_with) gives this fulfilment. So the counter cannot reach zero while
/// operations are still being added. Many operations can fulfil one promise; each costs an update
/// of the counter instead of a future. Clones are handles on the same promise.
///
/// # Examples
///
/// ```
/// use pgas_am::{Promise, RemoteCalls};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let promise = Promise::new(&world)?;
/// for x in 0..100 {
///     world.rpc(world.rank(), |_: u64| (), x)?.fulfils(&promise);
/// }
/// promise.finalize().wait()?; // all hundred are done
/// # Ok::<(), pgas_am::Error>(())
/// ```
///
/// Fulfilled by hand, or ended by an error:
///
/// ```
/// use pgas_am::{Error, Promise};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let promise = Promise::new(&world)?; // one fulfilment is missing: that of `finalize`
/// promise.require(2);
/// let mut done = promise.future();
/// promise.fulfil(2);
/// assert!(!done.is_ready());
/// promise.finalize().wait()?;
/// assert!(done.is_ready());
///
/// let refused = Promise::<u64>::of_value(&world)?;
/// let value = refused.future();
/// refused.fail(Error::BrokenPromise);
/// assert!(matches!(value.wait(), Err(Error::BrokenPromise)));
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[derive(Clone)]
pub struct Promise<T: Clone + Send + 'static = ()> {
    inner: Arc<Inner<T>>,
}

struct Inner<T: Clone + Send + 'static> {
    handle: Handle,
    n_missing: AtomicU64,
    state: Mutex<State<T>>,
}

/// Values are cloned and dropped only while this is not locked, since that runs the user's code.
struct State<T> {
    value: Value<T>,
    /// The futures that wait for it.
    cells: Vec<Arc<Cell<T>>>,
    /// The number of cells at which unwanted ones are removed.
    next_sweep: usize,
}

enum Value<T> {
    /// The value was not given yet.
    Missing,
    /// The value was given; fulfilments are missing.
    Given(T),
    /// The value or an error was passed to all futures.
    Told(Result<T>),
    /// A thread is passing the value, or an error, to futures. It checks again for new cells before
    /// it stores that here.
    BeingTold(What),
    /// The value or an error was told. This thread clones it for a further future.
    Lent(What, ThreadId),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Value,
    Error,
}

impl What {
    fn of<T>(result: &Result<T>) -> Self {
        if result.is_ok() {
            Self::Value
        } else {
            Self::Error
        }
    }
}

/// Links of a chain of shared futures at which is looked for one that is wanted.
const DEPTH: u32 = 8;

impl<T: Clone + Send + 'static> Inner<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the promise with an error, unless it has ended.
    fn end(&self, error: Error) {
        let mut state = self.lock();
        if !matches!(state.value, Value::Missing | Value::Given(_)) {
            return;
        }
        let former = mem::replace(&mut state.value, Value::BeingTold(What::Error));
        drop(state);
        self.tell(Err(error));
        drop(former);
    }

    /// Passes the result to all futures. The caller has set the state to `BeingTold`.
    fn tell(&self, result: Result<T>) {
        self.telling(result).tell();
    }

    fn telling(&self, result: Result<T>) -> Telling<'_, T> {
        Telling {
            inner: self,
            result: Some(result),
            cells: Vec::new(),
        }
    }
}

/// Passes a value to futures. If its clone panics, the remaining futures get an error.
struct Telling<'a, T: Clone + Send + 'static> {
    inner: &'a Inner<T>,
    /// `None` once it is over.
    result: Option<Result<T>>,
    /// The cells to set, in reverse order.
    cells: Vec<Arc<Cell<T>>>,
}

impl<T: Clone + Send + 'static> Telling<'_, T> {
    fn tell(mut self) {
        actions::scope(|| {
            while self.take_cells() {
                while let Some(cell) = self.cells.last() {
                    if cell.is_wanted(DEPTH)
                        && let Some(clone) = self.result.clone()
                    {
                        cell.set(clone);
                    }
                    self.cells.pop();
                }
            }
        });
    }

    /// Takes the cells to set. If there are none, stores the result for later futures and returns
    /// `false`.
    fn take_cells(&mut self) -> bool {
        let mut state = self.inner.lock();
        if state.cells.is_empty()
            && let Some(result) = self.result.take()
        {
            state.value = Value::Told(result);
            return false;
        }
        self.cells = mem::take(&mut state.cells);
        self.cells.reverse();
        true
    }
}

impl<T: Clone + Send + 'static> Drop for Telling<'_, T> {
    fn drop(&mut self) {
        if self.result.take().is_none() {
            return;
        }
        let mut state = self.inner.lock();
        state.value = Value::Told(Err(Error::BrokenPromise));
        self.cells.append(&mut state.cells);
        drop(state);
        let cells = mem::take(&mut self.cells);
        actions::scope(|| {
            for cell in cells {
                cell.set(Err(Error::BrokenPromise));
            }
        });
    }
}

impl<T: Clone + Send + 'static> Drop for Inner<T> {
    fn drop(&mut self) {
        // Does nothing if the promise was fulfilled. What is chained may send: in a forked child that
        // is the parent's to do.
        let is_told = matches!(self.lock().value, Value::Told(_));
        if !is_told && !self.handle.is_forked() {
            self.end(Error::BrokenPromise);
        }
    }
}

impl<U: Send + 'static> PgasFuture<U> {
    /// Makes this operation fulfil `promise`: [`require`](Promise::require)s one fulfilment now,
    /// and gives it when the value is there. An error ends the promise with this error.
    ///
    /// # Panics
    ///
    /// If the promise was fulfilled already.
    #[track_caller]
    pub fn fulfils(self, promise: &Promise) {
        promise.require(1);
        let duty = Duty(Some(promise.clone()));
        drop(self.map_result(move |result| {
            duty.meet(result.map(drop));
            Ok(())
        }));
    }
}

/// The obligation to fulfil a promise once. Its drop ends the promise with an error.
struct Duty(Option<Promise>);

impl Duty {
    fn meet(mut self, result: Result<()>) {
        if let Some(promise) = self.0.take() {
            match result {
                Ok(()) => promise.fulfil(1),
                Err(error) => promise.fail(error),
            }
        }
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        if let Some(promise) = self.0.take()
            && !promise.inner.handle.is_forked()
        {
            promise.fail(Error::BrokenPromise);
        }
    }
}

impl Promise {
    /// A promise without a value.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`].
    pub fn new(world: &World) -> Result<Self> {
        Self::with(world, Value::Given(()))
    }
}

impl<T: Clone + Send + 'static> Promise<T> {
    /// A promise of a value, which [`fulfil_with`](Self::fulfil_with) gives.
    ///
    /// Each future of the promise gets a clone of the value. Put a value that is large or cannot be
    /// cloned into an [`Arc`].
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`].
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::Promise;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let promise = Promise::of_value(&world)?;
    /// let (future, other) = (promise.future(), promise.future().then(str::len));
    /// promise.fulfil_with("value");
    /// assert_eq!(future.wait()?, "value");
    /// assert_eq!(other.wait()?, 5);
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    pub fn of_value(world: &World) -> Result<Self> {
        Self::with(world, Value::Missing)
    }

    fn with(world: &World, value: Value<T>) -> Result<Self> {
        Ok(Self::of(am(world)?.handle, value))
    }

    /// A promise of a value to the futures of a rank.
    pub(super) fn of_handle(handle: Handle) -> Self {
        Self::of(handle, Value::Missing)
    }

    /// Whether the futures of the promise are ready.
    pub(super) fn is_told(&self) -> bool {
        match self.inner.lock().value {
            Value::Told(_) => true,
            Value::Lent(_, by) => by != thread::current().id(),
            Value::Missing | Value::Given(_) | Value::BeingTold(_) => false,
        }
    }

    /// Whether the rank has left: a future without a value has an error then.
    pub(super) fn has_left(&self) -> bool {
        self.inner.handle.get().is_none()
    }

    /// Whether there is another handle on the promise besides this one, or a future that waits for
    /// it, as long as this one is there.
    pub(super) fn is_wanted_by_others(&self) -> Wanted {
        let inner = Arc::downgrade(&self.inner);
        Box::new(move |depth| {
            let Some(inner) = inner.upgrade() else {
                return false;
            };
            // This handle's reference, and the one of a moment ago.
            if depth == 0 || Arc::strong_count(&inner) > 2 {
                return true;
            }
            let state = inner.lock();
            state.cells.iter().any(|cell| cell.is_wanted(depth - 1))
        })
    }

    fn of(handle: Handle, value: Value<T>) -> Self {
        let inner = Inner {
            handle,
            n_missing: AtomicU64::new(1),
            state: Mutex::new(State {
                value,
                cells: Vec::new(),
                next_sweep: 8,
            }),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Requires `n` more fulfilments.
    ///
    /// # Panics
    ///
    /// If the promise was fulfilled already, or would need 2^64 fulfilments.
    #[track_caller]
    pub fn require(&self, n: u64) {
        let add = |missing: u64| {
            assert!(missing > 0, "the promise was fulfilled already");
            missing.checked_add(n)
        };
        let added = self
            .inner
            .n_missing
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        assert!(added.is_ok(), "a promise has less than 2^64 fulfilments");
    }

    /// Gives `n` of the required fulfilments.
    ///
    /// # Panics
    ///
    /// If fewer are missing; if it gives the last one, and the promised value was not given.
    #[track_caller]
    pub fn fulfil(&self, n: u64) {
        let take = |missing: u64| missing.checked_sub(n);
        // AcqRel: a thread that sees the value sees what came before each fulfilment.
        let former = self
            .inner
            .n_missing
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, take);
        let Ok(former) = former else {
            panic!("the promise needs fewer fulfilments than the {n} that are given");
        };
        if former == n && n > 0 {
            let mut state = self.inner.lock();
            match mem::replace(&mut state.value, Value::BeingTold(What::Value)) {
                Value::Given(value) => {
                    drop(state);
                    self.inner.tell(Ok(value));
                }
                // The promise has failed before.
                former @ (Value::Told(_) | Value::BeingTold(_) | Value::Lent(..)) => {
                    state.value = former;
                }
                Value::Missing => {
                    state.value = Value::Missing;
                    drop(state);
                    panic!("the last fulfilment comes after the promised value");
                }
            }
        }
    }

    /// Gives the promised value, and the fulfilment with which the counter began.
    ///
    /// # Panics
    ///
    /// If the value was given before.
    #[track_caller]
    pub fn fulfil_with(&self, value: T) {
        let mut state = self.inner.lock();
        match &state.value {
            Value::Missing => {
                state.value = Value::Given(value);
                drop(state);
                self.fulfil(1);
            }
            // The promise has failed before, so no future gets the value.
            Value::Told(Err(_)) | Value::BeingTold(What::Error) | Value::Lent(What::Error, _) => {
                drop(state);
            }
            Value::Given(_)
            | Value::Told(Ok(_))
            | Value::BeingTold(What::Value)
            | Value::Lent(What::Value, _) => {
                drop(state);
                panic!("a promise has one value");
            }
        }
    }

    /// A future of the promised value. It may be called any number of times, also after the promise
    /// was fulfilled.
    ///
    /// # Cost
    ///
    /// If the value is not there an allocation, and now and then one for a longer list of futures;
    /// else a clone of the value.
    pub fn future(&self) -> PgasFuture<T> {
        let mut state = self.inner.lock();
        let me = thread::current().id();
        // A future of a value that was told is ready. The value comes back when it was cloned.
        while matches!(state.value, Value::Lent(_, by) if by != me) {
            drop(state);
            thread::yield_now();
            state = self.inner.lock();
        }
        if let Value::Told(result) = &state.value {
            let lent = Value::Lent(What::of(result), me);
            let Value::Told(result) = mem::replace(&mut state.value, lent) else {
                unreachable!("it was told a moment ago");
            };
            drop(state);
            let telling = self.inner.telling(result);
            let clone = telling.result.clone();
            telling.tell();
            let Some(clone) = clone else {
                unreachable!("it was given a moment ago");
            };
            return PgasFuture::of(clone);
        }
        let mut unwanted = Vec::new();
        if state.cells.len() >= state.next_sweep {
            let cells = mem::take(&mut state.cells);
            (state.cells, unwanted) = cells.into_iter().partition(|cell| cell.is_wanted(DEPTH));
            state.next_sweep = (2 * state.cells.len()).max(8);
        }
        let cell = Cell::new(self.inner.handle, None);
        state.cells.push(Arc::clone(&cell));
        drop(state);
        drop(unwanted);
        PgasFuture::cell(cell)
    }

    /// Ends the promise with an error.
    pub fn fail(&self, error: Error) {
        self.inner.end(error);
    }

    /// Gives the fulfilment with which the counter began: no more will be required. Returns a
    /// future that is ready when the other fulfilments are given; other handles may still give
    /// them.
    ///
    /// # Panics
    ///
    /// If it was called before; if it gives the last fulfilment, and the promised value was not
    /// given.
    #[track_caller]
    pub fn finalize(self) -> PgasFuture<T> {
        let future = self.future();
        self.fulfil(1);
        future
    }
}

impl<T: Clone + Send + 'static> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_missing = self.inner.n_missing.load(Ordering::Relaxed);
        write!(f, "Promise({n_missing} missing)")
    }
}
