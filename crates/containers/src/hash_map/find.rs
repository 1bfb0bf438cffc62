//! Looking at keys, in the phases in which any rank does.

use super::HashMap;
#[cfg(doc)]
use super::phase::{Atomic, FindOnly};
use super::phase::{Finds, Phase};
use crate::Result;
use crate::object::{KeyHasher, Object};

/// While any rank looks.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// The value of `key`, if it is there.
    ///
    /// # Cost
    ///
    /// [`Atomic`]: present A + R, and A for a value with bytes; with other values than words A + R more each time
    /// that a writer of the same key comes in between. Absent: A.
    ///
    /// [`FindOnly`]: R, and R for each further slot that is in no cache line with one before.
    ///
    /// One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports; the failure of the job while waiting for a writer.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub fn find(&self, key: &K) -> Result<Option<V>>
    where
        P: Finds,
    {
        if P::IS_QUIET {
            self.table.find_quietly(key)
        } else {
            self.table.find(key)
        }
    }

    /// Whether `key` is there.
    ///
    /// # Cost
    ///
    /// [`Atomic`]: present A + R, absent A. [`FindOnly`]: as [`find`](Self::find). One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub fn contains(&self, key: &K) -> Result<bool>
    where
        P: Finds,
    {
        if P::IS_QUIET {
            self.table.contains_quietly(key)
        } else {
            self.table.contains(key)
        }
    }

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
    pub fn find_many(&self, keys: &[K]) -> Result<Vec<Option<V>>>
    where
        P: Finds,
    {
        let mut values: Vec<_> = keys.iter().map(|_| None).collect();
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
    pub fn find_many_into(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()>
    where
        P: Finds,
    {
        let (n, room) = (keys.len(), values.len());
        assert_eq!(n, room, "{n} keys, but room for {room} values");
        if P::IS_QUIET {
            self.table.find_many_quietly(keys, values)
        } else {
            self.table.find_many_into(keys, values)
        }
    }
}
