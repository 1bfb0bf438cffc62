//! Entries of a buffer that found no slot yet.
//!
//! They stay encoded, in order of arrival, and later entries of the same key queue behind them. So
//! a key counts once when room is made. Nothing is lost while a combined value cannot be written.
//! The combining function is called only for a value of the map and a later entry, in their order,
//! as if there had been a slot at once.

use std::any::Any;
use std::collections::BTreeSet;
use std::mem;
use std::sync::{Mutex, PoisonError};

use pgas_core::process::discard_panic;

use super::hash::Hash;
use crate::object::{self, Heap, Object, SlotOf};
use crate::{Error, Result};

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

/// Entries without a slot, and why others were given up.
pub(super) struct Unplaced<K: Object, V: Object> {
    /// In order of arrival.
    pub(super) entries: Vec<SlotOf<(K, V)>>,
    /// The hashes of their keys.
    keys: BTreeSet<u64>,
    /// Why an entry found no slot.
    reason: Option<Error>,
    /// The first error that lost an entry.
    failure: Option<Error>,
    /// The first panic that lost an entry.
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

    /// Keeps the entry in `slot` behind waiting ones of its key. Returns whether one waits, which
    /// may also be one of another key with the same hash.
    #[inline]
    pub(super) fn keep_behind(&mut self, hash: Hash, slot: &SlotOf<(K, V)>) -> bool {
        let is_behind = !self.keys.is_empty() && self.keys.contains(&hash.bits());
        if is_behind {
            self.entries.push(*slot);
        }
        is_behind
    }

    /// Keeps the entry in `slot`, which found no slot in the map and is the first one of its key.
    #[cold]
    pub(super) fn keep(&mut self, hash: Hash, slot: &SlotOf<(K, V)>, why: Error) {
        self.reason.get_or_insert(why);
        self.keys.insert(hash.bits());
        self.entries.push(*slot);
    }

    /// Takes all entries, to insert them.
    pub(super) fn take(&mut self) -> Vec<SlotOf<(K, V)>> {
        self.reason = None;
        self.keys.clear();
        mem::take(&mut self.entries)
    }

    /// Releases the heap memory of an entry that is inserted or given up.
    pub(super) fn release(&mut self, slot: &SlotOf<(K, V)>, heap: &Heap) {
        if let Err(error) = object::release::<(K, V)>(slot, heap) {
            self.note(error);
        }
    }

    /// Gives up the entry in `slot`: another attempt would fail, too.
    #[cold]
    pub(super) fn give_up(&mut self, slot: &SlotOf<(K, V)>, why: Error, heap: &Heap) {
        self.note(why);
        self.release(slot, heap);
    }

    /// Remembers a panic of the combining function or the hasher until the next
    /// [`outcome`](Self::outcome).
    #[cold]
    pub(super) fn note_panic(&mut self, panic: Panic) {
        let first = self.panic.get_mut().unwrap_or_else(PoisonError::into_inner);
        match first {
            None => *first = Some(panic),
            Some(_) => discard_panic(panic),
        }
        let why = "a function that a buffer calls panicked".into();
        self.note(Error::Argument(why));
    }

    /// Remembers an error until the next [`outcome`](Self::outcome).
    pub(super) fn note(&mut self, why: Error) {
        self.failure.get_or_insert(why);
    }

    /// Whether [`outcome`](Self::outcome) has an error to return. Each panic comes with one.
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
