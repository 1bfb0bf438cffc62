//! Finds where all slots are near and lie in blocks: the home blocks of the searches ahead are on their way into the cache
//! while all slots of one are looked at.
//!
//! Nearly every search ends in its home block. Where nearly all keys are there, a branch on that is guessed right, and spares all that a
//! search for an absent key asks for. Where some are absent it would be guessed wrong now and then, and then nothing is asked of
//! the memory until the processor has started again: no branch depends on what a block holds there. Which of the two it is the last
//! few hundred searches tell. Those that go on are kept aside, and brought to their end together.

use std::hint::select_unpredictable;
use std::mem;
use std::ops::Range;

use pgas_core::rma;

use super::super::global::{GlobalSlot, LayoutOf};
use super::super::hash::{Hash, Place};
use super::super::layout::{Blocks as _, LINE};
use super::super::quick::Found;
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

/// How many searches tell how the next ones are done.
const STRETCH: usize = 256;

/// How many of them may have found nothing in their home blocks where the next ones are expected to find something: at half load
/// every fifteenth key that is there lies elsewhere.
const FEW: usize = STRETCH / 8;

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

/// The searches that come next, each at its index modulo their number.
type Ahead<'a, K, V> = [Search<'a, K, V>; AHEAD];

/// The indices of searches that are kept aside.
struct Aside {
    /// Those that go on.
    late: [usize; LATE],
    n_late: usize,
    /// Those whose home block has places that are no slots.
    partial: Vec<usize>,
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Near<'a, LayoutOf<K, V>>> {
    /// Whether `n` finds are worth to be prefetched one by one.
    pub(super) const fn suits_rolling(n: usize) -> bool {
        Self::LOOKS_AT_BLOCKS
            && !object::has_heap::<K>()
            && size_of::<SlotOf<K>>() <= 16
            && n >= 2 * AHEAD
    }

    pub(super) fn find_rolling(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        let (Some(first), values) = (keys.first(), &mut values[..keys.len()]) else {
            return Ok(());
        };
        let mut aside = Aside {
            late: [0; LATE],
            n_late: 0,
            partial: Vec::new(),
        };
        let mut ahead = [self.begin_one(first)?.0; AHEAD];
        for (i, ahead) in ahead.iter_mut().enumerate() {
            *ahead = self.begin_at(i, keys, &mut aside)?;
        }
        let mut n_others = 0;
        for start in (0..keys.len()).step_by(STRETCH) {
            let stretch = start..keys.len().min(start + STRETCH);
            n_others = if n_others <= FEW {
                self.find_present(stretch, keys, values, &mut ahead, &mut aside)?
            } else {
                self.find_any(stretch, keys, values, &mut ahead, &mut aside)?
            };
        }
        self.find_late(&aside.late[..aside.n_late], keys, values)?;
        // What was taken for slots there may be none.
        self.find_late(&aside.partial, keys, values)
    }

    /// Finds keys that nearly all are there; how many were not found in their home blocks. A function of its own, which leaves the
    /// loop all registers.
    #[inline(never)]
    fn find_present(
        &self,
        stretch: Range<usize>,
        keys: &[K],
        values: &mut [Option<V>],
        ahead: &mut Ahead<'a, K, V>,
        aside: &mut Aside,
    ) -> Result<usize> {
        let mut n_others = 0;
        for i in stretch {
            let next = self.begin_at(i + AHEAD, keys, aside)?;
            let search = mem::replace(&mut ahead[i % AHEAD], next);
            let value = self.ready_at_home(&search, &object::key(&keys[i])?)?;
            if value.is_some() {
                values[i] = value;
            } else {
                n_others += 1;
                aside.late[aside.n_late] = i;
                aside.n_late += 1;
                // By the time that these are brought to their end, the block behind has come.
                search.block.prefetch(LINE);
                self.make_room(keys, values, aside)?;
            }
        }
        Ok(n_others)
    }

    /// As [`find_present`](Self::find_present), where keys may be there or not.
    #[inline(never)]
    fn find_any(
        &self,
        stretch: Range<usize>,
        keys: &[K],
        values: &mut [Option<V>],
        ahead: &mut Ahead<'a, K, V>,
        aside: &mut Aside,
    ) -> Result<usize> {
        let mut n_others = 0;
        for i in stretch {
            let next = self.begin_at(i + AHEAD, keys, aside)?;
            let search = mem::replace(&mut ahead[i % AHEAD], next);
            let glance = self.glance_at_block(&search, &object::key(&keys[i])?)?;
            n_others += usize::from(glance.value.is_none());
            values[i] = glance.value;
            // Kept aside without a branch.
            aside.late[aside.n_late] = i;
            aside.n_late += usize::from(!glance.is_all);
            search.block.prefetch(if glance.is_all { 0 } else { LINE });
            self.make_room(keys, values, aside)?;
        }
        Ok(n_others)
    }

    /// Makes room for one more search that goes on.
    #[inline(always)]
    fn make_room(&self, keys: &[K], values: &mut [Option<V>], aside: &mut Aside) -> Result<()> {
        if aside.n_late == LATE {
            self.find_late(&aside.late, keys, values)?;
            aside.n_late = 0;
        }
        Ok(())
    }

    /// Begins the search for the key with this index.
    #[inline(always)]
    fn begin_at(&self, i: usize, keys: &[K], aside: &mut Aside) -> Result<Search<'a, K, V>> {
        // Behind the last key its block is prefetched again, which spares the loop a branch.
        let i = i.min(keys.len() - 1);
        let (search, block) = self.begin_one(&keys[i])?;
        if block >= self.ring.n_whole_blocks() {
            note(&mut aside.partial, i);
        }
        Ok(search)
    }

    /// Begins the search for a key, in a home block of which this is the number on its rank.
    #[inline(always)]
    fn begin_one(&self, key: &K) -> Result<(Search<'a, K, V>, usize)> {
        let hash = self.hash(&object::key(key)?);
        let share = self.all.share(hash.bits());
        share.block.prefetch(0);
        let block = share.block;
        Ok((Search { hash, block }, share.index))
    }

    /// The value of the key, if a slot of the home block, all places of which are slots, is ready with it.
    #[inline(always)]
    fn ready_at_home(&self, search: &Search<'a, K, V>, key: &KeyOf<K>) -> Result<Option<V>> {
        let slot = |index| {
            let place = Place::begin(0, 0).with_index(index);
            GlobalSlot::<K, V, _>::new(Near::of_block(self.all, search.block, place))
        };
        let states = slot(0).reach.states(LayoutOf::<K, V>::SLOTS)?;
        let ready = states.ready(search.hash.fingerprint());
        if ready == 0 {
            return Ok(None);
        }
        let slot = slot(ready.trailing_zeros() as usize);
        if !slot.has_key(key, self.heap)? {
            return Ok(None);
        }
        object::from_slot::<V>(slot.load_word()?, self.heap).map(Some)
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
            let found = if Self::IS_QUICK {
                self.look_quickly(&key)?
            } else {
                Found::Unsure
            };
            values[i] = match found {
                Found::Held(slot) => Some(self.word_in(slot)?),
                Found::Absent => None,
                Found::Unsure => self.find(self.home_of(&key), &key)?,
            };
        }
        Ok(())
    }
}

/// Keeps the index of a key whose home block has places that are no slots.
#[cold]
fn note(partial: &mut Vec<usize>, i: usize) {
    partial.push(i);
}
