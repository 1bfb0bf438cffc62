//! Operations on sets that do not wait.

use pgas_am::PgasFuture;

use super::super::phase::{Changes, Finds, Inserts, Phase};
use super::super::{HashSet, Inserted};
use crate::Result;
use crate::object::{FoundBy, KeyHasher, Object};

/// Single operations that do not wait, as those of [`HashMap`](crate::HashMap#method.insert_nb).
impl<K: Object, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    /// Begins an [`insert`](Self::insert).
    ///
    /// # Cost
    ///
    /// That of an [`insert`](Self::insert); allocations as
    /// [`HashMap::insert_nb`](crate::HashMap::insert_nb).
    ///
    /// # Errors
    ///
    /// As [`HashMap::insert_nb`](crate::HashMap::insert_nb).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashSet;
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let seen = HashSet::<u64>::with_capacity(&world, 100)?;
    /// let (one, two) = (seen.insert_nb(&1)?, seen.insert_nb(&2)?); // both are in flight
    /// assert!(one.wait()? && two.wait()?);
    /// assert!(!seen.insert_nb(&1)?.wait()?);
    /// assert!(seen.remove_nb(&1)?.wait()?);
    /// assert!(!seen.contains_nb(&1)?.wait()?);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn insert_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<bool>>
    where
        P: Inserts,
        K: FoundBy<Q>,
    {
        let done = self.map.insert_nb(key, ())?;
        Ok(done.then(|inserted| inserted == Inserted::New))
    }

    /// Begins a [`contains`](Self::contains).
    ///
    /// # Cost
    ///
    /// That of a [`contains`](Self::contains); allocations as [`insert_nb`](Self::insert_nb).
    ///
    /// # Errors
    ///
    /// As [`HashMap::find_nb`](crate::HashMap::find_nb).
    #[track_caller]
    pub fn contains_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<bool>>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        self.map.contains_nb(key)
    }

    /// Begins a [`remove`](Self::remove).
    ///
    /// # Cost
    ///
    /// That of a [`remove`](Self::remove); allocations as [`insert_nb`](Self::insert_nb).
    ///
    /// # Errors
    ///
    /// As [`HashMap::remove_nb`](crate::HashMap::remove_nb).
    #[track_caller]
    pub fn remove_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<bool>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.map.remove_nb(key)
    }
}
