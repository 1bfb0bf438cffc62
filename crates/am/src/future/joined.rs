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
    if joined.is_ready() {
        actions::run_on(action, || joined.take());
        return;
    }
    // Those behind the first one wait in its action.
    joined.let_go();
    let first = joined.detach_first();
    first(Box::new(move || on_ready(joined, action)));
}
