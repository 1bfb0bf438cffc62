//! The fallback of operations on one key: the way to the slot that holds it or is free for it, slot
//! by slot.

use pgas_lockfree::slots::probe::{self, Place};
use pgas_lockfree::slots::state::StateWord;
use pgas_lockfree::slots::{Intent, SlotMemory as _, Wanted, value};
use zerocopy::FromZeros as _;

use super::hash::Hash;
use super::op::{At, Effect, GetOrInsert, Join, OnKey, Update};
use super::slot::{Access, GlobalSlot};
use super::view::View;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{Error, Result};

/// Bytes of values that an operation has beside others.
const LARGE: usize = 4096;

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
        let (slot, mut held) = match self.place::<O>(hash, key, &given)? {
            (Place::Found(slot, held), _) => (slot, held),
            (Place::Free(slot), of_key) => return self.absent::<O>(slot, hash, of_key, &given),
            (Place::Absent, _) => return Ok(O::Done::default()),
        };
        loop {
            if let Some(done) = O::held(At::new(self, slot, held), &mut given)? {
                return Ok(done);
            }
            // The key was removed. It is inserted again, if another rank is not faster.
            if O::EFFECT != Effect::Claim {
                return Ok(O::Done::default());
            }
            match value::insert_again(slot, O::value(&given))? {
                Ok(()) => return Ok(O::Done::default()),
                Err(now) => held = now,
            }
        }
    }

    /// Where `O` is carried out, and what a slot is to hold of a key that is new.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn place<O: OnKey<K, V>>(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        given: &O::Given,
    ) -> Result<(PlaceOf<K, V, R>, SlotOf<K>)> {
        if O::EFFECT == Effect::Claim {
            return self.walk_to_claim(hash, key, O::value(given), O::WANTED);
        }
        Ok((self.walk(hash, key, O::WANTED)?, SlotOf::<K>::new_zeroed()))
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
        let look = || probe::walk(self, self.home(hash), key, wanted, Intent::Look);
        if is_outside && let found @ Place::Found(..) = look()? {
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

    /// Likewise, or inserts what a slot is to hold of `f` of nothing; whether the key was there.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn fold(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        mut f: impl FnMut(Option<V>) -> Result<SlotOf<V>>,
    ) -> Result<bool> {
        if !object::has_heap::<V>() && size_of::<SlotOf<V>>() <= LARGE {
            return self.join(hash, key, f);
        }
        // A value takes memory of its own, or much of the stack, only where the key is absent.
        loop {
            match self.update(hash, key, |there| f(Some(there))) {
                Ok(Some(_)) => return Ok(true),
                // At the end of a part a look tells nothing, and a claim finds a key that was
                // removed.
                Err(Error::Full { .. }) if R::IS_PART => {}
                former => drop(former?),
            }
            if self.insert_new(hash, key, || f(None))? {
                return Ok(false);
            }
        }
    }

    /// Inserts what a slot is to hold, unless the key is there; whether it was absent.
    fn insert_new(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: impl FnOnce() -> Result<SlotOf<V>>,
    ) -> Result<bool> {
        Ok(self.perform::<GetOrInsert>(hash, key, value()?)?.is_none())
    }

    /// Likewise, in one search.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn join(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        mut f: impl FnMut(Option<V>) -> Result<SlotOf<V>>,
    ) -> Result<bool> {
        let value = f(None)?;
        self.perform::<Join<_>>(hash, key, (value, f))
    }
}
