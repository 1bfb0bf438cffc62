//! Non-blocking transfers on borrowed buffers, all complete when their scope ends.
#![expect(unsafe_code, reason = "calls the backend on checked addresses")]

use std::cell::RefCell;
use std::marker::PhantomData;
use std::thread;
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use super::is_long;
use crate::backend::{Get, OpId, Put, Stage};
use crate::cost::CostKind;
use crate::waits::Awaited;
use crate::{Error, GlobalPtr, Pod, Result, World};

/// How long transfers may take to complete after the job has failed.
const GRACE: Duration = Duration::from_secs(1);

/// Where transfers on borrowed buffers are begun; made by [`World::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    world: &'env World,
    ops: RefCell<Vec<OpId>>,
    // Invariant lifetimes, as in `std::thread::Scope`: a buffer must outlive the scope.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scope({} in flight)", self.ops.borrow().len())
    }
}

impl World {
    /// Runs `body`, which may begin transfers on buffers that it borrows, and returns when all of
    /// them are complete, also when `body` panics.
    ///
    /// # Cost
    ///
    /// That of the transfers, which overlap.
    ///
    /// # Errors
    ///
    /// Errors of the transport, or the failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = world.alloc::<u64>(4)?;
    /// let (mut low, mut high) = ([0; 2], [0; 2]);
    /// array.put_slice(&world, &[1, 2, 3, 4])?;
    /// world.scope(|scope| {
    ///     scope.get(array, &mut low)?;
    ///     scope.get(array.add(2), &mut high)
    /// })??;
    /// assert_eq!((low, high), ([1, 2], [3, 4]));
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    ///
    /// A buffer that dies in the scope is refused:
    ///
    /// ```compile_fail,E0597
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = world.alloc::<u64>(4).unwrap();
    /// world.scope(|scope| {
    ///     let mut buffer = [0; 4];
    ///     scope.get(array, &mut buffer).unwrap();
    /// }).unwrap();
    /// ```
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> Result<R> {
        let scope = Scope {
            world: self,
            ops: RefCell::default(),
            scope: PhantomData,
            env: PhantomData,
        };
        let guard = Completion(&scope);
        let result = body(&scope);
        // Handlers run meanwhile, and one that panics unwinds through here, too.
        let completed = scope.complete();
        #[expect(clippy::mem_forget, reason = "the line before did what its drop would")]
        std::mem::forget(guard);
        completed?;
        Ok(result)
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Begins to read `out.len()` elements.
    ///
    /// # Cost
    ///
    /// R. One-sided. Complete at the end of the scope.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then nothing was begun.
    ///
    /// # Panics
    ///
    /// As [`GlobalPtr::get_slice`].
    #[track_caller]
    pub fn get<T: Pod>(&'scope self, ptr: GlobalPtr<T>, out: &'scope mut [T]) -> Result<()> {
        let from = self.world.checked(ptr, out.len());
        if self.world.memory().base(from.rank()).is_some() || is_long::<T>(self.world, out.len()) {
            return ptr.get_slice(self.world, out);
        }
        let bytes = out.as_mut_bytes();
        self.world
            .count(CostKind::Read, Some(from.rank()), 1, bytes.len());
        // SAFETY: `checked` found the range inside a segment. `out` is borrowed for `'scope`, which
        // ends after `World::scope` has returned or unwound, and before that `complete` or the
        // guard's drop has seen the operation complete.
        let get = unsafe { Get::new(from.at(), bytes.as_mut_ptr(), bytes.len()) };
        self.note(self.world.backend().get_nb(get)?);
        Ok(())
    }

    /// Begins to write the elements of `values`; at the end of the scope they are at the target.
    ///
    /// # Cost
    ///
    /// W. One-sided. Complete at the end of the scope.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then nothing was begun.
    ///
    /// # Panics
    ///
    /// As [`GlobalPtr::put_slice`].
    #[track_caller]
    pub fn put<T: Pod>(&'scope self, ptr: GlobalPtr<T>, values: &'scope [T]) -> Result<()> {
        let to = self.world.checked(ptr, values.len());
        if self.world.memory().base(to.rank()).is_some() || is_long::<T>(self.world, values.len()) {
            return ptr.put_slice(self.world, values);
        }
        let bytes = values.as_bytes();
        self.world
            .count(CostKind::Write, Some(to.rank()), 1, bytes.len());
        // SAFETY: as in `get`: the range is inside a segment, and `values` stays borrowed until the
        // operation is complete.
        let put = unsafe { Put::new(to.at(), bytes.as_ptr(), bytes.len()) };
        self.note(self.world.backend().put_nb(put)?);
        Ok(())
    }

    /// Something is in flight, or complete already. Of a flood that has one id for all its
    /// operations one is enough.
    fn note(&self, op: OpId) {
        let mut ops = self.ops.borrow_mut();
        if op != OpId::DONE && ops.last() != Some(&op) {
            ops.push(op);
        }
    }

    /// Waits for what is in flight. Unwinding leaves what is not complete yet in the list, for
    /// another call.
    #[track_caller]
    fn complete(&self) -> Result<()> {
        let mut failure = None;
        let backend = self.world.backend();
        let mut is_empty = || {
            let mut ops = self.ops.borrow_mut();
            ops.retain(|op| match backend.test(*op, Stage::Operation) {
                Ok(done) => !done,
                Err(error) => {
                    failure = Some(error);
                    false
                }
            });
            ops.is_empty()
        };
        let waited = self
            .world
            .wait_until(&Awaited::new("the transfers of a scope"), || Ok(is_empty()));
        if let Err(error) = waited {
            self.give_up(error, is_empty)?;
        }
        self.world.flush_all()?;
        failure.map_or(Ok(()), Err)
    }

    /// Returns the error of a failed wait once no transfer is left, which may still come about;
    /// else the network may write into the caller's buffers, returning would be unsound, and the
    /// job ends.
    fn give_up(&self, error: Error, mut is_empty: impl FnMut() -> bool) -> Result<()> {
        let began = Instant::now();
        while !is_empty() {
            if began.elapsed() > GRACE || self.world.backend().progress().is_err() {
                let text = format!("a scope's transfers cannot be completed: {error}");
                let _no_return = AbortOnUnwind;
                self.world.abort(1, &text);
            }
            thread::yield_now();
        }
        Err(error)
    }
}

/// Ends the process where a backend's abort only ends a thread: an unwinding thread would free the
/// buffers that the network may still write into.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Completes a scope whose body panics, or in which a handler does while it is completed. A second
/// panic then ends the process.
struct Completion<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

impl Drop for Completion<'_, '_, '_> {
    fn drop(&mut self) {
        // The panic that unwinds through here is the error that matters.
        drop(self.0.complete());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::backend::{HandlerId, MessageClass, Sent, loopback};

    #[test]
    fn a_handler_that_panics_while_a_scope_ends_leaves_no_transfer_in_flight() {
        let world = loopback::world();
        let id = HandlerId(HandlerId::N_RESERVED);
        world.set_handler(id, |_, _| panic!("in a handler"));
        let cell = world.alloc::<u64>(1).unwrap();
        cell.put(&world, 7).unwrap();
        let sent = world.try_send(world.rank(), MessageClass::Request, id, &[b"x"]);
        assert_eq!(sent.unwrap(), Sent::Accepted);
        let mut out = [0];
        let scope = || world.scope(|scope| scope.get(cell, &mut out).unwrap());
        assert!(catch_unwind(AssertUnwindSafe(scope)).is_err());
        assert_eq!(
            out,
            [7],
            "what was borrowed is written before the borrow ends"
        );
        cell.put(&world, 8).unwrap();
        for _ in 0..10 {
            world.progress().unwrap();
        }
        assert_eq!(out, [7], "and not later");
    }
}
