//! Inserts, in the phases in which any rank inserts.

use super::phase::{Inserts, Phase};
use super::{HashMap, Inserted};
use crate::object::{KeyHasher, Object};
use crate::{BatchError, Result};

/// While any rank inserts.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// Puts `value` under `key`, over the value that stood there.
    ///
    /// # Cost
    ///
    /// 2A + W for a new key; A + R and, over a present one, A for a value that is a word, 2A + W for
    /// another one, nothing for one without bytes. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// [`Error::Full`](crate::Error::Full) if the key is new and no slot is free; what the transport reports.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::{Error, HashMap, hash_map::Inserted};
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<u8, u64>::with_capacity(&world, 1)?;
    /// assert_eq!(map.insert(&1, 10)?, Inserted::New);
    /// assert!(matches!(map.insert(&2, 20), Err(Error::Full { capacity: 1 })));
    /// assert_eq!(map.insert(&1, 11)?, Inserted::Replaced);
    /// # Ok::<(), Error>(())
    /// ```
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is given away, as to a map of std"
    )]
    pub fn insert(&self, key: &K, value: V) -> Result<Inserted>
    where
        P: Inserts,
    {
        self.table.insert(key, &value)
    }

    /// Inserts all `entries`, in their order, and returns how many of their keys were new.
    ///
    /// # Cost
    ///
    /// That of an [`insert`](Self::insert) for each entry, and A more for a new key where slots are behind a
    /// network; the latency is paid once for many present keys. One-sided. Complete at the target on return.
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
    pub fn insert_many(&self, entries: &[(K, V)]) -> Result<usize, BatchError>
    where
        P: Inserts,
    {
        self.table.insert_many(entries)
    }
}
