//! A future with copies.

use std::fmt;
use std::future::IntoFuture;

use pgas_core::Result;

use super::{PgasFuture, Promise};

/// A future that can be cloned; each clone gets a clone of the value, and is chained, joined and
/// counted, by reference, as any other operation that [completes](crate::Completes).
///
/// All futures of UPC++ are like this (v1.0 specification, section 5.3). Here a [`PgasFuture`] owns
/// its value, and [`shared`](PgasFuture::shared) makes it a shared one.
///
/// # Examples
///
/// ```
/// use pgas_am::{Completes, RemoteCalls, when_all};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let name = world.rpc(world.rank(), |()| "shared".to_owned(), ())?.shared();
/// let length = name.future().then(|name| name.len());
/// let same = when_all((&name, length));
/// assert_eq!(same.wait()?, (name.wait()?, 6));
/// assert!(name.is_ready());
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "the value is lost if the future is dropped"]
pub struct SharedFuture<T: Clone + Send + 'static>(Source<T>);

#[derive(Clone)]
enum Source<T: Clone + Send + 'static> {
    Ready(Result<T>),
    Promise(Promise<T>),
}

impl<T: Clone + Send + 'static> PgasFuture<T> {
    /// Makes it a future that can be cloned.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// Three allocations, if the value is not there; a clone of the value each time that it is
    /// taken.
    pub fn shared(mut self) -> SharedFuture<T> {
        if self.is_ready() {
            return SharedFuture(Source::Ready(self.take_ready()));
        }
        let handle = self.handle_of_pending();
        let promise = Promise::of_handle(handle);
        // If this rank has left, no value comes any more.
        if let Some(am) = handle.get() {
            let (told, is_wanted) = (promise.clone(), promise.is_wanted_by_others());
            let tell = move |result| match result {
                Ok(value) => told.fulfil_with(value),
                Err(error) => told.fail(error),
            };
            self.pass_on(&am, Box::new(tell), is_wanted);
        }
        SharedFuture(Source::Promise(promise))
    }
}

impl<T: Clone + Send + 'static> SharedFuture<T> {
    /// A future of a clone of the value.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// As [`Promise::future`].
    pub fn future(&self) -> PgasFuture<T> {
        match &self.0 {
            Source::Ready(result) => PgasFuture::of(result.clone()),
            Source::Promise(promise) => promise.future(),
        }
    }

    /// Whether the value is there, or the error. As [`PgasFuture::is_ready`].
    ///
    /// Progress: none.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            Source::Ready(_) => true,
            Source::Promise(promise) => promise.is_told() || promise.has_left(),
        }
    }

    /// Waits for a clone of the value.
    ///
    /// Progress: user level, if the value is not there.
    ///
    /// # Errors
    ///
    /// As [`PgasFuture::wait`].
    #[track_caller]
    pub fn wait(&self) -> Result<T> {
        self.future().wait()
    }
}

impl<T: Clone + Send + 'static> IntoFuture for SharedFuture<T> {
    type Output = Result<T>;
    type IntoFuture = PgasFuture<T>;

    fn into_future(self) -> PgasFuture<T> {
        self.future()
    }
}

impl<T: Clone + Send + 'static> fmt::Debug for SharedFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_ready() {
            "SharedFuture(ready)"
        } else {
            "SharedFuture(on its way)"
        })
    }
}
