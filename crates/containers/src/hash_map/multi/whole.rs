//! Maps with several values for each key as wholes: collective methods.

use std::sync::Arc;

use pgas_core::collective::op::Sum;
use pgas_core::{AsTeam, Team, World, part_of, part_of_object};

use super::super::HashMap;
use super::super::hash::RapidHasher;
use super::super::phase::{Atomic, FindOnly, Local, Looks, Phase};
use super::{MultiMap, Numbers};
use crate::object::{KeyHasher, Object};
use crate::{ChangeError, Result};

/// The two maps of a [`MultiMap`].
type Maps<'m, K, V, P, S> = (&'m HashMap<K, u64, P, S>, &'m HashMap<(K, u64), V, P, S>);

impl<K: Object, V: Object> MultiMap<K, V> {
    /// A map with room for `capacity` values over all ranks, of as many keys or fewer.
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::with_capacity`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::with_capacity`].
    #[track_caller]
    pub fn with_capacity(on: &impl AsTeam, capacity: usize) -> Result<Self> {
        Self::with_hasher(on, capacity, RapidHasher)
    }

    pub(crate) fn of(numbers: HashMap<K, u64>, values: HashMap<(K, u64), V>) -> Self {
        Self { numbers, values }
    }
}

impl<K: Object, V: Object, S: KeyHasher> MultiMap<K, V, Atomic, S> {
    /// As [`with_capacity`](MultiMap::with_capacity), with a hasher of your own, as
    /// [`HashMap::with_hasher`].
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::with_capacity`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::with_hasher`].
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::MultiMap;
    /// use pgas_containers::hash_map::SeededHasher;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = MultiMap::<u64, u64, _, _>::with_hasher(&world, 100, SeededHasher::new(42))?;
    /// map.insert(&1, 2)?;
    /// assert_eq!(map.find(&1)?, [2]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn with_hasher(on: &impl AsTeam, capacity: usize, hasher: S) -> Result<Self> {
        let (team, hasher) = (&on.as_team(), Arc::new(hasher));
        Ok(Self {
            numbers: HashMap::with_shared_hasher(team, capacity, Arc::clone(&hasher))?,
            values: HashMap::with_shared_hasher(team, capacity, hasher)?,
        })
    }
}

/// Methods of every phase.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> MultiMap<K, V, P, S> {
    pub(crate) fn maps(&self) -> Maps<'_, K, V, P, S> {
        (&self.numbers, &self.values)
    }

    /// The world whose segments hold the map.
    #[must_use]
    pub fn world(&self) -> &World {
        self.values.world()
    }

    /// The team whose members share the map: all ranks if it was made on the world.
    #[must_use]
    pub fn team(&self) -> &Team {
        self.values.team()
    }

    /// The number of values that the map has room for, over all ranks.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.values.capacity()
    }

    /// The number of values of all keys, as [`HashMap::len`].
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
        self.values.len()
    }

    /// Whether there are no values.
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
        self.values.is_empty()
    }

    /// Lets other values use the slots of removed values again, as [`HashMap::reuse_slots`]. A key
    /// without values keeps its own slot.
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
        let Self { numbers, values } = self;
        match values.reuse_slots() {
            Ok(values) => Ok(Self { numbers, values }),
            Err(failed) => Err(failed.map(|values| Self { numbers, values })),
        }
    }

    /// Gives the map room for `capacity` values, of as many keys or fewer; keys without values
    /// count. Its values stay.
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::resize`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::resize`], with the map as it was.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::{Error, MultiMap};
    /// # let world = pgas_core::backend::loopback::world();
    /// let mut map = MultiMap::<u8, u64>::with_capacity(&world, 1)?;
    /// map.insert(&1, 10)?;
    /// assert!(matches!(map.insert(&1, 11), Err(Error::Full { .. })));
    /// map.resize(2)?; // collective
    /// map.insert(&1, 11)?;
    /// assert_eq!(map.find(&1)?, [10, 11]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn resize(&mut self, capacity: usize) -> Result<()> {
        let what = "a resize of a multimap";
        let _waits = part_of_object(what, self.values.identity());
        // Both have room before either moves.
        let numbers = self.numbers.slots_for(capacity)?;
        let values = self.values.slots_for(capacity)?;
        self.numbers.table.move_to(numbers)?;
        self.values.table.move_to(values)
    }

    /// Removes all values and keys, as [`HashMap::clear`].
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::clear`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::clear`].
    #[track_caller]
    pub fn clear(&mut self) -> Result<()> {
        let _waits = part_of_object("a clear of a multimap", self.values.identity());
        let numbers = self.numbers.table.empty_slots()?;
        let values = self.values.table.empty_slots()?;
        // The numbers last: they are zero only for values that are gone.
        let cleared = self.values.table.clear_into(values);
        cleared.and(self.numbers.table.clear_into(numbers))
    }

    /// Goes on to the phase in which any rank does anything.
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::into_atomic_phase`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_atomic_phase`].
    #[track_caller]
    pub fn into_atomic_phase(self) -> Result<MultiMap<K, V, Atomic, S>> {
        self.into_phase()
    }

    /// Goes on to the phase in which any rank reads.
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::into_find_phase`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_find_phase`].
    #[track_caller]
    pub fn into_find_phase(self) -> Result<MultiMap<K, V, FindOnly, S>> {
        self.into_phase()
    }

    /// Goes on to the phase in which each rank looks at the values that it holds. A value may be on
    /// another rank than its key's other values, and nobody inserts or removes any.
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::into_local_phase`]. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::into_local_phase`].
    #[track_caller]
    pub fn into_local_phase(self) -> Result<MultiMap<K, V, Local, S>> {
        self.into_phase()
    }

    #[track_caller]
    fn into_phase<N: Phase>(self) -> Result<MultiMap<K, V, N, S>> {
        Ok(MultiMap {
            numbers: self.numbers.into_phase()?,
            values: self.values.into_phase()?,
        })
    }
}

impl<K: Object, V: Object, P: Looks, S: KeyHasher> MultiMap<K, V, P, S> {
    /// The number of keys that have values.
    ///
    /// # Cost
    ///
    /// That of [`HashMap::local_iter`], and an allreduce. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_iter`]; the failure of the job while waiting.
    #[track_caller]
    pub fn n_keys(&self) -> Result<u64> {
        let count = || -> Result<u64> {
            let mut n = 0;
            for entry in self.numbers.local_iter() {
                let (key, word) = entry?;
                n += u64::from(self.count_of(&key, Numbers::of(word))? > 0);
            }
            Ok(n)
        };
        let what = "counting the keys of a MultiMap";
        let _waits = part_of(what);
        self.numbers.team().all_try_reduce(what, count, Sum)
    }
}
