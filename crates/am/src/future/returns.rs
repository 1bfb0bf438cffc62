//! What the bodies of remote calls may return besides values: futures, events, and results.

use pgas_core::{Error, Event, Result};

use super::{Completes, PgasFuture};
use crate::codec::Wire;
use crate::function::{Now, Returns, sealed::Sealed};
use crate::state::Handle;

impl<T: Wire + Send> Sealed for PgasFuture<T> {}

impl<T: Wire + Send> Returns for PgasFuture<T> {
    type Value = T;

    fn now(mut self) -> Now<T> {
        if self.is_ready() {
            return self.take_ready().now();
        }
        match self.handle().and_then(Handle::get) {
            Some(am) => Now::Later(Box::new(move |action| self.on_ready(&am, action))),
            None => Now::Failed(Error::HasLeft),
        }
    }
}

impl<T: Wire + Send> Sealed for Event<T> {}

impl<T: Wire + Send> Returns for Event<T> {
    type Value = T;

    fn now(self) -> Now<T> {
        self.future().now()
    }
}

impl<T: Wire + Send> Sealed for Result<T> {}

impl<T: Wire + Send> Returns for Result<T> {
    type Value = T;

    #[inline]
    fn now(self) -> Now<T> {
        self.map_or_else(Now::Failed, Now::Is)
    }
}

impl<T: Wire + Send> Sealed for Result<PgasFuture<T>> {}

impl<T: Wire + Send> Returns for Result<PgasFuture<T>> {
    type Value = T;

    fn now(self) -> Now<T> {
        self.map_or_else(Now::Failed, PgasFuture::now)
    }
}

impl<T: Wire + Send> Sealed for Result<Event<T>> {}

impl<T: Wire + Send> Returns for Result<Event<T>> {
    type Value = T;

    fn now(self) -> Now<T> {
        self.future().now()
    }
}
