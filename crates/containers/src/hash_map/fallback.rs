//! The fallback of operations on one key: the way to the slot that holds it or is free for it, slot
//! by slot.

use pgas_lockfree::slots::probe::{self, ProbeResult};
use pgas_lockfree::slots::state::StateWord;
use pgas_lockfree::slots::{Intent, ReadValue, SlotMemory as _, value};
use zerocopy::FromZeros as _;

use super::hash::Hash;
use super::op::{Effect, FoundSlot, GetOrInsert, Join, OnKey, Update};
use super::slot::{Access, GlobalSlot};
use super::view::View;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{Error, Result};

/// Bytes of values that an operation has beside others.
const LARGE: usize = 4096;

/// The found of a key.
type ProbeResultOf<K, V, R> = ProbeResult<GlobalSlot<K, V, R>>;

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// What becomes of a key that was absent, in the first free slot on the way to it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn absent<O: OnKey<K, V>>(
        &self,
        slot: GlobalSlot<K, V, R>,
        hash: Hash,
        of_key: SlotOf<K>,
        given: &O::Given,
    ) -> Result<O::Outcome> {
        if O::EFFECT == Effect::Claim {
            let state = StateWord::ready(hash.fingerprint());
            slot.publish_entry(of_key, O::value(given), state)?;
        }
        Ok(O::Outcome::default())
    }

    /// The fallback.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn perform_fallback<O: OnKey<K, V>>(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        mut given: O::Given,
    ) -> Result<O::Outcome> {
        let (slot, mut held) = match self.slot_for::<O>(hash, key, &given)? {
            (ProbeResult::Found(slot, held), _) => (slot, held),
            (ProbeResult::Free(slot), of_key) => {
                return self.absent::<O>(slot, hash, of_key, &given);
            }
            (ProbeResult::Absent, _) => return Ok(O::Outcome::default()),
        };
        loop {
            if let Some(done) = O::held(FoundSlot::new(self, slot, held), &mut given)? {
                return Ok(done);
            }
            // The key was removed. It is inserted again, if another rank is not faster.
            if O::EFFECT != Effect::Claim {
                return Ok(O::Outcome::default());
            }
            match value::reinsert_if_removed(slot, O::value(&given))? {
                Ok(()) => return Ok(O::Outcome::default()),
                Err(now) => held = now,
            }
        }
    }

    /// Where `O` is carried out, and what a slot is to hold of a key that is new.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn slot_for<O: OnKey<K, V>>(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        given: &O::Given,
    ) -> Result<(ProbeResultOf<K, V, R>, SlotOf<K>)> {
        if O::EFFECT == Effect::Claim {
            return self.claim_slot(hash, key, O::value(given), O::READ_VALUE);
        }
        Ok((
            self.find_slot(hash, key, O::READ_VALUE)?,
            SlotOf::<K>::new_zeroed(),
        ))
    }

    /// The found of `key` by the fallback. In the part of a rank a search that ends behind its last
    /// slot has told nothing, and it is full.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn find_slot(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        read_value: ReadValue,
    ) -> Result<ProbeResultOf<K, V, R>> {
        match probe::probe_slots(self, self.home(hash), key, read_value, Intent::Find)? {
            ProbeResult::Absent if R::IS_SHARD => Err(self.full()),
            found => Ok(found),
        }
    }

    /// Likewise, of a key that is to be there, with what a slot is to hold of it. If there is none,
    /// `value` is given up.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn claim_slot(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: SlotOf<V>,
        read_value: ReadValue,
    ) -> Result<(ProbeResultOf<K, V, R>, SlotOf<K>)> {
        let claimed = self.find_or_reserve(hash, key, read_value);
        if claimed.is_err() {
            object::release::<V>(&value, self.heap())?;
        }
        claimed
    }

    /// A slot for the key, and the part of the key that goes there. As a closure it made inserts of
    /// wide values a third longer.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn find_or_reserve(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        read_value: ReadValue,
    ) -> Result<(ProbeResultOf<K, V, R>, SlotOf<K>)> {
        // Memory for the key is got before a slot is reserved for it, since there may be none.
        let is_outside = <K::Repr as Repr<K>>::is_key_outside(key);
        let find = || probe::probe_slots(self, self.home(hash), key, read_value, Intent::Find);
        if is_outside && let found @ ProbeResult::Found(..) = find()? {
            return Ok((found, SlotOf::<K>::new_zeroed()));
        }
        let of_key = <K::Repr as Repr<K>>::key_slot(key, self.heap())?;
        let found = probe::probe_slots(self, self.home(hash), key, read_value, Intent::Claim)?;
        if is_outside && !matches!(found, ProbeResult::Free(_)) {
            object::release::<K>(&of_key, self.heap())?;
        }
        match found {
            ProbeResult::Absent => Err(self.full()),
            ProbeResult::Found(..) | ProbeResult::Free(_) => Ok((found, of_key)),
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
                Err(Error::Full { .. }) if R::IS_SHARD => {}
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
