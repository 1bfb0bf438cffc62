//! Sets of keys.

use std::fmt;

use pgas_core::{Rank, World};

use super::HashMap;
use super::done::Inserted;
use super::hash::RapidHasher;
use super::phase::{Atomic, Changes, FindOnly, Finds, InsertOnly, Inserts, Local, Looks, Phase};
use crate::object::{FoundBy, KeyHasher, Object};
use crate::{BatchError, Result};

/// A set of `K` in the segments of all ranks: a [`HashMap`] whose values have no bytes, with its
/// phases and prices.
///
/// # Examples
///
/// ```
/// use pgas_containers::HashSet;
///
/// # let world = pgas_core::backend::loopback::world();
/// let seen = HashSet::<String>::with_capacity(&world, 100)?;
/// assert!(seen.insert("a")?);
/// assert!(!seen.insert("a")?);
/// assert!(seen.remove("a")?);
/// let seen = seen.into_find_phase()?; // collective
/// assert!(!seen.contains("a")?);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct HashSet<K: Object, P = Atomic, S = RapidHasher> {
    map: HashMap<K, (), P, S>,
}

impl<K: Object> HashSet<K> {
    /// As [`HashMap::with_capacity`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::with_capacity`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::with_capacity`].
    pub fn with_capacity(world: &World, capacity: usize) -> Result<Self> {
        let map = HashMap::with_capacity(world, capacity)?;
        Ok(Self { map })
    }
}

impl<K: Object, S: KeyHasher> HashSet<K, Atomic, S> {
    /// As [`HashMap::with_hasher`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::with_capacity`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::with_hasher`].
    pub fn with_hasher(world: &World, capacity: usize, hasher: S) -> Result<Self> {
        let map = HashMap::with_hasher(world, capacity, hasher)?;
        Ok(Self { map })
    }
}

impl<K: Object, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    /// Puts `key`, and says whether it is new.
    ///
    /// # Cost
    ///
    /// 2A + W for a new key, A + R for a present one. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`HashMap::insert`].
    #[inline]
    pub fn insert<Q: ?Sized>(&self, key: &Q) -> Result<bool>
    where
        P: Inserts,
        K: FoundBy<Q>,
    {
        Ok(self.map.insert(key, ())? == Inserted::New)
    }

    /// Removes `key`, and says whether it was there.
    ///
    /// # Cost
    ///
    /// As [`HashMap::remove`]. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`HashMap::remove`].
    pub fn remove<Q: ?Sized>(&self, key: &Q) -> Result<bool>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.map.remove(key)
    }

    /// Removes all `keys`, and returns how many were there.
    ///
    /// # Cost
    ///
    /// As [`HashMap::remove_many`]. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`HashMap::remove_many`].
    pub fn remove_many<Q>(&self, keys: &[Q]) -> Result<usize, BatchError>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.map.remove_many(keys)
    }

    /// Whether `key` is there.
    ///
    /// # Cost
    ///
    /// As [`HashMap::contains`]. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[inline]
    pub fn contains<Q: ?Sized>(&self, key: &Q) -> Result<bool>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        self.map.contains(key)
    }
}

impl<K: Object + Clone, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    /// Puts all `keys`, and returns how many were new.
    ///
    /// # Cost
    ///
    /// As [`HashMap::insert_many`]. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`HashMap::insert_many`].
    pub fn insert_many(&self, keys: &[K]) -> Result<usize, BatchError>
    where
        P: Inserts,
    {
        let entries: Vec<(K, ())> = keys.iter().map(|key| (key.clone(), ())).collect();
        self.map.insert_many(&entries)
    }
}

impl<K: Object> HashSet<K> {
    /// The set of the keys of a map.
    pub(crate) fn of(map: HashMap<K, ()>) -> Self {
        Self { map }
    }
}

/// What every phase has.
impl<K: Object, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    pub(crate) fn map(&self) -> &HashMap<K, (), P, S> {
        &self.map
    }

    /// The number of keys, as [`HashMap::len`].
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    pub fn len(&self) -> Result<u64> {
        self.map.len()
    }

    /// Whether there are no keys.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    pub fn is_empty(&self) -> Result<bool> {
        self.map.is_empty()
    }

    /// How many keys there is room for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.map.capacity()
    }

    /// The world whose segments hold the set.
    #[must_use]
    pub fn world(&self) -> &World {
        self.map.world()
    }

    /// As [`HashMap::resize`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::resize`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::resize`].
    pub fn resize(&mut self, capacity: usize) -> Result<()> {
        self.map.resize(capacity)
    }

    /// As [`HashMap::clear`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::clear`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::clear`].
    pub fn clear(&mut self) -> Result<()> {
        self.map.clear()
    }

    /// As [`HashMap::reuse_slots`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::reuse_slots`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::reuse_slots`].
    pub fn reuse_slots(self) -> Result<Self> {
        let map = self.map.reuse_slots()?;
        Ok(Self { map })
    }

    /// As [`HashMap::into_atomic_phase`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::into_atomic_phase`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_atomic_phase(self) -> Result<HashSet<K, Atomic, S>> {
        let map = self.map.into_atomic_phase()?;
        Ok(HashSet { map })
    }

    /// As [`HashMap::into_insert_phase`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::into_atomic_phase`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_insert_phase(self) -> Result<HashSet<K, InsertOnly, S>> {
        let map = self.map.into_insert_phase()?;
        Ok(HashSet { map })
    }

    /// As [`HashMap::into_find_phase`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::into_atomic_phase`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_find_phase(self) -> Result<HashSet<K, FindOnly, S>> {
        let map = self.map.into_find_phase()?;
        Ok(HashSet { map })
    }

    /// As [`HashMap::into_local_phase`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::into_atomic_phase`]. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_local_phase(self) -> Result<HashSet<K, Local, S>> {
        let map = self.map.into_local_phase()?;
        Ok(HashSet { map })
    }
}

impl<K: Object, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    /// Iterates over the keys that this rank holds, as [`HashMap::local_iter`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_iter`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_iter`].
    pub fn local_iter(&self) -> impl Iterator<Item = Result<K>> + '_
    where
        P: Looks,
    {
        self.map.local_iter().map(|entry| Ok(entry?.0))
    }
}

impl<K: Object, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    /// Iterates over the keys that `rank` holds, as [`HashMap::entries_on`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::entries_on`]. One-sided.
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_iter`].
    ///
    /// # Panics
    ///
    /// If there is no such rank.
    #[track_caller]
    pub fn keys_on(&self, rank: Rank) -> impl Iterator<Item = Result<K>> + '_
    where
        P: Finds,
    {
        self.map.entries_on(rank).map(|entry| Ok(entry?.0))
    }
}

impl<K: Object, S: KeyHasher> HashSet<K, Local, S> {
    /// Puts `key`, and says whether it is new; `None` if its place is not on this rank.
    ///
    /// # Cost
    ///
    /// ℓ: a read and a write of this rank's own memory.
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_insert`].
    #[inline]
    pub fn local_insert(&mut self, key: &K) -> Result<Option<bool>> {
        let inserted = self.map.local_insert(key, &())?;
        Ok(inserted.map(|inserted| inserted == Inserted::New))
    }
}

impl<K: Object, P: Phase, S> fmt::Debug for HashSet<K, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashSet over {:?}", self.map)
    }
}
