//! How operations in flight are performed, step by step.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pgas_am::{PgasFuture, RemoteCalls as _};
use pgas_core::{Pod, Rank, World, as_handler};
use zerocopy::IntoBytes as _;

use super::super::hash::Hash;
use super::super::op::{Effect, Find, OnKey, Replace};
use super::super::outcome::Outcome as _;
use super::super::phase::Atomic;
use super::super::remote::unless_full;
use super::super::served::OnShards;
use super::super::slot::layout::Pair;
use super::super::slot::replayed::{Journal, Replayed, ReplayedArray};
use super::super::table::Table;
use super::super::view::View;
use super::common::Common;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{Result, requests};

/// An operation in flight, which is counted until this is dropped.
pub(in super::super) struct Flight<K: Object, V: Object, S>(Arc<Common<K, V, S>>);

impl<K: Object, V: Object, S> Flight<K, V, S> {
    pub(in super::super) fn begin(common: &Arc<Common<K, V, S>>) -> Self {
        common.begin();
        Self(Arc::clone(common))
    }

    pub(in super::super) fn world(&self) -> &World {
        self.0.shape.world()
    }
}

/// A clone is another operation in flight.
impl<K: Object, V: Object, S> Clone for Flight<K, V, S> {
    fn clone(&self) -> Self {
        Self::begin(&self.0)
    }
}

impl<K: Object, V: Object, S> Drop for Flight<K, V, S> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<K: Object, V: Object, S: KeyHasher> Flight<K, V, S> {
    /// Performs an operation by one-sided steps. `run` performs it in a view, and is called again
    /// after each step that was in flight.
    async fn replay<T>(
        &self,
        is_read_only: bool,
        mut run: impl for<'a> FnMut(View<'a, K, V, S, Replayed<'a>>) -> Result<T>,
    ) -> Result<T> {
        let (journal, shape) = (Journal::default(), &self.0.shape);
        poll_fn(move |_| {
            loop {
                if !journal.rewind() {
                    return Poll::Pending;
                }
                let all = ReplayedArray {
                    remote: shape.remote(Rank::ZERO),
                    journal: &journal,
                    is_read_only,
                };
                let done = run(shape.view(all));
                if !journal.is_suspended() {
                    return Poll::Ready(done);
                }
                if journal.waits() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Performs `O` at the home rank of its key by a message (M), or by one-sided steps.
    async fn perform<O>(&self, key: &KeyOf<K>, hash: Hash, given: O::Given) -> Result<O::Outcome>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let (shape, heap) = (&self.0.shape, &*self.0.shape.heap);
        let home = shape.home_rank(hash);
        if let Some(served) = &self.0.served
            && Table::<K, V, S>::is_message::<O>(shape.world())
            && home != shape.world().rank()
        {
            let request = Pair::new(<K::Repr as Repr<K>>::key_slot(key, heap)?, given);
            let answer = requests::ask_nb::<OnShards<O, K, V, S>>(served, home, request);
            if let Some(answer) = answer.await? {
                return O::Outcome::of_answer(answer, heap);
            }
        }
        self.replay(O::IS_READ_ONLY, |view| O::perform(&view, hash, key, given))
            .await
    }

    /// Performs `O`, and counts the key that it has inserted or removed.
    async fn perform_counted<O>(
        &self,
        key: &KeyOf<K>,
        hash: Hash,
        given: O::Given,
    ) -> Result<O::Outcome>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let done = self.perform::<O>(key, hash, given).await?;
        match O::EFFECT {
            Effect::Claim if O::is_change(&done) => self.0.count_new(),
            Effect::Remove if O::is_change(&done) => self.0.count_removed(),
            _ => {}
        }
        Ok(done)
    }

    /// A step of an operation on several keys or maps.
    pub(in super::super) async fn step<O>(
        &self,
        key: &KeyOf<K>,
        given: O::Given,
    ) -> Result<O::Outcome>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let hash = Hash::of::<K>(key, &*self.0.shape.hasher);
        self.perform_counted::<O>(key, hash, given).await
    }

    /// As [`HashMap::update`](super::super::HashMap::update), as a step.
    pub(in super::super) async fn update_step(
        &self,
        key: &KeyOf<K>,
        mut f: impl FnMut(V) -> V,
    ) -> Result<Option<V>> {
        let hash = Hash::of::<K>(key, &*self.0.shape.hasher);
        let heap = Arc::clone(&self.0.shape.heap);
        self.update(key, hash, move |there| object::to_slot(&f(there), &heap))
            .await
    }

    /// As [`HashMap::update`](super::super::HashMap::update).
    async fn update(
        &self,
        key: &KeyOf<K>,
        hash: Hash,
        mut f: impl FnMut(V) -> Result<SlotOf<V>>,
    ) -> Result<Option<V>> {
        if self.0.served.is_none() {
            return self.replay_update(key, hash, f).await;
        }
        let slot = |value: &V| object::to_slot(value, &self.0.shape.heap);
        let mut there = self.perform::<Find<Atomic>>(key, hash, ()).await?;
        loop {
            let Some(value) = there else { return Ok(None) };
            let expected = slot(&value)?;
            let values = Pair::new(expected, f(value)?);
            there = self.perform::<Replace>(key, hash, values).await?;
            if let Some(former) = &there
                && slot(former)?.as_bytes() == expected.as_bytes()
            {
                return Ok(there);
            }
        }
    }

    /// As [`update`](Self::update), by one-sided steps. A run takes the values that `f` has made in
    /// runs before.
    async fn replay_update(
        &self,
        key: &KeyOf<K>,
        hash: Hash,
        mut f: impl FnMut(V) -> Result<SlotOf<V>>,
    ) -> Result<Option<V>> {
        let mut made: Vec<SlotOf<V>> = Vec::new();
        self.replay(false, move |view| {
            let mut n = 0;
            view.update(hash, key, |there| {
                if n == made.len() {
                    made.push(f(there)?);
                }
                n += 1;
                Ok(made[n - 1])
            })
        })
        .await
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Whether an operation on `key` is performed before the call returns: all slots are local, the
    /// key or value may be longer than its slot, or there are no tasks.
    pub(in super::super) fn is_at_once(&self, key: &KeyOf<K>) -> bool {
        self.is_local()
            || object::has_heap::<V>()
            || <K::Repr as Repr<K>>::is_key_outside(key)
            || !pgas_am::is_attached(self.world())
    }

    /// Begins `O`, for which [`is_at_once`](Self::is_at_once) is false.
    pub(super) fn begin<O>(&self, key: KeyOf<K>, given: O::Given) -> Result<PgasFuture<O::Outcome>>
    where
        O: OnKey<K, V, Given: Pod, Outcome: Send> + 'static,
    {
        let hash = Hash::of::<K>(&key, &*self.shape.hasher);
        if let Some(done) = self.perform_near::<O>(&key, hash, given)? {
            self.count::<O>(O::is_change(&done).into());
            return Ok(PgasFuture::ready(done));
        }
        let flight = Flight::begin(&self.flights.0);
        start(self.world(), async move {
            flight.perform_counted::<O>(&key, hash, given).await
        })
    }

    /// As [`begin`](Self::begin), of an update.
    pub(super) fn begin_update(
        &self,
        key: KeyOf<K>,
        mut f: impl FnMut(V) -> V + Send + 'static,
    ) -> Result<PgasFuture<Option<V>>> {
        let hash = Hash::of::<K>(&key, &*self.shape.hasher);
        let heap = Arc::clone(&self.shape.heap);
        let mut f = move |there| object::to_slot(&f(there), &heap);
        if let Some(view) = self.near_shard(hash)
            && let Some(former) = unless_full(view.update(hash, &key, &mut f))?
        {
            return Ok(PgasFuture::ready(former));
        }
        let flight = Flight::begin(&self.flights.0);
        start(
            self.world(),
            async move { flight.update(&key, hash, f).await },
        )
    }
}

/// Takes the first step of `task`. The rest follows within the progress of this rank.
pub(in super::super) fn start<T: Send + 'static>(
    world: &World,
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<PgasFuture<T>> {
    let mut task = Box::pin(task);
    let mut cx = Context::from_waker(Waker::noop());
    match as_handler(|| task.as_mut().poll(&mut cx)) {
        Poll::Ready(done) => done.map(PgasFuture::ready),
        Poll::Pending => Ok(world.spawn(task)),
    }
}
