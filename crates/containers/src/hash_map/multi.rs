//! Maps of several values a key.

use std::fmt;

use pgas_core::World;

use super::HashMap;
use super::hash::RapidHasher;
use super::iter::Looks;
use super::phase::{Atomic, FindOnly, Phase};
use crate::Result;
use crate::object::{KeyHasher, Object};

/// The maps that a [`MultiMap`] is made of.
type Maps<'m, K, V, P, S> = (&'m HashMap<K, u64, P, S>, &'m HashMap<(K, u64), V, P, S>);

/// A map from `K` to any number of `V` each, in the segments of all ranks.
///
/// The number of a key's values stands under the key, and each value under the key and its own number, so an
/// insert costs two of a [`HashMap`] whatever is there already, and no two ranks ever wait for each other's values.
/// A key's values are numbered in the order in which their inserts took effect.
///
/// # Examples
///
/// ```
/// use pgas_containers::MultiMap;
///
/// # let world = pgas_core::backend::loopback::world();
/// let neighbours = MultiMap::<u32, String>::with_capacity(&world, 100)?;
/// neighbours.insert(&1, "two".to_owned())?;
/// neighbours.insert(&1, "three".to_owned())?;
/// assert_eq!(neighbours.find(&1)?, ["two", "three"]);
/// assert_eq!(neighbours.count(&2)?, 0);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct MultiMap<K: Object, V: Object, P = Atomic, S = RapidHasher> {
    counts: HashMap<K, u64, P, S>,
    values: HashMap<(K, u64), V, P, S>,
}

impl<K: Object + Clone, V: Object> MultiMap<K, V> {
    /// A map with room for `capacity` values over all ranks, of as many keys or fewer.
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::with_capacity`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::with_capacity`].
    pub fn with_capacity(world: &World, capacity: usize) -> Result<Self> {
        Ok(Self {
            counts: HashMap::with_capacity(world, capacity)?,
            values: HashMap::with_capacity(world, capacity)?,
        })
    }
}

impl<K: Object + Clone, V: Object, S: KeyHasher> MultiMap<K, V, Atomic, S> {
    /// Adds `value` to those of `key`, and returns how many were there before.
    ///
    /// # Cost
    ///
    /// 4A + R + W, 4A + 2W for the first one. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`HashMap::insert`]; after [`Error::Full`](crate::Error::Full) the value's number is not used.
    pub fn insert(&self, key: &K, value: V) -> Result<u64> {
        let number = self.counts.fetch_add(key, 1)?;
        self.values.insert(&(key.clone(), number), value)?;
        Ok(number)
    }

    /// The values of `key`, in their order. Those whose insert has not returned yet may be missing.
    ///
    /// # Cost
    ///
    /// 2A + R, and as much for each value. One-sided.
    ///
    /// # Errors
    ///
    /// As [`HashMap::find`].
    pub fn find(&self, key: &K) -> Result<Vec<V>> {
        let n = self.counts.find(key)?.unwrap_or(0);
        let keys: Vec<(K, u64)> = (0..n).map(|number| (key.clone(), number)).collect();
        Ok(self
            .values
            .find_many(&keys)?
            .into_iter()
            .flatten()
            .collect())
    }

    /// How many values `key` has.
    ///
    /// # Cost
    ///
    /// 2A + R. One-sided.
    ///
    /// # Errors
    ///
    /// As [`HashMap::find`].
    pub fn count(&self, key: &K) -> Result<u64> {
        Ok(self.counts.find(key)?.unwrap_or(0))
    }

    /// Goes on to the phase in which any rank looks.
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::into_find_phase`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_find_phase`].
    #[track_caller]
    pub fn into_find_phase(self) -> Result<MultiMap<K, V, FindOnly, S>> {
        Ok(MultiMap {
            counts: self.counts.into_find_phase()?,
            values: self.values.into_find_phase()?,
        })
    }
}

impl<K: Object + Clone, V: Object, S: KeyHasher> MultiMap<K, V, FindOnly, S> {
    /// The values of `key`, in their order.
    ///
    /// # Cost
    ///
    /// R, and R for each value. One-sided.
    ///
    /// # Errors
    ///
    /// As [`HashMap::find`].
    pub fn find(&self, key: &K) -> Result<Vec<V>> {
        let n = self.counts.find(key)?.unwrap_or(0);
        let value = |number| self.values.find(&(key.clone(), number)).transpose();
        (0..n).filter_map(value).collect()
    }

    /// How many values `key` has.
    ///
    /// # Cost
    ///
    /// R. One-sided.
    ///
    /// # Errors
    ///
    /// As [`HashMap::find`].
    pub fn count(&self, key: &K) -> Result<u64> {
        Ok(self.counts.find(key)?.unwrap_or(0))
    }

    /// Goes on to the phase in which any rank does anything.
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::into_atomic_phase`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_atomic_phase(self) -> Result<MultiMap<K, V, Atomic, S>> {
        Ok(MultiMap {
            counts: self.counts.into_atomic_phase()?,
            values: self.values.into_atomic_phase()?,
        })
    }
}

impl<K: Object, V: Object> MultiMap<K, V> {
    pub(crate) fn of(counts: HashMap<K, u64>, values: HashMap<(K, u64), V>) -> Self {
        Self { counts, values }
    }
}

impl<K: Object, V: Object, P: Phase, S: KeyHasher> MultiMap<K, V, P, S> {
    pub(crate) fn maps(&self) -> Maps<'_, K, V, P, S> {
        (&self.counts, &self.values)
    }

    /// The number of values of all keys, as [`HashMap::len`].
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    pub fn len(&self) -> Result<u64> {
        self.values.len()
    }

    /// Whether there are no values.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    pub fn is_empty(&self) -> Result<bool> {
        self.values.is_empty()
    }

    /// The number of keys.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    pub fn n_keys(&self) -> Result<u64> {
        self.counts.len()
    }
}

impl<K: Object, V: Object, P: Looks, S: KeyHasher> MultiMap<K, V, P, S> {
    /// Iterates over the values that this rank holds, each with its key, as [`HashMap::local_iter`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_iter`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_iter`].
    pub fn local_iter(&self) -> impl Iterator<Item = Result<(K, V)>> + '_ {
        self.values.local_iter().map(|entry| {
            let ((key, _), value) = entry?;
            Ok((key, value))
        })
    }
}

impl<K: Object, V: Object, P: Phase, S> fmt::Debug for MultiMap<K, V, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MultiMap over {:?}", self.values)
    }
}
