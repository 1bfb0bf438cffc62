//! The phase in which each rank works on what it holds itself, without atomics.

use zerocopy::FromZeros as _;

use super::global::GlobalSlot;
use super::hash::Hash;
use super::left::Left;
use super::phase::Local;
use super::reach::Reach;
use super::slot::SlotMemory as _;
use super::state::{SlotState, StateWord};
use super::table::over_slots;
use super::view::{Home, View};
use super::walk::SlotsInBlocks as _;
use super::{HashMap, Inserted};
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};

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
    /// [`Error::Codec`](crate::Error::Codec) if key or value cannot be encoded,
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
    /// [`Error::Codec`](crate::Error::Codec) if the value is no `V`; then the key stays.
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
    /// [`Error::Codec`](crate::Error::Codec) if the value is no `V`.
    #[inline]
    pub fn local_find(&self, key: &K) -> Result<Option<V>> {
        let key = object::key(key)?;
        self.world().count_local();
        over_slots!(
            self.table,
            |view| match view.own(&view.home_of(&key), &key)? {
                Some(Own { former, .. }) =>
                    former.map(|former| view.value_quietly(former)).transpose(),
                None => Ok(None),
            }
        )
    }

    /// The rank on which the search for `key` begins.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if the key cannot be encoded.
    #[inline]
    pub fn home(&self, key: &K) -> Result<pgas_core::Rank> {
        let key = object::key(key)?;
        let hash = Hash::of::<K>(&key, &*self.table.hasher);
        Ok(self.table.ring.home(hash).rank())
    }

    /// Puts what `f` makes of the value, and returns whether the key's place is on this rank; else `f` is not called.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a local insert")]
    #[expect(
        clippy::needless_pass_by_ref_mut,
        reason = "who writes without atomics has the handle for itself"
    )]
    fn change(
        &mut self,
        key: &K,
        f: impl FnOnce(Option<SlotOf<V>>, &object::Heap) -> Result<Option<SlotOf<V>>>,
    ) -> Result<bool> {
        let key = object::key(key)?;
        self.world().count_local();
        let table = &self.table;
        let changed = over_slots!(table, |view| {
            let home = view.home_of(&key);
            let Some(own) = view.own(&home, &key)? else {
                return Ok(false);
            };
            let new = f(own.former, view.heap)?;
            view.write(&own, &home, &key, new)?;
            (own.former.is_some(), new.is_some())
        });
        match changed {
            (false, true) => table.count_new(1),
            (true, false) => table.count_removed(1),
            (true, true) | (false, false) => {}
        }
        Ok(true)
    }
}

/// How many entries ahead a place is prefetched: enough to cover the latency of memory, few enough for the processor's outstanding
/// loads.
const AHEAD: usize = 32;

/// What a [buffer](super::HashMapBuffer) does.
impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Local, S> {
    /// Combines what is there with each of `entries`, which are in `slots`. What is not done stays in `left`: those
    /// whose place is not on this rank, and those that fail.
    #[expect(
        clippy::needless_pass_by_ref_mut,
        reason = "who writes without atomics has the handle for itself"
    )]
    pub(super) fn apply(
        &mut self,
        entries: &mut Vec<(K, V)>,
        slots: &[SlotOf<(K, V)>],
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Left<K, V>,
    ) {
        let n_new = over_slots!(self.table, |view| {
            view.apply(entries, slots, combine, left)
        });
        self.table.count_new(n_new);
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

type OwnOf<'a, K, V, R> = Own<K, V, R, <R as Reach<'a>>::Seen>;

/// What became of an entry.
enum Combined {
    New,
    Over,
    /// Its place is not on this rank.
    Elsewhere,
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Reach<'a>> View<'a, K, V, S, R> {
    /// As [`HashMap::apply`]; how many keys are new.
    fn apply(
        &self,
        entries: &mut Vec<(K, V)>,
        slots: &[SlotOf<(K, V)>],
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Left<K, V>,
    ) -> u64 {
        // A key that cannot be encoded is found out when it is its turn.
        let begin = |(key, _): &(K, V)| {
            let hash = object::key(key).map_or_else(|_| Hash::default(), |key| self.hash(&key));
            self.home(hash).slot.reach.prefetch_slot();
            hash
        };
        let mut ahead = [Hash::default(); AHEAD];
        for (hash, entry) in ahead.iter_mut().zip(&*entries) {
            *hash = begin(entry);
        }
        let (mut entries, mut i, mut n_new) = (entries.drain(..), 0, 0);
        while let Some((key, value)) = entries.next() {
            let (hash, slot) = (ahead[i % AHEAD], slots[i]);
            if let Some(entry) = entries.as_slice().get(AHEAD - 1) {
                ahead[i % AHEAD] = begin(entry);
            }
            i += 1;
            let sought = match object::key(&key) {
                Ok(sought) => sought,
                Err(why) => {
                    left.give_up(&slot, why, self.heap);
                    continue;
                }
            };
            if left.follows(hash, &sought, slot) {
                continue;
            }
            match self.combine(hash, &sought, value, combine) {
                Ok(Combined::New) => n_new += 1,
                Ok(Combined::Over) => {}
                // Why it fails is told when it is tried again, at the end of the round, and fails again.
                Ok(Combined::Elsewhere) | Err(_) => {
                    left.keep(hash, sought, slot);
                    continue;
                }
            }
            if const { object::has_heap::<(K, V)>() } {
                left.release(&slot, self.heap);
            }
        }
        n_new
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a buffered insert")]
    fn combine(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: V,
        combine: &mut impl FnMut(V, V) -> V,
    ) -> Result<Combined> {
        let home = &self.home(hash);
        // Where operations are counted no slot is near.
        if !R::IS_NEAR {
            R::world_of(self.all).count_local();
        }
        let Some(own) = self.own(home, key)? else {
            return Ok(Combined::Elsewhere);
        };
        let (value, done) = match own.former {
            Some(former) => {
                let former = object::from_slot::<V>(former, self.heap)?;
                (combine(former, value), Combined::Over)
            }
            None => (value, Combined::New),
        };
        let new = object::to_slot(&value, self.heap)?;
        self.write(&own, home, key, Some(new))?;
        Ok(done)
    }

    /// The place of `key`, if it is on this rank.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a local find")]
    fn own(&self, home: &Home<K, V, R>, key: &KeyOf<K>) -> Result<Option<OwnOf<'a, K, V, R>>> {
        let here = self.here();
        let mut slot = home.slot;
        if slot.reach.place().rank_index() != here {
            return Ok(None);
        }
        if Self::LOOKS_AT_BLOCKS {
            return self.own_in_blocks(home, key);
        }
        let mut seen = slot.see()?;
        loop {
            let (state, (there, value)) = slot.pick(&seen);
            if state == StateWord::FREE {
                let former = None;
                return Ok(Some(Own {
                    slot,
                    state,
                    former,
                    key: there,
                    seen,
                }));
            }
            if state.has(home.fingerprint) && <K::Repr as Repr<K>>::has_key(&there, key, self.heap)?
            {
                let former = (state.state() == SlotState::Ready).then_some(value);
                return Ok(Some(Own {
                    slot,
                    state,
                    former,
                    key: there,
                    seen,
                }));
            }
            let next = super::walk::Slots::next(self, &slot);
            if next.is_same(&home.slot) || next.reach.place().rank_index() != here {
                return Ok(None);
            }
            if !next.reach.is_same_block(&slot.reach) {
                seen = next.see()?;
            }
            slot = next;
        }
    }

    /// The place of `key` from its home slot on, which is on this rank, block by block.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a local find")]
    fn own_in_blocks(
        &self,
        home: &Home<K, V, R>,
        key: &KeyOf<K>,
    ) -> Result<Option<OwnOf<'a, K, V, R>>> {
        let here = self.here();
        let mut block = home.slot;
        loop {
            let scan = self.scan(&block, home.fingerprint)?;
            for index in scan.candidates() {
                let slot = self.of_block(&block, index);
                let seen = slot.see()?;
                let (state, (there, value)) = slot.pick(&seen);
                if <K::Repr as Repr<K>>::has_key(&there, key, self.heap)? {
                    let former = (state.state() == SlotState::Ready).then_some(value);
                    return Ok(Some(Own {
                        slot,
                        state,
                        former,
                        key: there,
                        seen,
                    }));
                }
            }
            let free = scan.first(self.n_slots(&block));
            if let Some(index) = free.first_free_from(self.index(&block)) {
                let slot = self.of_block(&block, index);
                return Ok(Some(Own {
                    slot,
                    state: StateWord::FREE,
                    former: None,
                    key: SlotOf::<K>::new_zeroed(),
                    seen: slot.see()?,
                }));
            }
            block = self.next_block(&block);
            let is_around = self.is_same_block(&block, &home.slot);
            if is_around || block.reach.place().rank_index() != here {
                return Ok(None);
            }
        }
    }

    /// Puts `new`, which is given up if that fails, in the place of the former value, which is given back, or takes that away.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a local insert")]
    fn write(
        &self,
        own: &OwnOf<'a, K, V, R>,
        home: &Home<K, V, R>,
        key: &KeyOf<K>,
        new: Option<SlotOf<V>>,
    ) -> Result<()> {
        match new {
            Some(new) if own.state == StateWord::FREE => {
                let key_slot = match <K::Repr as Repr<K>>::key_slot(key, self.heap) {
                    Ok(slot) => slot,
                    Err(error) => {
                        object::release::<V>(&new, self.heap)?;
                        return Err(error);
                    }
                };
                let ready = StateWord::ready(home.fingerprint);
                own.slot.write_quietly(key_slot, new, ready, &own.seen)?;
            }
            Some(new) => {
                own.slot
                    .write_quietly(own.key, new, own.state.overwritten(), &own.seen)?;
            }
            None => match own.former {
                Some(former) => {
                    own.slot
                        .write_quietly(own.key, former, own.state.removed(), &own.seen)?;
                }
                None => return Ok(()),
            },
        }
        if let Some(former) = &own.former {
            object::release::<V>(former, self.heap)?;
        }
        Ok(())
    }
}
