//! Many operations at once, which hide each other's latency.
//!
//! Where all slots are local, those of the operations ahead are [prefetched](local) into the cache.
//! Where ranks serve each other, [operations travel](served) to them. Elsewhere the reads of many
//! operations [travel together](remote).

mod change;
pub(super) mod local;
mod remote;
mod served;

use pgas_core::atomics::AtomicInteger;

use super::HashMap;
use super::phase::{Changes, Phase};
use super::table::Table;
use crate::object::{KeyHasher, Object, Plain};
use crate::{BatchError, Result};

/// What became of a batch that may insert keys.
struct Outcome {
    /// The keys that were new, also if the batch ended early.
    n_new: usize,
    result: Result<(), BatchError>,
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// The values of `keys`, while others may change what is there, unless `is_read_only`.
    pub(super) fn find_many(
        &self,
        keys: &[K],
        values: &mut [Option<V>],
        is_read_only: bool,
    ) -> Result<()> {
        match (&self.local, self.served()) {
            (Some(all), _) => self.view_local(all).find_ahead(keys, values),
            (None, Some(served)) => self.find_served(served, keys, values, is_read_only),
            (None, None) if is_read_only => self.view_remote().find_read_only(keys, values),
            (None, None) => self.view_remote().find_together(keys, values),
        }
    }

    pub(super) fn insert_many(&self, entries: &[(K, V)]) -> Result<usize, BatchError> {
        let outcome = match (&self.local, self.served()) {
            (Some(all), _) => self.view_local(all).insert_ahead(entries),
            (None, Some(served)) => self.insert_served(served, entries),
            (None, None) => self.view_remote().insert_together(entries),
        };
        self.counted(outcome)
    }

    /// Counts the new keys, and returns their number.
    fn counted(&self, outcome: Outcome) -> Result<usize, BatchError> {
        self.count_new(outcome.n_new as u64);
        outcome.result.map(|()| outcome.n_new)
    }
}

impl<K, V, P, S> HashMap<K, V, P, S>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    P: Phase,
    S: KeyHasher,
{
    /// Adds `n` to the value of each of `keys`, in their order, and returns how many of them were new;
    /// those begin with 0. A key that stands there twice is counted twice.
    ///
    /// # Cost
    ///
    /// That of a [`fetch_add`](Self::fetch_add) for each key, and A more for a new one where slots are behind
    /// a network; the latency is paid once for many present keys. One-sided; or M for each rank and as
    /// many keys as a message carries. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Those of [`fetch_add`](Self::fetch_add), with the number of keys that were added to before. Where
    /// they travel by messages (M), some of those behind may be added to, too.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let counts = HashMap::<u64, u64>::with_capacity(&world, 100)?;
    /// assert_eq!(counts.add_many(&[3, 1, 3, 3], 1)?, 2);
    /// assert_eq!(counts.find_many(&[3, 1])?, [Some(3), Some(1)]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn add_many(&self, keys: &[K], n: V) -> Result<usize, BatchError>
    where
        P: Changes,
    {
        self.add_indexed(keys.len(), |i| &keys[i], |_| n)
    }

    /// Adds to the value of each entry's key the entry's number, in their order, and returns how many of
    /// the keys were new; those begin with 0.
    ///
    /// # Cost
    ///
    /// As [`add_many`](Self::add_many).
    ///
    /// # Errors
    ///
    /// As [`add_many`](Self::add_many).
    pub fn add_each(&self, entries: &[(K, V)]) -> Result<usize, BatchError>
    where
        P: Changes,
    {
        self.add_indexed(entries.len(), |i| &entries[i].0, |i| entries[i].1)
    }

    fn add_indexed<'k>(
        &self,
        len: usize,
        key: impl Fn(usize) -> &'k K,
        n: impl Fn(usize) -> V,
    ) -> Result<usize, BatchError> {
        let table = &self.table;
        let outcome = match (&table.local, table.served()) {
            (Some(all), _) => table.view_local(all).add_ahead(len, key, n),
            (None, Some(served)) => table.add_served(served, len, key, n),
            (None, None) => table.view_remote().add_together(len, key, n),
        };
        table.counted(outcome)
    }
}
