//! The short way of a single operation on small entries in near memory: from line to line while all is as it nearly always is.
//!
//! A search here looks at whole lines only, and a slot that it comes to is ready with the key, or free. Whatever else it meets, a slot
//! that another rank writes, a key that was removed, one with the fingerprint of another, the end of a rank's slots, it leaves
//! to the [walk](super::walk) over the same slots, from the beginning. It keeps to the same [protocol](super::slot): it takes the same
//! steps in the same order, and fewer of them.

use pgas_core::rma::Share;

use super::global::{GlobalSlot, LayoutOf};
use super::hash::{Hash, Place};
use super::layout::Blocks as _;
use super::reach::{Near, Reach as _, States};
use super::scan;
use super::slot::SlotMemory as _;
use super::state::{Fingerprint, StateWord};
use super::view::View;
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};

type NearSlot<'a, K, V> = GlobalSlot<K, V, Near<'a, LayoutOf<K, V>>>;

/// What a search comes to, if it is short.
pub(super) enum Found<S> {
    /// A ready slot with the key.
    Held(S),
    /// The end: the key is not there.
    Absent,
    /// Something else.
    Unsure,
}

/// What a search for a key that is to be there comes to, if it is short.
pub(super) enum Claimed<S> {
    /// A ready slot with the key.
    Held(S),
    /// A slot that it has reserved for the key, and that must be published.
    New(S, Fingerprint),
    /// Something else; nothing is reserved.
    Unsure,
}

/// A line of slots on the way of a search.
struct Line<'a, K: Object, V: Object> {
    share: Share<'a, LayoutOf<K, V>>,
    states: States,
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Near<'a, LayoutOf<K, V>>> {
    /// Whether there is a short way: keys and values lie in lines, all of them.
    pub(super) const IS_QUICK: bool =
        Self::LOOKS_AT_BLOCKS && !object::has_heap::<K>() && !object::has_heap::<V>();

    /// The line where the search for a key begins.
    #[inline(always)]
    fn home_line(&self, hash: Hash) -> Option<Line<'a, K, V>> {
        self.line(self.all.share(hash.bits()))
    }

    /// The line, unless it is the last one of its rank and has not all its slots.
    #[inline(always)]
    fn line(&self, share: Share<'a, LayoutOf<K, V>>) -> Option<Line<'a, K, V>> {
        if share.index >= self.ring.n_whole_blocks() {
            return None;
        }
        let place = Place::begin(share.rank, share.index);
        let states = Near::of_block(self.all, share.block, place).states(LayoutOf::<K, V>::SLOTS);
        Some(Line {
            share,
            states: states.ok()?,
        })
    }

    /// The line behind `line`, if it is a whole one of the same rank.
    #[inline(always)]
    fn next_line(&self, line: &Line<'a, K, V>) -> Option<Line<'a, K, V>> {
        let index = line.share.index + 1;
        if index >= self.ring.n_whole_blocks() {
            return None;
        }
        let block = self.all.block(line.share.rank, index);
        self.line(Share {
            index,
            block,
            ..line.share
        })
    }

    /// A slot of the line.
    #[inline(always)]
    fn of_line(&self, line: &Line<'a, K, V>, index: usize) -> NearSlot<'a, K, V> {
        let place = Place::begin(line.share.rank, line.share.index).with_index(index);
        GlobalSlot::new(Near::of_block(self.all, line.share.block, place))
    }

    /// The first slot of `line` that is ready and has the fingerprint, if it has the key.
    #[inline(always)]
    fn ready_with(
        &self,
        line: &Line<'a, K, V>,
        ready: u32,
        key: &KeyOf<K>,
    ) -> Result<Option<NearSlot<'a, K, V>>> {
        let slot = self.of_line(line, ready.trailing_zeros() as usize);
        Ok(slot.has_key(key, self.heap)?.then_some(slot))
    }

    /// The slot that holds `key`.
    #[inline(always)]
    pub(super) fn look_quickly(&self, key: &KeyOf<K>) -> Result<Found<NearSlot<'a, K, V>>> {
        let hash = self.hash(key);
        let fingerprint = hash.fingerprint();
        let mut next = self.home_line(hash);
        while let Some(line) = next {
            let ready = line.states.ready(fingerprint);
            if ready != 0 {
                let slot = self.ready_with(&line, ready, key)?;
                return Ok(slot.map_or(Found::Unsure, Found::Held));
            }
            if line.states.written_or_free(fingerprint) != 0 {
                break;
            }
            if line.states.free() != 0 {
                return Ok(Found::Absent);
            }
            next = self.next_line(&line);
        }
        Ok(Found::Unsure)
    }

    /// The slot that holds `key`, or else the first free one, reserved for it.
    #[inline(always)]
    pub(super) fn claim_quickly(&self, key: &KeyOf<K>) -> Result<Claimed<NearSlot<'a, K, V>>> {
        self.claim_at(self.hash(key), key)
    }

    /// As [`claim_quickly`](Self::claim_quickly), for a key with this hash.
    #[inline(always)]
    pub(super) fn claim_at(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
    ) -> Result<Claimed<NearSlot<'a, K, V>>> {
        let fingerprint = hash.fingerprint();
        let mut next = self.home_line(hash);
        while let Some(line) = next {
            if line.states.written_or_free(fingerprint) != 0 {
                let ready = line.states.ready(fingerprint);
                if ready != 0
                    && let Some(slot) = self.ready_with(&line, ready, key)?
                {
                    return Ok(Claimed::Held(slot));
                }
                break;
            }
            let free = line.states.free();
            if free != 0 {
                let index = scan::first_of::<LayoutOf<K, V>>(free, line.share.rest);
                let slot = self.of_line(&line, index);
                let reserved = StateWord::reserved(fingerprint);
                if slot.swap_state(StateWord::FREE, reserved)?.is_ok() {
                    return Ok(Claimed::New(slot, fingerprint));
                }
                break;
            }
            next = self.next_line(&line);
        }
        Ok(Claimed::Unsure)
    }

    /// Writes key and value to a slot that is reserved for the key.
    #[inline(always)]
    pub(super) fn publish(
        &self,
        slot: NearSlot<'a, K, V>,
        key: &KeyOf<K>,
        value: SlotOf<V>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let key = <K::Repr as Repr<K>>::key_slot(key, self.heap)?;
        let state = StateWord::ready(fingerprint);
        Ok(slot.publish_entry(key, value, state)?)
    }

    /// The value in a slot that was seen ready.
    #[inline(always)]
    pub(super) fn word_in(&self, slot: NearSlot<'a, K, V>) -> Result<V> {
        object::from_slot::<V>(slot.load_word()?, self.heap)
    }

    /// As [`View::update`] on a slot that was seen ready.
    #[inline(always)]
    pub(super) fn update_ready(
        &self,
        slot: NearSlot<'a, K, V>,
        mut f: impl FnMut(V) -> V,
    ) -> Result<Option<V>> {
        self.combine_ready(slot, |there| Ok(f(there))).map(Some)
    }

    /// As [`update_ready`](Self::update_ready), by a function that may fail.
    #[inline(always)]
    pub(super) fn combine_ready(
        &self,
        slot: NearSlot<'a, K, V>,
        mut f: impl FnMut(V) -> Result<V>,
    ) -> Result<V> {
        let mut former = slot.load_word()?;
        loop {
            let value = f(object::from_slot::<V>(former, self.heap)?)?;
            let new = object::to_slot(&value, self.heap)?;
            match slot.compare_swap_word(former, new)? {
                Ok(()) => return object::from_slot::<V>(former, self.heap),
                Err(now) => former = now,
            }
        }
    }
}
