//! Finds where all slots are near, stand alone, and hold values that are words: many searches go from slot to slot in rounds.
//!
//! No branch depends on what a slot holds. A search that takes one for each slot on its way is mispredicted
//! about once, and then nothing is asked of the memory until the processor has started again: a fifth of the
//! time of a batch in a table that is larger than the caches.

use std::hint::select_unpredictable;
use std::mem;

use super::super::global::LayoutOf;
use super::super::layout::ValueKind;
use super::super::reach::{Near, Reach as _};
use super::super::slot;
use super::super::view::{Home, View};
use super::super::walk::Slots as _;
use crate::Result;
use crate::object::{self, Heap, KeyHasher, Object, Repr, SlotOf};

/// How many searches begin in a round.
const ROUND: usize = 32;

/// How many searches may go on from one round to the next one.
const MOST: usize = 8 * ROUND;

/// The search for one key.
struct Search<'a, K: Object, V: Object> {
    /// That of the key in the batch.
    index: usize,
    /// Where it begins, or goes on.
    at: Home<K, V, Near<'a, LayoutOf<K, V>>>,
}

impl<K: Object, V: Object> Clone for Search<'_, K, V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Object, V: Object> Copy for Search<'_, K, V> {}

/// Searches that go on.
struct Searches<'s, 'a, K: Object, V: Object> {
    all: &'s mut [Search<'a, K, V>; MOST],
    len: usize,
}

impl<'a, K: Object, V: Object> Searches<'_, 'a, K, V> {
    /// Appends the search if it goes on, without a branch.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a store and an addition")]
    fn push_if(&mut self, goes_on: bool, search: Search<'a, K, V>) {
        self.all[self.len] = search;
        self.len += usize::from(goes_on);
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    fn each(&mut self) -> &mut [Search<'a, K, V>] {
        &mut self.all[..self.len]
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Near<'a, LayoutOf<K, V>>> {
    /// Whether rounds are worth their while for `n` keys: it takes a few instructions to compare a key and to
    /// read a value, and there are several rounds.
    pub(super) const fn suits_rounds(n: usize) -> bool {
        let is_word = !matches!(LayoutOf::<K, V>::KIND, ValueKind::Wide);
        is_word
            && !Self::LOOKS_AT_BLOCKS
            && !object::has_heap::<K>()
            && size_of::<SlotOf<K>>() <= 16
            && n >= 4 * ROUND
    }

    /// As many searches begin in each round, two rounds after their home slots were prefetched.
    pub(super) fn find_in_rounds(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        let nothing = self.search(0, &keys[0])?;
        let mut begun = [[nothing; ROUND]; 2];
        let [all, others] = &mut [[nothing; MOST]; 2];
        let [mut searches, mut onward] = [all, others].map(|all| Searches { all, len: 0 });
        for (round, begun) in begun.iter_mut().enumerate() {
            self.begin(keys, round, begun)?;
        }
        for round in 0..keys.len().div_ceil(ROUND) {
            let begun = &mut begun[round % 2];
            let first = round * ROUND;
            for ((search, key), value) in begun.iter().zip(&keys[first..]).zip(&mut values[first..])
            {
                onward.push_if(self.glance(search, key, value)?, *search);
            }
            for search in searches.each() {
                let (key, value) = (&keys[search.index], &mut values[search.index]);
                onward.push_if(self.glance(search, key, value)?, *search);
            }
            self.begin(keys, round + 2, begun)?;
            for search in onward.each() {
                search.at.slot = self.next(&search.at.slot);
                search.at.slot.reach.prefetch_slot();
            }
            searches.len = 0;
            mem::swap(&mut searches, &mut onward);
            if searches.len > MOST - ROUND {
                self.finish(searches.each(), keys, values)?;
                searches.len = 0;
            }
        }
        self.finish(searches.each(), keys, values)
    }

    #[inline(always)]
    fn search(&self, index: usize, key: &K) -> Result<Search<'a, K, V>> {
        let at = self.home_of(&object::key(key)?);
        Ok(Search { index, at })
    }

    /// Begins the searches of a round.
    #[inline(always)]
    fn begin(&self, keys: &[K], round: usize, begun: &mut [Search<'a, K, V>; ROUND]) -> Result<()> {
        let first = round * ROUND;
        let keys = keys.get(first..).unwrap_or_default();
        for ((search, key), index) in begun.iter_mut().zip(keys).zip(first..) {
            *search = self.search(index, key)?;
            search.at.slot.reach.prefetch_slot();
        }
        Ok(())
    }

    /// Brings searches to their end one by one, each from where it stands.
    #[inline(never)]
    fn finish(
        &self,
        searches: &[Search<'a, K, V>],
        keys: &[K],
        values: &mut [Option<V>],
    ) -> Result<()> {
        for search in searches {
            let key = object::key(&keys[search.index])?;
            values[search.index] = self.find(search.at, &key)?;
        }
        Ok(())
    }

    /// Looks at one slot, writes what is known of the value, and returns whether the search goes on.
    #[inline(always)]
    fn glance(&self, search: &Search<'a, K, V>, key: &K, value: &mut Option<V>) -> Result<bool> {
        let key = object::key(key)?;
        let home = search.at;
        let there = slot::glance(&home.slot, &key, self.heap, home.fingerprint)?;
        if there.is_unsure {
            *value = self.find(home, &key)?;
            return Ok(false);
        }
        let word = word::<V>(there.value, self.heap)?;
        *value = select_unpredictable(there.is_held, Some(word), None);
        Ok(!(there.is_held | there.is_free))
    }
}

/// A word as the value that it is, whatever its bits.
#[inline(always)]
fn word<V: Object>(slot: SlotOf<V>, heap: &Heap) -> Result<V> {
    <V::Repr as Repr<V>>::from_slot(slot, heap)
}
