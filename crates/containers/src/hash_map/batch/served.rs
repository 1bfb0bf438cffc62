//! Batches where ranks serve each other: operations travel to the home ranks of their keys, many in a
//! message and to all ranks at once. What a rank does not do on its own is done one-sidedly.

use pgas_core::atomics::AtomicInteger;

use super::super::hash::Hash;
use super::super::part::Served;
use super::super::served::{Count, Find, Insert, OnKey, OnParts, Seek, There};
use super::super::slot::layout::Pair;
use super::super::table::Table;
use super::super::view::Inserted;
use super::Outcome;
use crate::object::{self, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};
use crate::requests::Batch;
use crate::{BatchError, Result};

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Has `O` carried out on `n` keys; `take` gets the answers, and carries out operations that have
    /// none.
    pub(super) fn travel<'k, O: OnKey<K, V, S>>(
        &self,
        served: &Served<K, V, S>,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        given: impl Fn(usize) -> Result<O::Given>,
        take: &mut impl FnMut(usize, Option<O::Answer>) -> Result<()>,
    ) -> Result<(), BatchError> {
        let mut batch = Batch::<OnParts<O, K, V, S>>::new(served, n);
        let request = |i| -> Result<_> {
            let key = object::key(key(i))?;
            let hash = Hash::of::<K>(&key, &*self.shape.hasher);
            let way = (self.shape.ring.home(hash).rank(), hash.bits());
            let key = <K::Repr as Repr<K>>::key_slot(&key, self.heap())?;
            Ok((way, Pair::new(key, given(i)?)))
        };
        for i in 0..n {
            match request(i) {
                Ok((way, request)) => {
                    if !batch.push(i, way, request, take) {
                        break;
                    }
                }
                Err(error) => {
                    batch.fail(i, error);
                    break;
                }
            }
        }
        batch.finish(take)
    }

    pub(super) fn find_served(
        &self,
        served: &Served<K, V, S>,
        keys: &[K],
        values: &mut [Option<V>],
        is_read_only: bool,
    ) -> Result<()> {
        let view = self.view_remote();
        let from_slot = |slot| object::from_slot::<V>(slot, self.heap());
        let take = &mut |i: usize, there: Option<There<SlotOf<V>>>| {
            values[i] = match there {
                Some(there) => there.value().map(from_slot).transpose()?,
                None => {
                    let key = object::key(&keys[i])?;
                    view.find(view.hash(&key), &key, is_read_only)?
                }
            };
            Ok(())
        };
        let (n, key, nothing) = (keys.len(), |i: usize| &keys[i], |_| Ok(()));
        let found = if is_read_only {
            self.travel::<Seek>(served, n, key, nothing, take)
        } else {
            self.travel::<Find>(served, n, key, nothing, take)
        };
        Ok(found?)
    }

    pub(super) fn insert_served(&self, served: &Served<K, V, S>, entries: &[(K, V)]) -> Outcome {
        let view = self.view_remote();
        let value = |i: usize| object::to_slot(&entries[i].1, self.heap());
        let alone = |i: usize, key: &KeyOf<K>| view.insert(view.hash(key), key, value(i)?);
        let key = |i: usize| &entries[i].0;
        self.change_served::<Insert>(served, entries.len(), key, value, alone)
    }

    /// Carries out an operation that says whether the key was there.
    pub(super) fn change_served<'k, O: OnKey<K, V, S, Answer = u8>>(
        &self,
        served: &Served<K, V, S>,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        given: impl Fn(usize) -> Result<O::Given>,
        alone: impl Fn(usize, &KeyOf<K>) -> Result<Inserted>,
    ) -> Outcome {
        let mut n_new = 0;
        let mut take = |i, was_there: Option<u8>| {
            let inserted = match was_there {
                Some(was_there) => Inserted::over(was_there != 0),
                None => alone(i, &object::key(key(i))?)?,
            };
            n_new += usize::from(inserted == Inserted::New);
            Ok(())
        };
        let result = self.travel::<O>(served, n, &key, given, &mut take);
        Outcome { n_new, result }
    }
}

impl<K, V, S> Table<K, V, S>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    S: KeyHasher,
{
    pub(super) fn add_served<'k>(
        &self,
        served: &Served<K, V, S>,
        len: usize,
        key: impl Fn(usize) -> &'k K,
        n: impl Fn(usize) -> SlotOf<V>,
    ) -> Outcome {
        let view = self.view_remote();
        let alone = |i: usize, key: &KeyOf<K>| -> Result<_> {
            let former = view.add(view.hash(key), key, n(i))?;
            Ok(Inserted::over(former.is_some()))
        };
        self.change_served::<Count>(served, len, key, |i| Ok(n(i)), alone)
    }
}
