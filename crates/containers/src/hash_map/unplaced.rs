//! Buffered inserts without a place yet.
//!
//! They stay in slots, as they came, and what comes later for the same key stays behind them. So a
//! key counts once where room is made for them; nothing is lost while a combined value cannot be
//! written; and the function that combines is only called for a value of the map and an entry that
//! comes after it, in their order, as if there had been a place at once.

use std::any::Any;
use std::collections::BTreeSet;
use std::mem;
use std::sync::{Mutex, PoisonError};

use super::hash::Hash;
use crate::object::{self, Heap, Object, SlotOf};
use crate::{Error, Result};

/// What a function panicked with.
type Panic = Box<dyn Any + Send>;

/// Entries without a place, and why others were given up.
pub(super) struct Unplaced<K: Object, V: Object> {
    /// In the order in which they came.
    pub(super) entries: Vec<SlotOf<(K, V)>>,
    /// The hashes of their keys.
    keys: BTreeSet<u64>,
    /// Why an entry has no place.
    reason: Option<Error>,
    /// The first error that cost an entry.
    failure: Option<Error>,
    /// The first panic that did.
    panic: Mutex<Option<Panic>>,
}

impl<K: Object, V: Object> Unplaced<K, V> {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            keys: BTreeSet::new(),
            reason: None,
            failure: None,
            panic: Mutex::new(None),
        }
    }

    pub(super) fn n_keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Keeps the entry in `slot` if one with its key is here, behind which it belongs; says whether
    /// there was one, or one of another key with the same hash.
    #[inline]
    pub(super) fn keep_behind(&mut self, hash: Hash, slot: &SlotOf<(K, V)>) -> bool {
        let is_behind = !self.keys.is_empty() && self.keys.contains(&hash.bits());
        if is_behind {
            self.entries.push(*slot);
        }
        is_behind
    }

    /// Keeps the entry in `slot`, the first one with its key, which has no place.
    #[cold]
    pub(super) fn keep(&mut self, hash: Hash, slot: &SlotOf<(K, V)>, why: Error) {
        self.reason.get_or_insert(why);
        self.keys.insert(hash.bits());
        self.entries.push(*slot);
    }

    /// All of them, to be inserted.
    pub(super) fn take(&mut self) -> Vec<SlotOf<(K, V)>> {
        self.reason = None;
        self.keys.clear();
        mem::take(&mut self.entries)
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

    /// Whether there is an error that [`outcome`](Self::outcome) gives; there is one with each
    /// panic.
    pub(super) const fn has_failed(&self) -> bool {
        self.failure.is_some() || self.reason.is_some()
    }

    /// The first error since the last call, and the first panic.
    pub(super) fn outcome(&mut self) -> (Result<()>, Option<Panic>) {
        let error = self.failure.take().or(self.reason.take());
        let panic = self.panic.get_mut().unwrap_or_else(PoisonError::into_inner);
        (error.map_or(Ok(()), Err), panic.take())
    }
}
