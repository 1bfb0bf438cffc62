//! Batches of operations, which hide the latency of memory or network.
//!
//! If all slots are local, the home slots of later operations are [prefetched](local) into the
//! cache. If ranks serve requests, operations are sent to the home ranks of their keys, many in a
//! message and to all ranks at once; what the home rank cannot finish is one-sided. Otherwise the
//! reads of many operations are [in flight together](remote).

pub(super) mod local;
mod remote;

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pgas_core::atomics::AtomicNumber;
use pgas_core::{Pod, part_of};

use super::counts::Counts;
use super::op::OnKey;
use super::operations::{Count, Find, Fold, Remove, Upsert};
use super::outcome::{Effect, Outcome as _};
use super::phase::{Changes, Inserts, Phase};
use super::remote::request;
use super::served::{Answer, OnShards};
use super::shard::Served;
use super::table::{Table, dispatch_locality};
use super::{Combine, HashMap};
use crate::object::{self, FoundBy, Heap, KeyHasher, KeyOf, Object, Plain};
use crate::requests::{Batch, Way, With};
use crate::{BatchError, Error, Result};

/// Operations of a batch in one section, if slots are reused.
const SECTION: usize = 256;

/// Operations of a batch whose steps are counted together.
const COUNTED: usize = 4096;

/// Elements of an iterator in one batch.
const EXTENT: usize = 512;

/// The keys that a batch has inserted or removed so far. A panic of a function of the program ends
/// the batch; then they are counted by the drop.
struct Changed<'t> {
    counts: &'t Counts,
    effect: Effect,
    n: usize,
}

impl<'t> Changed<'t> {
    fn by(effect: Effect, counts: &'t Counts) -> Self {
        let n = 0;
        Self { counts, effect, n }
    }
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        self.counts.count(self.effect, self.n as u64);
    }
}

/// Runs `perform`. Its panic becomes an error, and is kept.
fn unless_panic<R>(
    kept: &mut Option<Box<dyn Any + Send>>,
    perform: impl FnOnce() -> Result<R>,
) -> Result<R> {
    catch_unwind(AssertUnwindSafe(perform)).unwrap_or_else(|panic| {
        *kept = Some(panic);
        Err(panicked())
    })
}

/// The error of an operation whose panic is kept. Nobody sees it.
fn panicked() -> Error {
    Error::Argument("a function of the program panicked".into())
}

/// Calls `perform` with some of `elements` after others, and returns the sum of its results.
pub(super) fn in_parts<T>(
    elements: impl IntoIterator<Item = T>,
    mut perform: impl FnMut(Vec<T>) -> Result<usize, BatchError>,
) -> Result<usize, BatchError> {
    let (mut elements, mut sum, mut before) = (elements.into_iter(), 0, 0);
    loop {
        let some: Vec<T> = elements.by_ref().take(EXTENT).collect();
        let n = some.len();
        if n == 0 {
            return Ok(sum);
        }
        let performed = perform(some);
        sum += performed.map_err(|BatchError { done, error }| BatchError {
            done: before + done,
            error,
        })?;
        before += n;
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Performs `O` on the keys of `elements`, in their order. `given` makes the arguments for an
    /// element. Returns the number of inserted or removed keys.
    #[track_caller]
    pub(super) fn perform_many<'k, O, E>(
        &self,
        elements: &'k [E],
        key: impl Fn(&'k E) -> Result<KeyOf<K>> + Copy,
        given: impl Fn(&'k E, &Heap) -> Result<O::Given> + Copy,
    ) -> Result<usize, BatchError>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        // Where `local` is there, nothing is counted.
        let rows = O::rows().filter(|_| self.local.is_none());
        let performing = rows.map(|[_, row]| self.world().performs(row, elements.len()));
        let changed = self.perform_many_into::<O, E>(elements, key, given, |_, _| {});
        if let (Some(mut performing), Ok(n_changed)) = (performing, &changed) {
            // The keys that were absent.
            performing.miss(match O::EFFECT {
                Effect::Remove => elements.len() - n_changed,
                _ => *n_changed,
            });
        }
        changed
    }

    /// As [`perform_many`](Self::perform_many). `take` receives the index and the result of each
    /// operation.
    #[track_caller]
    pub(super) fn perform_many_into<'k, O, E>(
        &self,
        elements: &'k [E],
        key: impl Fn(&'k E) -> Result<KeyOf<K>> + Copy,
        given: impl Fn(&'k E, &Heap) -> Result<O::Given> + Copy,
        mut take: impl FnMut(usize, O::Outcome),
    ) -> Result<usize, BatchError>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let Some(served) = self.served().filter(|_| !self.is_local()) else {
            return self.perform_many_one_sided::<O, E>(elements, key, given, take);
        };
        let _waits = part_of(O::EFFECT.whole());
        let mut changed = Changed::by(O::EFFECT, &self.counts);
        let ended =
            self.perform_many_by_messages::<O, E>(served, elements, key, given, &mut |i, done| {
                changed.n += usize::from(O::is_change(&done));
                take(i, done);
            });
        let n_changed = self.count_batch(changed);
        ended.map(|()| n_changed)
    }

    /// As [`perform_many_into`](Self::perform_many_into), without messages.
    #[track_caller]
    fn perform_many_one_sided<'k, O: OnKey<K, V, Given: Copy>, E>(
        &self,
        elements: &'k [E],
        key: impl Fn(&'k E) -> Result<KeyOf<K>> + Copy,
        given: impl Fn(&'k E, &Heap) -> Result<O::Given> + Copy,
        mut take: impl FnMut(usize, O::Outcome),
    ) -> Result<usize, BatchError> {
        let _waits = part_of(O::EFFECT.whole());
        let n_together = match (&self.reused, &self.counted) {
            (Some(_), _) => SECTION,
            (_, Some(_)) => COUNTED,
            (None, None) => elements.len(),
        };
        let (mut n_all, mut rest, mut room) = (0, elements, None);
        while !rest.is_empty() {
            let part = &rest[..n_together.min(rest.len())];
            let mut changed = Changed::by(O::EFFECT, &self.counts);
            let n_before = elements.len() - rest.len();
            let (take, n) = (&mut |i, done| take(n_before + i, done), &mut changed.n);
            let ended = dispatch_locality!(self, |view| {
                view.perform_batch::<O, E>(part, key, given, take, n)
            });
            n_all += self.count_batch(changed);
            let Err(BatchError { done, error }) = ended else {
                (rest, room) = (&rest[part.len()..], None);
                continue;
            };
            rest = &rest[done..];
            let done = elements.len() - rest.len();
            let has_room = match (&self.reused, &error) {
                (Some(reused), Error::Full { .. }) => self.shape.try_make_room(reused, &mut room),
                _ => Ok(false),
            };
            match has_room {
                Ok(true) => {}
                Ok(false) => return Err(BatchError { done, error }),
                Err(error) => return Err(BatchError { done, error }),
            }
        }
        Ok(n_all)
    }

    /// As [`perform_many_into`](Self::perform_many_into), by messages.
    fn perform_many_by_messages<'k, O, E>(
        &self,
        served: &Served<K, V, S>,
        elements: &'k [E],
        key: impl Fn(&'k E) -> Result<KeyOf<K>> + Copy,
        given: impl Fn(&'k E, &Heap) -> Result<O::Given> + Copy,
        take: &mut impl FnMut(usize, O::Outcome),
    ) -> Result<(), BatchError>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let (view, mut panic) = (self.view_remote(), None);
        let perform = |i: usize| {
            let key = key(&elements[i])?;
            let given = given(&elements[i], self.heap())?;
            O::perform(&view, view.hash(&key), &key, given)
        };
        let take = &mut |i: usize, answer: Option<With<'_, Answer<O, K, V>>>| {
            let done = match answer {
                Some((answer, parcel)) => O::Outcome::of_answer(answer, parcel),
                None => unless_panic(&mut panic, || perform(i)),
            };
            take(i, done?);
            Ok(())
        };
        let mut batch = Batch::<OnShards<O, K, V, S>>::new(served, elements.len());
        let push_all = || {
            for (i, element) in elements.iter().enumerate() {
                let key = match key(element) {
                    Ok(key) => key,
                    Err(error) => {
                        batch.fail(i, error);
                        break;
                    }
                };
                let hash = view.hash(&key);
                let way = Way {
                    index: self.shape.ring.home(hash).member(),
                    to: || self.shape.home_rank(hash),
                    key: hash.bits(),
                };
                let request =
                    |parcel: &Heap| request::<K, V, O>(&key, given(element, parcel)?, parcel);
                if !batch.push(i, way, request, take) {
                    break;
                }
            }
        };
        let pushed = catch_unwind(AssertUnwindSafe(push_all));
        // What is under way is waited for, and counted, before a panic goes on.
        let ended = batch.finish(take);
        if let Some(panic) = panic.or(pushed.err()) {
            resume_unwind(panic);
        }
        ended
    }

    /// Counts inserted or removed keys. Called outside of sections.
    #[inline]
    pub(super) fn count(&self, effect: Effect, n_changed: usize) {
        self.counts.count(effect, n_changed as u64);
        if effect == Effect::Remove
            && let Some(reused) = &self.reused
        {
            self.shape
                .note_removals(reused, &self.counts, n_changed as u64);
        }
    }

    /// As [`count`](Self::count), for those of a batch. Returns their number.
    #[inline]
    fn count_batch(&self, mut changed: Changed<'_>) -> usize {
        let n = mem::take(&mut changed.n);
        self.count(changed.effect, n);
        n
    }

    /// Finds the values of `keys`, in phase `P`.
    #[track_caller]
    pub(super) fn find_many<P: Phase, Q>(&self, keys: &[Q], values: &mut [Option<V>]) -> Result<()>
    where
        K: FoundBy<Q>,
    {
        if let Some(all) = &self.local {
            return self
                .view_local(all)
                .find_many_prefetched::<P, _>(keys, values);
        }
        let _waits = part_of(Effect::Read.whole());
        if let Some(reused) = &self.reused {
            let mut parts = keys.chunks(SECTION).zip(values.chunks_mut(SECTION));
            return parts.try_for_each(|(keys, values)| {
                self.shape.in_section(reused, |view| {
                    view.find_many_prefetched::<P, _>(keys, values)
                })
            });
        }
        let row = <Find<P> as OnKey<K, V>>::rows().map(|[_, row]| row);
        let performing = row.map(|row| self.world().performs(row, keys.len()));
        if let Some(all) = &self.counted {
            for (keys, values) in keys.chunks(COUNTED).zip(values.chunks_mut(COUNTED)) {
                let view = self.view_counted(all, P::IS_READ_ONLY);
                let find = || view.find_many_prefetched::<P, _>(keys, values);
                self.world().count_steps(find)?;
            }
        } else {
            let take = |i: usize, value| values[i] = value;
            self.perform_many_into::<Find<P>, _>(keys, |key| K::key_by(key), |_, _| Ok(()), take)?;
            self.world().look_around()?;
        }
        if let Some(mut performing) = performing {
            let values = values[..keys.len()].iter();
            performing.miss(values.filter(|value| value.is_none()).count());
        }
        Ok(())
    }
}

impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// [Removes](Self::remove) all `keys`, and returns how many were there. A key that occurs twice
    /// in `keys` counts once.
    ///
    /// # Cost
    ///
    /// That of a [`remove`](Self::remove) for each key; behind a network latency is paid once for
    /// many. One-sided; or M for each rank and as many keys as a message carries. Complete at the
    /// target on return.
    ///
    /// # Errors
    ///
    /// Those of [`remove`](Self::remove), with the number of keys that were removed before. Behind
    /// a network some of those behind may be removed, too.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<u64, u64>::with_capacity(&world, 100)?;
    /// map.insert_many(&[(1, 10), (2, 20), (3, 30)])?;
    /// assert_eq!(map.remove_many(&[3, 4, 1, 3])?, 2);
    /// assert_eq!(map.find_many(&[1, 2, 3])?, [None, Some(20), None]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn remove_many<Q>(&self, keys: &[Q]) -> Result<usize, BatchError>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.table
            .perform_many::<Remove, _>(keys, |key| K::key_by(key), |_, _| Ok(()))
    }

    /// Inserts all entries of an iterator, by [`insert_many`](Self::insert_many) of some hundred at
    /// a time, and returns how many of their keys were new.
    ///
    /// # Cost
    ///
    /// As [`insert_many`](Self::insert_many).
    ///
    /// # Errors
    ///
    /// As [`insert_many`](Self::insert_many).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let lengths = HashMap::<String, usize>::with_capacity(&world, 100)?;
    /// let text = "the cat and the dog";
    /// assert_eq!(lengths.extend(text.split(' ').map(|word| (word, word.len())))?, 4);
    /// assert_eq!(lengths.find("cat")?, Some(3));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn extend<Q>(&self, entries: impl IntoIterator<Item = (Q, V)>) -> Result<usize, BatchError>
    where
        P: Inserts,
        K: FoundBy<Q>,
    {
        let _waits = part_of(Effect::Claim.whole());
        in_parts(entries, |some| self.insert_many(&some))
    }

    /// For each of `entries`, in their order: combines the key's value with the entry's by `C`,
    /// atomically, or inserts the entry if the key is absent. Returns how many keys were new.
    ///
    /// As [`upsert`](Self::upsert), but the function is a type, since captured values of a closure
    /// would not travel: the rank that holds the slot may be the one that combines.
    /// [`Combine::combine`] runs again each time that another rank changed the value meanwhile; if
    /// it panics, also on another rank, so does this call, and the entry is as before.
    ///
    /// # Cost
    ///
    /// That of an [`upsert`](Self::upsert) for each entry, and 2A + W for a new key; behind a
    /// network the latency of combining words is paid once for many. One-sided; or M for each rank
    /// and as many entries as a message carries. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Those of [`upsert`](Self::upsert), with the number of entries that were combined or inserted
    /// before. Behind a network some of those behind may be, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::HashMap;
    /// use pgas_containers::hash_map::Combine;
    ///
    /// /// The larger one of two values.
    /// enum Max {}
    /// impl<V: Copy + Ord> Combine<V> for Max {
    ///     fn combine(there: V, given: &V) -> V {
    ///         there.max(*given)
    ///     }
    /// }
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let highest = HashMap::<char, u64>::with_capacity(&world, 100)?;
    /// assert_eq!(highest.upsert_many::<Max>(&[('a', 3), ('b', 1), ('a', 2), ('b', 7)])?, 2);
    /// assert_eq!(highest.find_many(&['a', 'b'])?, [Some(3), Some(7)]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn upsert_many<C: Combine<V>>(&self, entries: &[(K, V)]) -> Result<usize, BatchError>
    where
        P: Changes,
    {
        let table = &self.table;
        if object::has_heap::<V>() && (table.is_local() || table.served().is_none()) {
            let heap = table.heap();
            return table.perform_many_one_sided::<Fold<_>, _>(
                entries,
                |entry| K::key_by(&entry.0),
                |(_, value), _| {
                    Ok(move |there| match there {
                        Some(there) => object::to_slot(&C::combine(there, value), heap),
                        None => object::to_slot(value, heap),
                    })
                },
                |_, _| {},
            );
        }
        let value = |entry: &(K, V), heap: &Heap| object::to_slot(&entry.1, heap);
        table.perform_many::<Upsert<C>, _>(entries, |entry| K::key_by(&entry.0), value)
    }
}

impl<K, V, P, S> HashMap<K, V, P, S>
where
    K: Object,
    V: AtomicNumber + Object<Repr = Plain>,
    P: Phase,
    S: KeyHasher,
{
    /// Adds `n` to the value of each of `keys`, in their order, and returns how many of them were
    /// new; those begin with 0. A key that occurs twice in `keys` is added to twice.
    ///
    /// # Cost
    ///
    /// That of a [`fetch_add`](Self::fetch_add) for each key: 2A + R, or 2A + W for a new one.
    /// Behind a network latency is paid once for many. One-sided; or M for each rank and as many
    /// keys as a message carries. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Those of [`fetch_add`](Self::fetch_add), with the number of keys that were added to before.
    /// Behind a network some of those behind may be added to, too.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let counts = HashMap::<u64, u64>::with_capacity(&world, 100)?;
    /// assert_eq!(counts.add_many(&[3, 1, 3, 3], 1)?, 2);
    /// assert_eq!(counts.find_many(&[3, 1])?, [Some(3), Some(1)]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn add_many<Q>(&self, keys: &[Q], n: V) -> Result<usize, BatchError>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.table
            .perform_many::<Count, _>(keys, |key| K::key_by(key), |_, _| Ok(n))
    }

    /// Adds the number of each of `entries` to the value of its key, and returns how many of the
    /// keys were new; those begin with 0. A sum of floats depends on the order of the additions,
    /// which is any.
    ///
    /// # Cost
    ///
    /// As [`add_many`](Self::add_many).
    ///
    /// # Errors
    ///
    /// As [`add_many`](Self::add_many).
    #[track_caller]
    pub fn add_each<Q>(&self, entries: &[(Q, V)]) -> Result<usize, BatchError>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        let table = &self.table;
        table.perform_many::<Count, _>(entries, |entry| K::key_by(&entry.0), |entry, _| Ok(entry.1))
    }
}
