//! What is left of buffered inserts: entries that have found no place yet.
//!
//! They stay as they came, in slots, one list for each key. So a key counts once where room is made for what is left; nothing is
//! lost while a combined value cannot be written; and the function that combines is only called on what is in the map and an entry
//! that comes after it, in their order, as if there had been a place at once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem;

use super::hash::Hash;
use super::table::Table;
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{Error, Result};

/// Entries without a place, and the first error that cost entries.
pub(super) struct Left<K: Object, V: Object> {
    /// In the order in which their keys came.
    keys: Vec<Waiting<K, V>>,
    /// Where in `keys`, by the hashes of the keys.
    by_hash: HashMap<u64, Vec<usize>>,
    failure: Option<Error>,
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
            keys: Vec::new(),
            by_hash: HashMap::new(),
            failure: None,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn n_keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Keeps the entry in `slot` if one with its key is here, behind which it belongs; says whether it was.
    #[inline]
    pub(super) fn follows(&mut self, hash: Hash, key: &KeyOf<K>, slot: SlotOf<(K, V)>) -> bool {
        if self.is_empty() {
            return false;
        }
        let Some(i) = self.find(hash, key) else {
            return false;
        };
        self.keys[i].slots.push(slot);
        true
    }

    fn find(&self, hash: Hash, key: &KeyOf<K>) -> Option<usize> {
        let same = |&&i: &&usize| <K::Repr as Repr<K>>::is_same_key(&self.keys[i].key, key);
        self.by_hash.get(&hash.bits())?.iter().find(same).copied()
    }

    /// Keeps the entry in `slot`.
    #[cold]
    pub(super) fn keep(&mut self, hash: Hash, key: KeyOf<K>, slot: SlotOf<(K, V)>) {
        if self.follows(hash, &key, slot) {
            return;
        }
        self.keep_all(Waiting {
            key,
            hash,
            slots: vec![slot],
        });
    }

    fn keep_all(&mut self, waiting: Waiting<K, V>) {
        let of_hash = self.by_hash.entry(waiting.hash.bits()).or_default();
        of_hash.push(self.keys.len());
        self.keys.push(waiting);
    }

    /// Inserts the entry in `slot` by the operations that any rank may use at any time, or keeps it.
    #[cold]
    #[inline(never)]
    pub(super) fn insert_or_keep<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        hash: Hash,
        slot: SlotOf<(K, V)>,
        combine: &mut impl FnMut(V, V) -> V,
    ) {
        let heap = &table.heap;
        let key = object::from_slot::<(K, V)>(slot, heap).and_then(|(key, _)| object::key(&key));
        match key {
            Err(why) => self.give_up(&slot, why, heap),
            Ok(key) if self.follows(hash, &key, slot) => {}
            // Why that fails is told when it is tried again, at the end of a round, and fails again.
            Ok(key) => match insert(table, &[slot], combine) {
                Ok(()) => self.release(&slot, heap),
                Err(_) => self.keep(hash, key, slot),
            },
        }
    }

    /// Gives back what is behind the slot of an entry that was inserted.
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

    /// Remembers what went wrong until somebody is told.
    pub(super) fn note(&mut self, why: Error) {
        self.failure.get_or_insert(why);
    }

    /// The first failure since this was asked.
    pub(super) fn outcome(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Inserts all by the operations that any rank may use at any time. What fails is kept, but for entries that cannot be
    /// encoded together with the value that is there, or read again, which are given up.
    pub(super) fn insert_all<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        combine: &mut impl FnMut(V, V) -> V,
    ) {
        self.by_hash.clear();
        for mut waiting in mem::take(&mut self.keys) {
            self.insert_each(table, &mut waiting.slots, combine);
            if !waiting.slots.is_empty() {
                self.keep_all(waiting);
            }
        }
    }

    /// Inserts entries of one key, which are then taken away from `slots`.
    fn insert_each<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        slots: &mut Vec<SlotOf<(K, V)>>,
        combine: &mut impl FnMut(V, V) -> V,
    ) {
        // All at once, since that is one operation on the map; if that cannot be, one by one.
        for at_once in [slots.len(), 1] {
            while !slots.is_empty() {
                let n = at_once.min(slots.len());
                match insert(table, &slots[..n], combine) {
                    Ok(()) => {
                        for slot in slots.drain(..n) {
                            self.release(&slot, &table.heap);
                        }
                    }
                    Err(Error::Codec(_)) if n > 1 => break,
                    Err(why @ Error::Codec(_)) => {
                        let slot = slots.remove(0);
                        self.give_up(&slot, why, &table.heap);
                    }
                    Err(why) => return self.note(why),
                }
            }
        }
    }
}

/// Combines what is there with all the entries in `slots`, which have one key, in their order.
fn insert<K: Object, V: Object, S: KeyHasher>(
    table: &Table<K, V, S>,
    slots: &[SlotOf<(K, V)>],
    combine: &mut impl FnMut(V, V) -> V,
) -> Result<()> {
    let heap = &*table.heap;
    let (key, _) = object::from_slot::<(K, V)>(slots[0], heap)?;
    // Another rank may come in between, so each time the entries are read anew.
    let read = |slot: &SlotOf<(K, V)>| -> Result<V> {
        let (_, value) = object::from_slot::<(K, V)>(*slot, heap)?;
        Ok(value)
    };
    let combine = RefCell::new(combine);
    let all = |there: Option<V>| -> Result<V> {
        let mut slots = slots.iter();
        let mut value = match there {
            Some(there) => there,
            None => read(slots.next().expect("at least one"))?,
        };
        for slot in slots {
            value = (combine.borrow_mut())(value, read(slot)?);
        }
        Ok(value)
    };
    let insert = &mut || table.is_inserted(&key, &all(None)?);
    table.upsert(&key, insert, &mut |there| all(Some(there)))?;
    Ok(())
}
