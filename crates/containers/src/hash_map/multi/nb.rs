//! Operations on maps with several values for each key that do not wait.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use pgas_am::{PgasFuture, RemoteCalls as _, when_all};
use pgas_core::process::discard_panic;

use super::super::nb::flight::start;
use super::super::op::{Add, OnKey};
use super::super::operations::{Contains, Find, Insert, Remove};
use super::super::phase::{Atomic, Finds, Phase};
use super::super::table::Common;
use super::{MultiMap, Numbers, Removed, removed};
use crate::object::{self, FoundBy, Heap, KeyHasher, KeyOf, Object};
use crate::{Result, TakeError};

/// The result of `task`, or its panic.
async fn unless_panic<T>(task: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut task = pin!(task);
    poll_fn(|cx| {
        let poll = AssertUnwindSafe(|| task.as_mut().poll(cx));
        match catch_unwind(poll) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

/// An operation in flight on a key: of both maps.
struct InFlight<K: Object, V: Object, S> {
    key: KeyOf<K>,
    numbers: Arc<Common<K, u64, S>>,
    values: Arc<Common<(K, u64), V, S>>,
}

impl<K: Object, V: Object, S: KeyHasher> InFlight<K, V, S> {
    /// The key of the value with this number.
    fn place(&self, number: u32) -> KeyOf<(K, u64)> {
        (self.key.clone(), number.into())
    }

    async fn numbers<P: Finds>(&self) -> Result<Numbers> {
        let word = self.numbers.step::<Find<P>>(&self.key, |_| Ok(())).await?;
        Ok(Numbers::of(word.unwrap_or(0)))
    }

    /// As [`MultiMap::insert`].
    async fn insert(&self, value: V) -> Result<u64> {
        loop {
            let numbers = self.next_number().await?;
            match unless_panic(self.insert_at(numbers.next, &value)).await {
                Ok(is_there) => {
                    if is_there? {
                        return self.count_of(numbers).await;
                    }
                }
                Err(panic) => {
                    // What panics again, or fails, cannot be helped.
                    if let Err(panic) = unless_panic(self.settle(numbers.next)).await {
                        discard_panic(panic);
                    }
                    resume_unwind(panic);
                }
            }
        }
    }

    /// Inserts the value under this number, which was taken for it. Returns false if a removal had
    /// passed the number and has not found the value: it is not there, and the insert begins again.
    async fn insert_at(&self, number: u32, value: &V) -> Result<bool> {
        let slot = |heap: &Heap| object::to_slot(value, heap);
        let place = self.place(number);
        if let Err(error) = self.values.step::<Insert>(&place, slot).await {
            let give_back = |word| Numbers::without(word, number);
            self.numbers.update(&self.key, give_back).await?;
            return Err(error);
        }
        // As in the blocking form: the removal takes the value out, or this rank does.
        let is_passed = self.numbers::<Atomic>().await?.first > number;
        Ok(!is_passed || !self.values.step::<Remove>(&place, |_| Ok(())).await?)
    }

    /// As [`MultiMap::settle`].
    async fn settle(&self, number: u32) -> Result<()> {
        let unknown = |word| Numbers::with_unknown(word, number);
        let word = self.numbers.update(&self.key, unknown).await?;
        if number < Numbers::of(word.unwrap_or(0)).first {
            let place = self.place(number);
            self.values.step::<Remove>(&place, |_| Ok(())).await?;
        }
        Ok(())
    }

    /// Takes a new number for a value: `next` of the result.
    async fn next_number(&self) -> Result<Numbers> {
        let former = self.numbers.step::<Add>(&self.key, |_| Ok(1)).await?;
        let numbers = Numbers::of(former.unwrap_or(0));
        if numbers.next < Numbers::END {
            return Ok(numbers);
        }
        self.numbers
            .step::<Add>(&self.key, |_| Ok(u64::MAX))
            .await?;
        Err(Numbers::used_up())
    }

    /// The results of `O` for each value, all of them in flight at once.
    async fn each<O>(&self, numbers: Numbers) -> Result<Vec<O::Outcome>>
    where
        O: OnKey<(K, u64), V, Given = (), Outcome: Send> + 'static,
    {
        let begun = (numbers.first..numbers.next).map(|number| {
            let (values, place) = (Arc::clone(&self.values), self.place(number));
            let step = async move { values.step::<O>(&place, |_| Ok(())).await };
            start(self.values.shape.world(), step)
        });
        let begun: Vec<_> = begun.collect::<Result<_>>()?;
        when_all(begun).await
    }

    async fn count_of(&self, numbers: Numbers) -> Result<u64> {
        if !numbers.has_gaps {
            return Ok(numbers.span());
        }
        let there = self.each::<Contains<Atomic>>(numbers).await?;
        Ok(there.into_iter().map(u64::from).sum())
    }

    /// As [`MultiMap::remove`].
    async fn remove(&self) -> Result<Result<Vec<V>, TakeError<V>>> {
        let take_all = |word| Numbers::of(word).without_values();
        let former = self.numbers.update(&self.key, take_all).await?;
        let Numbers { first, next, .. } = Numbers::of(former.unwrap_or(0));
        // From here on nobody else finds the values. The panic of a task is the error of its value.
        let begun = (first..next).map(|number| {
            let (values, place) = (Arc::clone(&self.values), self.place(number));
            let take = async move {
                let value = values.step::<Find<Atomic>>(&place, |_| Ok(())).await;
                let is_removed = if matches!(value, Ok(None)) {
                    Ok(false)
                } else {
                    values.step::<Remove>(&place, |_| Ok(())).await
                };
                Ok((is_removed, value))
            };
            let world = self.values.shape.world();
            let first = catch_unwind(AssertUnwindSafe(|| start(world, take)));
            let begun = first.unwrap_or_else(|panic| {
                let ends = async move { resume_unwind(panic) };
                Ok(world.spawn(ends).or_fail_at_limit())
            });
            begun.map(|begun| (number, begun))
        });
        let begun: Vec<_> = begun.collect::<Result<_>>()?;
        let mut taken = Vec::with_capacity(begun.len());
        for (number, take) in begun {
            let one: Removed<V> = match take.await {
                Ok(one) => one,
                Err(error) => {
                    self.drop_value(number).await;
                    (Err(error), Ok(None))
                }
            };
            taken.push(one);
        }
        Ok(removed(taken.into_iter()))
    }

    /// Removes a value after a panic. What panics again, or fails, cannot be helped.
    async fn drop_value(&self, number: u32) {
        let place = self.place(number);
        let removed = self.values.step::<Remove>(&place, |_| Ok(()));
        if let Err(panic) = unless_panic(removed).await {
            discard_panic(panic);
        }
    }
}

/// Single operations that do not wait, as those of [`HashMap`](crate::HashMap#method.insert_nb).
/// The reads, or the removals, of all values of a key are in flight together.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> MultiMap<K, V, P, S> {
    /// Whether operations on the key are performed before the call returns.
    fn is_at_once(&self) -> bool {
        self.numbers.table.is_at_once() || self.values.table.is_at_once()
    }

    fn begin(&self, key: KeyOf<K>) -> InFlight<K, V, S> {
        InFlight {
            key,
            numbers: Arc::clone(&self.numbers.table.common),
            values: Arc::clone(&self.values.table.common),
        }
    }

    /// Begins a [`find`](Self::find).
    ///
    /// # Cost
    ///
    /// That of a [`find`](Self::find); allocations as
    /// [`HashMap::insert_nb`](crate::HashMap::insert_nb), for each value.
    ///
    /// # Errors
    ///
    /// Those of [`find`](Self::find), at once or by the future.
    #[track_caller]
    pub fn find_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<Vec<V>>>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        if self.is_at_once() {
            return self.find(key).map(PgasFuture::ready);
        }
        let find = self.begin(K::key_by(key)?);
        start(self.numbers.table.world(), async move {
            let numbers = find.numbers::<P>().await?;
            let values = find.each::<Find<P>>(numbers).await?;
            Ok(values.into_iter().flatten().collect())
        })
    }

    /// Begins a [`count`](Self::count).
    ///
    /// # Cost
    ///
    /// That of a [`count`](Self::count); allocations as
    /// [`HashMap::insert_nb`](crate::HashMap::insert_nb).
    ///
    /// # Errors
    ///
    /// As [`find_nb`](Self::find_nb).
    #[track_caller]
    pub fn count_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<u64>>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        if self.is_at_once() {
            return self.count(key).map(PgasFuture::ready);
        }
        let count = self.begin(K::key_by(key)?);
        start(self.numbers.table.world(), async move {
            let numbers = count.numbers::<P>().await?;
            count.count_of(numbers).await
        })
    }
}

impl<K: Object, V: Object, S: KeyHasher> MultiMap<K, V, Atomic, S> {
    /// Begins an [`insert`](Self::insert). If several inserts of one key are in flight at once, the
    /// values may get any order.
    ///
    /// # Cost
    ///
    /// That of an [`insert`](Self::insert); allocations as
    /// [`HashMap::insert_nb`](crate::HashMap::insert_nb).
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), at once or by the future.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::when_all;
    /// use pgas_containers::MultiMap;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let lines = MultiMap::<u32, u64>::with_capacity(&world, 100)?;
    /// let inserts = [(1, 10), (2, 20), (1, 11)].map(|(word, line)| lines.insert_nb(&word, line));
    /// let inserts = inserts.into_iter().collect::<Result<Vec<_>, _>>()?; // all are in flight
    /// when_all(inserts).wait()?;
    /// let (found, n) = when_all((lines.find_nb(&2)?, lines.count_nb(&1)?)).wait()?;
    /// assert_eq!((found, n), (vec![20], 2));
    /// let mut removed = lines.remove_nb(&1)?.wait()??;
    /// removed.sort_unstable();
    /// assert_eq!(removed, [10, 11]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn insert_nb<Q: ?Sized>(&self, key: &Q, value: V) -> Result<PgasFuture<u64>>
    where
        K: FoundBy<Q>,
    {
        if self.is_at_once() {
            return self.insert(key, value).map(PgasFuture::ready);
        }
        let insert = self.begin(K::key_by(key)?);
        start(self.numbers.table.world(), async move {
            insert.insert(value).await
        })
    }

    /// Begins a [`remove`](Self::remove).
    ///
    /// # Cost
    ///
    /// That of a [`remove`](Self::remove); allocations as
    /// [`HashMap::insert_nb`](crate::HashMap::insert_nb), for each value.
    ///
    /// # Errors
    ///
    /// An error before anything was removed, at once or by the future. Else the future's value is
    /// the result of [`remove`](Self::remove), whose error has the values that could be read. A
    /// panic of the hasher for one of the values costs that value alone.
    #[track_caller]
    pub fn remove_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<Result<Vec<V>, TakeError<V>>>>
    where
        K: FoundBy<Q>,
    {
        if self.is_at_once() {
            return Ok(PgasFuture::ready(self.remove(key)));
        }
        let remove = self.begin(K::key_by(key)?);
        start(
            self.numbers.table.world(),
            async move { remove.remove().await },
        )
    }
}
