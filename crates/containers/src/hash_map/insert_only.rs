//! The phase in which any rank inserts.

use super::phase::InsertOnly;
use super::{HashMap, Inserted};
use crate::Result;
use crate::object::{KeyHasher, Object};

/// While any rank inserts and nobody looks.
impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, InsertOnly, S> {
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
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is given away, as to a map of std"
    )]
    pub fn insert(&self, key: &K, value: V) -> Result<Inserted> {
        self.table.insert(key, &value)
    }
}
