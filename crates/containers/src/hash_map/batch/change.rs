//! Batches that take keys away, or join values with those that are there.

use pgas_lockfree::slots;

use super::super::hash::Hash;
use super::super::part::Served;
use super::super::phase::{Changes, Phase};
use super::super::served::{Remove, Upsert};
use super::super::slot::Access;
use super::super::slot::remote::Remote;
use super::super::table::{LocalView, Table};
use super::super::view::{Inserted, View};
use super::super::{Combine, HashMap};
use super::Outcome;
use crate::object::{self, KeyHasher, KeyOf, Object};
use crate::{BatchError, Result};

impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// [Removes](Self::remove) all `keys`, and returns how many were there. A key that stands there
    /// twice is there once.
    ///
    /// # Cost
    ///
    /// That of a [`remove`](Self::remove) for each key; behind a network the latency of the searches is
    /// paid once for many. One-sided; or M for each rank and as many keys as a message carries.
    /// Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Those of [`remove`](Self::remove), with the number of keys that were removed before. Where they
    /// travel by messages (M), some of those behind may be removed, too.
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
    pub fn remove_many(&self, keys: &[K]) -> Result<usize, BatchError>
    where
        P: Changes,
    {
        let (mut n_all, table) = (0, &self.table);
        let n_together = table.n_together(keys.len());
        for (part, keys) in keys.chunks(n_together).enumerate() {
            let mut n_removed = 0;
            let mut count = |was_there| n_removed += usize::from(was_there);
            let removed = table.together(|local| match (local, table.served()) {
                (Some(view), _) => view.remove_ahead(keys, &mut count),
                (None, Some(served)) => table.remove_served(served, keys, &mut count),
                (None, None) => table.view_remote().remove_together(keys, &mut count),
            });
            table.count_removals(n_removed as u64);
            n_all += n_removed;
            removed.map_err(|failed| BatchError {
                done: part * n_together + failed.done,
                ..failed
            })?;
        }
        Ok(n_all)
    }

    /// For each of `entries`, in their order: joins the value of the key with the entry's by `C`,
    /// atomically, or inserts the entry's if the key is absent. Returns how many keys were new.
    ///
    /// As [`upsert`](Self::upsert), but by a type, since what a closure captures does not travel: the
    /// rank that has the slot may be the one that joins. [`Combine::combine`] runs again each time that
    /// another rank changed the value meanwhile; if it panics, the entry is as before.
    ///
    /// # Cost
    ///
    /// That of an [`upsert`](Self::upsert) for each entry; behind a network the latency of the searches
    /// is paid once for many keys that are there. One-sided; or M for each rank and as many entries as
    /// a message carries. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Those of [`upsert`](Self::upsert), with the number of entries that were joined or inserted
    /// before. Where they travel by messages (M), some of those behind may be, too, and a panic at
    /// another rank is an error.
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
    pub fn upsert_many<C: Combine<V>>(&self, entries: &[(K, V)]) -> Result<usize, BatchError>
    where
        P: Changes,
    {
        let table = &self.table;
        table.counted(entries.len(), |part, local| match (local, table.served()) {
            (Some(view), _) => view.upsert_ahead::<C>(&entries[part]),
            (None, Some(served)) => table.upsert_served::<C>(served, &entries[part]),
            (None, None) => table.view_remote().upsert_together::<C>(&entries[part]),
        })
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Joins what is there with `value` by `C`, or inserts `value`.
    pub(in super::super) fn combine<C: Combine<V>>(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: &V,
    ) -> Result<Inserted> {
        let join = |there| Ok(C::combine(there, value));
        if !object::has_heap::<V>() {
            let slot = object::to_slot(value, self.heap())?;
            let former = self.upsert(hash, key, slot, join)?;
            return Ok(Inserted::over(former.is_some()));
        }
        loop {
            if self.update(hash, key, join)?.is_some() {
                return Ok(Inserted::Replaced);
            }
            let slot = object::to_slot(value, self.heap())?;
            if self.get_or_insert(hash, key, slot)?.is_none() {
                return Ok(Inserted::New);
            }
        }
    }
}

impl<K: Object, V: Object, S: KeyHasher> LocalView<'_, K, V, S> {
    fn remove_ahead(&self, keys: &[K], count: &mut dyn FnMut(bool)) -> Result<(), BatchError> {
        self.keys_ahead(
            keys.len(),
            |i| &keys[i],
            |_, hash, key| {
                count(self.remove(hash, key)?);
                Ok(())
            },
        )
    }

    fn upsert_ahead<C: Combine<V>>(&self, entries: &[(K, V)]) -> Outcome {
        let key = |i: usize| &entries[i].0;
        self.change_ahead(entries.len(), key, |i, hash, key| {
            self.combine::<C>(hash, key, &entries[i].1)
        })
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Remote<'a>> {
    fn remove_together(&self, keys: &[K], count: &mut dyn FnMut(bool)) -> Result<(), BatchError> {
        self.each_located(
            keys.len(),
            |i| &keys[i],
            |_, search| {
                let remove = |held| slots::remove(&search.slot, self.heap(), held);
                count(search.held().map_or(Ok(false), remove)?);
                Ok(())
            },
        )
    }

    fn upsert_together<C: Combine<V>>(&self, entries: &[(K, V)]) -> Outcome {
        let mut n_new = 0;
        let key = |i: usize| &entries[i].0;
        let result = self.each_located(entries.len(), key, |i, search| {
            let value = &entries[i].1;
            if let Some(held) = search.held() {
                let join = |there| Ok(C::combine(there, value));
                if self.update_held(search.slot, held, join)?.is_some() {
                    return Ok(());
                }
            }
            let inserted = self.combine::<C>(self.hash(&search.key), &search.key, value)?;
            n_new += usize::from(inserted == Inserted::New);
            Ok(())
        });
        Outcome { n_new, result }
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    fn remove_served(
        &self,
        served: &Served<K, V, S>,
        keys: &[K],
        count: &mut dyn FnMut(bool),
    ) -> Result<(), BatchError> {
        let view = self.view_remote();
        let take = &mut |i: usize, was_there: Option<u8>| {
            count(match was_there {
                Some(was_there) => was_there != 0,
                None => {
                    let key = object::key(&keys[i])?;
                    view.remove(view.hash(&key), &key)?
                }
            });
            Ok(())
        };
        self.travel::<Remove>(served, keys.len(), |i| &keys[i], |_| Ok(()), take)
    }

    fn upsert_served<C: Combine<V>>(
        &self,
        served: &Served<K, V, S>,
        entries: &[(K, V)],
    ) -> Outcome {
        let view = self.view_remote();
        let value = |i: usize| object::to_slot(&entries[i].1, self.heap());
        let alone =
            |i: usize, key: &KeyOf<K>| view.combine::<C>(view.hash(key), key, &entries[i].1);
        let key = |i: usize| &entries[i].0;
        self.change_served::<Upsert<C>>(served, entries.len(), key, value, alone)
    }
}
