//! Other slots for the entries of a map: more of them, or without those of keys that were removed.

use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use pgas_lockfree::slots::probe::{self, Place};
use pgas_lockfree::slots::state::{SlotState, StateWord};
use pgas_lockfree::slots::{Intent, SlotMemory as _, Wanted};

use super::HashMap;
use super::phase::Phase;
use super::slot::Access;
use super::table::{Table, over_own_slots, over_slots};
use super::view::View;
use crate::error::agree;
use crate::object::{self, KeyHasher, Object, Repr};
use crate::{Error, Result};

impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// Gives the map room for `capacity` keys; its entries stay.
    ///
    /// # Cost
    ///
    /// 4B + 5 allreduces, and on each rank ℓ a slot and 2A + W an entry. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank, with the map as it was: those of [`with_capacity`](HashMap::with_capacity), and
    /// [`Error::Argument`] if there are more keys than the new capacity.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::{Error, HashMap};
    /// # let world = pgas_core::backend::loopback::world();
    /// let mut map = HashMap::<u8, u64>::with_capacity(&world, 1)?;
    /// map.insert(&1, 10)?;
    /// assert!(matches!(map.insert(&2, 20), Err(Error::Full { .. })));
    /// map.resize(2)?;
    /// map.insert(&2, 20)?;
    /// assert_eq!(map.find(&1)?, Some(10));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn resize(&mut self, capacity: usize) -> Result<()> {
        agree(self.world(), "the capacity of a hash map", capacity as u64)?;
        if capacity == 0 {
            return Err(Error::NoCapacity);
        }
        // Also the end of what other ranks still do.
        let [n_keys, _] = self.table.counts()?;
        if n_keys > capacity as u64 {
            let text = format!("a hash map with {n_keys} keys was to get a capacity of {capacity}");
            return Err(Error::Argument(text.into()));
        }
        self.table.rehash(capacity)
    }

    #[track_caller]
    pub(super) fn into_phase<N: Phase>(mut self) -> Result<HashMap<K, V, N, S>> {
        let _waits = pgas_core::part_of("a change of the phase of a hash map");
        let world = self.world().clone();
        world.team().agree_on(
            "the next phase of a hash map",
            super::phase::NAMES,
            N::NUMBER,
        )?;
        world.barrier()?;
        let [n_keys, n_removed] = self.table.counts()?;
        let capacity = self.capacity();
        if capacity < MANY {
            if n_removed > 0 {
                self.try_rehash(capacity)?;
            }
        } else if n_keys.saturating_add(n_removed) > capacity / 4 * 3 {
            self.make_room(n_keys)?;
        }
        world.barrier()?;
        Ok(HashMap {
            table: self.table,
            phase: PhantomData,
        })
    }

    /// Slots for twice as many keys as there are, or as many as now without those of removed keys. Where there is
    /// no memory the map stays as it is.
    pub(super) fn make_room(&mut self, n_keys: u64) -> Result<()> {
        self.try_rehash(self.capacity().max(n_keys.saturating_mul(2)))
    }

    fn try_rehash(&mut self, capacity: u64) -> Result<()> {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        match self.table.rehash(capacity) {
            Err(Error::Exhausted(_)) => Ok(()),
            done => done,
        }
    }
}

/// Smaller maps keep their capacity: whoever makes one means it.
const MANY: u64 = 64;

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Collective.
    fn rehash(&mut self, capacity: usize) -> Result<()> {
        let world = self.world().clone();
        let (hasher, heap) = (Arc::clone(&self.shape.hasher), Arc::clone(&self.shape.heap));
        // Its memory is zero on all ranks on return, which no rank does before all have come.
        let new = Self::with_heap(&world, capacity, hasher, heap)?;
        let (from, to) = (&*self, &new);
        let moved = over_own_slots!(from, |from| over_slots!(to, |to| move_all(&from, &to)));
        // If one rank fails all keep the slots that they have.
        let what = "moving the entries of a hash map";
        new.count_new(world.team().all_succeeded(what, moved)?);
        world.barrier()?;
        let former = mem::replace(self, new);
        if let Some(reused) = &former.reused {
            self.reuse_by(Arc::clone(&reused.sections));
        }
        if object::has_heap::<K>() {
            over_own_slots!(former, |from| forget_removed(&from));
        }
        Ok(())
    }
}

/// Gives back what is behind the keys that were removed, when their slots are given up.
fn forget_removed<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>>(
    from: &View<'a, K, V, S, R>,
) {
    for slot in from.all() {
        let forget = || -> Result<()> {
            if slot.load_state()?.state() == SlotState::Removed {
                object::release::<K>(&slot.key()?, from.heap())?;
            }
            Ok(())
        };
        // The map is as it should be; what cannot be given back is lost until the map is.
        drop(forget());
    }
}

/// Moves what this rank holds, and returns how many entries that are.
fn move_all<'a, 'b, K, V, S, A, B>(
    from: &View<'a, K, V, S, A>,
    to: &View<'b, K, V, S, B>,
) -> Result<u64>
where
    K: Object,
    V: Object,
    S: KeyHasher,
    A: Access<'a>,
    B: Access<'b>,
{
    let mut n = 0;
    for slot in from.all() {
        if slot.load_state()?.state() != SlotState::Ready {
            continue;
        }
        let (key, value) = slot.entry()?;
        let seek = <K::Repr as Repr<K>>::key_in(key, from.heap())?;
        let hash = to.hash(&seek);
        let home = to.home(hash);
        let Place::Free(slot) = probe::walk(to, home, &seek, Wanted::Key, Intent::Claim)? else {
            return Err(to.full());
        };
        slot.publish_entry(key, value, StateWord::ready(hash.fingerprint()))?;
        n += 1;
    }
    Ok(n)
}
