//! The operations of a map, over slots that are all reached in the same way.

use std::marker::PhantomData;

use pgas_core::Pod;
use pgas_core::atomics::AtomicInteger;
use pgas_core::backend::AtomicOp;

use super::Inserted;
use super::global::GlobalSlot;
use super::hash::{self, Hash, Ring};
use super::reach::Reach;
use super::slot::{self, Held, SlotMemory, Wanted};
use super::state::StateWord;
use super::walk::{self, Place, Slots};
use crate::{Error, Result};

/// A map's slots, reached as `R` says.
pub(super) struct View<'a, K, V, R: Reach<'a>> {
    pub(super) all: R::All,
    pub(super) ring: &'a Ring,
    slot: PhantomData<GlobalSlot<K, V, R>>,
}

/// Where the search for a key begins.
pub(super) type Home<K, V, R> = walk::Home<GlobalSlot<K, V, R>>;

/// A slot that holds the key, and what is known of it.
type Holding<K, V, R> = (GlobalSlot<K, V, R>, Held<V>);

impl<'a, K: Pod, V: Pod, R: Reach<'a>> Slots for View<'a, K, V, R> {
    type Slot = GlobalSlot<K, V, R>;

    #[inline(always)]
    fn next(&self, slot: &GlobalSlot<K, V, R>) -> GlobalSlot<K, V, R> {
        self.slot(self.ring.next(slot.reach.place()))
    }
}

/// Those that begin at a home slot leave it to their caller to prefetch it, and to count new keys.
impl<'a, K: Pod, V: Pod, R: Reach<'a>> View<'a, K, V, R> {
    #[inline(always)]
    pub(super) fn new(all: R::All, ring: &'a Ring) -> Self {
        let slot = PhantomData;
        Self { all, ring, slot }
    }

    #[inline(always)]
    pub(super) fn slot(&self, place: hash::Place) -> GlobalSlot<K, V, R> {
        GlobalSlot::new(R::new(self.all, place))
    }

    #[inline(always)]
    pub(super) fn home(&self, hash: Hash) -> Home<K, V, R> {
        Home {
            slot: self.slot(self.ring.home(hash)),
            fingerprint: hash.fingerprint(),
        }
    }

    /// The slot that holds `key`; or nothing, after `value` was inserted under it.
    #[inline(always)]
    fn held_or_inserted(
        &self,
        home: Home<K, V, R>,
        key: &K,
        value: V,
        wanted: Wanted,
    ) -> Result<Option<Holding<K, V, R>>> {
        match walk::claim(self, home, key, wanted)? {
            Place::Held(slot, held) => Ok(Some((slot, held))),
            Place::New(slot) => {
                slot.publish_entry(key, value, StateWord::ready(home.fingerprint))?;
                Ok(None)
            }
            Place::Full => Err(self.full()),
        }
    }

    #[cold]
    fn full(&self) -> Error {
        Error::Full {
            capacity: self.ring.capacity(),
        }
    }

    #[inline(always)]
    pub(super) fn insert(&self, home: Home<K, V, R>, key: &K, value: V) -> Result<Inserted> {
        match self.held_or_inserted(home, key, value, Wanted::Key)? {
            None => Ok(Inserted::New),
            Some((slot, held)) => {
                slot::store(&slot, held, value)?;
                Ok(Inserted::Replaced)
            }
        }
    }

    /// The value that is there, if it was there before.
    #[inline(always)]
    pub(super) fn get_or_insert(&self, key: &K, value: V) -> Result<Option<V>> {
        match self.held_or_inserted(self.home(Hash::of(key)), key, value, Wanted::Value)? {
            Some((slot, held)) => Ok(Some(slot::load(&slot, held)?)),
            None => Ok(None),
        }
    }

    #[inline(always)]
    pub(super) fn find(&self, home: Home<K, V, R>, key: &K) -> Result<Option<V>> {
        match walk::look(self, home, key, Wanted::Value)? {
            None => Ok(None),
            Some((slot, held)) => Ok(Some(slot::load(&slot, held)?)),
        }
    }

    #[inline(always)]
    pub(super) fn contains(&self, key: &K) -> Result<bool> {
        let held = walk::look(self, self.home(Hash::of(key)), key, Wanted::Key)?;
        Ok(held.is_some())
    }

    #[inline(always)]
    pub(super) fn update(&self, key: &K, f: impl FnMut(V) -> V) -> Result<Option<V>> {
        match walk::look(self, self.home(Hash::of(key)), key, Wanted::Value)? {
            None => Ok(None),
            Some((slot, held)) => Ok(Some(slot::update(&slot, held, f)?)),
        }
    }
}

impl<'a, K: Pod, V: AtomicInteger, R: Reach<'a>> View<'a, K, V, R> {
    /// Adds to the value of `key`, and returns the former one if it was there.
    #[inline(always)]
    pub(super) fn add(&self, home: Home<K, V, R>, key: &K, n: V) -> Result<Option<V>> {
        match self.held_or_inserted(home, key, n, Wanted::Key)? {
            Some((slot, _)) => Ok(Some(slot.fetch_op(AtomicOp::Add, n)?)),
            None => Ok(None),
        }
    }
}
