//! How operations in flight are performed, step by step.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pgas_am::{PgasFuture, RemoteCalls as _};
use pgas_core::stats::Operation;
use pgas_core::{PerformingInParts, Pod, World, as_handler, in_handler};
use zerocopy::IntoBytes as _;

use super::super::hash::Hash;
use super::super::op::OnKey;
use super::super::operations::{Find, Replace, Update};
use super::super::outcome::Outcome;
use super::super::phase::Atomic;
use super::super::remote::request;
use super::super::served::OnShards;
use super::super::slot::layout::Pair;
use super::super::slot::remote::Remote;
use super::super::slot::replayed::Journal;
use super::super::table::{Common, Table};
use super::super::view::{LocalView, View};
use crate::object::{self, FoundBy, Heap, KeyHasher, KeyOf, Object};
use crate::requests::{self, LONGEST_PART};
use crate::{Error, Result, prices};

/// Operations in flight.
impl<K: Object, V: Object, S: KeyHasher> Common<K, V, S> {
    /// Performs an operation by one-sided steps. `run` performs it in a view, and is called again
    /// after each step that was in flight. So it hashes no key.
    async fn replay<T>(
        &self,
        is_read_only: bool,
        mut run: impl for<'a> FnMut(View<'a, K, V, S, Remote<'a>>) -> Result<T>,
    ) -> Result<T> {
        let shape = &self.shape;
        let journal = Journal::new(&shape.heap, is_read_only);
        poll_fn(move |_| match shape.replay(&journal, &mut run) {
            Some(done) => Poll::Ready(done),
            None => Poll::Pending,
        })
        .await
    }

    /// Performs `O`, and releases the memory of other ranks that its handlers could not release.
    async fn perform<O>(
        &self,
        key: &KeyOf<K>,
        given: impl FnMut(&Heap) -> Result<O::Given> + Send,
    ) -> Result<O::Outcome>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let done = self.perform_alone::<O>(key, given).await;
        self.shape.heap.release_late_nb().await;
        done
    }

    /// Performs `O` at the home rank of its key by a message (M), or by one-sided steps.
    async fn perform_alone<O>(
        &self,
        key: &KeyOf<K>,
        mut given: impl FnMut(&Heap) -> Result<O::Given> + Send,
    ) -> Result<O::Outcome>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let shape = &self.shape;
        let hash = shape.hash(key);
        if let Some(reused) = self.reused.get() {
            let perform = move |view: LocalView<'_, K, V, S>| {
                given(view.heap()).and_then(|given| O::perform(&view, hash, key, given))
            };
            return self.run_in_sections(reused, perform).await;
        }
        let home = shape.home_rank(hash);
        if let Some(served) = &self.served
            && Table::<K, V, S>::is_message::<O>(served, home)
        {
            let parcel = Heap::parcel(Vec::new());
            let request = request::<K, V, O>(key, given(&parcel)?, &parcel)?;
            if parcel.n_packed() <= LONGEST_PART {
                let asked = (request, parcel);
                let answer = requests::ask_nb::<OnShards<O, K, V, S>>(served, home, asked);
                if let Some((answer, parcel)) = answer.await? {
                    return O::Outcome::of_answer(answer, &parcel);
                }
            }
        }
        let given = given(&shape.heap)?;
        self.replay(O::IS_READ_ONLY, |view| O::perform(&view, hash, key, given))
            .await
    }

    /// Performs `O`, and counts the key that it has inserted or removed. After that `given` is
    /// dropped, with a value of the program, whose drop may panic.
    pub(in super::super) async fn step<O>(
        &self,
        key: &KeyOf<K>,
        mut given: impl FnMut(&Heap) -> Result<O::Given> + Send,
    ) -> Result<O::Outcome>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let done = self.perform::<O>(key, &mut given).await?;
        let n_changed = O::is_change(&done).into();
        self.count(O::EFFECT, n_changed);
        Ok(done)
    }

    /// As [`HashMap::update`](super::super::HashMap::update).
    pub(in super::super) async fn update(
        &self,
        key: &KeyOf<K>,
        mut f: impl FnMut(V) -> V,
    ) -> Result<Option<V>> {
        if let Some(reused) = self.reused.get() {
            let update = |view: LocalView<'_, K, V, S>| {
                let replaced = |there| object::to_slot(&f(there), view.heap());
                view.perform::<Update<_>>(view.hash(key), key, replaced)
            };
            return self.run_in_sections(reused, update).await;
        }
        if self.served.is_none() || object::has_heap::<V>() {
            let done = self.replay_update(key, f).await;
            self.shape.heap.release_late_nb().await;
            return done;
        }
        let slot = |value: &V| object::to_slot(value, &self.shape.heap);
        let mut there = self.perform::<Find<Atomic>>(key, |_| Ok(())).await?;
        loop {
            let Some(value) = there else { return Ok(None) };
            let expected = slot(&value)?;
            let values = Pair::new(expected, slot(&f(value))?);
            there = self.perform::<Replace>(key, |_| Ok(values)).await?;
            if let Some(former) = &there
                && slot(former)?.as_bytes() == expected.as_bytes()
            {
                return Ok(there);
            }
        }
    }

    /// As [`update`](Self::update), by one-sided steps.
    async fn replay_update(&self, key: &KeyOf<K>, mut f: impl FnMut(V) -> V) -> Result<Option<V>> {
        let (shape, hash) = (&self.shape, self.shape.hash(key));
        self.replay(false, move |view| {
            let replaced = |there| object::to_slot(&f(there), &shape.heap);
            view.perform::<Update<_>>(hash, key, replaced)
        })
        .await
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Whether operations are performed before the call returns: all slots are local, or there are
    /// no tasks. A handler may not wait for the other ranks that work on a slot.
    pub(in super::super) fn is_at_once(&self) -> bool {
        let is_local = self.is_local() && !in_handler();
        is_local || !pgas_am::is_attached(self.world())
    }

    /// As [`perform_near`](Self::perform_near). `None`, too, where slots are reused, since
    /// operations have to be in a section, or if it would have had to wait within a handler; then it
    /// has changed nothing.
    fn try_near<O: OnKey<K, V>>(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        given: impl FnOnce(&Heap) -> Result<O::Given>,
    ) -> Result<Option<O::Outcome>> {
        if self.reused.is_some() {
            return Ok(None);
        }
        match self.perform_near::<O>(hash, key, given) {
            Err(Error::InHandler { .. }) => Ok(None),
            near => near,
        }
    }

    /// Begins to [perform](Self::perform) `O`.
    #[track_caller]
    pub(super) fn perform_nb<O, Q: ?Sized>(
        &self,
        key: &Q,
        given: impl Fn(&Heap) -> Result<O::Given> + Send + 'static,
    ) -> Result<PgasFuture<O::Outcome>>
    where
        K: FoundBy<Q>,
        O: OnKey<K, V, Given: Pod, Outcome: Send> + 'static,
    {
        self.perform_nb_to::<O, Q, O::Outcome>(key, given, Ok)
    }

    /// As [`perform_nb`](Self::perform_nb), for what `finish` makes of the outcome when it is counted.
    #[track_caller]
    pub(super) fn perform_nb_to<O, Q: ?Sized, T>(
        &self,
        key: &Q,
        given: impl Fn(&Heap) -> Result<O::Given> + Send + 'static,
        finish: fn(O::Outcome) -> Result<T>,
    ) -> Result<PgasFuture<T>>
    where
        K: FoundBy<Q>,
        O: OnKey<K, V, Given: Pod, Outcome: Send> + 'static,
        T: Outcome<V> + Send + 'static,
    {
        if self.is_at_once() {
            // Dropped after the key is counted, as in `Common::step`.
            let done = self.perform::<O, Q>(key, &given)?;
            return finish(done).map(PgasFuture::ready);
        }
        let of_key = K::key_by(key)?;
        let hash = self.shape.hash(&of_key);
        let mut performing = self.performs_in_parts(O::rows().map(|[row, _]| row));
        let near = in_part(&mut performing, || {
            self.try_near::<O>(hash, &of_key, &given)
        });
        if let Some(done) = near? {
            self.count(O::EFFECT, O::is_change(&done).into());
            end(performing, done.was_there());
            return finish(done).map(PgasFuture::ready);
        }
        let common = Arc::clone(&self.common);
        let step = async move { common.step::<O>(&of_key, given).await.and_then(finish) };
        start_as(self.world(), performing, step, T::was_there)
    }

    /// The row in the statistics of an operation in flight. Where slots are reused it has none.
    fn performs_in_parts(&self, row: Option<&'static Operation>) -> Option<PerformingInParts> {
        let world = self.world();
        let row = row.filter(|_| world.is_counting() && self.reused.is_none())?;
        Some(world.performs_in_parts(row, 1))
    }

    /// Begins an [`update`](Self::update).
    #[track_caller]
    pub(super) fn update_nb<Q: ?Sized>(
        &self,
        key: &Q,
        mut f: impl FnMut(V) -> V + Send + 'static,
    ) -> Result<PgasFuture<Option<V>>>
    where
        K: FoundBy<Q>,
    {
        if self.is_at_once() {
            return self.update(key, f).map(PgasFuture::ready);
        }
        let of_key = K::key_by(key)?;
        let hash = self.shape.hash(&of_key);
        let mut performing = self.performs_in_parts(Some(&prices::HASH_MAP_UPDATE));
        let near = in_part(&mut performing, || {
            let there = |there| object::to_slot(&f(there), self.heap());
            self.try_near::<Update<_>>(hash, &of_key, |_| Ok(there))
        });
        if let Some(former) = near? {
            end(performing, former.is_some());
            return Ok(PgasFuture::ready(former));
        }
        let common = Arc::clone(&self.common);
        let update = async move { common.update(&of_key, f).await };
        start_as(self.world(), performing, update, Option::is_some)
    }
}

/// Runs a part of an operation that has a row in the statistics, or of one that has none.
fn in_part<R>(performing: &mut Option<PerformingInParts>, part: impl FnOnce() -> R) -> R {
    match performing {
        Some(performing) => performing.part(part),
        None => part(),
    }
}

/// Counts an operation that is over.
fn end(performing: Option<PerformingInParts>, has_succeeded: bool) {
    if let Some(performing) = performing {
        performing.end(usize::from(!has_succeeded));
    }
}

/// As [`start`], of an operation that may have a row in the statistics. `was_there` says whether it
/// has succeeded.
fn start_as<T: Send + 'static>(
    world: &World,
    performing: Option<PerformingInParts>,
    task: impl Future<Output = Result<T>> + Send + 'static,
    was_there: fn(&T) -> bool,
) -> Result<PgasFuture<T>> {
    if performing.is_none() {
        return start(world, task);
    }
    let (mut performing, mut task) = (performing, Box::pin(task));
    let counted = poll_fn(move |cx| {
        let polled = in_part(&mut performing, || task.as_mut().poll(cx));
        if let Poll::Ready(done) = &polled {
            let has_failed = done.as_ref().is_ok_and(|done| !was_there(done));
            end(performing.take(), !has_failed);
        }
        polled
    });
    start(world, counted)
}

/// Takes the first step of `task`. The rest follows within the progress of this rank, also if a
/// time limit ends the wait for the result: then the job fails.
pub(in super::super) fn start<T: Send + 'static>(
    world: &World,
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<PgasFuture<T>> {
    let mut task = Box::pin(task);
    let mut cx = Context::from_waker(Waker::noop());
    match as_handler(|| task.as_mut().poll(&mut cx)) {
        Poll::Ready(done) => done.map(PgasFuture::ready),
        Poll::Pending => Ok(world.spawn(task).or_fail_at_limit()),
    }
}
