//! Operations that insert an absent key and leave a present one as it is.

use super::HashMap;
use super::operations::GetOrInsert;
use super::phase::{Changes, Phase};
use crate::Result;
use crate::object::{self, FoundBy, KeyHasher, Object};

impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// Inserts `value` if `key` is absent; else keeps the present value, and returns it. Of several
    /// ranks that insert one key, exactly one gets `None`. It is `putIfAbsent` of Java, and
    /// `try_insert` of std.
    ///
    /// # Cost
    ///
    /// As [`get_or_insert`](Self::get_or_insert).
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let parents = HashMap::<u32, u32>::with_capacity(&world, 100)?;
    /// assert_eq!(parents.insert_if_absent(&7, 1)?, None); // this rank has visited it first
    /// assert_eq!(parents.insert_if_absent(&7, 2)?, Some(1));
    /// assert_eq!(parents.find(&7)?, Some(1));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is given away, as to a map of std"
    )]
    #[track_caller]
    pub fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: V) -> Result<Option<V>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.table
            .perform::<GetOrInsert, _>(key, |heap| object::to_slot(&value, heap))
    }

    /// The value of `key`; if it is absent, inserts `value` and returns that.
    ///
    /// # Cost
    ///
    /// 2A + W for a new key; for a present one 2A + R, or A + R if the value has no bytes.
    /// One-sided; or M. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub fn get_or_insert<Q: ?Sized>(&self, key: &Q, value: V) -> Result<V>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        let there = self
            .table
            .perform::<GetOrInsert, _>(key, |heap| object::to_slot(&value, heap))?;
        Ok(there.unwrap_or(value))
    }

    /// The value of `key`; if it is absent, inserts the result of `f` and returns it.
    ///
    /// `f` runs on this rank while nothing is locked; if it panics, the map is as before. If
    /// another rank inserts the key meanwhile, its value stays and the result of `f` is dropped.
    ///
    /// # Cost
    ///
    /// That of a [`find`](Self::find), and for an absent key of a
    /// [`get_or_insert`](Self::get_or_insert): 3A + W. One-sided; or M for a present key, and 2M
    /// for an absent one. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    #[track_caller]
    pub fn get_or_insert_with<Q: ?Sized>(&self, key: &Q, f: impl FnOnce() -> V) -> Result<V>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        match self.find(key)? {
            Some(value) => Ok(value),
            None => self.get_or_insert(key, f()),
        }
    }
}
