//! Many operations at once, which hide each other's latency.
//!
//! Where all slots are local, those of the operations ahead are [prefetched](local) into the cache.
//! Where ranks serve each other, [operations travel](served) to them. Elsewhere the reads of many
//! operations [travel together](remote).

mod change;
pub(super) mod local;
mod remote;
mod served;

use std::ops::Range;

use pgas_core::atomics::AtomicInteger;

use super::HashMap;
use super::phase::{Changes, Phase};
use super::table::{LocalView, Table};
use crate::object::{KeyHasher, Object, Plain};
use crate::{BatchError, Error, Result};

/// How many operations of a batch are one section, where slots of removed keys are used again.
const SECTION: usize = 256;

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
        let n_together = self.n_together(keys.len());
        let mut parts = keys.chunks(n_together).zip(values.chunks_mut(n_together));
        parts.try_for_each(|(keys, values)| {
            self.together(|local| match (local, self.served()) {
                (Some(view), _) => view.find_ahead(keys, values, is_read_only),
                (None, Some(served)) => self.find_served(served, keys, values, is_read_only),
                (None, None) if is_read_only => self.view_remote().find_read_only(keys, values),
                (None, None) => self.view_remote().find_together(keys, values),
            })
        })
    }

    /// How many operations of a batch of `n` are one part.
    const fn n_together(&self, n: usize) -> usize {
        match &self.reused {
            Some(_) => SECTION,
            None if n > 0 => n,
            None => 1,
        }
    }

    /// Carries out a part of a batch, which is a section if slots of removed keys are used again, on
    /// slots that are all local, if they are.
    fn together<'a, T>(&'a self, part: impl FnOnce(Option<LocalView<'a, K, V, S>>) -> T) -> T {
        if let Some(reused) = &self.reused {
            let _section = reused.sections.open();
            return part(Some(self.view_local(&reused.all)));
        }
        part(self.local.as_ref().map(|all| self.view_local(all)))
    }

    pub(super) fn insert_many(&self, entries: &[(K, V)]) -> Result<usize, BatchError> {
        self.counted(entries.len(), |part, local| match (local, self.served()) {
            (Some(view), _) => view.insert_ahead(&entries[part]),
            (None, Some(served)) => self.insert_served(served, &entries[part]),
            (None, None) => self.view_remote().insert_together(&entries[part]),
        })
    }

    /// Carries out a batch of `n` operations, counts the new keys, and returns their number.
    /// `batch` carries out a part of it, on slots that are all local, if they are.
    fn counted<'a>(
        &'a self,
        n: usize,
        mut batch: impl FnMut(Range<usize>, Option<LocalView<'a, K, V, S>>) -> Outcome,
    ) -> Result<usize, BatchError> {
        let counted = |outcome: Outcome| {
            self.count_new(outcome.n_new as u64);
            outcome.result.map(|()| outcome.n_new)
        };
        let Some(reused) = &self.reused else {
            return counted(self.together(|local| batch(0..n, local)));
        };
        let (mut n_new, mut done, mut room) = (0, 0, None);
        while done < n {
            let part = done..n.min(done + SECTION);
            let outcome = self.together(|local| batch(part.clone(), local));
            n_new += outcome.n_new;
            match counted(outcome) {
                Ok(_) => (done, room) = (part.end, None),
                Err(failed) => {
                    done += failed.done;
                    let has_room = match failed.error {
                        Error::Full { .. } => self.makes_room(reused, &mut room),
                        _ => Ok(false),
                    };
                    match has_room {
                        Ok(true) => {}
                        Ok(false) => return Err(BatchError { done, ..failed }),
                        Err(error) => return Err(BatchError { done, error }),
                    }
                }
            }
        }
        Ok(n_new)
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
        key: impl Fn(usize) -> &'k K + Copy,
        n: impl Fn(usize) -> V + Copy,
    ) -> Result<usize, BatchError> {
        let table = &self.table;
        table.counted(len, |part, local| {
            let (len, first) = (part.len(), part.start);
            let (key, n) = (move |i| key(first + i), move |i| n(first + i));
            match (local, table.served()) {
                (Some(view), _) => view.add_ahead(len, key, n),
                (None, Some(served)) => table.add_served(served, len, key, n),
                (None, None) => table.view_remote().add_together(len, key, n),
            }
        })
    }
}
