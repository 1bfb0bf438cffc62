//! Parallel iteration over the local entries, by the threads of rayon's pool.

use rayon::prelude::*;

use super::iter::CHUNK;
use super::phase::{Looks, Phase};
use super::table::dispatch_locality;
use super::{HashMap, HashSet, MultiMap};
use crate::Result;
use crate::object::{KeyHasher, Object};

impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// As [`for_each_local`](Self::for_each_local), by all threads of rayon's pool.
    ///
    /// `f` must not wait for another rank: ranks that are threads share the pool, so that its
    /// threads might all wait for a rank whose own part waits for one of them.
    ///
    /// # Cost
    ///
    /// As [`local_iter`](Self::local_iter).
    ///
    /// # Errors
    ///
    /// As [`local_iter`](Self::local_iter); then `f` was called for some of the entries.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<u64, u64>::with_capacity(&world, 100)?;
    /// map.insert_many(&[(1, 10), (2, 20)])?;
    /// let sum = AtomicU64::new(0);
    /// map.par_for_each_local(|_, value| {
    ///     sum.fetch_add(value, Ordering::Relaxed);
    /// })?;
    /// assert_eq!(sum.into_inner(), 30);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[doc(alias = "for_each_par")]
    pub fn par_for_each_local(&self, f: impl Fn(K, V) + Sync) -> Result<()>
    where
        P: Looks,
    {
        let rank = self.team().rank();
        (0..self.table.shape.ring.local_capacity())
            .into_par_iter()
            .with_min_len(CHUNK)
            .try_for_each(|local| {
                let entry = dispatch_locality!(self.table, |view| view.entry_at(rank, local))?;
                if let Some((key, value)) = entry {
                    f(key, value);
                }
                Ok(())
            })
    }
}

impl<K: Object, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    /// Calls `f` with each key that this rank holds, by all threads of rayon's pool.
    ///
    /// `f` must not wait for another rank: ranks that are threads share the pool, so that its
    /// threads might all wait for a rank whose own part waits for one of them.
    ///
    /// # Cost
    ///
    /// As [`local_iter`](Self::local_iter).
    ///
    /// # Errors
    ///
    /// As [`local_iter`](Self::local_iter); then `f` was called for some of the keys.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashSet;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let set = HashSet::<u64>::with_capacity(&world, 1000)?;
    /// set.extend(0..500)?;
    /// let sum = AtomicU64::new(0);
    /// set.par_for_each_local(|key| {
    ///     sum.fetch_add(key, Ordering::Relaxed);
    /// })?;
    /// assert_eq!(sum.into_inner(), 500 * 499 / 2);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn par_for_each_local(&self, f: impl Fn(K) + Sync) -> Result<()>
    where
        P: Looks,
    {
        self.map().par_for_each_local(|key, ()| f(key))
    }
}

impl<K: Object, V: Object, P: Looks, S: KeyHasher> MultiMap<K, V, P, S> {
    /// Calls `f` with each value that this rank holds, and its key, by all threads of rayon's pool.
    ///
    /// # Cost
    ///
    /// As [`local_iter`](Self::local_iter).
    ///
    /// # Errors
    ///
    /// As [`local_iter`](Self::local_iter); then `f` was called for some of the values.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::MultiMap;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let edges = MultiMap::<u64, u64>::with_capacity(&world, 1000)?;
    /// edges.extend((0..500).map(|i| (i % 10, i)))?;
    /// let sum = AtomicU64::new(0);
    /// edges.par_for_each_local(|_, value| {
    ///     sum.fetch_add(value, Ordering::Relaxed);
    /// })?;
    /// assert_eq!(sum.into_inner(), 500 * 499 / 2);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn par_for_each_local(&self, f: impl Fn(K, V) + Sync) -> Result<()> {
        let (_, values) = self.maps();
        values.par_for_each_local(|(key, _), value| f(key, value))
    }
}
