//! Batches where all slots are near: the home slots of the operations ahead are on their way into the
//! cache while one operation is carried out.

use pgas_core::atomics::AtomicInteger;

use super::super::Inserted;
use super::super::global::LayoutOf;
use super::super::hash::Hash;
use super::super::reach::{Near, Reach};
use super::super::view::{Home, View};
use super::Outcome;
use crate::object::{self, KeyHasher, KeyOf, Object, Plain};
use crate::{BatchError, Result};

/// How many operations ahead a home slot is prefetched: enough to cover the latency of memory, few
/// enough for the processor's outstanding loads.
const AHEAD: usize = 32;

type NearHome<'a, K, V> = Home<K, V, Near<'a, LayoutOf<K, V>>>;

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Near<'a, LayoutOf<K, V>>> {
    pub(super) fn find_prefetched(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        if Self::suits_rolling(keys.len()) {
            return self.find_rolling(keys, values);
        }
        let key = |i: usize| &keys[i];
        self.each_prefetched(keys.len(), key, |i, home, key| {
            values[i] = self.find(home, key)?;
            Ok(())
        })?;
        Ok(())
    }

    pub(super) fn insert_prefetched(&self, entries: &[(K, V)]) -> Outcome {
        let mut n_new = 0;
        let key = |i: usize| &entries[i].0;
        let result = self.each_prefetched(entries.len(), key, |i, home, key| {
            let value = object::to_slot(&entries[i].1, self.heap)?;
            n_new += usize::from(self.insert(home, key, value)? == Inserted::New);
            Ok(())
        });
        Outcome { n_new, result }
    }

    /// Calls `op` with each index in turn and the home slot of its key, prefetched some calls before.
    #[inline(always)]
    fn each_prefetched<'k>(
        &self,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        mut op: impl FnMut(usize, NearHome<'a, K, V>, &KeyOf<K>) -> Result<()>,
    ) -> Result<(), BatchError> {
        // A key that cannot be written is refused in its turn, when those before it are done.
        let begin = |i: usize| -> Option<Hash> {
            let hash = self.hash(&object::key(key(i)).ok()?);
            self.home(hash).slot.reach.prefetch();
            Some(hash)
        };
        let Some(last) = n.checked_sub(1) else {
            return Ok(());
        };
        // Behind the last element its home slot is prefetched again, which spares the loop a branch.
        let mut ahead = [None; AHEAD];
        for (i, ahead) in ahead.iter_mut().enumerate() {
            *ahead = begin(i.min(last));
        }
        for i in 0..n {
            let next = begin((i + AHEAD).min(last));
            let hash = std::mem::replace(&mut ahead[i % AHEAD], next);
            let done = object::key(key(i)).and_then(|key| {
                let hash = hash.unwrap_or_else(|| self.hash(&key));
                op(i, self.home(hash), &key)
            });
            done.map_err(|error| BatchError { done: i, error })?;
        }
        Ok(())
    }
}

impl<'a, K, V, S> View<'a, K, V, S, Near<'a, LayoutOf<K, V>>>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    S: KeyHasher,
{
    #[inline(always)]
    pub(super) fn add_prefetched<'k>(
        &self,
        len: usize,
        key: impl Fn(usize) -> &'k K,
        n: impl Fn(usize) -> V,
    ) -> Outcome {
        let mut n_new = 0;
        let result = self.each_prefetched(len, &key, |i, home, key| {
            n_new += usize::from(self.add(home, key, n(i))?.is_none());
            Ok(())
        });
        Outcome { n_new, result }
    }
}
