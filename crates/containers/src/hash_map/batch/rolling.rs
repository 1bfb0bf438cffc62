//! Finds where all slots are near and lie in blocks: the home blocks of the searches ahead are on their way into the cache
//! while all slots of one are looked at.
//!
//! Nearly every search ends in its home block, and no branch depends on what that holds: a search that takes one for each block on
//! its way is mispredicted where keys are absent, and then nothing is asked of the memory until the processor has started
//! again. The searches that go on are kept aside, and brought to their end together.

use std::hint::select_unpredictable;
use std::mem;

use pgas_core::rma;

use super::super::global::{GlobalSlot, LayoutOf};
use super::super::hash::{Hash, Place};
use super::super::layout::{Blocks as _, LINE};
use super::super::reach::{Near, Reach as _};
use super::super::slot::SlotMemory as _;
use super::super::state::StateWord;
use super::super::view::View;
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};

/// How many searches ahead a block is prefetched: enough to cover the latency of memory, and as many as processors have in flight.
const AHEAD: usize = 32;

/// How many searches that go on are brought to their end together.
const LATE: usize = 32;

/// A search whose home block was prefetched.
struct Search<'a, K: Object, V: Object> {
    hash: Hash,
    block: rma::Near<'a, LayoutOf<K, V>>,
}

impl<K: Object, V: Object> Clone for Search<'_, K, V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Object, V: Object> Copy for Search<'_, K, V> {}

/// What the home block tells of a key.
struct Glance<V> {
    value: Option<V>,
    /// Whether that is all there is to know.
    is_all: bool,
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Near<'a, LayoutOf<K, V>>> {
    /// Whether `n` finds are worth to be prefetched one by one.
    pub(super) const fn suits_rolling(n: usize) -> bool {
        Self::LOOKS_AT_BLOCKS
            && !object::has_heap::<K>()
            && size_of::<SlotOf<K>>() <= 16
            && n >= 2 * AHEAD
    }

    /// A function of its own, which leaves the loop all registers.
    #[inline(never)]
    pub(super) fn find_rolling(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        let (Some(last), values) = (keys.len().checked_sub(1), &mut values[..keys.len()]) else {
            return Ok(());
        };
        let n_whole = self.ring.n_whole_blocks();
        let mut partial = Vec::new();
        // Behind the last key its block is prefetched again, which spares the loop a branch.
        let key_at = |i: usize| &keys[i.min(last)];
        let mut ahead = [self.begin_at(key_at(0))?.0; AHEAD];
        for (i, ahead) in ahead.iter_mut().enumerate() {
            let block;
            (*ahead, block) = self.begin_at(key_at(i))?;
            if block >= n_whole {
                note(&mut partial, i.min(last));
            }
        }
        let (mut late, mut n_late) = ([0; LATE], 0);
        for (i, key) in keys.iter().enumerate() {
            let (next, block) = self.begin_at(key_at(i + AHEAD))?;
            if block >= n_whole {
                note(&mut partial, (i + AHEAD).min(last));
            }
            let search = mem::replace(&mut ahead[i % AHEAD], next);
            let glance = self.glance_at_block(&search, &object::key(key)?)?;
            values[i] = glance.value;
            // Kept aside without a branch.
            late[n_late] = i;
            n_late += usize::from(!glance.is_all);
            search.block.prefetch(if glance.is_all { 0 } else { LINE });
            if n_late == LATE {
                self.find_late(&late, keys, values)?;
                n_late = 0;
            }
        }
        self.find_late(&late[..n_late], keys, values)?;
        // What was taken for slots there may be none.
        self.find_late(&partial, keys, values)
    }

    /// Begins the search for a key, in a home block of which this is the number on its rank.
    #[inline(always)]
    fn begin_at(&self, key: &K) -> Result<(Search<'a, K, V>, usize)> {
        let hash = self.hash(&object::key(key)?);
        let share = self.all.share(hash.bits());
        share.block.prefetch(0);
        let block = share.block;
        Ok((Search { hash, block }, share.index))
    }

    /// Looks at all slots of the home block, all places of which are slots.
    #[inline(always)]
    fn glance_at_block(&self, search: &Search<'a, K, V>, key: &KeyOf<K>) -> Result<Glance<V>> {
        let fingerprint = search.hash.fingerprint();
        let slot = |index| {
            let place = Place::begin(0, 0).with_index(index);
            GlobalSlot::<K, V, _>::new(Near::of_block(self.all, search.block, place))
        };
        let states = slot(0).reach.states(LayoutOf::<K, V>::SLOTS)?;
        let with_fingerprint = states.written_or_free(fingerprint);
        // Any slot if none may hold the key: it is compared all the same, and does not count.
        let index = (with_fingerprint | 1 << (LayoutOf::<K, V>::SLOTS - 1)).trailing_zeros();
        let slot = slot(index as usize);
        let is_ready = slot.load_state()?.narrow() == StateWord::ready(fingerprint).narrow();
        let is_held = is_ready & slot.has_key(key, self.heap)?;
        // The state, which has no version, was read first.
        let word = <V::Repr as Repr<V>>::from_slot(slot.load_word()?, self.heap)?;
        // A slot of the key's fingerprint that does not hold it, or not now, says nothing of other ones.
        let is_absent = (with_fingerprint == 0) & (states.free() != 0);
        Ok(Glance {
            value: select_unpredictable(is_held, Some(word), None),
            is_all: is_held | is_absent,
        })
    }

    /// Finds the keys with these indices one by one, from the beginning.
    #[inline(never)]
    fn find_late(&self, late: &[usize], keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        for &i in late {
            let key = object::key(&keys[i])?;
            values[i] = self.find(self.home_of(&key), &key)?;
        }
        Ok(())
    }
}

/// Keeps the index of a key whose home block has places that are no slots.
#[cold]
fn note(partial: &mut Vec<usize>, i: usize) {
    partial.push(i);
}
