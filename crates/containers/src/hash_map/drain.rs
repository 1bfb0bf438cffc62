//! Removal of many of the entries that this rank holds, in the local phase.

use std::fmt;

use pgas_lockfree::slots::{Held, SlotMemory as _};

use super::HashMap;
use super::found::FoundSlot;
use super::op::OnKey as _;
use super::operations::Remove;
use super::outcome::Effect;
use super::phase::Local;
use super::slot::Access;
use super::table::{Table, dispatch_own_slots};
use super::view::View;
use crate::Result;
use crate::object::{KeyHasher, Object};

impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Local, S> {
    /// Removes the entries of this rank for which `keep` is false, and returns their number.
    ///
    /// # Cost
    ///
    /// ℓ a slot.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if an entry cannot be read; it stays, and `keep` was
    /// called for those before.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let counts = HashMap::<String, u64>::with_capacity(&world, 100)?;
    /// counts.add_many(&["a", "b", "a"], 1)?;
    /// let mut counts = counts.into_local_phase()?; // collective
    /// assert_eq!(counts.local_retain(|_, n| *n > 1)?, 1);
    /// assert_eq!(counts.local_find("a")?, Some(2));
    /// assert_eq!(counts.local_find("b")?, None);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn local_retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) -> Result<u64> {
        let (mut n, mut next) = (0, 0);
        while self.table.take_own(&mut next, &mut keep)?.is_some() {
            n += 1;
        }
        Ok(n)
    }

    /// Removes and returns the entries of this rank, one by one. Unlike that of std, an iterator
    /// that is dropped before its end leaves the other entries in the map.
    ///
    /// # Cost
    ///
    /// ℓ a slot.
    ///
    /// # Errors
    ///
    /// An item is [`Error::Codec`](crate::Error::Codec) if an entry cannot be read; it stays.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let jobs = HashMap::<u32, String>::with_capacity(&world, 100)?;
    /// jobs.insert(&7, "seven".to_owned())?;
    /// let mut jobs = jobs.into_local_phase()?; // collective
    /// for job in jobs.local_drain() {
    ///     let (number, name) = job?;
    ///     assert_eq!((number, name.as_str()), (7, "seven"));
    /// }
    /// assert!(jobs.is_empty()?);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn local_drain(&mut self) -> Drain<'_, K, V, S> {
        let table = &self.table;
        Drain { table, next: 0 }
    }
}

/// An iterator that removes the entries of this rank; made by [`HashMap::local_drain`].
pub struct Drain<'m, K: Object, V: Object, S> {
    /// Exclusively borrowed from the map.
    table: &'m Table<K, V, S>,
    next: usize,
}

impl<K: Object, V: Object, S: KeyHasher> Iterator for Drain<'_, K, V, S> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let taken = self.table.take_own(&mut self.next, |_, _| false);
        taken.transpose()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.table.shape.ring.local_capacity() - self.next;
        (0, Some(left))
    }
}

impl<K: Object, V: Object, S> fmt::Debug for Drain<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Drain(from slot {} on)", self.next)
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Removes the first entry in this rank's slots from `next` on for which `keep` is false, and
    /// returns it. The slot behind it becomes the next one.
    fn take_own(
        &self,
        next: &mut usize,
        mut keep: impl FnMut(&K, &V) -> bool,
    ) -> Result<Option<(K, V)>> {
        while *next < self.shape.ring.local_capacity() {
            let (local, keep) = (*next, &mut keep);
            *next += 1;
            let taken = dispatch_own_slots!(self, |view| view.take_at(local, keep))?;
            if taken.is_some() {
                self.counts.count(Effect::Remove, 1);
                return Ok(taken);
            }
        }
        Ok(None)
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Removes the entry in slot `local` of a shard unless `keep` is true for it, and returns it.
    fn take_at(
        &self,
        local: usize,
        keep: &mut impl FnMut(&K, &V) -> bool,
    ) -> Result<Option<(K, V)>> {
        let entry = self.entry_at(0, local)?;
        let Some((key, value)) = entry.filter(|(key, value)| !keep(key, value)) else {
            return Ok(None);
        };
        let slot = self.slot(self.shape.ring.at(0, local));
        let held = Held::unread(slot.load_state()?);
        let was_there = Remove::held(FoundSlot::new(self, slot, held), &mut ())?;
        Ok(was_there.map(|_| (key, value)))
    }
}
