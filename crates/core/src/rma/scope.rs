//! Non-blocking transfers on borrowed buffers, all complete when their scope ends.
#![expect(unsafe_code, reason = "calls the backend on checked addresses")]

use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use super::checked::Corner;
use super::fragments::blocks;
use super::parts::Parts;
use super::signal::put_and_signal;
use super::{Fragment, Strides, is_long};
use crate::backend::{Atomic, Backend, Get, OpId, Operand, Put, SignalUpdate, Stage};
use crate::cost::CostKind;
use crate::handler::refuse_in_handler;
use crate::waits::{Awaited, part_of_at};
use crate::{Error, GlobalPtr, Pod, Result, World};

/// What the end of a scope waits for.
const TRANSFERS: &str = "the transfers of a scope";
/// The time that transfers have to complete after the job has failed, or the limit of their wait is
/// over.
const GRACE: Duration = Duration::from_secs(1);

/// Begins transfers on borrowed buffers; from [`World::scope`].
///
/// # Examples
///
/// Transfers of every shape:
///
/// ```
/// use pgas_core::rma::{Fragment, Strides};
///
/// # let world = pgas_core::backend::loopback::world();
/// let array = world.alloc::<u64>(12)?;
/// let grid = Strides { extents: [2, 2], global: [6, 1], local: [2, 1] };
/// let pieces = [Fragment { ptr: array.add(2), len: 1 }, Fragment { ptr: array.add(4), len: 2 }];
/// let (corner, others, last) = ([1, 2, 3, 4], [5, 6, 7], [8, 9]);
/// world.scope(|scope| {
///     scope.put_strided(array, &grid, &corner)?;
///     scope.put_fragments(&pieces, &others)?;
///     scope.put_indexed(array, &[10, 11], 1, &last)
/// })??; // all are there
/// let (mut a, mut b, mut c) = ([0; 4], [0; 3], [0; 2]);
/// world.scope(|scope| {
///     scope.get_strided(array, &grid, &mut a)?;
///     scope.get_fragments(&pieces, &mut b)?;
///     scope.get_indexed(array, &[10, 11], 1, &mut c)
/// })??;
/// assert_eq!((a, b, c), (corner, others, last));
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    world: &'env World,
    ops: RefCell<Vec<OpId>>,
    /// The puts that signals follow.
    signalled: RefCell<Vec<Signalled>>,
    // Invariant lifetimes, as in `std::thread::Scope`: a buffer must outlive the scope.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// A put that is followed by a signal.
struct Signalled {
    /// Its parts that are not complete.
    ops: Vec<OpId>,
    signal: Atomic,
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scope({} in flight)", self.ops.borrow().len())
    }
}

impl World {
    /// Runs `body`, which may begin transfers on borrowed buffers. Returns, or unwinds if `body`
    /// panics, when all of them are complete.
    ///
    /// # Cost
    ///
    /// That of the transfers, which overlap.
    ///
    /// # Errors
    ///
    /// Errors of the transport, or the failure of the job while waiting; [`Error::Timeout`] after
    /// [`Config::timeout`](crate::Config::timeout). If the transfers are not complete a second after
    /// such a failure or timeout, the process ends, since the network could still write into the
    /// buffers. [`Error::InHandler`] inside a handler; then `body` is not called.
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
    /// A buffer that does not outlive the scope does not compile:
    ///
    /// ```compile_fail,E0597
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = world.alloc::<u64>(4).unwrap();
    /// world.scope(|scope| {
    ///     let mut buffer = [0; 4];
    ///     scope.get(array, &mut buffer).unwrap();
    /// }).unwrap();
    /// ```
    #[track_caller]
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> Result<R> {
        // Before `body` begins transfers, since none may be waited for.
        refuse_in_handler(TRANSFERS)?;
        let scope = Scope {
            world: self,
            ops: RefCell::default(),
            signalled: RefCell::default(),
            scope: PhantomData,
            env: PhantomData,
        };
        let guard = Completion {
            scope: &scope,
            from: Location::caller(),
        };
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
    /// Errors of the transport; then nothing was begun, or a part of a long transfer, which is over
    /// when the scope ends.
    ///
    /// # Panics
    ///
    /// As [`GlobalPtr::get_slice`].
    #[track_caller]
    pub fn get<T: Pod>(&'scope self, ptr: GlobalPtr<T>, out: &'scope mut [T]) -> Result<()> {
        let from = self.world.checked(ptr, out.len());
        if self.world.memory().base(from.rank()).is_some() {
            return ptr.get_slice(self.world, out);
        }
        self.world
            .count(CostKind::Read, Some(from.rank()), 1, size_of_val(out));
        if is_long::<T>(self.world, out.len()) {
            let mut parts = Parts::new(self.world);
            // SAFETY: as below.
            unsafe { parts.get_values(&[from], out) };
            return self.note_all(parts);
        }
        let bytes = out.as_mut_bytes();
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
    /// Errors of the transport; then nothing was begun, or a part of a long transfer, which is over
    /// when the scope ends.
    ///
    /// # Panics
    ///
    /// As [`GlobalPtr::put_slice`].
    #[track_caller]
    pub fn put<T: Pod>(&'scope self, ptr: GlobalPtr<T>, values: &'scope [T]) -> Result<()> {
        let to = self.world.checked(ptr, values.len());
        if self.world.memory().base(to.rank()).is_some() {
            return ptr.put_slice(self.world, values);
        }
        self.world
            .count(CostKind::Write, Some(to.rank()), 1, size_of_val(values));
        if is_long::<T>(self.world, values.len()) {
            let mut parts = Parts::new(self.world);
            // SAFETY: as below.
            unsafe { parts.put_values(&[to], values) };
            return self.note_all(parts);
        }
        let bytes = values.as_bytes();
        // SAFETY: as in `get`: the range is inside a segment, and `values` stays borrowed until the
        // operation is complete.
        let put = unsafe { Put::new(to.at(), bytes.as_ptr(), bytes.len()) };
        self.note(self.world.backend().put_nb(put)?);
        Ok(())
    }

    /// Begins to read a box, as [`GlobalPtr::get_strided`] does.
    ///
    /// # Cost
    ///
    /// R, in as many pieces as the box has runs of elements that are contiguous on both sides.
    /// One-sided. Complete at the end of the scope.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then a part may be read.
    ///
    /// # Panics
    ///
    /// As [`GlobalPtr::get_strided`].
    #[track_caller]
    pub fn get_strided<T: Pod, const N: usize>(
        &'scope self,
        ptr: GlobalPtr<T>,
        strides: &Strides<N>,
        out: &'scope mut [T],
    ) -> Result<()> {
        let Some(from) = strides.counted(self.world, (ptr, out.len()), CostKind::Read) else {
            return Ok(());
        };
        let mut parts = Parts::new(self.world);
        let shape = strides.shape(size_of::<T>());
        // SAFETY: as in `get`: `out` is borrowed until all that was begun is over.
        unsafe { parts.get_box(&from, (Corner::FIRST, &shape), out) };
        self.note_all(parts)
    }

    /// Begins to write a box, as [`GlobalPtr::put_strided`] does.
    ///
    /// # Cost
    ///
    /// W, in as many pieces as the box has runs of elements that are contiguous on both sides.
    /// One-sided. Complete at the end of the scope.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then a part may be written.
    ///
    /// # Panics
    ///
    /// As [`GlobalPtr::put_strided`].
    #[track_caller]
    pub fn put_strided<T: Pod, const N: usize>(
        &'scope self,
        ptr: GlobalPtr<T>,
        strides: &Strides<N>,
        values: &'scope [T],
    ) -> Result<()> {
        let Some(to) = strides.counted(self.world, (ptr, values.len()), CostKind::Write) else {
            return Ok(());
        };
        let mut parts = Parts::new(self.world);
        let shape = strides.shape(size_of::<T>());
        // SAFETY: as in `put`: `values` stays borrowed until all that was begun is over.
        unsafe { parts.put_box(&to, (Corner::FIRST, &shape), values) };
        self.note_all(parts)
    }

    /// Begins to read the fragments, as [`World::get_fragments`] does.
    ///
    /// # Cost
    ///
    /// R a fragment. One-sided. Complete at the end of the scope.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then some of them may be read.
    ///
    /// # Panics
    ///
    /// As [`World::get_fragments`].
    #[track_caller]
    pub fn get_fragments<T: Pod>(
        &'scope self,
        fragments: &[Fragment<T>],
        out: &'scope mut [T],
    ) -> Result<()> {
        let world = self.world;
        let places = world.check_counted(fragments, out.len(), CostKind::Read);
        let mut parts = Parts::new(world);
        // SAFETY: as in `get_strided`.
        unsafe { parts.get_values(&places, out) };
        self.note_all(parts)
    }

    /// Begins to write the fragments, as [`World::put_fragments`] does.
    ///
    /// # Cost
    ///
    /// W a fragment. One-sided. Complete at the end of the scope.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then some of them may be written.
    ///
    /// # Panics
    ///
    /// As [`World::put_fragments`].
    #[track_caller]
    pub fn put_fragments<T: Pod>(
        &'scope self,
        fragments: &[Fragment<T>],
        values: &'scope [T],
    ) -> Result<()> {
        let world = self.world;
        let places = world.check_counted(fragments, values.len(), CostKind::Write);
        let mut parts = Parts::new(world);
        // SAFETY: as in `put_strided`.
        unsafe { parts.put_values(&places, values) };
        self.note_all(parts)
    }

    /// Begins to read blocks, as [`World::get_indexed`] does.
    ///
    /// # Cost
    ///
    /// R a block. One-sided. Complete at the end of the scope.
    ///
    /// # Errors
    ///
    /// As [`get_fragments`](Self::get_fragments).
    ///
    /// # Panics
    ///
    /// As [`World::get_fragments`].
    #[track_caller]
    pub fn get_indexed<T: Pod>(
        &'scope self,
        base: GlobalPtr<T>,
        indices: &[usize],
        block: usize,
        out: &'scope mut [T],
    ) -> Result<()> {
        self.get_fragments(&blocks(base, indices, block), out)
    }

    /// Begins to write blocks, as [`World::put_indexed`] does.
    ///
    /// # Cost
    ///
    /// W a block. One-sided. Complete at the end of the scope.
    ///
    /// # Errors
    ///
    /// As [`put_fragments`](Self::put_fragments).
    ///
    /// # Panics
    ///
    /// As [`World::put_fragments`].
    #[track_caller]
    pub fn put_indexed<T: Pod>(
        &'scope self,
        base: GlobalPtr<T>,
        indices: &[usize],
        block: usize,
        values: &'scope [T],
    ) -> Result<()> {
        self.put_fragments(&blocks(base, indices, block), values)
    }

    /// Begins to write `values`; when they are at the target, and at the latest at the end of the
    /// scope, updates `signal` as [`GlobalPtr::put_signal`] does.
    ///
    /// # Cost
    ///
    /// W + A. One-sided. Complete at the end of the scope.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the signal is not updated.
    ///
    /// # Panics
    ///
    /// As [`GlobalPtr::put_signal`].
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::backend::SignalUpdate;
    /// # let world = pgas_core::backend::loopback::world();
    /// let (data, arrived) = (world.alloc::<u64>(4)?, world.alloc::<u64>(1)?);
    /// arrived.put(&world, 0)?;
    /// let (low, high) = ([1, 2], [3, 4]);
    /// world.scope(|scope| {
    ///     scope.put_signal(data, &low, arrived, SignalUpdate::Add(1))?;
    ///     scope.put_signal(data.add(2), &high, arrived, SignalUpdate::Add(1))
    /// })??;
    /// assert_eq!(arrived.get(&world)?, 2);
    /// assert_eq!(data.get_vec(&world, 4)?, [1, 2, 3, 4]);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn put_signal<T: Pod>(
        &'scope self,
        ptr: GlobalPtr<T>,
        values: &'scope [T],
        signal: GlobalPtr<u64>,
        update: SignalUpdate,
    ) -> Result<()> {
        let world = self.world;
        let (to, flag) = ptr.with_signal(world, values.len(), signal);
        if put_and_signal(world, (&to, &flag), values, update) {
            return Ok(());
        }
        let mut parts = Parts::new(world);
        // SAFETY: as in `put_strided`.
        unsafe { parts.put_values(&[to], values) };
        let (ops, begun) = parts.into_ops();
        if begun.is_err() {
            self.ops.borrow_mut().extend(ops);
            return begun;
        }
        let signal = flag.atomic(update.into());
        self.signalled.borrow_mut().push(Signalled { ops, signal });
        Ok(())
    }

    fn note_all(&self, parts: Parts<'_>) -> Result<()> {
        let (ops, begun) = parts.into_ops();
        ops.into_iter().for_each(|op| self.note(op));
        begun
    }

    /// Records an operation that was begun. If many operations have the same id, one entry is
    /// enough.
    fn note(&self, op: OpId) {
        let mut ops = self.ops.borrow_mut();
        if op != OpId::DONE && ops.last() != Some(&op) {
            ops.push(op);
        }
    }

    /// Waits for the operations in flight. After an unwinding, another call waits for those that
    /// are left in the list.
    #[track_caller]
    fn complete(&self) -> Result<()> {
        let is_over = self.ops.borrow().is_empty() && self.signalled.borrow().is_empty();
        if is_over {
            return self.world.flush_all();
        }
        let mut failure = None;
        let backend = self.world.backend();
        let mut is_empty = || {
            let mut ops = self.ops.borrow_mut();
            retain_unfinished(backend, &mut ops, &mut failure);
            let has_signals = !self.signalled.borrow().is_empty();
            let is_signalled = !has_signals || self.send_signals(&mut ops, &mut failure);
            ops.is_empty() && is_signalled
        };
        let waited = self
            .world
            .wait_until(&Awaited::new(TRANSFERS), || Ok(is_empty()));
        if let Err(error) = waited {
            self.give_up(error, is_empty)?;
        }
        self.world.flush_all()?;
        failure.map_or(Ok(()), Err)
    }

    /// Sends the signals of complete puts, and says whether none is left.
    #[cold]
    fn send_signals(&self, ops: &mut Vec<OpId>, failure: &mut Option<Error>) -> bool {
        let backend = self.world.backend();
        let mut signalled = self.signalled.borrow_mut();
        signalled.retain_mut(|put| {
            let mut own_failure = None;
            retain_unfinished(backend, &mut put.ops, &mut own_failure);
            if let Some(error) = own_failure {
                // The other parts of the put are waited for, and no signal is sent.
                ops.append(&mut put.ops);
                failure.get_or_insert(error);
                return false;
            }
            if !put.ops.is_empty() {
                return true;
            }
            if let Err(error) = backend.atomic(put.signal) {
                failure.get_or_insert(error);
            }
            backend.notify(put.signal.rank());
            false
        });
        signalled.is_empty()
    }

    /// Returns the error of a failed wait once no transfer is left, which may still happen.
    /// Otherwise ends the job: the network may still write into the caller's buffers, so returning
    /// would be unsound.
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

/// Removes operations that are over from `ops`, and keeps their first error.
#[inline]
fn retain_unfinished(backend: &dyn Backend, ops: &mut Vec<OpId>, failure: &mut Option<Error>) {
    ops.retain(|op| match backend.test(*op, Stage::Operation) {
        Ok(done) => !done,
        Err(error) => {
            failure.get_or_insert(error);
            false
        }
    });
}

/// Ends the process where a backend's abort only ends a thread: an unwinding thread would free the
/// buffers that the network may still write into.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Completes a scope if its body panics, or if a handler panics during its completion. A second
/// panic then ends the process.
struct Completion<'a, 'scope, 'env> {
    scope: &'a Scope<'scope, 'env>,
    /// The line of the program.
    from: &'static Location<'static>,
}

impl Drop for Completion<'_, '_, '_> {
    fn drop(&mut self) {
        // What is in flight uses the memory of the parent, and not of a forked child.
        if self.scope.world.is_forked() {
            return;
        }
        // The panic that unwinds through here is the error that matters.
        let _waits = part_of_at("a scope", self.from);
        drop(self.scope.complete());
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
