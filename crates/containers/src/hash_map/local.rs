//! The phase in which each rank works on what it holds itself, without atomics.

use pgas_lockfree::slots::Intent;
use pgas_lockfree::slots::probe::{self, Probed, Slots as _};
use pgas_lockfree::slots::state::{SlotState, StateWord};

use super::HashMap;
use super::done::Inserted;
use super::hash::Hash;
use super::phase::Local;
use super::slot::{Access, GlobalSlot};
use super::table::over_own_slots;
use super::view::{Step, View};
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{Error, Result};

/// While each rank works on what it holds itself.
///
/// A key's place is on the rank that [`home`](Self::home) names, or, if there is none free up to that rank's last slot, behind that;
/// in the second case, as in that of a key of another rank, these methods do nothing and say so.
impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Local, S> {
    /// Puts `value` under `key`, over the value that stood there; `None` if the key's place is not on this rank.
    ///
    /// # Cost
    ///
    /// ℓ: a read and a write of this rank's own memory.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if key or value cannot be encoded,
    /// [`Exhausted`](pgas_core::Error::Exhausted) if this rank's heap has no room for them.
    #[inline]
    pub fn local_insert(&mut self, key: &K, value: &V) -> Result<Option<Inserted>> {
        let mut there = false;
        let done = self.change(key, |former, heap| {
            there = former.is_some();
            object::to_slot(value, heap).map(Some)
        })?;
        Ok(done.then_some(Inserted::over(there)))
    }

    /// Replaces the value of `key` by `combine` of it, or inserts `value`; `None` if the key's place is not on this rank.
    ///
    /// # Cost
    ///
    /// As [`local_insert`](Self::local_insert).
    ///
    /// # Errors
    ///
    /// As [`local_insert`](Self::local_insert).
    #[inline]
    pub fn local_upsert(
        &mut self,
        key: &K,
        value: &V,
        combine: impl FnOnce(V) -> V,
    ) -> Result<Option<Inserted>> {
        let mut there = false;
        let done = self.change(key, |former, heap| {
            there = former.is_some();
            let slot = match former {
                Some(former) => {
                    let former = object::from_slot::<V>(former, heap)?;
                    object::to_slot(&combine(former), heap)?
                }
                None => object::to_slot(value, heap)?,
            };
            Ok(Some(slot))
        })?;
        Ok(done.then_some(Inserted::over(there)))
    }

    /// Removes `key`, and returns its value; `None` if it is not on this rank.
    ///
    /// # Cost
    ///
    /// As [`local_insert`](Self::local_insert).
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the value is no `V`; then the key stays.
    pub fn local_remove(&mut self, key: &K) -> Result<Option<V>> {
        let mut value = None;
        self.change(key, |former, heap| {
            let former = former.map(|former| object::from_slot::<V>(former, heap));
            value = former.transpose()?;
            Ok(None)
        })?;
        Ok(value)
    }

    /// The value of `key`, if it is on this rank.
    ///
    /// # Cost
    ///
    /// ℓ: a read of this rank's own memory.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the value is no `V`.
    #[inline]
    pub fn local_find(&self, key: &K) -> Result<Option<V>> {
        let key = object::key(key)?;
        self.world().count_local();
        let own = over_own_slots!(self.table, |view| {
            let own = view.own(view.hash(&key), &key);
            own.map(|own| own.and_then(|own| own.former))
        });
        let from_slot = |value| object::from_slot::<V>(value, self.table.heap());
        own?.map(from_slot).transpose()
    }

    /// The rank on which the search for `key` begins.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the key cannot be encoded.
    #[inline]
    pub fn home(&self, key: &K) -> Result<pgas_core::Rank> {
        let key = object::key(key)?;
        let hash = Hash::of::<K>(&key, &*self.table.shape.hasher);
        Ok(self.table.shape.ring.home(hash).rank())
    }

    /// Puts what `f` makes of the value, and returns whether the key's place is on this rank; else `f` is not called.
    #[inline(always)]
    #[expect(
        clippy::needless_pass_by_ref_mut,
        reason = "who writes without atomics has the handle for itself"
    )]
    fn change(
        &mut self,
        key: &K,
        f: impl FnOnce(Option<SlotOf<V>>, &Heap) -> Result<Option<SlotOf<V>>>,
    ) -> Result<bool> {
        let key = object::key(key)?;
        self.world().count_local();
        let table = &self.table;
        let changed = over_own_slots!(table, |view| view.change(view.hash(&key), &key, f))?;
        match changed {
            Some((false, true)) => table.count_new(1),
            Some((true, false)) => table.count_removed(1),
            Some(_) | None => {}
        }
        Ok(changed.is_some())
    }
}

/// A key's place on this rank.
struct Own<K: Object, V: Object, R, Seen> {
    slot: GlobalSlot<K, V, R>,
    /// Free, ready or removed.
    state: StateWord,
    former: Option<SlotOf<V>>,
    /// What the slot holds of the key, if it is not free.
    key: SlotOf<K>,
    /// What was read with it.
    seen: Seen,
}

/// A slot, and what was read with it.
type ReadSlot<'a, K, V, R> = (GlobalSlot<K, V, R>, <R as Access<'a>>::Seen);

type OwnOf<'a, K, V, R> = Own<K, V, R, <R as Access<'a>>::Seen>;

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// The place of `key`, if it is on this rank.
    #[inline(always)]
    fn own(&self, hash: Hash, key: &KeyOf<K>) -> Result<Option<OwnOf<'a, K, V, R>>> {
        let (line, _) = self.fast_path(hash, key, Intent::Look)?;
        let sought = (hash.fingerprint(), key, Intent::Look);
        let found = |slot, _| Ok::<_, Error>(Some(slot));
        let there = match probe::probe(self, line, sought, found)? {
            Some(Probed::Found(slot) | Probed::Free(slot)) if self.is_here(&slot) => {
                Some((slot, slot.see()?))
            }
            Some(_) => None,
            None => self.walk_here(hash, key)?,
        };
        let Some((slot, seen)) = there else {
            return Ok(None);
        };
        let (state, (key, value)) = slot.pick(&seen);
        let former = (state.state() == SlotState::Ready).then_some(value);
        Ok(Some(Own {
            slot,
            state,
            former,
            key,
            seen,
        }))
    }

    #[inline]
    fn is_here(&self, slot: &GlobalSlot<K, V, R>) -> bool {
        R::IS_PART || slot.place().rank() == self.shape.world.rank()
    }

    /// The slot that holds `key` or is free for it, and what was read with it, if it is on this
    /// rank.
    fn walk_here(&self, hash: Hash, key: &KeyOf<K>) -> Result<Option<ReadSlot<'a, K, V, R>>> {
        let home = self.home(hash);
        let mut slot = home.slot;
        while self.is_here(&slot) {
            let seen = slot.see()?;
            match self.step(&mut slot, &seen, &home, key)? {
                None => {}
                Some(Step::Found(_) | Step::Free) => return Ok(Some((slot, seen))),
                Some(Step::Absent) => return self.vacant_here(&home.slot),
            }
        }
        Ok(None)
    }

    /// The first vacant slot on the way from `home`, where no slot is free and none holds the key.
    #[cold]
    fn vacant_here(&self, home: &GlobalSlot<K, V, R>) -> Result<Option<ReadSlot<'a, K, V, R>>> {
        let mut slot = *home;
        while self.is_here(&slot) {
            let seen = slot.see()?;
            if slot.pick(&seen).0.state() == SlotState::Vacant {
                return Ok(Some((slot, seen)));
            }
            slot = self.next(&slot);
            if self.is_around(&slot, home) {
                break;
            }
        }
        Ok(None)
    }

    /// Puts what `f` makes of the value, and returns whether there was one and whether there is one
    /// now; `None` if the place of `key` is not on this rank, and then `f` is not called.
    #[inline(always)]
    pub(super) fn change(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        f: impl FnOnce(Option<SlotOf<V>>, &Heap) -> Result<Option<SlotOf<V>>>,
    ) -> Result<Option<(bool, bool)>> {
        let Some(own) = self.own(hash, key)? else {
            return Ok(None);
        };
        let new = f(own.former, self.heap())?;
        self.write(&own, hash, key, new)?;
        Ok(Some((own.former.is_some(), new.is_some())))
    }

    /// Puts `new`, which is given up if that fails, in the place of the former value, which is given back, or takes that away.
    #[inline(always)]
    fn write(
        &self,
        own: &OwnOf<'a, K, V, R>,
        hash: Hash,
        key: &KeyOf<K>,
        new: Option<SlotOf<V>>,
    ) -> Result<()> {
        match new {
            Some(new) if matches!(own.state.state(), SlotState::Free | SlotState::Vacant) => {
                let key_slot = match <K::Repr as Repr<K>>::key_slot(key, self.heap()) {
                    Ok(slot) => slot,
                    Err(error) => {
                        object::release::<V>(&new, self.heap())?;
                        return Err(error);
                    }
                };
                let ready = StateWord::ready(hash.fingerprint());
                own.slot.write(key_slot, new, ready, &own.seen)?;
            }
            Some(new) => {
                own.slot
                    .write(own.key, new, own.state.overwritten(), &own.seen)?;
            }
            None => match own.former {
                Some(former) => {
                    own.slot
                        .write(own.key, former, own.state.removed(), &own.seen)?;
                }
                None => return Ok(()),
            },
        }
        if let Some(former) = &own.former {
            object::release::<V>(former, self.heap())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pgas_lockfree::slots::SlotMemory as _;

    use super::*;
    use crate::hash_map::hash::Place;
    use crate::hash_map::part::Parts;
    use crate::hash_map::slot::layout::MOST;

    #[test]
    fn a_key_without_a_place_up_to_the_end_of_its_part_takes_none_at_its_beginning() {
        let ends = pgas_smp::threads(2, |world| {
            let map = HashMap::<u64, u64>::with_capacity(&world, 24).unwrap();
            let table = &map.table;
            let parts = Parts::new(&table.shape);
            let view = parts.near(world.rank()).unwrap();
            let first = view.slot(Place::begin(0, 0));
            let vacated = first.swap_state(StateWord::FREE, StateWord::VACANT);
            assert_eq!(vacated.unwrap(), Ok(()));
            let last = table.shape.ring.n_blocks() - 1;
            let is_last = |key: &u64| {
                let hash = view.hash(key);
                let home = table.shape.ring.home(hash);
                home.rank() == world.rank() && home.block == last
            };
            let keys = (0..).filter(is_last).take(2 * MOST);
            let placed = keys.filter(|&key| {
                let put = view.change(view.hash(&key), &key, |_, _| Ok(Some(key)));
                put.unwrap().is_some()
            });
            let n_placed = placed.count();
            assert_eq!(first.load_state().unwrap(), StateWord::VACANT);
            world.barrier().unwrap();
            n_placed
        });
        // As many as the last block has.
        assert!(ends.unwrap().iter().all(|n| (1..=MOST).contains(n)));
    }
}
