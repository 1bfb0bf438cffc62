//! A future that the program fulfils itself, by one value or by many operations.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pgas_core::World;

use super::PgasFuture;
use super::cell::Cell;
use crate::layer::am;
use crate::{Error, Result};

/// A counter of fulfilments that are still missing, and the future that is ready when none is.
///
/// As in UPC++ the counter begins at one, which [`finalize`](Self::finalize) or [`fulfil_with`](Self::fulfil_with) takes
/// away; so it cannot reach zero while operations are still being added. Several operations fulfil one promise, at the price of a counter each
/// instead of a future each. Clones are handles on the same promise.
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
///     world.rpc(world.rank(), |x: u64| drop(x), x)?.fulfils(&promise);
/// }
/// promise.finalize().wait()?; // all hundred are done
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[derive(Clone)]
pub struct Promise<T: Send + 'static = ()> {
    inner: Arc<Inner<T>>,
}

struct Inner<T: Send + 'static> {
    cell: Arc<Cell<T>>,
    n_missing: AtomicU64,
    value: Mutex<Option<T>>,
}

impl<T: Send + 'static> Drop for Inner<T> {
    fn drop(&mut self) {
        // Does nothing if the promise was fulfilled.
        self.cell.set(Err(Error::BrokenPromise));
    }
}

impl Promise {
    /// A promise without a value.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`].
    pub fn new(world: &World) -> Result<Self> {
        Self::with(world, Some(()))
    }
}

impl<T: Send + 'static> Promise<T> {
    /// A promise of a value, which [`fulfil_with`](Self::fulfil_with) brings.
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
    /// let future = promise.future();
    /// promise.fulfil_with("value");
    /// assert_eq!(future.wait()?, "value");
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    pub fn of_value(world: &World) -> Result<Self> {
        Self::with(world, None)
    }

    fn with(world: &World, value: Option<T>) -> Result<Self> {
        let inner = Inner {
            cell: Cell::new(am(world)?.handle, None),
            n_missing: AtomicU64::new(1),
            value: Mutex::new(value),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Asks for `n` further fulfilments.
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

    /// Gives `n` of the fulfilments that were asked for.
    ///
    /// # Panics
    ///
    /// If fewer are missing; if it is the last, and the promised value was not given.
    #[track_caller]
    pub fn fulfil(&self, n: u64) {
        let take = |missing: u64| missing.checked_sub(n);
        // AcqRel: what came before each fulfilment is visible to who sees the value.
        let former = self
            .inner
            .n_missing
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, take);
        let Ok(former) = former else {
            panic!("{n} fulfilments of a promise that needs fewer");
        };
        if former == n && n > 0 {
            let value = self.value().take();
            let value = value.expect("the last fulfilment comes after the promised value");
            self.inner.cell.set(Ok(value));
        }
    }

    /// Gives the promised value, and with it the fulfilment that the counter began with.
    ///
    /// # Panics
    ///
    /// If the value was given before.
    #[track_caller]
    pub fn fulfil_with(&self, value: T) {
        let former = self.value().replace(value);
        assert!(former.is_none(), "a promise has one value");
        self.fulfil(1);
    }

    /// The future of the promised value. The value goes to one future: a second one panics when it takes it.
    pub fn future(&self) -> PgasFuture<T> {
        PgasFuture::cell(Arc::clone(&self.inner.cell))
    }

    fn value(&self) -> std::sync::MutexGuard<'_, Option<T>> {
        self.inner
            .value
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the promise with an error.
    pub fn fail(&self, error: Error) {
        self.inner.cell.set(Err(error));
    }

    /// Nothing more will be asked for: gives the fulfilment that the counter began with, and the future that is
    /// ready when the others are there. Other handles may still fulfil what was asked for.
    ///
    /// # Panics
    ///
    /// If it was called before; if it is the last fulfilment and the promised value was not given.
    #[track_caller]
    pub fn finalize(self) -> PgasFuture<T> {
        let future = self.future();
        self.fulfil(1);
        future
    }
}

impl<T: Send + 'static> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_missing = self.inner.n_missing.load(Ordering::Relaxed);
        write!(f, "Promise({n_missing} missing)")
    }
}
