//! The entries in this rank's own slots.

use std::fmt;

use pgas_core::{Pod, Rank};

use super::global::GlobalSlot;
use super::hash::Place;
use super::layout::{Layout, ValueKind};
use super::reach::Reach;
use super::slot::{self, Held, SlotMemory};
use super::state::SlotState;
use super::view::View;
use super::{HashMap, over_slots};
use crate::Result;

impl<K: Pod, V: Pod> HashMap<K, V> {
    /// Iterates over the entries that this rank holds, whoever inserted them. Over all ranks, every
    /// entry is seen by one of them.
    ///
    /// Each entry is a copy, consistent in itself. Entries that are inserted meanwhile may be missed.
    ///
    /// # Cost
    ///
    /// On this rank's own memory: A a slot, and for an entry R and A more (A + R for a value that is
    /// not a word). No other rank is asked.
    ///
    /// # Errors
    ///
    /// An item is an error if the transport fails, or the job while waiting for a writer.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let squares = HashMap::<u32, u64>::with_capacity(&world, 100)?;
    /// for i in 0..10 {
    ///     squares.insert(&i, u64::from(i * i))?;
    /// }
    /// world.barrier()?;
    /// let mut here = squares.local_iter().collect::<Result<Vec<_>, _>>()?;
    /// here.sort_unstable();
    /// assert_eq!(here[3], (3, 9)); // of the one rank that this example runs on
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn local_iter(&self) -> LocalIter<'_, K, V> {
        LocalIter { map: self, next: 0 }
    }

    /// Calls `f` with each entry that this rank holds, as [`local_iter`](Self::local_iter) does.
    ///
    /// # Cost
    ///
    /// As [`local_iter`](Self::local_iter).
    ///
    /// # Errors
    ///
    /// As [`local_iter`](Self::local_iter); then `f` was called for the entries before.
    pub fn for_each_local(&self, mut f: impl FnMut(K, V)) -> Result<()> {
        for entry in self.local_iter() {
            let (key, value) = entry?;
            f(key, value);
        }
        Ok(())
    }

    /// The number of keys that this rank holds, whoever inserted them.
    ///
    /// # Cost
    ///
    /// A a slot, on this rank's own memory.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    pub fn local_len(&self) -> Result<u64> {
        over_slots!(self, |view| view.local_len(self.world().rank()))
    }
}

/// The entries that one rank holds; made by [`HashMap::local_iter`].
pub struct LocalIter<'a, K, V> {
    map: &'a HashMap<K, V>,
    next: usize,
}

impl<K: Pod, V: Pod> Iterator for LocalIter<'_, K, V> {
    type Item = Result<(K, V)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        over_slots!(self.map, |view| view
            .local_entry(self.map.world().rank(), &mut self.next))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.map.ring.local_capacity() - self.next;
        (0, Some(left))
    }
}

impl<'a, K: Pod, V: Pod, R: Reach<'a>> View<'a, K, V, R> {
    #[inline]
    fn local_slot(&self, rank: Rank, local: usize) -> GlobalSlot<K, V, R> {
        let rank = rank.index();
        self.slot(Place { rank, local })
    }

    fn local_len(&self, here: Rank) -> Result<u64> {
        let mut n = 0;
        for local in 0..self.ring.local_capacity() {
            let state = self.local_slot(here, local).load_state()?.state();
            n += u64::from(matches!(state, SlotState::Ready | SlotState::Locked));
        }
        Ok(n)
    }

    /// The first entry in this rank's slots from `next` on, which then is behind it.
    #[inline]
    fn local_entry(&self, here: Rank, next: &mut usize) -> Option<Result<(K, V)>> {
        while *next < self.ring.local_capacity() {
            let slot = self.local_slot(here, *next);
            *next += 1;
            match entry(&slot) {
                Ok(None) => {}
                Ok(Some(entry)) => return Some(Ok(entry)),
                Err(error) => return Some(Err(error.into())),
            }
        }
        None
    }
}

/// The slot's entry, if it has one.
#[inline]
fn entry<'a, K: Pod, V: Pod, R: Reach<'a>>(
    slot: &GlobalSlot<K, V, R>,
) -> pgas_core::Result<Option<(K, V)>> {
    let state = slot.load_state()?;
    match state.state() {
        SlotState::Free | SlotState::Reserved => return Ok(None),
        SlotState::Ready | SlotState::Locked => {}
    }
    if Layout::<K, V>::KIND != ValueKind::Wide {
        return Ok(Some((slot.key()?, slot.load_word()?)));
    }
    let (key, value) = slot.entry()?;
    let held = Held::new(state, value);
    Ok(Some((key, slot::load(slot, held)?)))
}

impl<K, V> fmt::Debug for LocalIter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalIter(at slot {} of {:?})", self.next, self.map)
    }
}
