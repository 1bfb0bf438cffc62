//! The fallback of operations on one key: a general probe, slot by slot.

use pgas_lockfree::slots::probe::{self, ProbeResult, Slots as _};
use pgas_lockfree::slots::state::StateWord;
use pgas_lockfree::slots::{Intent, ReadValue, SlotMemory as _, value};
use zerocopy::FromZeros as _;

use super::found::FoundSlot;
use super::hash::Hash;
use super::op::OnKey;
use super::operations::{GetOrInsert, Join, Update};
use super::outcome::Effect;
use super::slot::{Access, GlobalSlot};
use super::view::View;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{Error, Result};

/// Values of more bytes than this are not kept on the stack beside others.
const LARGE: usize = 4096;

/// The result of a probe of single slots.
type ProbeResultOf<K, V, R> = ProbeResult<GlobalSlot<K, V, R>>;

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Completes `O` for an absent key: publishes the entry in the reserved free `slot` if `O`
    /// inserts.
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

    /// Performs `O` by probing single slots.
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
            match O::held(FoundSlot::new(self, slot, held), &mut given) {
                Ok(Some(done)) => return Ok(done),
                Ok(None) => {}
                Err(error) => return self.refused::<O, _>(error, &given),
            }
            // The key was removed meanwhile. Insert it again, unless another rank does so first.
            if O::EFFECT != Effect::Claim {
                return Ok(O::Outcome::default());
            }
            match value::reinsert_if_removed(slot, O::value(&given)) {
                Ok(Ok(())) => return Ok(O::Outcome::default()),
                Ok(Err(now)) => held = now,
                Err(error) => return self.refused::<O, _>(error, &given),
            }
        }
    }

    /// The end of an operation by an `error` in the key's slot. A wait that is refused inside a
    /// handler, or ends by its limit, has changed nothing, nor has a value that cannot be encoded
    /// or finds no room: the encoded value is released. After errors of the transport the slot may
    /// have it.
    #[cold]
    fn refused<O: OnKey<K, V>, T>(&self, error: Error, given: &O::Given) -> Result<T> {
        let has_changed_nothing = matches!(
            error,
            Error::InHandler { .. } | Error::Timeout(_) | Error::Codec(_) | Error::Exhausted(_)
        );
        if O::EFFECT == Effect::Claim && has_changed_nothing {
            object::release::<V>(&O::value(given), self.heap())?;
        }
        Err(error)
    }

    /// Finds the slot for `O`. Also returns the encoded key if `O` inserts.
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
        self.find_slot(hash, key, O::READ_VALUE)
    }

    /// Finds `key`. In a shard, a search that passes the last slot is inconclusive, so the error is
    /// that the shard is full. A function of its own: its values are not on the stack of a claim.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn find_slot(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        read_value: ReadValue,
    ) -> Result<(ProbeResultOf<K, V, R>, SlotOf<K>)> {
        match probe::probe_slots(self, self.home(hash), key, read_value, Intent::Find)? {
            ProbeResult::Absent if self.is_shard() => Err(self.full()),
            found => Ok((found, SlotOf::<K>::new_zeroed())),
        }
    }

    /// Finds `key`, or reserves a slot for it. Also returns the encoded key. On failure the encoded
    /// `value` is released.
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

    /// Finds or reserves a slot for the key, and encodes the key. It is a function since a closure
    /// made inserts of wide values a third longer.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn find_or_reserve(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        read_value: ReadValue,
    ) -> Result<(ProbeResultOf<K, V, R>, SlotOf<K>)> {
        // Allocate memory for the key before a slot is reserved, since the heap may be exhausted.
        let is_outside = <K::Repr as Repr<K>>::is_key_outside(key);
        let find = || probe::probe_slots(self, self.home(hash), key, read_value, Intent::Find);
        if is_outside && let found @ ProbeResult::Found(..) = find()? {
            return Ok((found, SlotOf::<K>::new_zeroed()));
        }
        let of_key = <K::Repr as Repr<K>>::key_slot(key, self.heap())?;
        let found = self.reserve(hash, key, of_key, read_value)?;
        Ok((found, of_key))
    }

    /// Finds the key, or reserves a slot for it. If it does not reserve one, the encoded key
    /// `of_key` is released.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn reserve(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        of_key: SlotOf<K>,
        read_value: ReadValue,
    ) -> Result<ProbeResultOf<K, V, R>> {
        let found = probe::probe_slots(self, self.home(hash), key, read_value, Intent::Claim);
        if !matches!(found, Ok(ProbeResult::Free(_))) && <K::Repr as Repr<K>>::is_key_outside(key) {
            object::release::<K>(&of_key, self.heap())?;
        }
        match found? {
            ProbeResult::Absent => Err(self.full()),
            found => Ok(found),
        }
    }

    /// Replaces the value of a key by the encoded value that `f` makes of it, or inserts `f(None)`.
    /// Returns whether the key was present.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn fold(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        mut f: impl FnMut(Option<V>) -> Result<SlotOf<V>>,
    ) -> Result<bool> {
        if !object::has_heap::<V>() && size_of::<SlotOf<V>>() <= LARGE {
            let value = f(None)?;
            return self.perform::<Join<_>>(hash, key, (value, f));
        }
        // Make the value for an absent key only if the key is absent: it takes heap memory or much
        // stack.
        loop {
            match self.perform::<Update<_>>(hash, key, |there| f(Some(there))) {
                Ok(Some(_)) => return Ok(true),
                // At the end of a shard a search is inconclusive. A claim finds a removed key
                // there, too.
                Err(Error::Full { .. }) if self.is_shard() => {}
                former => drop(former?),
            }
            if self.insert_new(hash, key, || f(None))? {
                return Ok(false);
            }
        }
    }

    /// Inserts the encoded value unless the key is present. Returns whether the key was absent.
    fn insert_new(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: impl FnOnce() -> Result<SlotOf<V>>,
    ) -> Result<bool> {
        Ok(self.perform::<GetOrInsert>(hash, key, value()?)?.is_none())
    }
}
