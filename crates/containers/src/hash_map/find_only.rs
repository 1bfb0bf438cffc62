//! The phase in which any rank looks, and nobody changes anything: a slot is read at once.

use super::HashMap;
use super::global::GlobalSlot;
use super::phase::FindOnly;
use super::reach::Reach;
use super::state::{SlotState, StateWord};
use super::table::over_slots;
use super::view::{Home, View};
use super::walk::Slots as _;
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};

/// While any rank looks and nobody changes anything.
impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, FindOnly, S> {
    /// The value of `key`, if it is there.
    ///
    /// # Cost
    ///
    /// R, and R for each further slot. One-sided.
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
        over_slots!(self.table, |view| for SlotOf<V>: {
            let held = view.look_quietly(view.home_of(&key), &key)?;
            held.map(|(_, _, value)| view.value_quietly(value))
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

/// A slot that holds a key, in which state, and what it holds of the value.
type Found<K, V, R> = (GlobalSlot<K, V, R>, StateWord, SlotOf<V>);

impl<'a, K: Object, V: Object, S: KeyHasher, R: Reach<'a>> View<'a, K, V, S, R> {
    /// The slot that holds `key`, when nobody writes any (R for each slot).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the whole of a find")]
    fn look_quietly(&self, home: Home<K, V, R>, key: &KeyOf<K>) -> Result<Option<Found<K, V, R>>> {
        let mut slot = home.slot;
        loop {
            let (state, (there, value), _) = slot.whole()?;
            if state.is_ready_with(home.fingerprint)
                && <K::Repr as Repr<K>>::has_key(&there, key, self.heap)?
            {
                return Ok(Some((slot, state, value)));
            }
            slot = self.next(&slot);
            if state.state() == SlotState::Free || slot.reach.is_same(&home.slot.reach) {
                return Ok(None);
            }
        }
    }

    /// The value in a slot that nobody writes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all for plain values")]
    pub(super) fn value_quietly(&self, value: SlotOf<V>) -> Result<V> {
        object::from_slot::<V>(value, self.heap)
    }
}
