//! The phase in which any rank looks, and nobody changes anything: a slot is read at once, with all that share its cache line.

use super::global::GlobalSlot;
use super::quick::Found;
use super::reach::Reach;
use super::slot::SlotMemory as _;
use super::state::SlotState;
use super::table::{Table, over_slots};
use super::view::{Home, View};
use super::walk::{self, Slots as _};
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// As [`HashMap::find`](super::HashMap::find), while nobody changes anything.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub(super) fn find_quietly(&self, key: &K) -> Result<Option<V>> {
        let key = object::key(key)?;
        if let Some(view) = self.view_quick() {
            match view.look_quickly(&key)? {
                Found::Held(slot) => return view.word_in(slot).map(Some),
                Found::Absent => return Ok(None),
                Found::Unsure => {}
            }
        }
        over_slots!(self, |view| for SlotOf<V>: {
            let held = view.look_quietly(view.home_of(&key), &key)?;
            held.map(|value| view.value_quietly(value))
                .transpose()
        })
    }

    /// As [`HashMap::contains`](super::HashMap::contains), while nobody changes anything.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub(super) fn contains_quietly(&self, key: &K) -> Result<bool> {
        let key = object::key(key)?;
        if let Some(view) = self.view_quick() {
            match view.look_quickly(&key)? {
                Found::Held(_) => return Ok(true),
                Found::Absent => return Ok(false),
                Found::Unsure => {}
            }
        }
        over_slots!(self, |view| for SlotOf<V>: {
            let held = view.look_quietly(view.home_of(&key), &key)?;
            Ok(held.is_some())
        })
    }
}

/// What a search has come to at the end of a block.
pub(super) enum Step<S, V> {
    Found(V),
    Absent,
    /// It goes on with this slot.
    Onward(S),
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Reach<'a>> View<'a, K, V, S, R> {
    /// What the slot that holds `key` holds of the value, when nobody writes any (R for each block).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the whole of a find")]
    fn look_quietly(&self, home: Home<K, V, R>, key: &KeyOf<K>) -> Result<Option<SlotOf<V>>> {
        if Self::LOOKS_AT_BLOCKS {
            return walk::seek(self, home, |slot| {
                let (state, (there, value)) = slot.pick(&slot.see()?);
                let is_key = state.is_ready_with(home.fingerprint)
                    && <K::Repr as Repr<K>>::has_key(&there, key, self.heap)?;
                Ok(is_key.then_some(value))
            });
        }
        let mut slot = home.slot;
        loop {
            let step = self.step_quietly(slot, &slot.see()?, home, key)?;
            match step {
                Step::Found(value) => return Ok(Some(value)),
                Step::Absent => return Ok(None),
                Step::Onward(next) => slot = next,
            }
        }
    }

    /// Goes on with a search from `slot` to the end of its block, which was read.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the whole of a find")]
    pub(super) fn step_quietly(
        &self,
        mut slot: GlobalSlot<K, V, R>,
        seen: &R::Seen,
        home: Home<K, V, R>,
        key: &KeyOf<K>,
    ) -> Result<Step<GlobalSlot<K, V, R>, SlotOf<V>>> {
        loop {
            let (state, (there, value)) = slot.pick(seen);
            if state.is_ready_with(home.fingerprint)
                && <K::Repr as Repr<K>>::has_key(&there, key, self.heap)?
            {
                return Ok(Step::Found(value));
            }
            let next = self.next(&slot);
            if state.state() == SlotState::Free || next.is_same(&home.slot) {
                return Ok(Step::Absent);
            }
            if !next.reach.is_same_block(&slot.reach) {
                return Ok(Step::Onward(next));
            }
            slot = next;
        }
    }

    /// The value in a slot that nobody writes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all for plain values")]
    pub(super) fn value_quietly(&self, value: SlotOf<V>) -> Result<V> {
        object::from_slot::<V>(value, self.heap)
    }
}
