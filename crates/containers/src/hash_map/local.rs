//! The local phase: each rank works on its own entries, without atomics.

use pgas_lockfree::slots::{Held, SlotMemory as _};

use super::HashMap;
use super::found::FoundSlot;
use super::op::OnKey;
use super::operations::{Find, Fold, Insert, Take};
use super::outcome::{Inserted, Taken};
use super::phase::Local;
use super::slot::Access;
use super::table::dispatch_own_slots;
use super::view::View;
use crate::object::{self, FoundBy, Heap, KeyHasher, Object};
use crate::{Error, Result};

/// The local phase, in which each rank works on its own entries.
///
/// A key's slot is on the rank that [`home`](Self::home) returns, or on a later rank if no slot of
/// that rank was free from the home slot on. In the second case, and for a key of another rank,
/// these methods do nothing and return `None`. A rank that is alone has all keys.
impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Local, S> {
    /// Inserts `value` under `key`, or replaces the present value. Does nothing and returns `None`
    /// if the key's slot is not on this rank.
    ///
    /// # Cost
    ///
    /// ℓ: a read and a write of this rank's own memory.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if key or value cannot be encoded,
    /// [`Exhausted`](pgas_core::Error::Exhausted) if this rank's heap has no room for them,
    /// [`Error::Full`] if the map is full and this rank is the only one.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn local_insert<Q: ?Sized>(&mut self, key: &Q, value: &V) -> Result<Option<Inserted>>
    where
        K: FoundBy<Q>,
    {
        let was_there = self.own::<Insert, _>(key, |heap| object::to_slot(value, heap))?;
        Ok(was_there.map(Inserted::over))
    }

    /// Replaces the value of `key` by `combine` of it, or inserts `value`. Does nothing and returns
    /// `None` if the key's slot is not on this rank.
    ///
    /// # Cost
    ///
    /// As [`local_insert`](Self::local_insert).
    ///
    /// # Errors
    ///
    /// As [`local_insert`](Self::local_insert).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn local_upsert<Q: ?Sized>(
        &mut self,
        key: &Q,
        value: &V,
        combine: impl FnOnce(V) -> V,
    ) -> Result<Option<Inserted>>
    where
        K: FoundBy<Q>,
    {
        let mut combine = Some(combine);
        let was_there = self.own::<Fold<_>, _>(key, |heap| {
            Ok(|there| match there {
                Some(there) => match combine.take() {
                    Some(combine) => object::to_slot(&combine(there), heap),
                    None => unreachable!("no other rank changes the value"),
                },
                None => object::to_slot(value, heap),
            })
        })?;
        Ok(was_there.map(Inserted::over))
    }

    /// Replaces the value of each entry of this rank by `f` of its key and its value, and returns
    /// the number of entries.
    ///
    /// # Cost
    ///
    /// ℓ a slot.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if an entry cannot be read, or its new value cannot be encoded;
    /// [`Exhausted`](pgas_core::Error::Exhausted) if this rank's heap has no room for that. That
    /// entry stays as it was, and so do those behind it. If `f` panics, it is the same.
    ///
    /// # Examples
    ///
    /// Shares of words in a text:
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let shares = HashMap::<String, f64>::with_capacity(&world, 100)?;
    /// let n_added = shares.add_many(&["to", "be", "or", "to"], 1.0)?;
    /// let mut shares = shares.into_local_phase()?; // collective
    /// assert_eq!(shares.local_update_all(|_, n| n / 4.0)?, n_added as u64);
    /// assert_eq!(shares.local_find("to")?, Some(0.5));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn local_update_all(&mut self, mut f: impl FnMut(&K, V) -> V) -> Result<u64> {
        let (table, mut n) = (&self.table, 0);
        for local in 0..table.shape.ring.local_capacity() {
            let f = &mut f;
            let is_there = dispatch_own_slots!(table, |view| view.update_at(local, f))?;
            n += u64::from(is_there);
        }
        Ok(n)
    }

    /// Removes `key`, and returns its value; `None` if the key is not on this rank.
    ///
    /// # Cost
    ///
    /// As [`local_insert`](Self::local_insert).
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the value is no `V`; then the key stays.
    #[inline]
    pub fn local_remove<Q: ?Sized>(&mut self, key: &Q) -> Result<Option<V>>
    where
        K: FoundBy<Q>,
    {
        Taken::value_of(self.own::<Take, _>(key, |_| Ok(()))?.flatten())
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
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn local_find<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>>
    where
        K: FoundBy<Q>,
    {
        Ok(self.own::<Find<Local>, _>(key, |_| Ok(()))?.flatten())
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
    pub fn home<Q: ?Sized>(&self, key: &Q) -> Result<pgas_core::Rank>
    where
        K: FoundBy<Q>,
    {
        let member = self.home_member(key)?;
        Ok(self.team().world_rank(member))
    }

    /// The number of the rank that holds the slot where the search for `key` begins.
    #[inline]
    pub(super) fn home_member<Q: ?Sized>(&self, key: &Q) -> Result<u32>
    where
        K: FoundBy<Q>,
    {
        let key = K::key_by(key)?;
        let hash = self.table.shape.hash(&key);
        Ok(self.table.shape.ring.home(hash).member())
    }

    /// Performs `O` if the key's slot is on this rank; `None` if it is not.
    #[inline(always)]
    fn own<'m, O: OnKey<K, V>, Q: ?Sized>(
        &'m self,
        key: &Q,
        given: impl FnOnce(&'m Heap) -> Result<O::Given>,
    ) -> Result<Option<O::Outcome>>
    where
        K: FoundBy<Q>,
    {
        let key = K::key_by(key)?;
        self.world().count_local();
        let table = &self.table;
        let hash = table.shape.hash(&key);
        if table.shape.ring.home(hash).member() != self.team().rank() {
            return Ok(None);
        }
        let given = given(table.heap())?;
        match dispatch_own_slots!(table, |view| O::perform(&view, hash, &key, given)) {
            Ok(done) => {
                let n_changed = O::is_change(&done).into();
                // Slots are reclaimed in other phases: here each rank works on its own.
                table.counts.count(O::EFFECT, n_changed);
                Ok(Some(done))
            }
            Err(Error::Full { .. }) if self.team().n_ranks() > 1 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Replaces the value in slot `local` of a shard. Returns whether there is an entry.
    fn update_at(&self, local: usize, f: &mut impl FnMut(&K, V) -> V) -> Result<bool> {
        let Some((key, _)) = self.entry_at(0, local)? else {
            return Ok(false);
        };
        let slot = self.slot(self.shape.ring.at(0, local));
        let held = Held::unread(slot.load_state()?);
        let at = FoundSlot::new(self, slot, held);
        let former = at.update(|there| object::to_slot(&f(&key, there), self.heap()))?;
        Ok(former.is_some())
    }
}

#[cfg(test)]
mod tests {
    use pgas_lockfree::slots::state::StateWord;

    use pgas_core::World;

    use super::*;
    use crate::hash_map::hash::Position;
    use crate::hash_map::slot::layout::MOST;
    use crate::testing::{everywhere, everywhere_counted};

    #[test]
    fn a_key_without_a_place_up_to_the_end_of_its_part_takes_none_at_its_beginning() {
        let ends = pgas_smp::threads(2, |world| {
            let map = HashMap::<u64, u64>::with_capacity(&world, 24).unwrap();
            let table = &map.table;
            let view = table.shards.own().unwrap();
            let first = view.slot(Position::begin(0, 0));
            let vacated = first.swap_state(StateWord::FREE, StateWord::VACANT);
            assert_eq!(vacated.unwrap(), Ok(()));
            let last = table.shape.ring.n_blocks() - 1;
            let is_last = |key: &u64| {
                let hash = view.hash(key);
                let home = table.shape.ring.home(hash);
                home.member() == world.rank().number() && home.block == last
            };
            let keys = (0..).filter(is_last).take(2 * MOST);
            let placed = keys.filter(|&key| {
                let put = Insert::perform(&view, view.hash(&key), &key, key);
                put.is_ok()
            });
            let n_placed = placed.count();
            assert_eq!(first.load_state().unwrap(), StateWord::VACANT);
            world.barrier().unwrap();
            n_placed
        });
        // At most as many keys as the last block has slots.
        assert!(ends.unwrap().iter().all(|n| (1..=MOST).contains(n)));
    }

    #[test]
    fn a_rank_that_is_alone_has_all_keys_of_a_map_however_full() {
        fn check<V: Object + Clone + PartialEq + std::fmt::Debug>(
            world: &World,
            of: impl Fn(u64) -> V,
        ) {
            for capacity in [1, 2, 7, 8, 60, 64, 100] {
                let map = HashMap::<u64, V>::with_capacity(world, capacity).unwrap();
                let n = map.capacity();
                let mut map = map.into_local_phase().unwrap();
                for key in 0..n {
                    assert_eq!(
                        map.local_insert(&key, &of(key)).unwrap(),
                        Some(Inserted::New)
                    );
                }
                let full = map.local_insert(&n, &of(n)).unwrap_err();
                assert!(matches!(full, Error::Full { capacity } if capacity == n));
                assert_eq!(map.local_find(&n).unwrap(), None);
                assert_eq!(map.local_remove(&n).unwrap(), None);
                for key in 0..n {
                    assert_eq!(map.local_find(&key).unwrap(), Some(of(key)));
                    let replaced = map.local_upsert(&key, &of(key), |_| of(key + 1)).unwrap();
                    assert_eq!(replaced, Some(Inserted::Replaced));
                }
                for key in 0..n {
                    assert_eq!(map.local_remove(&key).unwrap(), Some(of(key + 1)));
                    let again = map.local_insert(&key, &of(key)).unwrap();
                    assert_eq!(again, Some(Inserted::New));
                }
                assert_eq!(map.len().unwrap(), n);
            }
        }
        let check_all = |world: World| {
            check(&world, |i| i);
            check(&world, |i| [i; 3]);
            check(&world, |i| "text ".repeat(usize::try_from(i % 20).unwrap()));
        };
        everywhere(1, check_all);
        everywhere_counted(1, check_all);
    }

    /// The key is in one slot, though an insert that sees its own part alone meets a vacant one.
    #[test]
    fn a_key_that_lies_behind_its_part_takes_no_vacant_slot_within() {
        let ends = pgas_smp::threads(2, |world| {
            let map = HashMap::<u64, u64>::with_capacity(&world, 24).unwrap();
            let table = &map.table;
            let view = table.shards.own().unwrap();
            let last = table.shape.ring.n_blocks() - 1;
            let is_last = |key: &u64| {
                let home = table.shape.ring.home(view.hash(key));
                home.member() == world.rank().number() && home.block == last
            };
            let n = table.shape.ring.slots_of(last);
            let keys: Vec<u64> = (0..).filter(is_last).take(n + 1).collect();
            if world.rank() == pgas_core::Rank::ZERO {
                for key in &keys {
                    map.insert(key, !key).unwrap();
                }
                let slot = view.slot(Position::begin(0, last));
                let state = slot.load_state().unwrap();
                let vacated = slot.swap_state(state, StateWord::VACANT);
                assert_eq!(vacated.unwrap(), Ok(()));
                let behind = keys[n];
                Insert::perform(&view, view.hash(&behind), &behind, 0).unwrap_err();
                assert_eq!(slot.load_state().unwrap(), StateWord::VACANT);
                assert_eq!(map.find(&behind).unwrap(), Some(!behind));
            }
            world.barrier().unwrap();
        });
        ends.unwrap();
    }
}
