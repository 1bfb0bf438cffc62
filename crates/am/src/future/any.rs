//! The first of many futures.

use std::future::poll_fn;
use std::task::Poll;

use pgas_core::{Error, Result, as_handler};

use super::cell::{Cell, Setter};
use super::{Completes, PgasFuture};
use crate::state::Handle;

/// The first ready one of several futures, and the others.
#[derive(Debug)]
pub struct First<T: Send + 'static> {
    /// Its index among the futures given to [`when_any`].
    pub index: usize,
    /// Its value, or its error.
    pub result: Result<T>,
    /// The others, in their order.
    pub rest: Vec<PgasFuture<T>>,
}

impl<T: Send + 'static> First<T> {
    fn take(futures: &mut Vec<PgasFuture<T>>) -> Option<Self> {
        let index = futures.iter_mut().position(PgasFuture::is_ready)?;
        let result = futures.remove(index).take_ready();
        Some(Self {
            index,
            result,
            rest: std::mem::take(futures),
        })
    }
}

/// A future of the first one of `futures` that is ready; of several ready ones the first in order.
///
/// Progress: none. It is work of this rank, also if it is dropped: [`quiet`](crate::quiet) waits
/// until one of the futures is ready, also if all are those of promises, unless a collective or a
/// wait for a signal is among them.
///
/// # Cost
///
/// An allocation for the list if one is ready. Else four, and a check of each future in each round
/// of progress.
///
/// # Panics
///
/// If `futures` is empty.
///
/// # Examples
///
/// ```
/// use pgas_am::{PgasFuture, Promise, when_any};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let (slow, fast) = (Promise::of_value(&world)?, Promise::of_value(&world)?);
/// let first = when_any([slow.future(), fast.future()]);
/// fast.fulfil_with(2);
/// let first = first.wait()?;
/// assert_eq!((first.index, first.result?), (1, 2));
/// slow.fulfil_with(1);
/// let first = when_any(first.rest).wait()?;
/// assert_eq!((first.index, first.result?), (0, 1));
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[track_caller]
pub fn when_any<F: Completes>(futures: impl IntoIterator<Item = F>) -> PgasFuture<First<F::Value>> {
    let futures = futures.into_iter().map(Completes::future);
    let mut futures: Vec<_> = futures.collect();
    assert!(!futures.is_empty(), "the first of no futures");
    if let Some(first) = First::take(&mut futures) {
        return PgasFuture::ready(first);
    }
    let Some(am) = futures[0].handle().and_then(Handle::get) else {
        return PgasFuture::failed(Error::HasLeft);
    };
    let mut mark = None;
    for future in &futures {
        future.pass_mark(&mut mark);
    }
    let cell = Cell::marked(am.handle, None, mark);
    if futures.iter().any(PgasFuture::fails_at_limit) {
        cell.fail_at_limit();
    }
    let mut target = Some(Setter::new(&cell));
    // They may have the last handle on the world, which they let go.
    let _held = am.world.upgrade();
    // The action may send, so it counts as unfinished work. A collective does not: it waits for the
    // programs of other ranks, and `quiet` must not wait for those.
    let mut waits = false;
    for future in &mut futures {
        waits |= future.let_go();
    }
    let running = (!waits).then(|| am.transfers.begin());
    am.tasks.spawn(poll_fn(move |_| {
        // It may run the program's codecs, and take a collective's result.
        let Some(first) = as_handler(|| First::take(&mut futures)) else {
            return Poll::Pending;
        };
        if let Some(target) = target.take() {
            target.set(Ok(first));
        }
        let _ = &running;
        Poll::Ready(())
    }));
    PgasFuture::cell(cell)
}
