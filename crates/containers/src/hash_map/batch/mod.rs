//! Many operations at once, which hide each other's latency.
//!
//! Where all slots are directly addressable, the home slots of the operations ahead are prefetched into
//! the cache. Elsewhere their reads travel together: see [`pipeline`].

mod pipeline;

use pgas_core::Pod;
use pgas_core::atomics::AtomicInteger;

use super::walk::Slots;
use super::{HashMap, Home, Inserted};
use crate::{BatchError, Error, Result};

/// How many operations ahead a home slot is prefetched: enough to cover the latency of memory, few
/// enough for the processor's outstanding loads.
const AHEAD: usize = 24;

impl<K: Pod, V: Pod> HashMap<K, V> {
    /// The values of `keys`, in their order.
    ///
    /// # Cost
    ///
    /// That of a [`find`](Self::find) for each key; the latency is paid once for many. One-sided.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<u64, u32>::with_capacity(&world, 100)?;
    /// map.insert_many(&[(1, 10), (2, 20)])?;
    /// assert_eq!(map.find_many(&[2, 3, 1])?, [Some(20), None, Some(10)]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn find_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut values = vec![None; keys.len()];
        self.find_many_into(keys, &mut values)?;
        Ok(values)
    }

    /// Writes the values of `keys` to the elements of `values` with the same indices.
    ///
    /// # Cost
    ///
    /// As [`find_many`](Self::find_many).
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find); then some of `values` may have been written.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn find_many_into(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        let (n, room) = (keys.len(), values.len());
        assert_eq!(n, room, "{n} keys, but room for {room} values");
        if !self.direct {
            return self.find_together(keys, values);
        }
        let found = self.each_prefetched(
            n,
            |i| &keys[i],
            |i, home| {
                values[i] = self.find_from(home, &keys[i])?;
                Ok(())
            },
        );
        found.map_err(Error::from)
    }

    /// Inserts all `entries`, in their order, and returns how many of their keys were new.
    ///
    /// # Cost
    ///
    /// That of an [`insert`](Self::insert) for each entry; the latency is paid once for many. One-sided.
    /// Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), with the number of entries that were inserted before.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::{Error, HashMap};
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<u64, u64>::with_capacity(&world, 2)?;
    /// let refused = map.insert_many(&[(1, 10), (2, 20), (1, 11), (3, 30), (2, 21)]).unwrap_err();
    /// assert_eq!(refused.done, 3); // (3, 30) found no room
    /// assert!(matches!(refused.error, Error::Full { capacity: 2 }));
    /// assert_eq!(map.find_many(&[1, 2])?, [Some(11), Some(20)]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn insert_many(&self, entries: &[(K, V)]) -> Result<usize, BatchError> {
        if !self.direct {
            return self.insert_together(entries);
        }
        let mut n_new = 0;
        let inserted = self.each_prefetched(
            entries.len(),
            |i| &entries[i].0,
            |i, home| {
                let (key, value) = entries[i];
                n_new += usize::from(self.insert_from(home, &key, value)? == Inserted::New);
                Ok(())
            },
        );
        self.count_new(n_new as u64);
        inserted.map(|()| n_new)
    }

    /// Calls `op` with each index in turn and the home slot of its key, prefetched some calls before.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the loop of every batch, around its operation"
    )]
    fn each_prefetched<'k>(
        &self,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        mut op: impl FnMut(usize, Home) -> Result<()>,
    ) -> Result<(), BatchError> {
        let begin = |i: usize| {
            let home = self.home(key(i));
            self.slot(home.at).prefetch();
            home
        };
        let Some(last) = n.checked_sub(1) else {
            return Ok(());
        };
        // Behind the last element its home slot is prefetched again, which spares the loop a branch.
        let mut homes: [Home; AHEAD] = std::array::from_fn(|i| begin(i.min(last)));
        let mut place = 0;
        for i in 0..n {
            let home = std::mem::replace(&mut homes[place], begin((i + AHEAD).min(last)));
            place = if place + 1 == AHEAD { 0 } else { place + 1 };
            op(i, home).map_err(|error| BatchError { done: i, error })?;
        }
        Ok(())
    }
}

impl<K: Pod, V: AtomicInteger> HashMap<K, V> {
    /// Adds `n` to the value of each of `keys`, in their order, and returns how many of them were new;
    /// those begin with 0. A key that stands there twice is counted twice.
    ///
    /// # Cost
    ///
    /// That of a [`fetch_add`](Self::fetch_add) for each key; the latency is paid once for many.
    /// One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Those of [`fetch_add`](Self::fetch_add), with the number of keys that were added to before.
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
    pub fn add_many(&self, keys: &[K], n: V) -> Result<usize, BatchError> {
        self.add_indexed(keys.len(), |i| &keys[i], |_| n)
    }

    /// Adds to the value of each entry's key the entry's number, in their order, and returns how many of
    /// the keys were new; those begin with 0.
    ///
    /// # Cost
    ///
    /// As [`add_many`](Self::add_many).
    ///
    /// # Errors
    ///
    /// As [`add_many`](Self::add_many).
    pub fn add_each(&self, entries: &[(K, V)]) -> Result<usize, BatchError> {
        self.add_indexed(entries.len(), |i| &entries[i].0, |i| entries[i].1)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the loop of counting")]
    fn add_indexed<'k>(
        &self,
        len: usize,
        key: impl Fn(usize) -> &'k K,
        n: impl Fn(usize) -> V,
    ) -> Result<usize, BatchError> {
        if !self.direct {
            return self.add_together(len, key, n);
        }
        let mut n_new = 0;
        let added = self.each_prefetched(len, &key, |i, home| {
            n_new += usize::from(self.add_from(home, key(i), n(i))?.is_none());
            Ok(())
        });
        self.count_new(n_new as u64);
        added.map(|()| n_new)
    }
}
