//! The fallback of operations on one key: the way to the slot that holds it or is free for it, slot by
//! slot.

use pgas_lockfree::slots::probe::{self, Place};
use pgas_lockfree::slots::state::StateWord;
use pgas_lockfree::slots::{self, Intent, SlotMemory as _, Wanted};
use zerocopy::FromZeros as _;

use super::done::Done as _;
use super::hash::Hash;
use super::op::{At, Effect, GetOrInsert, Join, OnKey, Update};
use super::slot::{Access, GlobalSlot};
use super::view::View;
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};

/// The place of a key.
type PlaceOf<K, V, R> = Place<GlobalSlot<K, V, R>>;

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// What becomes of a key that was absent, in the first free slot on the way to it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn absent<O: OnKey<K, V>>(
        &self,
        slot: GlobalSlot<K, V, R>,
        hash: Hash,
        of_key: SlotOf<K>,
        given: &O::Given,
    ) -> Result<O::Done> {
        if O::EFFECT == Effect::Claim {
            let state = StateWord::ready(hash.fingerprint());
            slot.publish_entry(of_key, O::value(given), state)?;
        }
        Ok(O::Done::default())
    }

    /// The fallback.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn walk_to<O: OnKey<K, V>>(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        mut given: O::Given,
    ) -> Result<O::Done> {
        if O::IS_READ_ONLY {
            return match self.seek(hash, key)? {
                Some(value) => O::Done::of_value(value, self.heap()),
                None => Ok(O::Done::default()),
            };
        }
        let (place, of_key) = if O::EFFECT == Effect::Claim {
            self.walk_to_claim(hash, key, O::value(&given), O::WANTED)?
        } else {
            (self.walk(hash, key, O::WANTED)?, SlotOf::<K>::new_zeroed())
        };
        let (slot, mut held) = match place {
            Place::Found(slot, held) => (slot, held),
            Place::Free(slot) => return self.absent::<O>(slot, hash, of_key, &given),
            Place::Absent => return Ok(O::Done::default()),
        };
        loop {
            let view = self;
            if let Some(done) = O::held(
                At {
                    view,
                    slot,
                    held,
                    is_walk: true,
                },
                &mut given,
            )? {
                return Ok(done);
            }
            // The key was removed. It is inserted again, if another rank is not faster.
            if O::EFFECT != Effect::Claim {
                return Ok(O::Done::default());
            }
            match slots::insert_again(slot, O::value(&given))? {
                Ok(()) => return Ok(O::Done::default()),
                Err(now) => held = now,
            }
        }
    }

    /// The place of `key` by the fallback. In the part of a rank a search that ends behind its last
    /// slot has told nothing, and it is full.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn walk(&self, hash: Hash, key: &KeyOf<K>, wanted: Wanted) -> Result<PlaceOf<K, V, R>> {
        match probe::walk(self, self.home(hash), key, wanted, Intent::Look)? {
            Place::Absent if R::IS_PART => Err(self.full()),
            place => Ok(place),
        }
    }

    /// Likewise, of a key that is to be there, with what a slot is to hold of it. If there is none,
    /// `value` is given up.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn walk_to_claim(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: SlotOf<V>,
        wanted: Wanted,
    ) -> Result<(PlaceOf<K, V, R>, SlotOf<K>)> {
        let claimed = self.claim(hash, key, wanted);
        if claimed.is_err() {
            object::release::<V>(&value, self.heap())?;
        }
        claimed
    }

    /// A slot for the key, and the part of the key that goes there. As a closure it made inserts of
    /// wide values a third longer.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn claim(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        wanted: Wanted,
    ) -> Result<(PlaceOf<K, V, R>, SlotOf<K>)> {
        // Memory for the key is got before a slot is reserved for it, since there may be none.
        let is_outside = <K::Repr as Repr<K>>::is_key_outside(key);
        if is_outside && let found @ Place::Found(..) = self.walk(hash, key, wanted)? {
            return Ok((found, SlotOf::<K>::new_zeroed()));
        }
        let of_key = <K::Repr as Repr<K>>::key_slot(key, self.heap())?;
        let place = probe::walk(self, self.home(hash), key, wanted, Intent::Claim)?;
        if is_outside && !matches!(place, Place::Free(_)) {
            object::release::<K>(&of_key, self.heap())?;
        }
        match place {
            Place::Absent => Err(self.full()),
            Place::Found(..) | Place::Free(_) => Ok((place, of_key)),
        }
    }

    /// Replaces the value of a key by what a slot is to hold of `f` of it; what was there.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn update(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        f: impl FnMut(V) -> Result<SlotOf<V>>,
    ) -> Result<Option<V>> {
        self.perform::<Update<_>>(hash, key, f)
    }

    /// Likewise, or inserts `value`, which has no memory of its own; whether the key was there.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn join(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: SlotOf<V>,
        f: impl FnMut(V) -> Result<SlotOf<V>>,
    ) -> Result<bool> {
        self.perform::<Join<_>>(hash, key, (value, f))
    }

    /// Likewise, with `f` of nothing for the value that is inserted.
    pub(super) fn upsert(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        mut f: impl FnMut(Option<V>) -> Result<SlotOf<V>>,
    ) -> Result<bool> {
        loop {
            if self.update(hash, key, |there| f(Some(there)))?.is_some() {
                return Ok(true);
            }
            let value = f(None)?;
            if self.perform::<GetOrInsert>(hash, key, value)?.is_none() {
                return Ok(false);
            }
        }
    }
}
