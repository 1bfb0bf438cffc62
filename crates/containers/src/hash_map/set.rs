//! Sets of keys.

use std::fmt;

use pgas_core::{AsTeam, Team, World};

use super::HashMap;
use super::hash::RapidHasher;
use super::iter::Entries;
use super::operations::Insert;
use super::outcome::Inserted;
use super::phase::{Atomic, Changes, FindOnly, Finds, InsertOnly, Inserts, Local, Looks, Phase};
use crate::object::{self, FoundBy, Heap, KeyHasher, Object};
use crate::team::TeamMember;
use crate::{BatchError, ChangeError, Result};

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
///
/// Other methods, each as that of a map:
///
/// ```
/// use pgas_containers::HashSet;
/// use pgas_containers::hash_map::SeededHasher;
///
/// # let world = pgas_core::backend::loopback::world();
/// let mut set = HashSet::<u64, _, _>::with_hasher(&world, 100, SeededHasher::new(7))?;
/// assert_eq!(set.insert_many(&[1, 2, 3, 2])?, 3);
/// assert_eq!(set.remove_many(&[3, 4])?, 1);
/// set.resize(200)?; // collective
/// assert!(set.capacity() >= 200 && set.team().n_ranks() == set.world().n_ranks());
/// let mut set = set.into_insert_phase()?.into_local_phase()?; // collective, each of both
/// set.local_insert(&5)?;
/// set.local_remove(&1)?;
/// let mut here = set.local_iter().collect::<Result<Vec<_>, _>>()?;
/// here.sort_unstable();
/// assert_eq!(here, [2, 5]); // of the one rank of this example
/// let mut set = set.into_atomic_phase()?.reuse_slots()?;
/// assert_eq!(set.keys_on(world.rank()).count(), 2);
/// set.clear()?; // collective
/// assert!(set.is_empty()?);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct HashSet<K: Object, P = Atomic, S = RapidHasher> {
    pub(super) map: HashMap<K, (), P, S>,
}

impl<K: Object> HashSet<K> {
    /// A set with room for `capacity` keys over all ranks, as [`HashMap::with_capacity`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::with_capacity`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::with_capacity`].
    #[track_caller]
    pub fn with_capacity(on: &impl AsTeam, capacity: usize) -> Result<Self> {
        HashMap::with_capacity(on, capacity).map(Self::of)
    }
}

impl<K: Object, S: KeyHasher> HashSet<K, Atomic, S> {
    /// As [`with_capacity`](HashSet::with_capacity), with a hasher of your own, as
    /// [`HashMap::with_hasher`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::with_capacity`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::with_hasher`].
    #[track_caller]
    pub fn with_hasher(on: &impl AsTeam, capacity: usize, hasher: S) -> Result<Self> {
        HashMap::with_hasher(on, capacity, hasher).map(Self::of)
    }
}

impl<K: Object, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    /// Inserts `key`. Returns whether it is new.
    ///
    /// # Cost
    ///
    /// 2A + W for a new key, A + R for a present one. One-sided; or M. Complete at the target on
    /// return.
    ///
    /// # Errors
    ///
    /// As [`HashMap::insert`].
    #[inline]
    #[track_caller]
    pub fn insert<Q: ?Sized>(&self, key: &Q) -> Result<bool>
    where
        P: Inserts,
        K: FoundBy<Q>,
    {
        Ok(self.map.insert(key, ())? == Inserted::New)
    }

    /// Removes `key`. Returns whether it was there.
    ///
    /// # Cost
    ///
    /// As [`HashMap::remove`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::remove`].
    #[track_caller]
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
    /// As [`HashMap::remove_many`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::remove_many`].
    #[track_caller]
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
    /// As [`HashMap::contains`].
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[inline]
    #[track_caller]
    pub fn contains<Q: ?Sized>(&self, key: &Q) -> Result<bool>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        self.map.contains(key)
    }

    /// For each of `keys` whether it is there.
    ///
    /// # Cost
    ///
    /// As [`HashMap::find_many`].
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashSet;
    /// # let world = pgas_core::backend::loopback::world();
    /// let seen = HashSet::<String>::with_capacity(&world, 100)?;
    /// assert_eq!(seen.extend("a b a".split(' '))?, 2);
    /// assert_eq!(seen.contains_many(&["b", "c"])?, [true, false]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn contains_many<Q>(&self, keys: &[Q]) -> Result<Vec<bool>>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        let found = self.map.find_many(keys)?;
        Ok(found.iter().map(Option::is_some).collect())
    }

    /// Inserts all `keys`, in their order, and returns how many were new.
    ///
    /// # Cost
    ///
    /// As [`HashMap::insert_many`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::insert_many`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashSet;
    /// # let world = pgas_core::backend::loopback::world();
    /// let seen = HashSet::<String>::with_capacity(&world, 100)?;
    /// assert_eq!(seen.insert_many(&["a", "b", "a"])?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn insert_many<Q>(&self, keys: &[Q]) -> Result<usize, BatchError>
    where
        P: Inserts,
        K: FoundBy<Q>,
    {
        let nothing = |_: &Q, heap: &Heap| object::to_slot(&(), heap);
        self.map
            .table
            .perform_many::<Insert, _>(keys, K::key_by, nothing)
    }

    /// Inserts all keys of an iterator, and returns how many were new.
    ///
    /// # Cost
    ///
    /// As [`HashMap::extend`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::insert_many`].
    #[track_caller]
    pub fn extend<Q>(&self, keys: impl IntoIterator<Item = Q>) -> Result<usize, BatchError>
    where
        P: Inserts,
        K: FoundBy<Q>,
    {
        self.map.extend(keys.into_iter().map(|key| (key, ())))
    }
}

/// Methods of every phase.
impl<K: Object, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    /// The set of the keys of a map.
    pub(crate) fn of(map: HashMap<K, (), P, S>) -> Self {
        Self { map }
    }

    pub(crate) fn map(&self) -> &HashMap<K, (), P, S> {
        &self.map
    }

    /// The number of keys, as [`HashMap::len`].
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    #[track_caller]
    pub fn len(&self) -> Result<u64> {
        self.map.len()
    }

    /// Whether there are no keys.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    #[track_caller]
    pub fn is_empty(&self) -> Result<bool> {
        self.map.is_empty()
    }

    /// The number of keys that the set has room for, over all ranks.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.map.capacity()
    }

    /// The world whose segments hold the set.
    #[must_use]
    pub fn world(&self) -> &World {
        self.map.world()
    }

    /// The team whose members share the set: all ranks if it was made on the world.
    #[must_use]
    #[inline]
    pub fn team(&self) -> &Team {
        self.map.team()
    }

    /// Gives the set room for `capacity` keys, as [`HashMap::resize`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::resize`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::resize`].
    #[track_caller]
    pub fn resize(&mut self, capacity: usize) -> Result<()> {
        self.map.resize(capacity)
    }

    /// Removes all keys, as [`HashMap::clear`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::clear`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::clear`].
    #[track_caller]
    pub fn clear(&mut self) -> Result<()> {
        self.map.clear()
    }

    /// Lets other keys use the slots of removed keys again, as [`HashMap::reuse_slots`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::reuse_slots`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::reuse_slots`].
    #[track_caller]
    pub fn reuse_slots(self) -> Result<Self, ChangeError<Self>> {
        match self.map.reuse_slots() {
            Ok(map) => Ok(Self::of(map)),
            Err(failed) => Err(failed.map(Self::of)),
        }
    }

    /// Goes on to the phase in which any rank does anything.
    ///
    /// # Cost
    ///
    /// As [`HashMap::into_atomic_phase`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_atomic_phase(self) -> Result<HashSet<K, Atomic, S>> {
        self.map.into_atomic_phase().map(HashSet::of)
    }

    /// Goes on to the phase in which any rank inserts.
    ///
    /// # Cost
    ///
    /// As [`HashMap::into_atomic_phase`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_insert_phase(self) -> Result<HashSet<K, InsertOnly, S>> {
        self.map.into_insert_phase().map(HashSet::of)
    }

    /// Goes on to the phase in which any rank reads.
    ///
    /// # Cost
    ///
    /// As [`HashMap::into_atomic_phase`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_find_phase(self) -> Result<HashSet<K, FindOnly, S>> {
        self.map.into_find_phase().map(HashSet::of)
    }

    /// Goes on to the phase in which each rank works on its own keys.
    ///
    /// # Cost
    ///
    /// As [`HashMap::into_atomic_phase`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_local_phase(self) -> Result<HashSet<K, Local, S>> {
        self.map.into_local_phase().map(HashSet::of)
    }

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
        self.map.local_iter().map(key_of)
    }

    /// Calls `f` with each key that this rank holds, as [`HashMap::for_each_local`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_iter`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::for_each_local`].
    pub fn for_each_local(&self, mut f: impl FnMut(K)) -> Result<()>
    where
        P: Looks,
    {
        self.map.for_each_local(|key, ()| f(key))
    }

    /// The number of keys that this rank holds, whoever inserted them, as [`HashMap::local_len`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_len`].
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    pub fn local_len(&self) -> Result<u64>
    where
        P: Looks,
    {
        self.map.local_len()
    }

    /// Iterates over the keys that a member of the team holds, as [`HashMap::entries_on`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::entries_on`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_iter`].
    ///
    /// # Panics
    ///
    /// If the team has no such member.
    #[track_caller]
    pub fn keys_on<M: TeamMember>(
        &self,
        member: M,
    ) -> impl Iterator<Item = Result<K>> + use<'_, M, K, P, S>
    where
        P: Finds,
    {
        self.map.entries_on(member).map(key_of)
    }
}

impl<K: Object, S: KeyHasher> HashSet<K, Local, S> {
    /// Inserts `key`, and returns whether it is new. Does nothing and returns `None` if the key's
    /// slot is not on this rank.
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

    /// Whether this rank holds `key`.
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_find`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_find`].
    #[inline]
    pub fn local_contains<Q: ?Sized>(&self, key: &Q) -> Result<bool>
    where
        K: FoundBy<Q>,
    {
        Ok(self.map.local_find(key)?.is_some())
    }

    /// Removes `key`. Returns whether this rank held it.
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_remove`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_remove`].
    #[inline]
    pub fn local_remove<Q: ?Sized>(&mut self, key: &Q) -> Result<bool>
    where
        K: FoundBy<Q>,
    {
        Ok(self.map.local_remove(key)?.is_some())
    }

    /// Removes the keys of this rank for which `keep` is false, and returns their number.
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_retain`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_retain`].
    pub fn local_retain(&mut self, mut keep: impl FnMut(&K) -> bool) -> Result<u64> {
        self.map.local_retain(|key, ()| keep(key))
    }

    /// Removes and returns the keys of this rank, one by one, as [`HashMap::local_drain`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_drain`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_drain`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashSet;
    /// # let world = pgas_core::backend::loopback::world();
    /// let jobs = HashSet::<u32>::with_capacity(&world, 100)?;
    /// jobs.extend([7, 8])?;
    /// let mut sum = 0;
    /// jobs.for_each_local(|job| sum += job)?;
    /// assert_eq!((sum, jobs.local_len()?), (15, 2)); // of the one rank of this example
    /// let mut jobs = jobs.into_local_phase()?; // collective
    /// let drained = jobs.local_drain().collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(drained.iter().sum::<u32>(), 15);
    /// assert!(jobs.is_empty()?);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn local_drain(&mut self) -> impl Iterator<Item = Result<K>> + '_ {
        self.map.local_drain().map(key_of)
    }
}

/// In the local phase a loop over a set visits the keys of this rank, as
/// [`local_iter`](HashSet::local_iter).
///
/// # Examples
///
/// ```
/// # use pgas_containers::HashSet;
/// # let world = pgas_core::backend::loopback::world();
/// let seen = HashSet::<u32>::with_capacity(&world, 100)?;
/// seen.insert(&3)?;
/// let mut seen = seen.into_local_phase()?; // collective
/// for key in &seen {
///     assert_eq!(key?, 3);
/// }
/// assert_eq!(seen.local_retain(|key| key % 2 == 0)?, 1);
/// assert!(!seen.local_contains(&3)?);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
impl<'a, K: Object, S: KeyHasher> IntoIterator for &'a HashSet<K, Local, S> {
    type Item = Result<K>;
    type IntoIter = std::iter::Map<Entries<'a, K, (), S>, fn(Result<(K, ())>) -> Result<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.local_iter().map(key_of)
    }
}

/// The key of an entry.
fn key_of<K>(entry: Result<(K, ())>) -> Result<K> {
    entry.map(|(key, ())| key)
}

impl<K: Object, P: Phase, S> fmt::Debug for HashSet<K, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashSet over {:?}", self.map)
    }
}
