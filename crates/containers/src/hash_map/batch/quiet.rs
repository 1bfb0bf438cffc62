//! Finds while nobody changes anything, where slots lie behind a network: a slot is read at once, and those of up to
//! [`TOGETHER`] searches are in flight together.

use super::super::global::GlobalSlot;
use super::super::reach::Far;
use super::super::slot::SlotMemory as _;
use super::super::state::SlotState;
use super::super::view::{Home, View};
use super::super::walk::Slots as _;
use super::pipeline::TOGETHER;
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr};

/// The search for one key.
struct Search<'a, 'v, K: Object, V> {
    key: KeyOf<K>,
    home: Home<K, V, Far<'a>>,
    /// The slot that it has come to.
    slot: GlobalSlot<K, V, Far<'a>>,
    /// Where its outcome goes.
    value: &'v mut Option<V>,
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Far<'a>> {
    pub(super) fn find_quietly(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        for (keys, values) in keys.chunks(TOGETHER).zip(values.chunks_mut(TOGETHER)) {
            let begin = |(key, value)| {
                let key = object::key(key)?;
                let home = self.home_of(&key);
                let slot = home.slot;
                Ok(Search {
                    key,
                    home,
                    slot,
                    value,
                })
            };
            let searches = keys.iter().zip(values).map(begin);
            let mut searches = searches.collect::<Result<Vec<_>>>()?;
            while !searches.is_empty() {
                searches = self.look_at_whole(searches)?;
            }
        }
        Ok(())
    }

    /// One slot of each search, and the searches that go on.
    fn look_at_whole<'v>(
        &self,
        searches: Vec<Search<'a, 'v, K, V>>,
    ) -> Result<Vec<Search<'a, 'v, K, V>>> {
        let mut in_flight = Vec::with_capacity(searches.len());
        for search in searches {
            let event = search.slot.whole_nb()?;
            in_flight.push((search, event));
        }
        let mut onward = Vec::new();
        for (mut search, event) in in_flight {
            let (state, (there, value)) = search.slot.whole_of(&event.wait()?);
            if state.is_ready_with(search.home.fingerprint)
                && <K::Repr as Repr<K>>::has_key(&there, &search.key, self.heap)?
            {
                *search.value = Some(self.value_quietly(value)?);
                continue;
            }
            search.slot = self.next(&search.slot);
            if state.state() == SlotState::Free || search.slot.is_same(&search.home.slot) {
                *search.value = None;
            } else {
                onward.push(search);
            }
        }
        Ok(onward)
    }
}
