//! Remote calls: a function is run by another rank, and its result comes back as a future.
//!
//! The function is a `fn` item or a closure that captures nothing. It works on its arguments, and
//! on objects of the target that these name: a [`DistObject`](crate::DistObject) arrives as the
//! target's own instance, [`Here`] as its world. It runs inside a call of user-level progress of
//! the target, as a handler does. It may start operations and calls, but must not wait: a wait in
//! it returns an error.

use std::borrow::Borrow;
use std::panic::Location;

use pgas_core::backend::Sent;
use pgas_core::{Pod, Rank, World, as_handler, part_of_earlier};
use zerocopy::IntoBytes;

use crate::codec::{Codec, Decoder, Each, Encoder, Wire, unreadable};
use crate::function::{FunctionId, Returns, bytes_of_view};
use crate::future::{Completes, PgasFuture, task, when_all};
use crate::ids::{CALL, CALL_FF};
use crate::state::am;
use crate::way::Way;
use pgas_core::{Error, Result};

/// An argument that arrives as the world of the rank that runs the function.
///
/// # Examples
///
/// ```
/// use pgas_am::{Here, RemoteCalls};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let name = |(here, greeting): (Here, String)| format!("{greeting}, rank {}", here.world().rank());
/// let answer = world.rpc(world.rank(), name, (Here::new(&world), "hello".to_owned()))?.wait()?;
/// assert_eq!(answer, "hello, rank 0");
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Here(World);

impl Here {
    /// The argument. The target gets its own world, whatever `world` is.
    #[must_use]
    pub fn new(world: &World) -> Self {
        Self(world.clone())
    }

    /// The world of the rank that runs the function.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.0
    }
}

impl Wire for Here {
    type By = TakesPlace;
}

/// The codec of arguments that arrive as objects of the target.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum TakesPlace {}

impl Codec<Here> for TakesPlace {
    type Array<const N: usize> = Each<Self>;

    fn encode(_: &Here, _: &mut Encoder) -> Result<()> {
        Ok(())
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Here> {
        let world = input.world();
        let world = world.ok_or_else(|| unreadable::<Here>("a result has no world"))?;
        Ok(Here(world.clone()))
    }
}

/// Remote calls of a world; in the prelude. See the [module](self).
///
/// # Examples
///
/// One-way calls, calls of all ranks, and calls after an operation:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use pgas_am::{RemoteCalls, quiet};
/// use pgas_core::backend::Sent;
///
/// static SUM: AtomicU64 = AtomicU64::new(0);
/// let add = |n: u64| drop(SUM.fetch_add(n, Ordering::Relaxed));
/// let add_all = |factor: u64, xs: &[u64]| {
///     SUM.fetch_add(factor * xs.iter().sum::<u64>(), Ordering::Relaxed);
/// };
/// let add_both = |factor: u64, xs: &[u64], ys: &[u64]| {
///     SUM.fetch_add(factor * (xs[0] + ys[0]), Ordering::Relaxed);
/// };
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let me = world.rank();
/// world.rpc_ff(me, add, 1)?;
/// world.rpc_ff_view(me, add_all, 10, &[1, 1])?;
/// world.rpc_ff_views(me, add_both, 100_000, (&[1], &[2]))?;
/// while world.try_rpc_ff(me, add, &100)? == Sent::BackPressure {
///     world.progress()?; // until there is room
/// }
/// while world.try_rpc_ff_view(me, add_all, &1000, &[1, 1])? == Sent::BackPressure {
///     world.progress()?;
/// }
/// while world.try_rpc_ff_views(me, add_both, &1_000_000, (&[1], &[2]))? == Sent::BackPressure {
///     world.progress()?;
/// }
/// let cell = world.alloc::<u64>(1)?;
/// world.rpc_ff_after(cell.put_nb(&world, 5), me, add, 10_000).wait()?;
/// quiet(&world)?; // collective: all calls have run
/// assert_eq!(SUM.load(Ordering::Relaxed), 3_312_121);
/// assert_eq!(world.rpc_all(|n: u64| n + 1, &1)?.wait()?, [2]); // of the one rank of this example
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub trait RemoteCalls: Borrow<World> {
    /// Runs `function` on `args` on rank `to`, and returns a future of the result.
    ///
    /// Arguments or a result that are longer than a message travel in pieces, up to 64 MiB.
    ///
    /// A panic of the function comes back as [`Error::RemotePanic`], and the target goes on. An
    /// error that it returns comes back as [`Error::Remote`], with its text and the rank.
    ///
    /// The function may return an event or a future: the call is answered when that is ready, with
    /// its value ([`Returns`]). So the function may call other ranks, chain actions by
    /// [`then`](PgasFuture::then) and [`and_then`](PgasFuture::and_then), or [`spawn`](Self::spawn)
    /// a task that awaits.
    ///
    /// Progress: user level while there is no room, else none. Inside a handler it does not wait
    /// for room: the call is kept until there is some. It returns [`Error::BackPressure`] while
    /// calls of 256 MiB are kept, a million calls or more.
    ///
    /// # Cost
    ///
    /// M: two messages, or one for each piece. The function has run when the future is ready.
    ///
    /// # Errors
    ///
    /// [`Error::MessageTooLong`], [`Error::Codec`], [`Error::ForeignFunction`],
    /// [`Error::NotAttached`]; errors of the transport, or the failure of the job while waiting. An
    /// error of a handler of this rank that no call has [returned](World::check_handlers): nothing
    /// was sent then, and the call can be made again.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::{Error, RemoteCalls};
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let sum = world.rpc(world.rank(), |x: u64| x + 1, 41)?.wait()?;
    /// assert_eq!(sum, 42);
    ///
    /// let broken = world.rpc(world.rank(), |x: u64| 1 / x, 0)?.wait();
    /// let Err(Error::RemotePanic(panic)) = broken else { panic!("it divided by zero") };
    /// assert!(panic.message.contains("divide by zero"));
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    ///
    /// A closure that captures something does not compile; pass arguments instead:
    ///
    /// ```compile_fail,E0308
    /// use pgas_am::RemoteCalls;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let y = 1;
    /// let sum = world.rpc(world.rank(), move |x: u64| x + y, 41);
    /// ```
    #[inline]
    #[track_caller]
    fn rpc<A: Wire, R: Returns>(
        &self,
        to: Rank,
        function: fn(A) -> R,
        args: A,
    ) -> Result<PgasFuture<R::Value>> {
        let world: &World = self.borrow();
        world.check_handlers()?;
        Way::to(world, to)?.call(function, &args)
    }

    /// As [`rpc`](Self::rpc), with a slice that is sent from where it lies, and that the function
    /// views where it arrived.
    ///
    /// # Cost
    ///
    /// As [`rpc`](Self::rpc); the slice is copied into the transport here, and out of it at the
    /// target.
    ///
    /// # Errors
    ///
    /// As [`rpc`](Self::rpc).
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::RemoteCalls;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let dot = |x: f64, ys: &[f64]| ys.iter().map(|y| x * y).sum::<f64>();
    /// assert_eq!(world.rpc_view(world.rank(), dot, 2.0, &[1.0, 2.0, 3.0])?.wait()?, 12.0);
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    fn rpc_view<A: Wire, T: Pod, R: Returns>(
        &self,
        to: Rank,
        function: fn(A, &[T]) -> R,
        args: A,
        view: &[T],
    ) -> Result<PgasFuture<R::Value>> {
        let world: &World = self.borrow();
        world.check_handlers()?;
        let way = Way::to(world, to)?;
        let function = FunctionId::of_viewing(way.am.names()?, function)?;
        way.send_call(function, &args, Some(bytes_of_view(view, &mut 0)))
    }

    /// As [`rpc_view`](Self::rpc_view), with two slices.
    ///
    /// # Cost
    ///
    /// As [`rpc_view`](Self::rpc_view).
    ///
    /// # Errors
    ///
    /// As [`rpc`](Self::rpc).
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    ///
    /// # Examples
    ///
    /// A row of a sparse matrix, as the columns and the values of its elements:
    ///
    /// ```
    /// use pgas_am::RemoteCalls;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let row_sum = |row: u64, columns: &[u32], values: &[f64]| {
    ///     let terms = columns.iter().zip(values).map(|(column, value)| f64::from(*column) * value);
    ///     (row, terms.sum::<f64>())
    /// };
    /// let row: (&[u32], &[f64]) = (&[1, 5], &[0.5, 2.0]);
    /// assert_eq!(world.rpc_views(world.rank(), row_sum, 7, row)?.wait()?, (7, 10.5));
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[track_caller]
    fn rpc_views<A: Wire, T: Pod, U: Pod, R: Returns>(
        &self,
        to: Rank,
        function: fn(A, &[T], &[U]) -> R,
        args: A,
        views: (&[T], &[U]),
    ) -> Result<PgasFuture<R::Value>> {
        let world: &World = self.borrow();
        world.check_handlers()?;
        let way = Way::to(world, to)?;
        let function = FunctionId::of_viewing_two(way.am.names()?, function)?;
        let (unsent, header) = way.open_call(function);
        way.close_call(unsent, way.send_two(CALL, header.as_bytes(), &args, views))
    }

    /// Runs `function` on `args` on rank `to`, without an answer. A panic of the function is a
    /// panic of the thread of that rank that runs it, so it ends the job if that thread's panic
    /// does: on the rank's main thread, in a collective, or where a thread of the library serves.
    ///
    /// Progress: as [`rpc`](Self::rpc).
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return; the function runs when `to` makes progress.
    ///
    /// # Errors
    ///
    /// As [`rpc`](Self::rpc); [`Error::RankFailed`] if `to` has left the job. If the function
    /// cannot be run there, for example because an object was dropped, the next
    /// [`quiet`](crate::quiet) returns [`Error::Undelivered`].
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[inline]
    #[track_caller]
    fn rpc_ff<A: Wire>(&self, to: Rank, function: fn(A), args: A) -> Result<()> {
        let world: &World = self.borrow();
        let way = Way::to(world, to)?;
        let function = FunctionId::of(way.am.names()?, function)?;
        way.send(CALL_FF, function.as_bytes(), &args, None)
    }

    /// As [`rpc_ff`](Self::rpc_ff), without waiting: after [`Sent::BackPressure`] nothing was sent.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`rpc`](Self::rpc), but for a wait.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[inline]
    #[track_caller]
    fn try_rpc_ff<A: Wire>(&self, to: Rank, function: fn(A), args: &A) -> Result<Sent> {
        let world: &World = self.borrow();
        let way = Way::to(world, to)?;
        let function = FunctionId::of(way.am.names()?, function)?;
        way.try_send(CALL_FF, function.as_bytes(), args, None)
    }

    /// As [`rpc_ff`](Self::rpc_ff), with a slice that the function views where it arrived.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`rpc`](Self::rpc).
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[inline]
    #[track_caller]
    fn rpc_ff_view<A: Wire, T: Pod>(
        &self,
        to: Rank,
        function: fn(A, &[T]),
        args: A,
        view: &[T],
    ) -> Result<()> {
        let world: &World = self.borrow();
        let way = Way::to(world, to)?;
        let function = FunctionId::of_viewing(way.am.names()?, function)?;
        let mut n = 0;
        let view = Some(bytes_of_view(view, &mut n));
        way.send(CALL_FF, function.as_bytes(), &args, view)
    }

    /// As [`rpc_ff_view`](Self::rpc_ff_view), with two slices.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`rpc`](Self::rpc).
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[track_caller]
    fn rpc_ff_views<A: Wire, T: Pod, U: Pod>(
        &self,
        to: Rank,
        function: fn(A, &[T], &[U]),
        args: A,
        views: (&[T], &[U]),
    ) -> Result<()> {
        let world: &World = self.borrow();
        let way = Way::to(world, to)?;
        let function = FunctionId::of_viewing_two(way.am.names()?, function)?;
        way.send_two(CALL_FF, function.as_bytes(), &args, views)
    }

    /// As [`rpc_ff_view`](Self::rpc_ff_view), without waiting: after [`Sent::BackPressure`] nothing
    /// was sent.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`rpc`](Self::rpc), but for a wait.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[inline]
    #[track_caller]
    fn try_rpc_ff_view<A: Wire, T: Pod>(
        &self,
        to: Rank,
        function: fn(A, &[T]),
        args: &A,
        view: &[T],
    ) -> Result<Sent> {
        let world: &World = self.borrow();
        let way = Way::to(world, to)?;
        let function = FunctionId::of_viewing(way.am.names()?, function)?;
        let mut n = 0;
        let view = Some(bytes_of_view(view, &mut n));
        way.try_send(CALL_FF, function.as_bytes(), args, view)
    }

    /// As [`rpc_ff_views`](Self::rpc_ff_views), without waiting; arguments and slices must fit one
    /// message.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`try_rpc_ff`](Self::try_rpc_ff).
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[track_caller]
    fn try_rpc_ff_views<A: Wire, T: Pod, U: Pod>(
        &self,
        to: Rank,
        function: fn(A, &[T], &[U]),
        args: &A,
        views: (&[T], &[U]),
    ) -> Result<Sent> {
        let world: &World = self.borrow();
        let way = Way::to(world, to)?;
        let function = FunctionId::of_viewing_two(way.am.names()?, function)?;
        way.try_send_two(CALL_FF, function.as_bytes(), args, views)
    }

    /// Runs `function` on `args` on every rank, and returns a future of the results in the order of
    /// the ranks.
    ///
    /// Progress: as [`rpc`](Self::rpc).
    ///
    /// # Cost
    ///
    /// An M for each rank: two messages.
    ///
    /// # Errors
    ///
    /// As [`rpc`](Self::rpc).
    #[track_caller]
    fn rpc_all<A: Wire, R: Returns>(
        &self,
        function: fn(A) -> R,
        args: &A,
    ) -> Result<PgasFuture<Vec<R::Value>>> {
        let world: &World = self.borrow();
        call_each(world, world.ranks(), function, args)
    }

    /// Runs `task` within this rank's progress, and returns a future of its value. The task goes on
    /// even if the future is dropped.
    ///
    /// A handler or the body of a call uses it for work that would have to wait: it returns the
    /// task's future. The task must not wait either, but it can await everything. If the task
    /// panics, the future has [`Error::RemotePanic`]. [`quiet`](crate::quiet) waits for the task; a
    /// rank that leaves does not, and a task with a handle on the world of its own keeps it from
    /// leaving. If a time limit ends the wait for the future, the task goes on, and the job does not
    /// fail, whatever the task awaits. On a world that is not attached the future has
    /// [`Error::NotAttached`].
    ///
    /// Progress: none; each call that makes progress at user level polls the task once.
    ///
    /// # Cost
    ///
    /// Three allocations, and a poll in each round of progress until it is over.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::{Error, Here, RemoteCalls};
    /// use pgas_core::{GlobalPtr, Rank};
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let word = world.alloc::<u64>(1)?;
    /// word.put(&world, 40)?;
    /// // Reads the word wherever it is, asks rank `to`, and answers with the sum.
    /// let add = |(here, word, to): (Here, GlobalPtr<u64>, Rank)| {
    ///     let world = here.world().clone();
    ///     here.world().spawn(async move {
    ///         let read = word.get_nb(&world)?.await?;
    ///         let asked = world.rpc(to, |()| 2_u64, ())?.await?;
    ///         Ok(read + asked)
    ///     })
    /// };
    /// let args = (Here::new(&world), word, world.rank());
    /// assert_eq!(world.rpc(world.rank(), add, args)?.wait()?, 42);
    /// # Ok::<(), Error>(())
    /// ```
    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> PgasFuture<T> {
        let world: &World = self.borrow();
        match am(world) {
            Ok(am) => task::spawn(am, task),
            Err(error) => PgasFuture::failed(error),
        }
    }

    /// Runs `function` on `args` on rank `to` when `operation` is complete. After a put the values
    /// are at their target then, and the function sees them (UPC++'s `remote_cx::as_rpc`, with an
    /// answer).
    ///
    /// The operation is anything that [completes](Completes): a transfer, an atomic, a collective,
    /// a call or several of them, or the [`Result`] of beginning one. If it fails, the future has
    /// its error, and the function is not called.
    ///
    /// Progress: none. The call is made within this rank's progress, and never waits for room (as
    /// [`rpc`](Self::rpc) in a handler).
    ///
    /// # Cost
    ///
    /// M: two messages. Two or four allocations if the operation is not complete.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::{Here, RemoteCalls, Result};
    /// use pgas_core::GlobalPtr;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let place = world.alloc::<u64>(3)?;
    /// let sum = |(here, place): (Here, GlobalPtr<u64>)| -> Result<u64> {
    ///     Ok(place.get_vec(here.world(), 3)?.iter().sum())
    /// };
    /// let put = place.put_vec_nb(&world, vec![1, 2, 3]);
    /// let args = (Here::new(&world), place);
    /// assert_eq!(world.rpc_after(put, place.rank(), sum, args).wait()?, 6);
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[track_caller]
    fn rpc_after<A: Wire + Send + 'static, R: Returns + 'static>(
        &self,
        operation: impl Completes,
        to: Rank,
        function: fn(A) -> R,
        args: A,
    ) -> PgasFuture<R::Value> {
        let world: &World = self.borrow();
        world.assert_rank(to);
        // A call that is never made does not keep the rank in the job.
        let (world, at) = (world.downgrade(), Location::caller());
        operation.future().and_call(move |_| {
            let _waits = part_of_earlier("a call after an operation", at);
            let world = world.upgrade().ok_or(Error::HasLeft)?;
            world.rpc(to, function, args)
        })
    }

    /// As [`rpc_after`](Self::rpc_after), without an answer: the future is ready when the call was
    /// sent. It may be dropped; if the call cannot be sent then, the next
    /// [`quiet`](crate::quiet) returns [`Error::Undelivered`].
    ///
    /// # Cost
    ///
    /// One message. Two allocations if the operation is not complete.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[track_caller]
    fn rpc_ff_after<A: Wire + Send + 'static>(
        &self,
        operation: impl Completes,
        to: Rank,
        function: fn(A),
        args: A,
    ) -> PgasFuture<()> {
        let world: &World = self.borrow();
        world.assert_rank(to);
        let am = match am(world) {
            Ok(am) => am,
            Err(error) => return PgasFuture::failed(error),
        };
        let (world, at) = (world.downgrade(), Location::caller());
        operation.future().and_send(am.handle, to, move |_| {
            let _waits = part_of_earlier("a call after an operation", at);
            let world = world.upgrade().ok_or(Error::HasLeft)?;
            as_handler(|| world.rpc_ff(to, function, args))
        })
    }
}

// The methods above have the world by its `Borrow` of itself.
impl RemoteCalls for World {}

#[track_caller]
pub(crate) fn call_each<A: Wire, R: Returns>(
    world: &World,
    ranks: impl Iterator<Item = Rank>,
    function: fn(A) -> R,
    args: &A,
) -> Result<PgasFuture<Vec<R::Value>>> {
    world.check_handlers()?;
    let mut calls = Vec::new();
    // No closure: it would stand for the program's line in traces.
    for to in ranks {
        calls.push(Way::to(world, to)?.call(function, args)?);
    }
    Ok(when_all(calls))
}
