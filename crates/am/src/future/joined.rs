//! What a future asks of several that are waited for as one.

use std::task::Waker;

use pgas_core::Rank;

use super::actions;
use super::cell::Action;
use crate::state::Handle;
use pgas_core::Result;

/// Futures that are waited for together.
pub(super) trait Joined<T>: Send {
    fn is_ready(&mut self) -> bool;
    /// The values, which are there.
    fn take(&mut self) -> Result<T>;
    /// What one of them belongs to that is not ready.
    fn handle(&self) -> Option<Handle>;
    /// Has a driver wake `waker` when one of them is ready that is not; `false` if it will not.
    fn watch(&mut self, waker: &Waker) -> bool;
    /// Takes the first of them out that is not ready, and leaves a cell's future in its place.
    fn detach_first(&mut self) -> Detached;
    /// Joins inside of joins.
    fn depth(&self) -> u32;
    /// Adds the ranks whose answers are missing.
    fn awaited(&self, ranks: &mut Vec<Rank>);
}

/// Has something run when a future that was detached is ready.
pub(super) type Detached = Box<dyn FnOnce(Box<dyn FnOnce() + Send>) + Send>;

/// Runs `action` on the values when all are there.
pub(super) fn on_ready<T: Send + 'static>(mut joined: Box<dyn Joined<T>>, action: Action<T>) {
    if joined.is_ready() {
        let values = joined.take();
        actions::run(move || action(values));
        return;
    }
    let first = joined.detach_first();
    first(Box::new(move || on_ready(joined, action)));
}
