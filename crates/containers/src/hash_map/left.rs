//! Buffered inserts without a place yet.
//!
//! They stay in slots, as they came, in one list for each key. So a key counts once where room is made
//! for them; nothing is lost while a combined value cannot be written; and the function that combines
//! is only called for a value of the map and an entry that comes after it, in their order, as if there
//! had been a place at once.

use std::any::Any;
use std::collections::BTreeMap;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use super::hash::Hash;
use super::table::{Table, over_slots};
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{Error, Result};

/// What a function panicked with.
type Panic = Box<dyn Any + Send>;

/// Entries without a place, and why others were given up.
pub(super) struct Left<K: Object, V: Object> {
    /// By the hashes of their keys.
    keys: BTreeMap<u64, Vec<Waiting<K, V>>>,
    /// Why an entry has no place.
    reason: Option<Error>,
    /// The first error that cost an entry.
    failure: Option<Error>,
    /// The first panic that did.
    panic: Mutex<Option<Panic>>,
}

/// The entries of one key.
struct Waiting<K: Object, V: Object> {
    key: KeyOf<K>,
    hash: Hash,
    /// In the order in which they came.
    slots: Vec<SlotOf<(K, V)>>,
}

impl<K: Object, V: Object> Left<K, V> {
    pub(super) fn new() -> Self {
        Self {
            keys: BTreeMap::new(),
            reason: None,
            failure: None,
            panic: Mutex::new(None),
        }
    }

    pub(super) fn n_keys(&self) -> u64 {
        self.keys.values().map(|keys| keys.len() as u64).sum()
    }

    /// Keeps the entry in `slot` if one with its key is here, behind which it belongs; says whether
    /// there was one.
    #[inline]
    pub(super) fn follows(&mut self, hash: Hash, key: &KeyOf<K>, slot: &SlotOf<(K, V)>) -> bool {
        !self.keys.is_empty() && self.is_behind_another(hash, key, slot)
    }

    #[cold]
    fn is_behind_another(&mut self, hash: Hash, key: &KeyOf<K>, slot: &SlotOf<(K, V)>) -> bool {
        let same = |there: &&mut Waiting<K, V>| <K::Repr as Repr<K>>::is_same_key(&there.key, key);
        let of_hash = self.keys.get_mut(&hash.bits());
        let Some(there) = of_hash.and_then(|keys| keys.iter_mut().find(same)) else {
            return false;
        };
        there.slots.push(*slot);
        true
    }

    /// Keeps the entry in `slot`, the first one with its key.
    #[cold]
    pub(super) fn keep(&mut self, hash: Hash, key: KeyOf<K>, slot: &SlotOf<(K, V)>) {
        let slots = vec![*slot];
        let of_hash = self.keys.entry(hash.bits()).or_default();
        of_hash.push(Waiting { key, hash, slots });
    }

    /// Frees the memory behind the slot of an entry that was inserted.
    pub(super) fn release(&mut self, slot: &SlotOf<(K, V)>, heap: &Heap) {
        if let Err(error) = object::release::<(K, V)>(slot, heap) {
            self.note(error);
        }
    }

    /// Gives up the entry in `slot`, for a reason that stays.
    #[cold]
    pub(super) fn give_up(&mut self, slot: &SlotOf<(K, V)>, why: Error, heap: &Heap) {
        self.note(why);
        self.release(slot, heap);
    }

    /// Likewise, since the function that combines panicked.
    #[cold]
    pub(super) fn give_up_panicked(&mut self, slot: &SlotOf<(K, V)>, panic: Panic, heap: &Heap) {
        let first = self.panic.get_mut().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(panic);
        let why = "the function that combines values panicked".into();
        self.give_up(slot, Error::Argument(why), heap);
    }

    /// Remembers an error until the next [`outcome`](Self::outcome).
    pub(super) fn note(&mut self, why: Error) {
        self.failure.get_or_insert(why);
    }

    /// Whether there is an error that [`outcome`](Self::outcome) gives; there is one with each panic.
    pub(super) const fn has_failed(&self) -> bool {
        self.failure.is_some() || self.reason.is_some()
    }

    /// The first error since the last call, and the first panic.
    pub(super) fn outcome(&mut self) -> (Result<()>, Option<Panic>) {
        let error = self.failure.take().or(self.reason.take());
        let panic = self.panic.get_mut().unwrap_or_else(PoisonError::into_inner);
        (error.map_or(Ok(()), Err), panic.take())
    }

    /// Inserts all by the operations that any rank may use at any time. Entries that fail are kept,
    /// unless they cannot be read, combined with the value that is there, or encoded together with
    /// it; these are given up.
    pub(super) fn insert_all<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        combine: &mut impl FnMut(V, V) -> V,
    ) {
        self.reason = None;
        let mut keys = mem::take(&mut self.keys);
        keys.retain(|_, of_hash| {
            of_hash.retain_mut(|waiting| {
                self.insert_waiting(table, waiting, combine);
                !waiting.slots.is_empty()
            });
            !of_hash.is_empty()
        });
        self.keys = keys;
    }

    /// Inserts the entries of a key, and removes them from the list.
    fn insert_waiting<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        waiting: &mut Waiting<K, V>,
        combine: &mut impl FnMut(V, V) -> V,
    ) {
        let (heap, n_all) = (table.heap(), waiting.slots.len());
        // All at once, since that is one operation on the map; if that cannot be, one by one.
        for at_once in [n_all, 1] {
            while !waiting.slots.is_empty() {
                let n = at_once.min(waiting.slots.len());
                let insert = || waiting.insert(n, table, combine);
                match catch_unwind(AssertUnwindSafe(insert)) {
                    Ok(Ok(())) => {
                        for slot in waiting.slots.drain(..n) {
                            self.release(&slot, heap);
                        }
                    }
                    Ok(Err(Error::Codec(_))) | Err(_) if n > 1 => break,
                    Ok(Err(why @ Error::Codec(_))) => {
                        self.give_up(&waiting.slots.remove(0), why, heap);
                    }
                    Err(panic) => self.give_up_panicked(&waiting.slots.remove(0), panic, heap),
                    Ok(Err(why)) => {
                        self.reason.get_or_insert(why);
                        return;
                    }
                }
            }
        }
    }
}

impl<K: Object, V: Object> Waiting<K, V> {
    /// Combines the value that is there with the first `n` entries, in their order.
    fn insert<S: KeyHasher>(
        &self,
        n: usize,
        table: &Table<K, V, S>,
        combine: &mut impl FnMut(V, V) -> V,
    ) -> Result<()> {
        let (hash, key, heap) = (self.hash, &self.key, table.heap());
        // Another rank may come in between, so each time the entries are read anew.
        let fold = |there: Option<V>| {
            let read = |slot: &SlotOf<(K, V)>| object::from_slot::<V>(slot.members().1, heap);
            let mut values = self.slots[..n].iter().map(read);
            let first = match there {
                Some(there) => there,
                None => values.next().expect("at least one")?,
            };
            let mut value = first;
            for more in values {
                value = combine(value, more?);
            }
            object::to_slot(&value, heap)
        };
        let was_there = over_slots!(table, |view| view.upsert(hash, key, fold))?;
        table.count_new(u64::from(!was_there));
        Ok(())
    }
}
