//! The interface of several futures that are joined to one.

use std::sync::Arc;
use std::task::Waker;

use pgas_core::Rank;

use super::actions;
use super::cell::Action;
use super::mark::Mark;
use crate::state::Handle;
use pgas_core::Result;

/// Futures that are waited for together.
pub(super) trait Joined<T>: Send {
    fn is_ready(&mut self) -> bool;
    /// Takes the values, which must be available.
    fn take(&mut self) -> Result<T>;
    /// The rank's state that one unready future belongs to.
    fn handle(&self) -> Option<Handle>;
    /// Asks a driver to wake `waker` when one of the unready futures is ready; `false` if there is
    /// none.
    fn watch(&mut self, waker: &Waker) -> bool;
    /// Detaches the first unready future, and leaves a cell's future in its place.
    fn detach_first(&mut self) -> Detached;
    /// As that of a single future, for each of them.
    fn let_go(&mut self) -> bool;
    /// Whether the job fails if a time limit ends the wait for one of them.
    fn fails_at_limit(&self) -> bool;
    /// As that of a single future, for each of them.
    fn pass_marks(&self, next: &mut Option<Arc<Mark>>);
    /// The nesting depth of joins.
    fn depth(&self) -> u32;
    /// Adds the ranks whose answers are missing.
    fn awaited(&self, ranks: &mut Vec<Rank>);
}

/// Runs a callback when a detached future is ready.
pub(super) type Detached = Box<dyn FnOnce(Box<dyn FnOnce() + Send>) + Send>;

/// Runs `action` on the values when all are there.
pub(super) fn on_ready<T: Send + 'static>(mut joined: Box<dyn Joined<T>>, action: Action<T>) {
    if !joined.is_ready() {
        // Once: those behind the first one wait in its action.
        joined.let_go();
    }
    in_turn(joined, action);
}

/// Waits for one after the other, each in the action of the one before it.
fn in_turn<T: Send + 'static>(mut joined: Box<dyn Joined<T>>, action: Action<T>) {
    if joined.is_ready() {
        actions::run_on(action, || joined.take());
        return;
    }
    let first = joined.detach_first();
    first(Box::new(move || in_turn(joined, action)));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use pgas_core::backend::loopback;

    use super::*;
    use crate::future::{PgasFuture, Promise};

    const N: usize = 10;

    /// Futures, of which the first `n_ready` are ready. Counts how often they are let go.
    struct Counting {
        futures: Vec<PgasFuture<u64>>,
        n_ready: usize,
        n_let_go: Arc<AtomicU32>,
    }

    impl Joined<u64> for Counting {
        fn is_ready(&mut self) -> bool {
            let rest = self.futures[self.n_ready..].iter_mut();
            self.n_ready += rest.map_while(|f| f.is_ready().then_some(())).count();
            self.n_ready == N
        }

        fn take(&mut self) -> Result<u64> {
            self.futures.iter_mut().map(PgasFuture::take_ready).sum()
        }

        fn detach_first(&mut self) -> Detached {
            self.futures[self.n_ready].detach()
        }

        fn let_go(&mut self) -> bool {
            self.n_let_go.fetch_add(1, Ordering::Relaxed);
            false
        }

        fn handle(&self) -> Option<Handle> {
            None
        }

        fn watch(&mut self, _: &Waker) -> bool {
            false
        }

        fn fails_at_limit(&self) -> bool {
            false
        }

        fn pass_marks(&self, _: &mut Option<Arc<Mark>>) {}

        fn depth(&self) -> u32 {
            1
        }

        fn awaited(&self, _: &mut Vec<Rank>) {}
    }

    /// Each time takes time for all of them.
    #[test]
    fn futures_that_are_ready_one_by_one_are_let_go_once() {
        let world = loopback::world();
        crate::attach(&world).unwrap();
        let promises = [(); N].map(|()| Promise::of_value(&world).unwrap());
        let (n_let_go, sum) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let all = Counting {
            futures: promises.iter().map(Promise::future).collect(),
            n_ready: 0,
            n_let_go: Arc::clone(&n_let_go),
        };
        let seen = Arc::clone(&sum);
        let keep = move |all: Result<u64>| {
            let all = u32::try_from(all.unwrap()).unwrap();
            seen.store(all, Ordering::Relaxed);
        };
        on_ready(Box::new(all), Box::new(keep));
        (1..)
            .zip(&promises)
            .for_each(|(n, promise)| promise.fulfil_with(n));
        assert_eq!(sum.load(Ordering::Relaxed), 55);
        assert_eq!(n_let_go.load(Ordering::Relaxed), 1);
    }
}
