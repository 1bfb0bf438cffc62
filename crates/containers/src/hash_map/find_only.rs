//! The phase in which any rank looks, and nobody changes anything: a slot is read at once, with all that share its cache line.

use super::HashMap;
use super::global::GlobalSlot;
use super::phase::FindOnly;
use super::quick::Found;
use super::reach::Reach;
use super::slot::SlotMemory as _;
use super::state::SlotState;
use super::table::over_slots;
use super::view::{Home, View};
use super::walk::{self, Slots as _};
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};

/// While any rank looks and nobody changes anything.
impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, FindOnly, S> {
    /// The value of `key`, if it is there.
    ///
    /// # Cost
    ///
    /// R, and R for each further slot that is in no cache line with one before. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub fn find(&self, key: &K) -> Result<Option<V>> {
        let key = object::key(key)?;
        if let Some(view) = self.table.view_quick() {
            match view.look_quickly(&key)? {
                Found::Held(slot) => return view.word_in(slot).map(Some),
                Found::Absent => return Ok(None),
                Found::Unsure => {}
            }
        }
        over_slots!(self.table, |view| for SlotOf<V>: {
            let held = view.look_quietly(view.home_of(&key), &key)?;
            held.map(|value| view.value_quietly(value))
                .transpose()
        })
    }

    /// Whether `key` is there.
    ///
    /// # Cost
    ///
    /// As [`find`](Self::find).
    ///
    /// # Errors
    ///
    /// What the transport reports.
    #[inline]
    pub fn contains(&self, key: &K) -> Result<bool> {
        let key = object::key(key)?;
        over_slots!(self.table, |view| for SlotOf<V>: {
            let held = view.look_quietly(view.home_of(&key), &key)?;
            Ok(held.is_some())
        })
    }

    /// The values of `keys`, in their order.
    ///
    /// # Cost
    ///
    /// That of a [`find`](Self::find) for each key; the latency is paid once for many. One-sided.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn find_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut values: Vec<_> = keys.iter().map(|_| None).collect();
        self.find_many_into(keys, &mut values)?;
        Ok(values)
    }

    /// Writes the values of `keys` to the elements of `values` with the same indices.
    ///
    /// # Cost
    ///
    /// As [`find_many`](Self::find_many).
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find); then some of `values` may have been written.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn find_many_into(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        let (n, room) = (keys.len(), values.len());
        assert_eq!(n, room, "{n} keys, but room for {room} values");
        self.table.find_many_quietly(keys, values)
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
